/* Sums over examples, so that shards and short last batches weigh what they should. */
#ifndef TRAIN_METRICS_H
#define TRAIN_METRICS_H

#include <stdint.h>

#include "tensor/tensor.h"

struct metrics {
    int64_t examples;
    double loss_sum;
    int64_t correct, correct_top_5;
};

/* `logits` [rows.., classes], `labels` [rows] int32, `losses` [rows]; only the first `rows`. */
void metrics_add(struct metrics *metrics, const struct tensor *logits, const struct tensor *labels,
                 const struct tensor *losses, int rows);
double metrics_loss(const struct metrics *metrics);
double metrics_accuracy(const struct metrics *metrics);
double metrics_accuracy_top_5(const struct metrics *metrics);

#endif
