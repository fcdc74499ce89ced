/* Who trains together: TF_CONFIG as TensorFlow reads it, or --peers and --index. */
#ifndef LAUNCH_CLUSTER_H
#define LAUNCH_CLUSTER_H

#include <stdbool.h>

struct error;

enum { CLUSTER_MOST_MEMBERS = 1024, CLUSTER_HOST_BYTES = 256 };

struct cluster_member {
    char host[CLUSTER_HOST_BYTES]; /* a name or an address, without brackets */
    int port;
    char task[24]; /* "chief 0", "worker 1"; what messages call it */
};

enum cluster_role { CLUSTER_TRAINS, CLUSTER_EVALUATES };

/* Members in the order of their ranks, the first of whom leads. All zero: nobody. */
struct cluster {
    struct cluster_member *members;
    int count;
    int index; /* of this process; -1: it evaluates */
    enum cluster_role role;
    char fingerprint[17]; /* the same exactly when the members are */
};

/* {"cluster": {"chief": [...], "worker": [...], ...}, "task": {"type": "worker", "index": 0}}. The
 * chief, else the first worker, comes first. Fails with ERROR_USAGE, naming what is wrong. A config
 * without a cluster gives no member. */
int cluster_from_tf_config(const char *text, struct cluster *out, struct error *err);
/* "host:port,host:port" and a place in it. */
int cluster_from_peers(const char *peers, int index, struct cluster *out, struct error *err);
void cluster_release(struct cluster *cluster);

/* Whether all members are on this machine. */
bool cluster_is_loopback(const struct cluster *cluster);
/* "worker 1 (10.0.0.7:5000)", until the next call from this thread. */
const char *cluster_name(const struct cluster *cluster, int index);
/* "host:port", "[::1]:port"; `what` is how the user calls it. */
int cluster_parse_address(const char *text, const char *what, struct cluster_member *out,
                          struct error *err);

#endif
