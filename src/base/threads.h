/* How many processors this process may use, and what they can do. */
#ifndef BASE_THREADS_H
#define BASE_THREADS_H

#include <pthread.h>
#include <stdbool.h>

/* Cores that the affinity mask and the cgroup's CPU quota allow (a quota of 1.5 gives 1),
 * counting hardware threads of one core once. At least 1. */
int threads_available(void);

/* Starts a thread that takes no signals but those of its own faults: the others are for the thread
 * that knows how to stop. Returns an errno, 0 when it runs. */
int thread_start(pthread_t *thread, void *(*main)(void *context), void *context);

/* The calling thread, and those it starts from now on, give way to the others: so much nicer than it
 * was. */
void thread_step_back(int nicer);

/* The calling thread, and those it starts from now on, take short turns on the processor: woken, it runs
 * within a fraction of a millisecond even where others compute, instead of after their turns, and has no
 * larger share than before. From Linux 6.12 on; elsewhere nothing happens. */
void thread_take_short_turns(void);

/* OpenMP's helpers of the calling thread end, and are started anew by its next parallel region. Between
 * two regions they spin for 3 ms before they sleep, or only for microseconds when all that were started,
 * by whichever thread, are more than the cores. */
void threads_dismiss_helpers(void);

struct processor {
    char name[64];
    int sockets, cores, hardware_threads; /* of the whole machine */
    int allowed_cores, allowed_threads;   /* of those, what the affinity mask allows */
    double quota_cores;                   /* of the cgroup; 0: none */
    bool sse41, avx2, fma, avx512f, amx;
};
void processor_describe(struct processor *out);

#endif
