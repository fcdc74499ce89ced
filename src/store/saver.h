/* Saves checkpoints beside a training: takes a snapshot of the numbers between two steps, which
 * costs a copy, and writes it from a thread of its own. Where memory does not suffice for a
 * snapshot, the training waits while the numbers are written from where they lie. */
#ifndef STORE_SAVER_H
#define STORE_SAVER_H

#include <limits.h>

#include "base/error.h"
#include "store/checkpoint.h"

struct checkpoints_lock;
struct saver;

struct saver_options {                   /* texts and settings are borrowed */
    const char *directory;               /* whose lock the caller holds: */
    const struct checkpoints_lock *lock; /* looked at before each save; NULL: not looked at */
    int keep;                            /* newest ones that stay, beside the best */
    const struct params *params;         /* read in saver_start only, when there is a snapshot */
    struct checkpoint_slots slots;       /* what the optimizer keeps */
    struct manifest manifest;            /* all but step, place, time, evaluation and files */
    size_t most_snapshot_bytes;          /* 0: half of the memory that is free */
};

/* The state that is saved. */
struct saver_moment {
    int64_t step, goal; /* finished; where the run ends: `step` itself when it ends early */
    int64_t origin;     /* where it began */
    bool finished;      /* nothing is left to do */
    int64_t bucket_bytes;
    bool evaluated;
    double loss, accuracy;
};

struct saver_result {
    int64_t step;
    double started, seconds; /* by clock_seconds; from the snapshot to the last flush */
    char path[PATH_MAX];
    struct error error; /* code ERROR_NONE: the checkpoint is whole on the disk */
};

int saver_create(const struct saver_options *options, struct saver **out, struct error *err);
/* Waits for a save in flight. Accepts NULL. */
void saver_destroy(struct saver *saver);

/* The best manifest_score there is, one being written included; -INFINITY when there is none. */
double saver_best_score(struct saver *saver);
/* Is one being written? */
bool saver_busy(struct saver *saver);
/* Waits for the one in flight, if any, takes the snapshot and begins. How it ends, saver_take
 * tells; how the one before ended must have been taken by then to be known. */
int saver_start(struct saver *saver, const struct saver_moment *moment, struct error *err);
/* The result of a save that has ended and was not taken yet. */
bool saver_take(struct saver *saver, struct saver_result *out);
void saver_wait(struct saver *saver);

#endif
