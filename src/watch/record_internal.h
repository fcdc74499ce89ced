/* What the record's files share. */
#ifndef WATCH_RECORD_INTERNAL_H
#define WATCH_RECORD_INTERNAL_H

#include <pthread.h>

#include "train/trainer.h"
#include "watch/history.h"
#include "watch/pace.h"
#include "watch/rank_times.h"
#include "watch/record.h"
#include "watch/ring.h"
#include "watch/tail.h"

enum record_state {
    RECORD_STARTING,
    RECORD_RUNNING,
    RECORD_FINISHED,
    RECORD_STOPPED, /* by a signal */
    RECORD_FAILED,
};

enum { RECORD_RANKS = 256 };  /* shown one by one, at most */
enum { RECORD_BUCKETS = 16 }; /* of step seconds, besides the one that has no end */

/* Sums since the start of the run, as counters of metrics want them. */
struct record_totals {
    int64_t steps, evaluations, checkpoints;
    double step_seconds, input_seconds, forward_seconds, backward_seconds, reduce_seconds,
        hidden_seconds, update_seconds, evaluation_seconds, checkpoint_seconds;
    int64_t buckets[RECORD_BUCKETS + 1]; /* steps in each, not yet summed up */
};

struct record {
    struct record_facts facts;
    struct record_options options;
    struct ring *ring;
    struct tail tail;
    struct rank_times *rank_times; /* NULL: one rank */
    double layers_read;            /* when; the training thread's */

    pthread_mutex_t layer_lock; /* guards the two below; the training thread only tries it */
    double *layer_seconds;
    int64_t layer_readings; /* how often read */

    pthread_mutex_t
        lock; /* guards all below; readers', never the training thread's while it runs */
    struct rank_time *ranks; /* [facts.ranks]: the copy of who shows them */
    enum record_state state;
    char message[256]; /* why it failed */
    struct lines *lines;
    FILE *lines_out;
    struct history history;
    struct pace pace;
    struct record_totals totals;
    struct train_event last_step, evaluation, saved; /* the newest of each */
    char saved_path[RING_PATH_BYTES];
    bool evaluated;
    int64_t entries; /* taken from the ring */
    int64_t version; /* of the last delta */
    int64_t first_step, steps_per_epoch;
    double started, ended; /* clock_wall_seconds; 0: not yet */
    double resident, resident_read;
};

/* Both with the lock held. The first takes in what the training thread has stored. */
void record_drain(struct record *record);
double record_elapsed(const struct record *record);
/* Upper bound of a bucket, in seconds. */
double record_bucket_bound(int bucket);

#endif
