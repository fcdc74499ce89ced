/* What is alike for all kinds: checking ranks, and refusing to go on once the group is over. */
#include "comm/comm.h"

#include <stdlib.h>

#include "base/error.h"
#include "comm/kind.h"

int comm_open(struct comm **out, struct error *err)
{
    const char *ranks = getenv("OMPI_COMM_WORLD_SIZE");
    return ranks && strtol(ranks, NULL, 10) > 1 ? comm_mpi_open(out, err)
                                                : comm_self_open(out, err);
}

void comm_close(struct comm *comm)
{
    if (comm)
        comm->kind->close(comm);
}

int comm_rank(const struct comm *comm)
{
    return comm->rank;
}

int comm_size(const struct comm *comm)
{
    return comm->size;
}

int comm_crowd(const struct comm *comm)
{
    return comm->crowd;
}

const char *comm_host(const struct comm *comm, int rank)
{
    return comm->kind->host(comm, rank);
}

static int check_alive(const struct comm *comm, struct error *err)
{
    if (comm_is_over(comm))
        return error_set(err, ERROR_PEER, "rank %d of %d: the group of ranks is over", comm->rank,
                         comm->size);
    return 0;
}

static int check_rank(const struct comm *comm, int rank, struct error *err)
{
    if (rank < 0 || rank >= comm->size)
        return error_set(err, ERROR_PEER, "there is no rank %d among %d", rank, comm->size);
    return check_alive(comm, err);
}

static int check_peer(const struct comm *comm, int rank, struct error *err)
{
    if (rank == comm->rank)
        return error_set(err, ERROR_PEER, "rank %d cannot exchange a message with itself", rank);
    return check_rank(comm, rank, err);
}

int comm_reduce_start(struct comm *comm, const struct comm_reduction *reduction,
                      struct comm_request *out, struct error *err)
{
    if (check_alive(comm, err) < 0)
        return -1;
    return comm->kind->reduce_start(comm, reduction, out, err);
}

int comm_wait(struct comm *comm, struct comm_request *request, struct error *err)
{
    if (check_alive(comm, err) < 0)
        return -1;
    return comm->kind->wait(comm, request, err);
}

int comm_broadcast(struct comm *comm, void *buffer, size_t bytes, int root, struct error *err)
{
    if (check_rank(comm, root, err) < 0)
        return -1;
    return comm->kind->broadcast(comm, buffer, bytes, root, err);
}

int comm_agree(struct comm *comm, uint64_t value, bool *same, struct error *err)
{
    if (check_alive(comm, err) < 0)
        return -1;
    return comm->kind->agree(comm, value, same, err);
}

int comm_gather(struct comm *comm, const void *own, size_t bytes, void *all, size_t capacity,
                size_t *sizes, struct error *err)
{
    if (check_alive(comm, err) < 0)
        return -1;
    return comm->kind->gather(comm, own, bytes, all, capacity, sizes, err);
}

int comm_send(struct comm *comm, int to, const void *buffer, size_t bytes, struct error *err)
{
    if (check_peer(comm, to, err) < 0)
        return -1;
    return comm->kind->send(comm, to, buffer, bytes, err);
}

int comm_receive(struct comm *comm, int from, void *buffer, size_t bytes, struct error *err)
{
    if (check_peer(comm, from, err) < 0)
        return -1;
    return comm->kind->receive(comm, from, buffer, bytes, err);
}

void comm_ask_stop(struct comm *comm)
{
    atomic_store(&comm->stop_asked, true);
}

bool comm_stop_asked(const struct comm *comm)
{
    return atomic_load(&comm->stop_asked);
}

bool comm_is_over(const struct comm *comm)
{
    return atomic_load(&comm->over);
}

void comm_end(struct comm *comm)
{
    atomic_store(&comm->over, true);
    if (comm->kind->end)
        comm->kind->end(comm);
}

void comm_tell(struct comm *comm, int64_t step, const char *doing)
{
    if (comm->kind->tell)
        comm->kind->tell(comm, step, doing);
}

void comm_watch_stalls(struct comm *comm, double warning, double limit)
{
    if (comm->kind->watch_stalls)
        comm->kind->watch_stalls(comm, warning, limit);
}

void comm_trace(struct comm *comm, struct trace_track *track)
{
    if (comm->kind->trace)
        comm->kind->trace(comm, track);
}
