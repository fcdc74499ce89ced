/* Sums over examples, so that shards and short last batches weigh what they should. */
#ifndef TRAIN_METRICS_H
#define TRAIN_METRICS_H

#include <stdint.h>

#include "tensor/tensor.h"

struct scores;

struct metrics {
    int64_t examples;
    double loss_sum;
    int64_t judged; /* examples that had logits and a label */
    int64_t correct, correct_top_5;
    /* Of networks with a single logit, whose labels are no and yes. */
    int64_t binary, positives; /* examples, and those whose label is yes */
    double log_loss_sum;
    struct scores *scores; /* NULL, or where to keep the logits for the AUC */
    double auc;            /* of an evaluation; NaN: none */
};

/* `logits` [rows.., classes] f32, `labels` [rows] i32, i64 or f32, `losses` [rows] f32; only the
 * first `rows` count. A network without "logits" or without labels is not judged: give NULL.
 * A single logit is right when its sign agrees with a label of 0 or 1. */
void metrics_add(struct metrics *metrics, const struct tensor *logits, const struct tensor *labels,
                 const struct tensor *losses, int rows);
/* to += from, which has no scores. */
void metrics_sum(struct metrics *to, const struct metrics *from);
/* NaN when there was nothing to average. */
double metrics_loss(const struct metrics *metrics);
double metrics_accuracy(const struct metrics *metrics);
double metrics_accuracy_top_5(const struct metrics *metrics);
/* Mean of -log of the probability that the label got, without smoothing; NaN for other networks. */
double metrics_log_loss(const struct metrics *metrics);
/* The accuracy of always giving the commoner answer; NaN for networks that are not yes or no. */
double metrics_majority(const struct metrics *metrics);

#endif
