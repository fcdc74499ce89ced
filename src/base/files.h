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

/* Like mkdir -p. */
int directory_make(const char *path, struct error *err);

#endif
