/* What it costs ranks to add up numbers, by our own way (src/comm/mpi_reduce.c) or by the algorithms
 * that Open MPI 4.1 chooses for so many ranks and bytes. Ranks fill one host after the other. Seconds throughout;
 * no clock, no state. */
#ifndef PREDICT_NETWORK_H
#define PREDICT_NETWORK_H

#include <stdbool.h>

struct network {
    double bandwidth;      /* bytes a second that a host's link carries each way */
    double payload;        /* part of them that are not headers */
    double latency;        /* of a message from one host to another */
    double rank_bandwidth; /* bytes a second that one rank gets through its sockets, each way */
    double host_bandwidth; /* bytes a second from one rank to another of the same host */
    double host_latency;
    double add_bandwidth;  /* bytes a second that one rank adds up */
    double pack_bandwidth; /* bytes of floats a second that one rank rounds to halves, or back */
};

enum { GROUP_MAX_RANKS = 1 << 20, GROUP_MAX_ROUNDS = 20 };

/* Ranks on their hosts. */
struct group {
    int ranks, per_host, hosts;
    int rounds;                     /* of halving: the powers of two below ranks */
    int crossing[GROUP_MAX_ROUNDS]; /* by round: most ranks of a host whose partner is elsewhere */
};

/* `per_host` may be more than there are ranks. */
struct group group_of(int ranks, int per_host);

enum allreduce {
    ALLREDUCE_NONOVERLAPPING = 2, /* numbers and names as Open MPI has them */
    ALLREDUCE_RECURSIVE_DOUBLING,
    ALLREDUCE_RING,
    ALLREDUCE_SEGMENTED_RING,
    ALLREDUCE_RABENSEIFNER,
};
/* What coll_tuned's fixed rules of 4.1 choose for a sum, which commutes. */
enum allreduce allreduce_choice(int ranks, double bytes);

/* A sum of `bytes` of floats over the group by Open MPI. */
double network_allreduce(const struct network *network, const struct group *group, double bytes);
/* The same as our ranks do it, with floats or halves on the wire. */
enum { NETWORK_FOLDS_UP_TO = 16 }; /* hosts of one rank: MANY_RANKS there */
double network_sum(const struct network *network, const struct group *group, double bytes,
                   bool half);
/* Everyone gets `bytes` from everyone, whose sizes are told first (comm_gather). */
double network_gather(const struct network *network, const struct group *group, double bytes);

#endif
