/* Sums over examples, so that shards and short last batches weigh what they should. */
#ifndef TRAIN_METRICS_H
#define TRAIN_METRICS_H

#include <stdint.h>

#include "tensor/tensor.h"

struct metrics {
    int64_t examples;
    double loss_sum;
    int64_t judged; /* examples that had logits and a label */
    int64_t correct, correct_top_5;
};

/* `logits` [rows.., classes] f32, `labels` [rows] i32, i64 or f32, `losses` [rows] f32; only the
 * first `rows` count. A network without "logits" or without labels is not judged: give NULL.
 * A single logit is right when its sign agrees with a label of 0 or 1. */
void metrics_add(struct metrics *metrics, const struct tensor *logits, const struct tensor *labels,
                 const struct tensor *losses, int rows);
/* NaN when there was nothing to average. */
double metrics_loss(const struct metrics *metrics);
double metrics_accuracy(const struct metrics *metrics);
double metrics_accuracy_top_5(const struct metrics *metrics);

#endif
