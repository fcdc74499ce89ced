/* A run in progress, for the files that drive it: trainer.c the whole, trainer_step.c one step,
 * trainer_saving.c what is kept of it. */
#ifndef TRAIN_TRAINER_INTERNAL_H
#define TRAIN_TRAINER_INTERNAL_H

#include "store/saver.h"
#include "train/bucket_tuner.h"
#include "train/evaluation.h"
#include "train/trainer.h"

struct arena;
struct compute;
struct exchange;
struct sparse_rows;

struct run {
    const struct trainer_inputs *inputs;
    train_observer *observer;
    void *context;
    struct evaluation evaluation;
    struct arena *arena;
    struct compute *compute;
    struct exchange *exchange; /* NULL: one rank with one piece */
    struct bucket_tuner tuner;
    struct plan **plans;
    int plan_count;
    int ranks, pieces;            /* of the group; of all ranks in a step */
    struct rank_status *statuses; /* [ranks] of this step */
    double last_step_seconds;
    int stop_agreed;          /* a signal that came to one of the ranks */
    bool pause_agreed;        /* likewise */
    struct sparse_rows *rows; /* the tables' gradients of this step */
    int row_lists;
    int64_t step; /* finished ones */
    int64_t steps_per_epoch;
    int64_t examples;
    int64_t evaluated_at; /* the step of the last evaluation, or -1 */
    double evaluated_loss, evaluated_accuracy;
    bool abandoned;        /* the step in flight was given up for a signal */
    int64_t saved_at;      /* the step of the last snapshot; at first the one that was resumed */
    bool saved_score;      /* with its evaluation */
    bool saved_finished;   /* and as all there is to do */
    double saved_clock;    /* when */
    double saving_seconds; /* waited for it since the last step */
};

/* An event with what is alike for all kinds; the numbers start as unknown. */
struct train_event run_event(const struct run *run, enum train_event_kind kind);
void run_set_metrics(struct train_event *event, const struct metrics *metrics);
void run_emit(const struct run *run, const struct train_event *event);

/* What this rank was asked for; the ranks agree on it at the end of a step. */
int run_own_signal(const struct run *run);
bool run_own_pause(const struct run *run);
/* Is the run to end before the next step? */
bool run_stops(const struct run *run);
bool run_evaluated_now(const struct run *run);

/* Computes the gradients of the next step, adds those of other ranks, updates, and tells of it. With
 * `run->abandoned` set it changed nothing. */
int run_one_step(struct run *run, struct error *err);
void run_use_buckets(struct run *run, size_t bytes);

/* What is known after step `step`. */
struct saver_moment run_moment(const struct run *run, int64_t step, int64_t goal, bool finished);
/* Something was learned about the last step, and its numbers are as they were. */
void run_keep(const struct run *run);
void run_save_if_due(struct run *run);
/* The last state, unless that is what was saved last. */
int run_save_last(struct run *run, int64_t goal, bool finished, struct error *err);

#endif
