/* Where finished files of `data convert` and `data make` go. Each appears whole under its name or
 * not at all. */
#ifndef DATA_DESTINATION_H
#define DATA_DESTINATION_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct error;
struct destination;

/* A directory of this machine, made where it is not there yet, or s3://bucket/prefix: files are then
 * written below $TMPDIR and uploaded when they are delivered. When `stop` (may be NULL; borrowed)
 * becomes nonzero, uploads end with ERROR_CANCELLED. */
int destination_open(const char *path, const atomic_int *stop, struct destination **out,
                     struct error *err);
void destination_close(struct destination *destination); /* accepts NULL */
bool destination_has(const struct destination *destination, const char *name);
/* The path of this machine under which file `name` is to be written by something that writes
 * atomically; destination_deliver follows. From any thread. */
void destination_place(const struct destination *destination, const char *name,
                       char path[PATH_MAX]);
/* The file is whole: brings it to where it belongs. From any thread. */
int destination_deliver(struct destination *destination, const char *name, struct error *err);
/* Small files, such as the manifest. */
int destination_write(struct destination *destination, const char *name, const void *bytes,
                      size_t count, struct error *err);
int destination_read(const struct destination *destination, const char *name, char **out,
                     size_t *count, struct error *err);
/* Takes away what runs that were killed left of files whose names start with `prefix`. Only when
 * nobody writes such files any more. */
void destination_sweep(struct destination *destination, const char *prefix);

#endif
