/* One way for ranks to meet. Each is one file that defines one of these. */
#ifndef COMM_KIND_H
#define COMM_KIND_H

#include <stdatomic.h>

#include "comm/comm.h"

struct comm_kind {
    const char *name;
    void (*close)(struct comm *comm);
    int (*reduce_start)(struct comm *comm, float *buffer, size_t count, struct comm_request *out,
                        struct error *err);
    int (*wait)(struct comm *comm, struct comm_request request, struct error *err);
    int (*broadcast)(struct comm *comm, void *buffer, size_t bytes, int root, struct error *err);
    int (*agree)(struct comm *comm, uint64_t value, bool *same, struct error *err);
    int (*gather)(struct comm *comm, const void *own, size_t bytes, void *all, size_t capacity,
                  size_t *sizes, struct error *err);
    int (*send)(struct comm *comm, int to, const void *buffer, size_t bytes, struct error *err);
    int (*receive)(struct comm *comm, int from, void *buffer, size_t bytes, struct error *err);
    void (*end)(struct comm *comm);
};

/* The first member of each kind's own structure. */
struct comm {
    const struct comm_kind *kind;
    int rank, size;
    atomic_bool over; /* set once, never cleared */
};

int comm_self_open(struct comm **out, struct error *err);

#endif
