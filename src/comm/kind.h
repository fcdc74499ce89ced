/* One way for ranks to meet. Each is one file that defines one of these. */
#ifndef COMM_KIND_H
#define COMM_KIND_H

#include <stdatomic.h>

#include "comm/comm.h"

struct comm_kind {
    const char *name;
    void (*close)(struct comm *comm);
    const char *(*host)(const struct comm *comm, int rank);
    int (*reduce_start)(struct comm *comm, const struct comm_reduction *reduction,
                        struct comm_request *out, struct error *err);
    int (*wait)(struct comm *comm, struct comm_request *request, struct error *err);
    int (*broadcast)(struct comm *comm, void *buffer, size_t bytes, int root, struct error *err);
    int (*agree)(struct comm *comm, uint64_t value, bool *same, struct error *err);
    int (*gather)(struct comm *comm, const void *own, size_t bytes, void *all, size_t capacity,
                  size_t *sizes, struct error *err);
    int (*send)(struct comm *comm, int to, const void *buffer, size_t bytes, struct error *err);
    int (*receive)(struct comm *comm, int from, void *buffer, size_t bytes, struct error *err);
    void (*end)(struct comm *comm);
    /* These three may be NULL: there is nobody to wait for. */
    void (*tell)(struct comm *comm, int64_t step, const char *doing);
    void (*watch_stalls)(struct comm *comm, double warning, double limit);
    void (*trace)(struct comm *comm, struct trace_track *track);
};

/* The first member of each kind's own structure. */
struct comm {
    const struct comm_kind *kind;
    int rank, size, crowd;
    atomic_bool over;       /* set once, never cleared */
    atomic_bool stop_asked; /* likewise */
};

int comm_self_open(struct comm **out, struct error *err);
int comm_mpi_open(struct comm **out, struct error *err);

#endif
