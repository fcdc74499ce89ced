#include "train/metrics.h"

#include <math.h>

#include "train/scores.h"

static double label_at(const struct tensor *labels, int row)
{
    switch (labels->dtype) {
    case DTYPE_F32:
        return ((const float *)labels->data)[row];
    case DTYPE_I32:
        return ((const int32_t *)labels->data)[row];
    case DTYPE_I64:
        return (double)((const int64_t *)labels->data)[row];
    default:
        return NAN;
    }
}

/* How many classes come before `label`: those with a larger logit, and earlier ones with the same,
 * as an argmax that takes the first would have it. A NaN comes before every number, so a network
 * that answers NaN is never right. */
static int64_t rank_of(const float *logits, int64_t classes, int64_t label)
{
    int64_t before = 0;
    float own = logits[label];
    for (int64_t c = 0; c < classes; c++)
        before += c < label ? !(logits[c] < own) : c > label && !(logits[c] <= own);
    return before;
}

/* -log(sigmoid(logit)) where the label is yes, -log(1 - sigmoid(logit)) where it is no, without
 * overflow. */
static void count_binary(struct metrics *metrics, float logit, bool positive)
{
    double against = positive ? -(double)logit : (double)logit;
    metrics->binary++;
    metrics->positives += positive;
    metrics->log_loss_sum += fmax(against, 0) + log1p(exp(-fabs(against)));
    if (metrics->scores)
        scores_add(metrics->scores, logit, positive);
}

/* [classes] logits of one example; with one of them, its sign says yes or no. */
static void count_row(struct metrics *metrics, const float *logits, int64_t classes, double label)
{
    if (classes == 1) {
        bool right = (logits[0] > 0) == (label > 0.5) && !isnan(logits[0]);
        metrics->correct += right;
        metrics->correct_top_5 += !isnan(logits[0]);
        count_binary(metrics, logits[0], label > 0.5);
        return;
    }
    if (!(label >= 0 && label < (double)classes))
        return;
    int64_t rank = rank_of(logits, classes, (int64_t)label);
    metrics->correct += rank < 1;
    metrics->correct_top_5 += rank < 5;
}

void metrics_add(struct metrics *metrics, const struct tensor *logits, const struct tensor *labels,
                 const struct tensor *losses, int rows)
{
    metrics->examples += rows;
    for (int row = 0; losses && row < rows; row++)
        metrics->loss_sum += ((const float *)losses->data)[row];
    if (!logits || !labels)
        return;
    int64_t classes = shape_count(&logits->shape) / logits->shape.dim[0];
    for (int row = 0; row < rows; row++)
        count_row(metrics, (const float *)logits->data + row * classes, classes,
                  label_at(labels, row));
    metrics->judged += rows;
}

void metrics_sum(struct metrics *to, const struct metrics *from)
{
    to->examples += from->examples;
    to->loss_sum += from->loss_sum;
    to->judged += from->judged;
    to->correct += from->correct;
    to->correct_top_5 += from->correct_top_5;
    to->binary += from->binary;
    to->positives += from->positives;
    to->log_loss_sum += from->log_loss_sum;
}

static double per(double sum, int64_t count)
{
    return count ? sum / (double)count : NAN;
}

double metrics_loss(const struct metrics *metrics)
{
    return per(metrics->loss_sum, metrics->examples);
}

double metrics_accuracy(const struct metrics *metrics)
{
    return per((double)metrics->correct, metrics->judged);
}

double metrics_accuracy_top_5(const struct metrics *metrics)
{
    return per((double)metrics->correct_top_5, metrics->judged);
}

double metrics_log_loss(const struct metrics *metrics)
{
    return per(metrics->log_loss_sum, metrics->binary);
}

double metrics_majority(const struct metrics *metrics)
{
    int64_t others = metrics->binary - metrics->positives;
    return per((double)(others > metrics->positives ? others : metrics->positives),
               metrics->binary);
}
