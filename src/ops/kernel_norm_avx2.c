/* AVX2 and FMA. A position is some registers of 8 lanes; four positions are summed side by
 * side, and every 64 positions the float sums move to double, so that their error does not grow
 * with the picture. Results larger than the caches are written past them where a position is one
 * register: then two positions fill a line. With more, its halves would be written at different
 * times, each a trip to memory of its own (a tenth of the speed; docs/performance.md). */
#include "ops/norm.h"

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#include "ops/avx2.h"

enum { POSITIONS_PER_SUM = 64 };

static bool fits(int lanes)
{
    return lanes % 8 == 0 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static inline void add_to_double(double *out, __m256 v)
{
    __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
    __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
    _mm256_storeu_pd(out, _mm256_add_pd(_mm256_loadu_pd(out), low));
    _mm256_storeu_pd(out + 4, _mm256_add_pd(_mm256_loadu_pd(out + 4), high));
}

static inline void store(float *out, __m256 v, bool stream)
{
    if (stream)
        _mm256_stream_ps(out, v);
    else
        _mm256_storeu_ps(out, v);
}

static inline bool streams(const struct norm_segment *segment)
{
    return segment->stream && segment->lanes == 8;
}

static inline size_t next_stop(size_t from, size_t end)
{
    return end - from < POSITIONS_PER_SUM ? end : from + POSITIONS_PER_SUM;
}

/* One group of 8 lanes out of `stride` lanes per position. */
static inline void sum_group(size_t spatial, size_t stride, const float *x, const float *pivot,
                             double *sums, double *squares)
{
    const __m256 p = _mm256_loadu_ps(pivot);
    for (size_t s = 0; s < spatial;) {
        size_t stop = next_stop(s, spatial);
        __m256 sum[4], square[4];
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++)
            sum[k] = square[k] = _mm256_setzero_ps();
        for (; s + 4 <= stop; s += 4)
#pragma GCC unroll 4
            for (int k = 0; k < 4; k++) {
                __m256 d = _mm256_sub_ps(_mm256_loadu_ps(x + (s + (size_t)k) * stride), p);
                sum[k] = _mm256_add_ps(sum[k], d);
                square[k] = _mm256_fmadd_ps(d, d, square[k]);
            }
        for (; s < stop; s++) {
            __m256 d = _mm256_sub_ps(_mm256_loadu_ps(x + s * stride), p);
            sum[0] = _mm256_add_ps(sum[0], d);
            square[0] = _mm256_fmadd_ps(d, d, square[0]);
        }
        add_to_double(sums,
                      _mm256_add_ps(_mm256_add_ps(sum[0], sum[1]), _mm256_add_ps(sum[2], sum[3])));
        add_to_double(squares, _mm256_add_ps(_mm256_add_ps(square[0], square[1]),
                                             _mm256_add_ps(square[2], square[3])));
    }
}

static void sum(const struct norm_segment *segment, const float *x, const float *pivot,
                double *sums, double *squares)
{
    for (int g = 0; g < segment->lanes; g += 8)
        sum_group(segment->spatial, (size_t)segment->lanes, x + g, pivot + g, sums + g,
                  squares + g);
}

static inline __attribute__((always_inline)) void
apply_group(size_t spatial, size_t stride, const float *x, const float *residual, __m256 mean,
            __m256 factor, __m256 shift, bool relu, float *y, uint8_t *mask, size_t mask_stride,
            bool stream)
{
    const __m256 zero = _mm256_setzero_ps();
    for (size_t s = 0; s < spatial; s++) {
        __m256 centred = _mm256_sub_ps(_mm256_loadu_ps(x + s * stride), mean);
        __m256 v = _mm256_fmadd_ps(centred, factor, shift);
        if (residual)
            v = _mm256_add_ps(v, _mm256_loadu_ps(residual + s * stride));
        if (relu) {
            /* Not less or equal, so that a NaN passes and is seen. */
            __m256 positive = _mm256_cmp_ps(v, zero, _CMP_NLE_UQ);
            v = _mm256_and_ps(v, positive);
            if (mask)
                mask[s * mask_stride] = (uint8_t)_mm256_movemask_ps(positive);
        }
        store(y + s * stride, v, stream);
    }
}

static void apply(const struct norm_segment *segment, const float *x, const float *residual,
                  const float *mean, const float *factor, const float *shift, bool relu, float *y,
                  uint8_t *mask)
{
    size_t stride = (size_t)segment->lanes, groups = stride / 8;
    bool stream = streams(segment);
    for (size_t g = 0; g < groups; g++) {
        __m256 m = _mm256_loadu_ps(mean + g * 8), f = _mm256_loadu_ps(factor + g * 8),
               o = _mm256_loadu_ps(shift + g * 8);
        const float *r = residual ? residual + g * 8 : NULL;
        uint8_t *bits = mask ? mask + g : NULL;
        if (r && relu)
            apply_group(segment->spatial, stride, x + g * 8, r, m, f, o, true, y + g * 8, bits,
                        groups, stream);
        else if (relu)
            apply_group(segment->spatial, stride, x + g * 8, NULL, m, f, o, true, y + g * 8, bits,
                        groups, stream);
        else
            apply_group(segment->spatial, stride, x + g * 8, r, m, f, o, false, y + g * 8, NULL,
                        groups, stream);
    }
    _mm_sfence();
}

