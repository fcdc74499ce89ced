/* Batch norm's inner loops, for as many lanes as vector.h has: a part of kernel_norm_eights.c and
 * kernel_norm_sixteens.c. A position is some registers; a few positions are summed side by side, and every 64
 * positions the float sums move to double, so that their error does not grow with the picture.
 *
 * What is written past the caches has to leave in whole lines: with 16 lanes a register is one, with 8 two
 * positions are, where a position is one register. If it has more, a line's halves would be written at
 * different times, each a trip to memory of its own (a tenth of the speed; docs/performance.md). Nor is a
 * result written so that takes the place of a gradient in registers of 16: its line was just read. */
#ifndef OPS_NORM_LOOPS_H
#define OPS_NORM_LOOPS_H

#include "ops/norm.h"
#include "ops/vector_masks.h"

#if defined(__x86_64__)

VECTOR_BEGIN

/* REDUCED: positions that the gradients' sums have side by side. */
enum {
    LANES = VECTOR_LANES,
    SUMMED = 4,
    REDUCED = LANES == 16 ? 4 : 2,
    POSITIONS_PER_SUM = 64,
};

static bool norm_fits(int lanes)
{
    return lanes % LANES == 0 && vector_is_here();
}

INLINE size_t next_stop(size_t from, size_t end)
{
    return end - from < POSITIONS_PER_SUM ? end : from + POSITIONS_PER_SUM;
}

/* Pairs first. */
INLINE vector sum_of(const vector *sums, int count)
{
    vector low = vector_add(sums[0], sums[1]);
    return count == 4 ? vector_add(low, vector_add(sums[2], sums[3])) : low;
}

INLINE bool streams(const struct norm_segment *segment)
{
    return segment->stream && (LANES == 16 || segment->lanes == LANES);
}

/* --- Forward --- */

/* One register out of `stride` lanes per position. */
static void sum_group(size_t spatial, size_t stride, const float *x, const float *pivot,
                      double *sums, double *squares)
{
    const vector p = vector_load(pivot);
    for (size_t s = 0; s < spatial;) {
        size_t stop = next_stop(s, spatial);
        vector sum[SUMMED], square[SUMMED];
#pragma GCC unroll 4
        for (int k = 0; k < SUMMED; k++)
            sum[k] = square[k] = vector_zero();
        for (; s + SUMMED <= stop; s += SUMMED)
#pragma GCC unroll 4
            for (int k = 0; k < SUMMED; k++) {
                vector d = vector_sub(vector_load(x + (s + (size_t)k) * stride), p);
                sum[k] = vector_add(sum[k], d);
                square[k] = vector_fma(d, d, square[k]);
            }
        for (; s < stop; s++) {
            vector d = vector_sub(vector_load(x + s * stride), p);
            sum[0] = vector_add(sum[0], d);
            square[0] = vector_fma(d, d, square[0]);
        }
        vector_add_to_doubles(sums, sum_of(sum, SUMMED));
        vector_add_to_doubles(squares, sum_of(square, SUMMED));
    }
}

static void norm_sum(const struct norm_segment *segment, const float *x, const float *pivot,
                     double *sums, double *squares)
{
    for (int g = 0; g < segment->lanes; g += LANES)
        sum_group(segment->spatial, (size_t)segment->lanes, x + g, pivot + g, sums + g,
                  squares + g);
}

INLINE void apply_group(size_t spatial, size_t stride, const float *x, const float *residual,
                        vector mean, vector factor, vector shift, bool relu, float *y,
                        uint8_t *mask, bool stream)
{
    for (size_t s = 0; s < spatial; s++) {
        vector centred = vector_sub(vector_load(x + s * stride), mean);
        vector v = vector_fma(centred, factor, shift);
        if (residual)
            v = vector_add(v, vector_load(residual + s * stride));
        if (relu) {
            vector_mask positive = vector_passes(v);
            v = vector_where(positive, v);
            if (mask)
                vector_mask_store(mask + s * stride / 8, positive);
        }
        vector_put(y + s * stride, v, stream);
    }
}

static void norm_apply(const struct norm_segment *segment, const float *x, const float *residual,
                       const float *mean, const float *factor, const float *shift, bool relu,
                       float *y, uint8_t *mask)
{
    const size_t stride = (size_t)segment->lanes;
    const bool stream = streams(segment);
    for (size_t g = 0; g < stride; g += LANES) {
        vector m = vector_load(mean + g), f = vector_load(factor + g), o = vector_load(shift + g);
        uint8_t *bits = mask ? mask + g / 8 : NULL;
        if (residual && relu)
            apply_group(segment->spatial, stride, x + g, residual + g, m, f, o, true, y + g, bits,
                        stream);
        else if (relu)
            apply_group(segment->spatial, stride, x + g, NULL, m, f, o, true, y + g, bits, stream);
        else
            apply_group(segment->spatial, stride, x + g, residual ? residual + g : NULL, m, f, o,
                        false, y + g, NULL, stream);
    }
    _mm_sfence();
}

