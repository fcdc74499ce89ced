/* Plain stochastic gradient descent: w -= rate * g. */
#include "base/clones.h"
#include "train/optimizer.h"

KERNEL_CLONES static void descend(float rate, float decay, size_t count, const float *weights,
                                  const float *gradients, float *new_weights)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        new_weights[i] = weights[i] - rate * (gradients[i] + decay * weights[i]);
}

static void sgd_step(const struct optimizer_settings *settings, float rate, int64_t step,
                     const struct optimizer_range *range)
{
    (void)step;
    descend(rate, settings->weight_decay, range->count, range->weights, range->gradients,
            range->new_weights);
}

const struct optimizer optimizer_sgd = {
    .name = "sgd",
    .summary = "plain gradient descent",
    .options = "",
    .default_rate = 0.01F,
    .step = sgd_step,
};
