/* A fixed group of ranks: alone, or (later) those of one mpirun. Every rank makes the same
 * calls in the same order. A lost peer ends the group: every later call fails with ERROR_PEER.
 *
 * One thread at a time may call, except where said. */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct comm;

struct comm_request {
    int64_t id;
};

int comm_open(struct comm **out, struct error *err);
void comm_close(struct comm *comm); /* accepts NULL */
int comm_rank(const struct comm *comm);
int comm_size(const struct comm *comm);

/* Sums over the ranks, in place. `buffer` belongs to the group until comm_wait returns; several
 * may be under way at once and are waited for in the order they were started. */
int comm_reduce_start(struct comm *comm, float *buffer, size_t count, struct comm_request *out,
                      struct error *err);
int comm_wait(struct comm *comm, struct comm_request request, struct error *err);

/* Copies root's bytes to every rank. */
int comm_broadcast(struct comm *comm, void *buffer, size_t bytes, int root, struct error *err);
/* *same: whether all ranks gave the same value (a fingerprint, a step, a seed). */
int comm_agree(struct comm *comm, uint64_t value, bool *same, struct error *err);

/* Every rank gives `bytes` of its own and gets everyone's, in rank order, one behind the other;
 * sizes[r] becomes rank r's bytes. Fails, alike on all ranks, when they do not fit `capacity`. */
int comm_gather(struct comm *comm, const void *own, size_t bytes, void *all, size_t capacity,
                size_t *sizes, struct error *err);

/* From one rank to another; both name the same number of bytes. Messages between two ranks
 * arrive in order. */
int comm_send(struct comm *comm, int to, const void *buffer, size_t bytes, struct error *err);
int comm_receive(struct comm *comm, int from, void *buffer, size_t bytes, struct error *err);

/* Whether the group is over: a peer was lost, or someone called comm_end. From any thread, so
 * that a step in flight can be given up early. */
bool comm_is_over(const struct comm *comm);
/* Tells every rank that the group is over, in a rank's last words. From any thread. */
void comm_end(struct comm *comm);

#endif
