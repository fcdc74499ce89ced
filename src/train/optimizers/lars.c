/* LARS (You, Gitman & Ginsburg 2017): momentum with a rate for each parameter tensor,
 *     rate * trust * |w| / (|g| + decay * |w| + epsilon),
 * so that a large global batch does not tear small layers apart. As TensorFlow's LARSOptimizer,
 * the scaled rate stays outside the velocity, and the ratio is 1 where a norm is 0: at a start
 * from zeros, and for biases and batch norm, whose norms are given as 0. */
#include "base/clones.h"
#include "train/optimizer.h"

KERNEL_CLONES static void descend(const struct optimizer_settings *settings, float rate,
                                  const struct optimizer_range *range)
{
    const float momentum = settings->momentum, decay = settings->weight_decay;
    /* nesterov looks one step ahead: the gradient counts once more, the velocity less. */
    const float ahead = settings->nesterov ? 1 : 0, along = settings->nesterov ? momentum : 1;
    const float *weights = range->weights, *gradients = range->gradients;
    const float *velocity = range->slots[0];
    float *new_weights = range->new_weights, *new_velocity = range->new_slots[0];
    const size_t count = range->count;
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float gradient = gradients[i] + decay * weights[i];
        float moved = momentum * velocity[i] + gradient;
        new_velocity[i] = moved;
        new_weights[i] = weights[i] - rate * (ahead * gradient + along * moved);
    }
}

static void lars_step(const struct optimizer_settings *settings, float rate, int64_t step,
                      const struct optimizer_range *range)
{
    (void)step;
    double ratio = 1;
    if (range->weight_norm > 0 && range->gradient_norm > 0)
        ratio = settings->trust * range->weight_norm /
                (range->gradient_norm + settings->weight_decay * range->weight_norm +
                 settings->epsilon);
    descend(settings, (float)(rate * ratio), range);
}

const struct optimizer optimizer_lars = {
    .name = "lars",
    .summary = "momentum with a rate per layer, for large global batches",
    .options = "momentum nesterov epsilon lars-trust",
    .default_rate = 1,
    .slot_count = 1,
    .slot_names = {"momentum"},
    .needs_norms = true,
    .defaults = {.momentum = 0.9F, .trust = 0.001F},
    .step = lars_step,
};