static inline __attribute__((always_inline)) __m256
load_gradient(float *const *gradients, int count, const uint8_t *mask, size_t at, size_t mask_at)
{
    __m256 g = _mm256_loadu_ps(gradients[0] + at);
    if (count > 1)
        g = _mm256_add_ps(g, _mm256_loadu_ps(gradients[1] + at));
    if (count > 2)
        g = _mm256_add_ps(g, _mm256_loadu_ps(gradients[2] + at));
    return mask ? _mm256_and_ps(g, expand_bits(mask[mask_at])) : g;
}

static inline __attribute__((always_inline)) void
reduce_position(const struct norm_segment *segment, float *const *gradients, int count,
                const uint8_t *mask, const float *x, __m256 mean, float *out, size_t position,
                size_t group, __m256 *sum, __m256 *product)
{
    const size_t stride = (size_t)segment->lanes, groups = stride / 8;
    size_t at = position * stride + group * 8;
    __m256 g = load_gradient(gradients, count, mask, at, position * groups + group);
    *sum = _mm256_add_ps(*sum, g);
    *product = _mm256_fmadd_ps(g, _mm256_sub_ps(_mm256_loadu_ps(x + at), mean), *product);
    if (out)
        store(out + at, g, streams(segment));
}

static inline __attribute__((always_inline)) void
reduce_group(const struct norm_segment *segment, float *const *gradients, int count,
             const uint8_t *mask, const float *x, const float *mean, float *out, size_t group,
             double *sums, double *products)
{
    const size_t base = group * 8;
    const __m256 m = _mm256_loadu_ps(mean + base);
    for (size_t s = 0; s < segment->spatial;) {
        size_t stop = next_stop(s, segment->spatial);
        __m256 sum[2], product[2];
        sum[0] = sum[1] = product[0] = product[1] = _mm256_setzero_ps();
        for (; s + 2 <= stop; s += 2)
#pragma GCC unroll 2
            for (int k = 0; k < 2; k++)
                reduce_position(segment, gradients, count, mask, x, m, out, s + (size_t)k, group,
                                &sum[k], &product[k]);
        for (; s < stop; s++)
            reduce_position(segment, gradients, count, mask, x, m, out, s, group, &sum[0],
                            &product[0]);
        add_to_double(sums + base, _mm256_add_ps(sum[0], sum[1]));
        add_to_double(products + base, _mm256_add_ps(product[0], product[1]));
    }
}

static void reduce(const struct norm_segment *segment, float *const *gradients, int count,
                   const uint8_t *mask, const float *x, const float *mean, float *out, double *sums,
                   double *products)
{
    for (size_t g = 0; g < (size_t)segment->lanes / 8; g++) {
        if (count == 1 && !out)
            reduce_group(segment, gradients, 1, mask, x, mean, NULL, g, sums, products);
        else if (count == 2)
            reduce_group(segment, gradients, 2, mask, x, mean, out, g, sums, products);
        else
            reduce_group(segment, gradients, count, mask, x, mean, out, g, sums, products);
    }
    _mm_sfence();
}

static inline __attribute__((always_inline)) void
propagate_group(const struct norm_segment *segment, float *const *gradients, int count,
                const uint8_t *mask, const float *x, const float *mean, const float *a,
                const float *b, const float *c, float *dx, size_t group)
{
    const size_t stride = (size_t)segment->lanes, groups = stride / 8, base = group * 8;
    const __m256 m = _mm256_loadu_ps(mean + base), va = _mm256_loadu_ps(a + base),
                 vb = _mm256_loadu_ps(b + base), vc = _mm256_loadu_ps(c + base);
    for (size_t s = 0; s < segment->spatial; s++) {
        size_t at = s * stride + base;
        __m256 g = load_gradient(gradients, count, mask, at, s * groups + group);
        __m256 v = _mm256_fmadd_ps(_mm256_sub_ps(_mm256_loadu_ps(x + at), m), vb, vc);
        store(dx + at, _mm256_fmadd_ps(g, va, v), streams(segment));
    }
}

static void propagate(const struct norm_segment *segment, float *const *gradients, int count,
                      const uint8_t *mask, const float *x, const float *mean, const float *a,
                      const float *b, const float *c, float *dx)
{
    for (size_t g = 0; g < (size_t)segment->lanes / 8; g++) {
        if (count == 1 && mask)
            propagate_group(segment, gradients, 1, mask, x, mean, a, b, c, dx, g);
        else if (count == 1)
            propagate_group(segment, gradients, 1, NULL, x, mean, a, b, c, dx, g);
        else
            propagate_group(segment, gradients, count, mask, x, mean, a, b, c, dx, g);
    }
    _mm_sfence();
}

#pragma GCC pop_options

const struct norm_kernels norm_kernels_avx2 = {.name = "own:avx2",
                                               .fits = fits,
                                               .sum = sum,
                                               .apply = apply,
                                               .reduce = reduce,
                                               .propagate = propagate};

#else

static bool fits(int lanes)
{
    (void)lanes;
    return false;
}

const struct norm_kernels norm_kernels_avx2 = {.name = "own:avx2", .fits = fits};

#endif
