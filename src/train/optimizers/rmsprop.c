/* RMSProp as TensorFlow's RMSPropOptimizer has it (Hinton's lecture 6e, with momentum):
 *     s = decay_rate * s + (1 - decay_rate) * g^2
 *     v = momentum * v + rate * g / sqrt(s + epsilon)                w -= v
 * epsilon is inside the root, the rate inside the velocity, and s starts at 1. The defaults are
 * those of tf_cnn_benchmarks (decay 0.9, momentum 0.9, epsilon 1). */
#include <math.h>

#include "base/clones.h"
#include "train/optimizer.h"

KERNEL_CLONES static void descend(const struct optimizer_settings *settings, float rate,
                                  const struct optimizer_range *range)
{
    const float keep = settings->decay_rate, momentum = settings->momentum;
    const float epsilon = settings->epsilon, decay = settings->weight_decay;
    const float *weights = range->weights, *gradients = range->gradients;
    const float *square = range->slots[0], *velocity = range->slots[1];
    float *new_weights = range->new_weights;
    float *new_square = range->new_slots[0], *new_velocity = range->new_slots[1];
    const size_t count = range->count;
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float gradient = gradients[i] + decay * weights[i];
        float mean = keep * square[i] + (1 - keep) * gradient * gradient;
        float moved = momentum * velocity[i] + rate * gradient / sqrtf(mean + epsilon);
        new_square[i] = mean;
        new_velocity[i] = moved;
        new_weights[i] = weights[i] - moved;
    }
}

static void rmsprop_step(const struct optimizer_settings *settings, float rate, int64_t step,
                         const struct optimizer_range *range)
{
    (void)step;
    descend(settings, rate, range);
}

const struct optimizer optimizer_rmsprop = {
    .name = "rmsprop",
    .summary = "gradients divided by their root mean square, with momentum",
    .options = "momentum rmsprop-decay epsilon",
    .default_rate = 0.001F,
    .slot_count = 2,
    .slot_names = {"rms", "momentum"},
    .slot_initial = {1, 0},
    .defaults = {.decay_rate = 0.9F, .momentum = 0.9F, .epsilon = 1},
    .step = rmsprop_step,
};
