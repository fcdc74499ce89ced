/* What lies in a model's directory: its versions, and whether a version's files still change. In place
 * of the directory a single ONNX file may stand, which is version 1. */
#ifndef SERVE_VERSION_FILES_H
#define SERVE_VERSION_FILES_H

#include <limits.h>
#include <stdint.h>

struct error;

enum { VERSION_FILES_MAX = 4096 }; /* versions of one model that are looked at */

/* The numbers of DIR/<number>/, highest first, into `out` (room for VERSION_FILES_MAX); other names
 * are not versions. That several directories are one version is said in the log, once. Returns how many, or -1 when the directory cannot be read. */
int version_files_list(const char *directory, int64_t *out, struct error *err);
/* Where one of them is, by the name it has there. */
void version_files_path(const char *directory, int64_t version, char out[PATH_MAX]);
/* A number that differs when a file below came, went, grew or was written. */
uint64_t version_files_stamp(const char *directory);

#endif
