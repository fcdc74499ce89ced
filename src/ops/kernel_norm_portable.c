/* Plain C, for any number of lanes and any processor. Sums are in double, so their order of
 * magnitude does not matter. */
#include "ops/norm.h"

static bool fits(int lanes)
{
    (void)lanes;
    return true;
}

static void sum(const struct norm_segment *segment, const float *x, const float *pivot,
                double *sums, double *squares)
{
    size_t lanes = (size_t)segment->lanes;
    for (size_t s = 0; s < segment->spatial; s++)
        for (size_t c = 0; c < lanes; c++) {
            double d = (double)(x[s * lanes + c] - pivot[c]);
            sums[c] += d;
            squares[c] += d * d;
        }
}

static void apply(const struct norm_segment *segment, const float *x, const float *residual,
                  const float *mean, const float *factor, const float *shift, bool relu, float *y,
                  uint8_t *mask)
{
    size_t lanes = (size_t)segment->lanes;
    if (mask)
        for (size_t i = 0; i < (segment->spatial * lanes + 7) / 8; i++)
            mask[i] = 0;
    for (size_t s = 0; s < segment->spatial; s++)
        for (size_t c = 0; c < lanes; c++) {
            size_t i = s * lanes + c;
            float value = (x[i] - mean[c]) * factor[c] + shift[c];
            if (residual)
                value += residual[i];
            if (relu && value <= 0)
                value = 0;
            else if (mask)
                mask[i / 8] |= (uint8_t)(1u << i % 8);
            y[i] = value;
        }
}

static float masked_gradient(float *const *gradients, int count, const uint8_t *mask, size_t i)
{
    if (mask && !(mask[i / 8] >> i % 8 & 1))
        return 0;
    float g = gradients[0][i];
    for (int k = 1; k < count; k++)
        g += gradients[k][i];
    return g;
}

static void reduce(const struct norm_segment *segment, float *const *gradients, int count,
                   const uint8_t *mask, const float *x, const float *mean, float *out, double *sums,
                   double *products)
{
    size_t lanes = (size_t)segment->lanes;
    for (size_t s = 0; s < segment->spatial; s++)
        for (size_t c = 0; c < lanes; c++) {
            size_t i = s * lanes + c;
            float g = masked_gradient(gradients, count, mask, i);
            sums[c] += (double)g;
            products[c] += (double)g * (double)(x[i] - mean[c]);
            if (out)
                out[i] = g;
        }
}

static void propagate(const struct norm_segment *segment, float *const *gradients, int count,
                      const uint8_t *mask, const float *x, const float *mean, const float *a,
                      const float *b, const float *c, float *dx)
{
    size_t lanes = (size_t)segment->lanes;
    for (size_t s = 0; s < segment->spatial; s++)
        for (size_t k = 0; k < lanes; k++) {
            size_t i = s * lanes + k;
            float g = masked_gradient(gradients, count, mask, i);
            dx[i] = g * a[k] + (x[i] - mean[k]) * b[k] + c[k];
        }
}

const struct norm_kernels norm_kernels_portable = {.name = "own:c",
                                                   .fits = fits,
                                                   .sum = sum,
                                                   .apply = apply,
                                                   .reduce = reduce,
                                                   .propagate = propagate};
