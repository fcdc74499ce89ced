/* Whole files, safely: read under a limit, write so that nobody sees half of one. */
#ifndef BASE_FILES_H
#define BASE_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct error;

/* A descriptor to read from, -1 on failure. The other end of a FIFO is not waited for, which nobody may
 * ever open: one without a writer reads as empty. */
int file_open(const char *path, struct error *err);

/* Reads the whole file; `*out` is the caller's (memory_free) and has a NUL behind it. Fails when
 * it holds more than `limit` bytes, naming both. */
int file_read(const char *path, size_t limit, char **out, size_t *bytes, struct error *err);

/* Writes beside the target, flushes, and renames: `path` holds the old bytes or all the new. */
int file_write_atomic(const char *path, const void *data, size_t bytes, struct error *err);

/* The same for what comes in pieces. The target keeps its old bytes until file_draft_finish; a
 * draft that was begun must be finished or dropped. */
struct file_draft {
    int descriptor; /* -1 when there is none */
    char target[PATH_MAX], beside[PATH_MAX + 32];
};
int file_draft_begin(const char *path, struct file_draft *out, struct error *err);
int file_draft_write(struct file_draft *draft, const void *data, size_t bytes, struct error *err);
int file_draft_finish(struct file_draft *draft, struct error *err); /* drops it when it fails */
void file_draft_drop(struct file_draft *draft);                     /* accepts a finished one */
/* Removes the drafts in a directory whose writers were killed before they could. One that is being
 * written, by any process, is locked and stays; so does every one where there are no locks. */
void file_drafts_sweep(const char *directory);

/* ".jpg" of "A.JPG", too: endings are taken in any case. */
bool file_name_ends(const char *name, const char *ending);

/* Like mkdir -p. */
int directory_make(const char *path, struct error *err);
/* Until this returns, a power cut may undo renames and new names inside. */
int directory_flush(const char *path, struct error *err);
/* With all it holds; a link is removed, not followed. */
int directory_remove(const char *path, struct error *err);
/* Where what can be made again is kept: $XDG_CACHE_HOME or ~/.cache, then "lockstep" and `below`;
 * made when it is not there. */
int directory_of_cache(const char *below, char path[PATH_MAX], struct error *err);

#endif
