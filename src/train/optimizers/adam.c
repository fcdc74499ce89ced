/* Adam (Kingma & Ba 2015, algorithm 1) with bias correction, as PyTorch has it:
 *     m = beta1 * m + (1 - beta1) * g               v = beta2 * v + (1 - beta2) * g^2
 *     w -= rate / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + epsilon)
 * epsilon (1e-8; Keras: 1e-7) is added to the corrected root, the paper's "epsilon", not its
 * "epsilon hat". */
#include <math.h>

#include "base/clones.h"
#include "train/optimizer.h"

/* `length` = rate / (1 - beta1^t) and `root_scale` = 1 / sqrt(1 - beta2^t): alike for all. */
KERNEL_CLONES static void descend(const struct optimizer_settings *settings, float length,
                                  float root_scale, const struct optimizer_range *range)
{
    const float beta1 = settings->beta1, beta2 = settings->beta2;
    const float epsilon = settings->epsilon, decay = settings->weight_decay;
    const float *weights = range->weights, *gradients = range->gradients;
    const float *mean = range->slots[0], *square = range->slots[1];
    float *new_weights = range->new_weights;
    float *new_mean = range->new_slots[0], *new_square = range->new_slots[1];
    const size_t count = range->count;
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float gradient = gradients[i] + decay * weights[i];
        float first = beta1 * mean[i] + (1 - beta1) * gradient;
        float second = beta2 * square[i] + (1 - beta2) * gradient * gradient;
        new_mean[i] = first;
        new_square[i] = second;
        new_weights[i] = weights[i] - length * first / (sqrtf(second) * root_scale + epsilon);
    }
}

static void adam_step(const struct optimizer_settings *settings, float rate, int64_t step,
                      const struct optimizer_range *range)
{
    double length = rate / (1 - pow(settings->beta1, (double)step));
    double root_scale = 1 / sqrt(1 - pow(settings->beta2, (double)step));
    descend(settings, (float)length, (float)root_scale, range);
}

const struct optimizer optimizer_adam = {
    .name = "adam",
    .summary = "adaptive moments with bias correction",
    .options = "beta1 beta2 epsilon",
    .default_rate = 0.001F,
    .slot_count = 2,
    .slot_names = {"m", "v"},
    .defaults = {.beta1 = 0.9F, .beta2 = 0.999F, .epsilon = 1e-8F},
    .step = adam_step,
};
