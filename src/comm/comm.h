/* A fixed group of ranks: alone, or those of one mpirun. Every rank makes the same calls in the same
 * order. A lost peer ends the group: every later call fails with ERROR_PEER.
 *
 * One thread at a time may call, except where said. */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct comm;

struct trace_track;

enum comm_wire {
    COMM_WIRE_FLOAT,
    COMM_WIRE_HALF, /* 16 bits a number on the way; sums are taken in 32 */
};

/* A sum over the ranks. Everything it points to belongs to the group until comm_wait returns. */
struct comm_reduction {
    const char *name;    /* for who waits for it, borrowed for good; may be NULL */
    float *values;       /* becomes the sum; without `shards` this rank's summand, too... */
    size_t first, count; /* ...from `first` on */
    enum comm_wire wire;
    /* 0: in any order. Else the summands are so many shards, added in the one order of comm/tree.h
     * whatever the number of ranks: parts[i] holds, from `first` on, the sum over the i-th node of
     * this rank's. One of them may be `values`. */
    int shards;
    float *const *parts;
};

struct comm_request {
    int64_t id;
    double start, end; /* clock_seconds(), once it was waited for: when the group was at it */
};

/* Those of the mpirun that started this process; else alone. Lasts until the process ends: once. */
int comm_open(struct comm **out, struct error *err);
/* When the ranks end by themselves; accepts NULL. Without comm_end it waits for the others. */
void comm_close(struct comm *comm);
int comm_rank(const struct comm *comm);
int comm_size(const struct comm *comm);
/* Ranks on this host that may use the same processors as this one; itself included. */
int comm_crowd(const struct comm *comm);
const char *comm_host(const struct comm *comm, int rank);

/* Several may be under way at once and are waited for in the order they were started. */
enum { COMM_MAX_REQUESTS = 512 };
int comm_reduce_start(struct comm *comm, const struct comm_reduction *reduction,
                      struct comm_request *out, struct error *err);
int comm_wait(struct comm *comm, struct comm_request *request, struct error *err);

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
/* A rank's last words: it leaves without waiting for the others, whose group is over, too. From any
 * thread. */
void comm_end(struct comm *comm);

/* Lets all ranks know, within about a second, that one wants to stop, so that they need not finish
 * what they are at before they agree on it. From any thread. */
void comm_ask_stop(struct comm *comm);
bool comm_stop_asked(const struct comm *comm);

/* --- who waits for whom --------------------------------------------------------------------- */

/* What this rank is doing, for the others to name when they wait for it. `doing` is borrowed for
 * good. From any thread. */
void comm_tell(struct comm *comm, int64_t step, const char *doing);
/* Warns once a reduction takes so many seconds, naming the ranks that are waited for; ends the
 * process, and so the group, after `limit`. 0: never. */
void comm_watch_stalls(struct comm *comm, double warning, double limit);

/* From now on each reduction is a span of the track; NULL: no longer. Not while any is under way. */
void comm_trace(struct comm *comm, struct trace_track *track);

#endif