/* --- Backward --- */

INLINE bool streams_beside(const struct norm_segment *segment, const float *out,
                           float *const *gradients, int count)
{
    bool in_place = out == gradients[0] || (count > 1 && out == gradients[1]) ||
                    (count > 2 && out == gradients[2]);
    return streams(segment) && !(LANES == 16 && in_place);
}

INLINE vector load_gradient(float *const *gradients, int count, const uint8_t *mask, size_t at)
{
    vector g = vector_load(gradients[0] + at);
    if (count > 1)
        g = vector_add(g, vector_load(gradients[1] + at));
    if (count > 2)
        g = vector_add(g, vector_load(gradients[2] + at));
    return mask ? vector_where(vector_mask_load(mask + at / 8), g) : g;
}

INLINE void reduce_position(float *const *gradients, int count, const uint8_t *mask, const float *x,
                            vector mean, float *out, bool stream, size_t at, vector *sum,
                            vector *product)
{
    vector g = load_gradient(gradients, count, mask, at);
    *sum = vector_add(*sum, g);
    *product = vector_fma(g, vector_sub(vector_load(x + at), mean), *product);
    if (out)
        vector_put(out + at, g, stream);
}

INLINE void reduce_group(const struct norm_segment *segment, float *const *gradients, int count,
                         const uint8_t *mask, const float *x, const float *mean, float *out,
                         size_t base, double *sums, double *products)
{
    const size_t spatial = segment->spatial, stride = (size_t)segment->lanes;
    const bool stream = streams_beside(segment, out, gradients, count);
    const vector m = vector_load(mean + base);
    for (size_t s = 0; s < spatial;) {
        size_t stop = next_stop(s, spatial);
        vector sum[REDUCED], product[REDUCED];
#pragma GCC unroll 4
        for (int k = 0; k < REDUCED; k++)
            sum[k] = product[k] = vector_zero();
        for (; s + REDUCED <= stop; s += REDUCED)
#pragma GCC unroll 4
            for (int k = 0; k < REDUCED; k++)
                reduce_position(gradients, count, mask, x, m, out, stream,
                                (s + (size_t)k) * stride + base, &sum[k], &product[k]);
        for (; s < stop; s++)
            reduce_position(gradients, count, mask, x, m, out, stream, s * stride + base, &sum[0],
                            &product[0]);
        vector_add_to_doubles(sums + base, sum_of(sum, REDUCED));
        vector_add_to_doubles(products + base, sum_of(product, REDUCED));
    }
}

static void norm_reduce(const struct norm_segment *segment, float *const *gradients, int count,
                        const uint8_t *mask, const float *x, const float *mean, float *out,
                        double *sums, double *products)
{
    for (size_t g = 0; g < (size_t)segment->lanes; g += LANES) {
        if (count == 1 && !out)
            reduce_group(segment, gradients, 1, mask, x, mean, NULL, g, sums, products);
        else if (count == 2)
            reduce_group(segment, gradients, 2, mask, x, mean, out, g, sums, products);
        else
            reduce_group(segment, gradients, count, mask, x, mean, out, g, sums, products);
    }
    _mm_sfence();
}

INLINE void propagate_group(const struct norm_segment *segment, float *const *gradients, int count,
                            const uint8_t *mask, const float *x, const float *mean, const float *a,
                            const float *b, const float *c, float *dx, size_t base)
{
    const size_t spatial = segment->spatial, stride = (size_t)segment->lanes;
    const bool stream = streams_beside(segment, dx, gradients, count);
    const vector m = vector_load(mean + base), va = vector_load(a + base),
                 vb = vector_load(b + base), vc = vector_load(c + base);
    for (size_t s = 0; s < spatial; s++) {
        size_t at = s * stride + base;
        vector g = load_gradient(gradients, count, mask, at);
        vector v = vector_fma(vector_sub(vector_load(x + at), m), vb, vc);
        vector_put(dx + at, vector_fma(g, va, v), stream);
    }
}

static void norm_propagate(const struct norm_segment *segment, float *const *gradients, int count,
                           const uint8_t *mask, const float *x, const float *mean, const float *a,
                           const float *b, const float *c, float *dx)
{
    for (size_t g = 0; g < (size_t)segment->lanes; g += LANES) {
        if (count == 1 && mask)
            propagate_group(segment, gradients, 1, mask, x, mean, a, b, c, dx, g);
        else if (count == 1)
            propagate_group(segment, gradients, 1, NULL, x, mean, a, b, c, dx, g);
        else
            propagate_group(segment, gradients, count, mask, x, mean, a, b, c, dx, g);
    }
    _mm_sfence();
}

VECTOR_END

#else

static bool norm_fits(int lanes)
{
    (void)lanes;
    return false;
}

#endif

#endif
