/* What lies in a model's directory: its versions, and whether a version's files still change. */
#ifndef SERVE_VERSION_FILES_H
#define SERVE_VERSION_FILES_H

#include <stdint.h>

struct error;

enum { VERSION_FILES_MAX = 4096 }; /* versions of one model that are looked at */

/* The numbers of DIR/<number>/, highest first, into `out` (room for VERSION_FILES_MAX); other names
 * are not versions. Returns how many, or -1 when the directory cannot be read. */
int version_files_list(const char *directory, int64_t *out, struct error *err);
/* A number that differs when a file below came, went, grew or was written. */
uint64_t version_files_stamp(const char *directory);

#endif
