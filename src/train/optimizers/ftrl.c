/* FTRL-Proximal (McMahan et al. 2013) as TensorFlow's FtrlOptimizer has it, p = -power:
 *     n' = n + g^2                  z += g - (n'^p - n^p) / rate * w
 *     w = |z| <= l1 ? 0 : (sign(z) * l1 - z) / (n'^p / rate + 2 * l2)
 * n starts at 0.1, z at 0, power is -0.5. The weights follow from n and z alone, so a start
 * other than 0 lasts until the first step that changes them. */
#include <math.h>

#include "base/clones.h"
#include "train/optimizer.h"

/* The usual power of -1/2: roots vectorise, pow does not. */
KERNEL_CLONES static void descend_root(const struct optimizer_settings *settings, float rate,
                                       const struct optimizer_range *range)
{
    const float l1 = settings->l1, l2 = settings->l2, decay = settings->weight_decay;
    const float *weights = range->weights, *gradients = range->gradients;
    const float *sum = range->slots[0], *linear = range->slots[1];
    float *new_weights = range->new_weights;
    float *new_sum = range->new_slots[0], *new_linear = range->new_slots[1];
    const float per_rate = 1 / rate;
    const size_t count = range->count;
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float gradient = gradients[i] + decay * weights[i];
        float total = sum[i] + gradient * gradient;
        float root = sqrtf(total);
        float z = linear[i] + gradient - (root - sqrtf(sum[i])) * per_rate * weights[i];
        float pulled = copysignf(l1, z) - z;
        new_sum[i] = total;
        new_linear[i] = z;
        new_weights[i] = fabsf(z) > l1 ? pulled / (root * per_rate + 2 * l2) : 0;
    }
}

static void descend_power(const struct optimizer_settings *settings, float rate,
                          const struct optimizer_range *range)
{
    const float p = -settings->learning_rate_power, per_rate = 1 / rate;
    for (size_t i = 0; i < range->count; i++) {
        float weight = range->weights[i], old = range->slots[0][i];
        float gradient = range->gradients[i] + settings->weight_decay * weight;
        float total = old + gradient * gradient;
        float grown = powf(total, p);
        float z = range->slots[1][i] + gradient - (grown - powf(old, p)) * per_rate * weight;
        float pulled = copysignf(settings->l1, z) - z;
        range->new_slots[0][i] = total;
        range->new_slots[1][i] = z;
        range->new_weights[i] =
            fabsf(z) > settings->l1 ? pulled / (grown * per_rate + 2 * settings->l2) : 0;
    }
}

/* The first step of a warm-up has the rate 0, by which the formula divides: nothing moves then. */
static void stand_still(const struct optimizer_range *range)
{
    memmove(range->new_weights, range->weights, range->count * sizeof(float));
    for (int slot = 0; slot < 2; slot++)
        memmove(range->new_slots[slot], range->slots[slot], range->count * sizeof(float));
}

static void ftrl_step(const struct optimizer_settings *settings, float rate, int64_t step,
                      const struct optimizer_range *range)
{
    (void)step;
    if (rate <= 0)
        stand_still(range);
    else if (settings->learning_rate_power == -0.5F)
        descend_root(settings, rate, range);
    else
        descend_power(settings, rate, range);
}

const struct optimizer optimizer_ftrl = {
    .name = "ftrl",
    .summary = "follow the regularized leader: sparse linear models",
    .options = "l1 l2 lr-power",
    .default_rate = 0.005F,
    .slot_count = 2,
    .slot_names = {"accumulator", "linear"},
    .slot_initial = {0.1F, 0},
    .defaults = {.learning_rate_power = -0.5F},
    .step = ftrl_step,
};
