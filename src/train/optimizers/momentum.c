/* Gradient descent with momentum, as PyTorch's SGD, TensorFlow's MomentumOptimizer and the
 * published ResNet-50 recipe have it:
 *     v = momentum * v + g          w -= rate * v                    (nesterov: g + momentum * v)
 * The rate stays outside the velocity. Keras keeps it inside (v = momentum * v - rate * g), which
 * is the same as long as the rate does not change between two steps. Decay joins the gradient
 * before the momentum; added after it would be another algorithm. */
#include "base/clones.h"
#include "train/optimizer.h"

KERNEL_CLONES static void descend(const struct optimizer_settings *settings, float rate,
                                  size_t count, const float *weights, const float *gradients,
                                  const float *velocity, float *new_weights, float *new_velocity)
{
    const float momentum = settings->momentum, decay = settings->weight_decay;
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float gradient = gradients[i] + decay * weights[i];
        float moved = momentum * velocity[i] + gradient;
        new_velocity[i] = moved;
        new_weights[i] = weights[i] - rate * moved;
    }
}

KERNEL_CLONES static void descend_nesterov(const struct optimizer_settings *settings, float rate,
                                           size_t count, const float *weights,
                                           const float *gradients, const float *velocity,
                                           float *new_weights, float *new_velocity)
{
    const float momentum = settings->momentum, decay = settings->weight_decay;
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float gradient = gradients[i] + decay * weights[i];
        float moved = momentum * velocity[i] + gradient;
        new_velocity[i] = moved;
        new_weights[i] = weights[i] - rate * (gradient + momentum * moved);
    }
}

static void momentum_step(const struct optimizer_settings *settings, float rate, int64_t step,
                          const struct optimizer_range *range)
{
    (void)step;
    (settings->nesterov ? descend_nesterov : descend)(settings, rate, range->count, range->weights,
                                                      range->gradients, range->slots[0],
                                                      range->new_weights, range->new_slots[0]);
}

const struct optimizer optimizer_momentum = {
    .name = "momentum",
    .summary = "gradient descent with (Nesterov) momentum",
    .options = "momentum nesterov",
    .default_rate = 0.01F,
    .slot_count = 1,
    .slot_names = {"momentum"},
    .defaults = {.momentum = 0.9F},
    .step = momentum_step,
};
