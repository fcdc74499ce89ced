/* The course of a training in bounded memory: when it is full, each two neighbours become one, so
 * that a page opened late still sees all of it, only coarser. */
#ifndef WATCH_HISTORY_H
#define WATCH_HISTORY_H

#include <stdint.h>

struct error;
struct ring_entry;
struct train_event;

enum { HISTORY_POINTS = 1024, HISTORY_EVALUATIONS = 256 }; /* even both */

/* One or more steps in a row. */
struct history_point {
    int64_t step;  /* the last of them */
    int64_t steps; /* how many */
    int64_t examples;
    double at;              /* seconds since the start, at its end */
    double loss, low, high; /* mean, least and greatest */
    double accuracy, rate;
    double step_seconds; /* sums, as those below */
    double input_seconds, forward_seconds, backward_seconds, reduce_seconds, update_seconds;
    double hidden_seconds; /* of reductions, beside the computation */
    double resident;       /* bytes; the most of them */
};

struct history_evaluation {
    int64_t step, examples;
    double at, seconds;
    double loss, accuracy, accuracy_top_5, log_loss, auc, majority;
};

/* Plain storage; all zero is the start. */
struct history {
    struct history_point points[HISTORY_POINTS];
    int count;
    int64_t stride; /* steps a point stands for; the newest may have fewer */
    int64_t last_examples;
    int64_t generation; /* how often points were merged: what a page has is stale then */
    struct history_evaluation evaluations[HISTORY_EVALUATIONS];
    int evaluation_count;
};

/* `seconds` since the start, `resident` bytes now. Allocates nothing. */
void history_add(struct history *history, const struct ring_entry *steps, double seconds,
                 double resident);
void history_add_evaluation(struct history *history, const struct train_event *event,
                            double seconds);

#endif
