/* The secret that members share, and the key made from it. */
#ifndef LAUNCH_SECRET_H
#define LAUNCH_SECRET_H

#include <limits.h>
#include <stdbool.h>

#include "net/channel.h"

struct error;

struct secret {
    bool open; /* there is none: whoever reaches the port may start processes (--insecure) */
    struct channel_key key;
    char path[PATH_MAX]; /* of the file it came from, from the root */
};

/* `path` is a file with at least 16 bytes, or a directory that holds one called secret, id_rsa or
 * ssh-privatekey (a mounted secret of Kubernetes, or the key pair that the MPI Operator mounts into
 * every pod of a job). NULL: the pair of the MPI Operator where there is one; else, when all members
 * are on this machine (`loopback`), a file of this user's own, made when it is first needed; else it
 * is refused, unless `insecure`. */
int secret_load(const char *path, bool insecure, bool loopback, struct secret *out,
                struct error *err);
const struct channel_key *secret_key(const struct secret *secret); /* NULL: open */

/* 32 hexadecimal digits that nobody can guess. */
enum { SECRET_NAME_BYTES = 33 };
int secret_name(char out[SECRET_NAME_BYTES], struct error *err);

#endif
