/* The training loop. It prints nothing: every number leaves by an event. */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include <stdatomic.h>
#include <stdint.h>

#include "data/loader.h"
#include "exec/plan.h"
#include "train/metrics.h"
#include "train/optimizer.h"
#include "train/schedule.h"

struct comm;

enum train_event_kind {
    TRAIN_STARTED,
    TRAIN_STEP,             /* a step is finished */
    TRAIN_EVALUATED,
    TRAIN_FINISHED,
};

struct train_event {
    enum train_event_kind kind;
    int64_t step, total;    /* finished steps; 0 total: unknown */
    int64_t epoch, steps_per_epoch;
    int64_t examples;       /* seen so far; at TRAIN_EVALUATED: those evaluated */
    double loss, accuracy, accuracy_top_5;  /* of this step, or of the evaluation */
    double decay_loss;      /* what weight decay adds to the loss; only when it was asked for */
    double rate;
    double step_seconds;
    double input_seconds, forward_seconds, backward_seconds, reduce_seconds, update_seconds;
};
typedef void train_observer(void *context, const struct train_event *event);

struct trainer_inputs {                     /* all borrowed for the length of the run */
    const struct graph *graph;
    struct params *params;
    struct updater *updater;
    const struct schedule *schedule;
    struct loader *train, *validation;      /* validation may be NULL */
    struct comm *comm;                      /* NULL: alone */
    struct plan_options plan;               /* mode and batch are set by the trainer */
    uint64_t seed;
    int batch;                              /* rows per step of this process */
    int64_t first_step, total_steps;
    int64_t evaluate_every;                 /* 0: only at the end, if there is validation data */
    int64_t decay_loss_every;               /* 0: never */
    const atomic_int *stop_signal;          /* a signal number once one arrived; may be NULL */
};

/* Runs until total_steps, a failure, or *stop_signal (then it returns 0 after the last whole
 * step). A loss or gradient that is not finite is ERROR_NUMERIC, naming step and op, with the
 * weights of the last good step kept. Observers are called on the calling thread. */
int trainer_run(const struct trainer_inputs *inputs, train_observer *observer, void *context,
                struct error *err);

/* One pass over `loader` in evaluation mode. */
int trainer_evaluate(const struct graph *graph, struct params *params, struct loader *loader,
                     const struct plan_options *plan, int batch, struct metrics *out,
                     struct error *err);

#endif
