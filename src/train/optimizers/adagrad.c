/* Adagrad (Duchi et al. 2011) as TensorFlow's AdagradOptimizer has it:
 *     a += g^2                      w -= rate * g / (sqrt(a) + epsilon)
 * a starts at 0.1, which is why epsilon may be 0 and is by default; PyTorch starts at 0 and needs
 * its 1e-10. */
#include <math.h>

#include "base/clones.h"
#include "train/optimizer.h"

KERNEL_CLONES static void descend(const struct optimizer_settings *settings, float rate,
                                  const struct optimizer_range *range)
{
    const float epsilon = settings->epsilon, decay = settings->weight_decay;
    const float *weights = range->weights, *gradients = range->gradients;
    const float *sum = range->slots[0];
    float *new_weights = range->new_weights, *new_sum = range->new_slots[0];
    const size_t count = range->count;
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float gradient = gradients[i] + decay * weights[i];
        float total = sum[i] + gradient * gradient;
        new_sum[i] = total;
        new_weights[i] = weights[i] - rate * gradient / (sqrtf(total) + epsilon);
    }
}

static void adagrad_step(const struct optimizer_settings *settings, float rate, int64_t step,
                         const struct optimizer_range *range)
{
    (void)step;
    descend(settings, rate, range);
}

const struct optimizer optimizer_adagrad = {
    .name = "adagrad",
    .summary = "gradients divided by the root of their summed squares",
    .options = "epsilon",
    .default_rate = 0.01F,
    .slot_count = 1,
    .slot_names = {"accumulator"},
    .slot_initial = {0.1F},
    .step = adagrad_step,
};
