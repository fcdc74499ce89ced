/* What the files of the MPI kind share: mpi.c has the thread that talks to the library and its queue
 * of jobs, mpi_reduce.c what a sum needs beyond MPI_Allreduce, mpi_pulse.c who waits for whom. */
#ifndef COMM_MPI_INTERNAL_H
#define COMM_MPI_INTERNAL_H

#include <mpi.h>
#include <pthread.h>

#include "comm/kind.h"

/* One span of memory that grows and is kept; zero is empty. */
struct scratch {
    void *data;
    size_t bytes;
};
void *scratch_take(struct scratch *scratch, size_t bytes); /* NULL: no memory */

/* Room for sums in a fixed order. Only the thread that talks uses it. */
struct mpi_folding {
    struct scratch received, packed, leaves, requests;
};

struct mpi_reducer {
    MPI_Comm group;
    int rank, size;
    bool networked; /* the ranks are on several hosts */
    bool spread;    /* each on one of its own */
    struct mpi_folding folding;
};

/* Both return an MPI error code; MPI_ERR_NO_MEM when memory is short. */
int mpi_reduce(struct mpi_reducer *reducer, const struct comm_reduction *reduction);
/* Whether it waits for the others asleep by itself. */
bool mpi_reduce_sleeps(const struct mpi_reducer *reducer, const struct comm_reduction *reduction);
void mpi_reducer_release(struct mpi_reducer *reducer);

/* --- pulse: each rank tells rank 0 what it does, and rank 0 answers --------------------------- */

struct mpi_pulse;
/* `group` is one of its own. NULL when memory is short. */
struct mpi_pulse *mpi_pulse_start(struct comm *comm, MPI_Comm group);
/* Tells the others that this rank leaves, waits until all do. */
void mpi_pulse_stop(struct mpi_pulse *pulse);
void mpi_pulse_tell(struct mpi_pulse *pulse, int64_t step, const char *doing);
void mpi_pulse_watch(struct mpi_pulse *pulse, double warning, double limit);
/* The thread that talks begins its n-th job, or (0) has ended it. `what` is borrowed for good. */
void mpi_pulse_job(struct mpi_pulse *pulse, int64_t job, const char *what);

#endif
