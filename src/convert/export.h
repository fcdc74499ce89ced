/* Versions of an exported network in one directory: DIR/1/, DIR/2/, ..., as servers watch them. A
 * version appears by one rename after everything in it was flushed; what is being written has a
 * name that no server takes for a version. */
#ifndef CONVERT_EXPORT_H
#define CONVERT_EXPORT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct error;
struct face;
struct graph;
struct params;

struct export_result {
    char path[PATH_MAX]; /* of the version */
    int64_t version;
    bool onnx; /* false: the network is too large for one */
};

/* Before training: can DIRECTORY be written to, and is there a number left for a version? Makes it
 * when it is not there. */
int export_prepare(const char *directory, struct error *err);
/* The next number after those that are there. `face` may be incomplete (face_complete). A version that
 * cannot be finished leaves nothing behind. */
int export_write(const char *directory, const struct graph *graph, const struct params *params,
                 const struct face *face, struct export_result *out, struct error *err);

/* Takes a version away from the servers that watch its directory: it gets a name that none takes for
 * a version, which `aside` tells. */
int export_withdraw(const char *path, char aside[PATH_MAX], struct error *err);

/* What a user may write for an export: a version's own directory, or one of versions, which stands
 * for its highest. Fails with ERROR_ABSENT when it is neither. */
int export_resolve(const char *path, char resolved[PATH_MAX], struct error *err);
/* Is there a SavedModel, here or in a version of it? */
bool export_is(const char *path);

#endif
