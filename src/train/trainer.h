/* The training loop. It prints nothing: every number leaves by an event. It makes nothing either:
 * plans, updater and loaders are the caller's, so that a program of the user's can drive them by
 * itself, too. */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include <stdatomic.h>
#include <stdint.h>

#include "comm/comm.h"
#include "data/loader.h"
#include "exec/plan.h"
#include "train/metrics.h"
#include "train/optimizer.h"
#include "train/schedule.h"

struct params;
struct exchange_sum;
struct rank_status;
struct saver;
struct state;

enum train_event_kind {
    TRAIN_STARTED,
    TRAIN_STEP, /* a step is finished */
    TRAIN_EVALUATED,
    TRAIN_SAVED,    /* a checkpoint of an earlier or this step is whole on disk */
    TRAIN_FINISHED, /* the last event, also after a stop signal; not after a failure */
};

struct train_event {
    enum train_event_kind kind;
    int64_t step, total;            /* finished steps, of all */
    int64_t epoch, steps_per_epoch; /* whole epochs finished */
    int64_t examples;               /* of this run so far; at TRAIN_EVALUATED: those evaluated */
    double loss, accuracy, accuracy_top_5; /* of this step, or of the evaluation; may be NaN */
    double log_loss, auc;                  /* of yes-or-no networks; auc of an evaluation only */
    double majority; /* the accuracy of always giving the commoner answer; the same */
    double rate;
    double started; /* clock_seconds() when the step, evaluation or save began; else 0 */
    double
        step_seconds; /* at TRAIN_EVALUATED: of the whole evaluation; at TRAIN_SAVED: of saving */
    const char *path; /* at TRAIN_SAVED: of the checkpoint, whose step is `step`; else NULL */
    /* At TRAIN_STEP. reduce: waited for sums over the ranks after the own gradients were there;
     * hidden: what of the sums ran beside the computation. */
    double input_seconds, forward_seconds, backward_seconds, reduce_seconds, update_seconds;
    double hidden_seconds;
    const struct rank_status *ranks; /* at TRAIN_STEP, with other ranks: all of them; else NULL */
    int rank_count;
    const struct exchange_sum *sums; /* likewise: the reductions of this rank, in order */
    int sum_count;
    int slowest;           /* rank whose gradients came last; -1: none */
    size_t bucket_bytes;   /* of this step; 0: one bucket */
    int stop_signal;       /* at TRAIN_FINISHED: what ended the run early, on any rank; else 0 */
    bool paused;           /* at TRAIN_FINISHED: it is to be gone on with by another process */
    bool saving;           /* at TRAIN_STEP: a checkpoint was being written when it began */
    double saving_seconds; /* at TRAIN_STEP: that the training waited for checkpoints before it */
};
typedef void train_observer(void *context, const struct train_event *event);

/* A loader and the fields its batches have (dataset_kind.fields). They meet the plan's inputs by
 * name. */
struct trainer_data {
    struct loader *loader; /* NULL: none */
    const struct dataset_field *fields;
    int field_count;
};

/* When checkpoints are saved: also at the end, and after an evaluation better than all before. */
struct trainer_saving {
    struct saver *saver;  /* NULL: never */
    int64_t origin;       /* where the run to total_steps began, perhaps in an earlier process */
    int64_t every_steps;  /* 0: not by steps */
    double every_seconds; /* 0: not by time */
};

/* Where a run is, for a thread that tells others; and what they want of it. */
struct trainer_progress {
    atomic_llong step;           /* finished */
    _Atomic(const char *) doing; /* a few words, good for ever */
    atomic_bool pause;           /* end after a step that all ranks agree on, saving nothing */
};

/* State that outlives the process: `params` and `updater` live in it, and each step is committed to
 * it. All zero: none. */
struct trainer_keeping {
    struct state *state;
    struct trainer_progress *progress; /* may be NULL */
    /* Does it go on where another process was killed? What that one had still to do after its last
     * step, an evaluation or a checkpoint, is done first. */
    bool returned;
    bool evaluated; /* the step was */
    double loss, accuracy;
    int64_t saved_at; /* step of the newest checkpoint; 0: none */
    double saved_ago; /* seconds */
};

/* How a step is cut into pieces, and how ranks add them up. All zero: one rank, one piece. */
struct trainer_ranks {
    struct comm *comm; /* NULL: alone */
    int pieces;        /* batches of this rank in a step; 0: 1 */
    /* Pieces of all ranks, which are added in one order whatever the number of ranks; 0: any order,
     * and all ranks have as many pieces. */
    int shards;
    enum comm_wire wire;
    size_t bucket_bytes; /* 0: one bucket */
    bool tune_buckets;   /* rank 0 tries sizes in the first steps and keeps the fastest */
    bool plain;          /* the ranks' processors differ: see struct exchange_options */
};

struct trainer_inputs { /* all borrowed for the length of the run */
    const struct graph *graph;
    struct params *params;
    struct plan *plan;              /* PLAN_TRAIN, of the train loader's batch */
    struct plan *const *more_plans; /* like it: so many more pieces are computed side by side */
    int more_plan_count;
    struct trainer_data train;
    struct plan *evaluation_plan; /* PLAN_EVALUATE, of the validation loader's batch */
    struct trainer_data validation;
    struct updater *updater;
    const struct schedule *schedule;
    struct trainer_ranks ranks;
    uint64_t seed; /* of dropout */
    int64_t first_step, total_steps;
    int64_t evaluate_every; /* 0: only at the end, if there is validation data */
    double stop_accuracy;   /* the run ends when an evaluation reaches it; 0: never */
    struct trainer_saving saving;
    struct trainer_keeping keeping;
    const atomic_int *stop_signal; /* a signal number once one arrived; may be NULL */
};

/* Runs until total_steps, a failure, or *stop_signal, which abandons the step in flight: it returns
 * 0 with everything as the last whole step left it. Of several ranks the one that was told gives its
 * part up, and all stop after the same step; what fails on one fails on all, after the same step. A
 * loss or gradient that is not finite is ERROR_NUMERIC, naming step and op, with the weights and
 * statistics of the last good step kept; that one is saved whatever the failure was. A checkpoint
 * that cannot be saved on the way is a warning; the last one, an error; weights that are not finite
 * are never saved. Data that does not fit the network's inputs is ERROR_USAGE with both shapes.
 * Observers are called on the calling thread. Between the first and the last step nothing is
 * allocated. */
int trainer_run(const struct trainer_inputs *inputs, train_observer *observer, void *context,
                struct error *err);

/* One pass over the data with a PLAN_EVALUATE; a short last batch counts with its real rows. A
 * network with a single logit gets an AUC, too, for which all scores are kept.
 * ERROR_CANCELLED when *stop_signal (which may be NULL) was set on the way. */
int trainer_evaluate(const struct graph *graph, struct plan *plan, const struct trainer_data *data,
                     const atomic_int *stop_signal, struct metrics *out, struct error *err);

#endif
