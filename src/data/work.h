/* Long tasks over many independent jobs (shards to write, files to check): on several threads,
 * with progress for whoever watches, until done, failed or told to stop. */
#ifndef DATA_WORK_H
#define DATA_WORK_H

#include <stdatomic.h>
#include <stdint.h>

struct error;

/* How far it is. `total` is in the task's own items (pictures, rows), not in jobs. */
struct work_state {
    int64_t done, total;
    uint64_t bytes; /* read or written so far */
};

/* What a task needs from its caller; all zero works: one thread, unobserved. */
struct work {
    int threads;            /* 0: one */
    const atomic_int *stop; /* NULL, or nonzero when the task is to end early */
    /* Called on the thread that called work_run, a few times a second and at the end. */
    void (*observe)(void *context, const struct work_state *state);
    void *context;
};

struct work_counts {
    atomic_int_least64_t done;
    atomic_uint_least64_t bytes;
};
void work_count(struct work_counts *counts, int64_t items, uint64_t bytes);

/* Runs on any of the threads. */
typedef int work_job(void *context, int64_t job, struct work_counts *counts, struct error *err);

/* Jobs 0 .. jobs-1, begun in this order. After a failure no further one is begun, and the failed
 * job with the lowest number is what is reported; ERROR_CANCELLED when `stop` ended it. */
int work_run(const struct work *work, int64_t jobs, int64_t total, work_job *run, void *context,
             struct error *err);

#endif
