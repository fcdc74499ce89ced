/* Whole files, safely: read under a limit, write so that nobody sees half of one. */
#ifndef BASE_FILES_H
#define BASE_FILES_H

#include <stddef.h>

struct error;

/* Reads the whole file; `*out` is the caller's (memory_free) and has a NUL behind it. Fails when
 * it holds more than `limit` bytes, naming both. */
int file_read(const char *path, size_t limit, char **out, size_t *bytes, struct error *err);

/* Writes beside the target, flushes, and renames: `path` holds the old bytes or all the new. */
int file_write_atomic(const char *path, const void *data, size_t bytes, struct error *err);

/* The same for bytes that are not in one place: `next` gives one piece after the other, which must
 * stay until the next call. It returns 1, or 0 at the end, or -1 with `err` filled. */
typedef int file_piece_fn(void *context, const void **data, size_t *bytes, struct error *err);
int file_write_pieces(const char *path, file_piece_fn *next, void *context, struct error *err);

/* The whole file as memory, read as it is looked at; changes stay private. An empty file, and what
 * is no regular file, is refused. */
int file_map(const char *path, char **out, size_t *bytes, struct error *err);
void file_unmap(char *bytes, size_t count); /* accepts NULL */

/* Like mkdir -p. */
int directory_make(const char *path, struct error *err);

#endif
