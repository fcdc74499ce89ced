/* Where the time of each rank goes: sums since the start, and the mean of a step over the last
 * seconds. The training thread adds; those who show it read copies. */
#ifndef WATCH_RANK_TIMES_H
#define WATCH_RANK_TIMES_H

#include <stdint.h>

struct error;
struct rank_status;
struct rank_times;
struct train_event;

/* Hidden: what of the reductions ran beside the computation; it is no part of the step's time. */
enum rank_part { RANK_INPUT, RANK_FORWARD, RANK_BACKWARD, RANK_REDUCE, RANK_HIDDEN, RANK_PARTS };
const char *rank_part_name(enum rank_part part);

struct rank_time {
    int rank;
    int64_t slowest;           /* steps in which it was the one that took longest */
    double total[RANK_PARTS];  /* seconds since the start */
    double recent[RANK_PARTS]; /* seconds of a step, the mean over the last five seconds or so */
};

int rank_times_create(int ranks, struct rank_times **out, struct error *err);
void rank_times_destroy(struct rank_times *times); /* accepts NULL */
int rank_times_count(const struct rank_times *times);

/* The training thread's: a step with other ranks; `now` in seconds. Allocates nothing and waits for
 * nobody: what it adds is seen within a second. */
void rank_times_add(struct rank_times *times, const struct train_event *event, double now);
/* When it has added the last one: from now on all of them are seen. */
void rank_times_flush(struct rank_times *times);

/* Any thread's: copies all ranks into out[count]. How often there was something new so far. */
int64_t rank_times_read(struct rank_times *times, struct rank_time *out);

/* What the rank does by itself, in a step. */
double rank_time_own(const struct rank_time *time);
double rank_status_own(const struct rank_status *status);

/* How far apart `count` (at least one) times are; their order is changed. */
struct rank_spread {
    double least, median, most;
};
struct rank_spread rank_spread_of(double *seconds, int count);

#endif
