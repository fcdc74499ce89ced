/* AVX-512. A position is some registers of 16 lanes, as oneDNN's blocks have them there. Four positions
 * are summed side by side, and every 64 positions the float sums move to double, so that their error
 * does not grow with the picture.
 *
 * A register is one cache line, so what is written past the caches leaves line by line, and nothing is
 * read first. A result that takes the place of a gradient is not: its line was just read. */
#include "ops/norm.h"

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx512f")
#include <immintrin.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 16, MASK_BYTES = LANES / 8, POSITIONS_PER_SUM = 64 };

static bool fits(int lanes)
{
    return lanes % LANES == 0 && __builtin_cpu_supports("avx512f");
}

INLINE void add_to_double(double *out, __m512 v)
{
    __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(v));
    __m512d high =
        _mm512_cvtps_pd(_mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1)));
    _mm512_storeu_pd(out, _mm512_add_pd(_mm512_loadu_pd(out), low));
    _mm512_storeu_pd(out + 8, _mm512_add_pd(_mm512_loadu_pd(out + 8), high));
}

INLINE void store(float *out, __m512 v, bool stream)
{
    if (stream)
        _mm512_stream_ps(out, v);
    else
        _mm512_storeu_ps(out, v);
}

INLINE size_t next_stop(size_t from, size_t end)
{
    return end - from < POSITIONS_PER_SUM ? end : from + POSITIONS_PER_SUM;
}

/* One register out of `stride` lanes per position. */
static void sum_group(size_t spatial, size_t stride, const float *x, const float *pivot,
                      double *sums, double *squares)
{
    const __m512 p = _mm512_loadu_ps(pivot);
    for (size_t s = 0; s < spatial;) {
        size_t stop = next_stop(s, spatial);
        __m512 sum[4], square[4];
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++)
            sum[k] = square[k] = _mm512_setzero_ps();
        for (; s + 4 <= stop; s += 4)
#pragma GCC unroll 4
            for (int k = 0; k < 4; k++) {
                __m512 d = _mm512_sub_ps(_mm512_loadu_ps(x + (s + (size_t)k) * stride), p);
                sum[k] = _mm512_add_ps(sum[k], d);
                square[k] = _mm512_fmadd_ps(d, d, square[k]);
            }
        for (; s < stop; s++) {
            __m512 d = _mm512_sub_ps(_mm512_loadu_ps(x + s * stride), p);
            sum[0] = _mm512_add_ps(sum[0], d);
            square[0] = _mm512_fmadd_ps(d, d, square[0]);
        }
        add_to_double(sums,
                      _mm512_add_ps(_mm512_add_ps(sum[0], sum[1]), _mm512_add_ps(sum[2], sum[3])));
        add_to_double(squares, _mm512_add_ps(_mm512_add_ps(square[0], square[1]),
                                             _mm512_add_ps(square[2], square[3])));
    }
}

static void sum(const struct norm_segment *segment, const float *x, const float *pivot,
                double *sums, double *squares)
{
    for (int g = 0; g < segment->lanes; g += LANES)
        sum_group(segment->spatial, (size_t)segment->lanes, x + g, pivot + g, sums + g,
                  squares + g);
}

INLINE void apply_group(size_t spatial, size_t stride, const float *x, const float *residual,
                        __m512 mean, __m512 factor, __m512 shift, bool relu, float *y,
                        uint8_t *mask, bool stream)
{
    const size_t mask_stride = stride / 8;
    const __m512 zero = _mm512_setzero_ps();
    for (size_t s = 0; s < spatial; s++) {
        __m512 centred = _mm512_sub_ps(_mm512_loadu_ps(x + s * stride), mean);
        __m512 v = _mm512_fmadd_ps(centred, factor, shift);
        if (residual)
            v = _mm512_add_ps(v, _mm512_loadu_ps(residual + s * stride));
        if (relu) {
            /* Not less or equal, so that a NaN passes and is seen. */
            __mmask16 positive = _mm512_cmp_ps_mask(v, zero, _CMP_NLE_UQ);
            v = _mm512_maskz_mov_ps(positive, v);
            if (mask)
                memcpy(mask + s * mask_stride, &positive, MASK_BYTES);
        }
        store(y + s * stride, v, stream);
    }
}

static void apply(const struct norm_segment *segment, const float *x, const float *residual,
                  const float *mean, const float *factor, const float *shift, bool relu, float *y,
                  uint8_t *mask)
{
    const size_t stride = (size_t)segment->lanes;
    for (size_t g = 0; g < stride; g += LANES) {
        __m512 m = _mm512_loadu_ps(mean + g), f = _mm512_loadu_ps(factor + g),
               o = _mm512_loadu_ps(shift + g);
        uint8_t *bits = mask ? mask + g / 8 : NULL;
        if (residual && relu)
            apply_group(segment->spatial, stride, x + g, residual + g, m, f, o, true, y + g, bits,
                        segment->stream);
        else if (relu)
            apply_group(segment->spatial, stride, x + g, NULL, m, f, o, true, y + g, bits,
                        segment->stream);
        else
            apply_group(segment->spatial, stride, x + g, residual ? residual + g : NULL, m, f, o,
                        false, y + g, NULL, segment->stream);
    }
    _mm_sfence();
}

/* What takes the place of a gradient finds its line in the cache: no need to go past it. */
INLINE bool is_one_of(const float *out, float *const *gradients, int count)
{
    return out == gradients[0] || (count > 1 && out == gradients[1]) ||
           (count > 2 && out == gradients[2]);
}

INLINE __m512 load_gradient(float *const *gradients, int count, const uint8_t *mask, size_t at)
{
    __m512 g = _mm512_loadu_ps(gradients[0] + at);
    if (count > 1)
        g = _mm512_add_ps(g, _mm512_loadu_ps(gradients[1] + at));
    if (count > 2)
        g = _mm512_add_ps(g, _mm512_loadu_ps(gradients[2] + at));
    if (!mask)
        return g;
    __mmask16 through;
    memcpy(&through, mask + at / 8, MASK_BYTES);
    return _mm512_maskz_mov_ps(through, g);
}

INLINE void reduce_position(float *const *gradients, int count, const uint8_t *mask, const float *x,
                            __m512 mean, float *out, bool stream, size_t at, __m512 *sum,
                            __m512 *product)
{
    __m512 g = load_gradient(gradients, count, mask, at);
    *sum = _mm512_add_ps(*sum, g);
    *product = _mm512_fmadd_ps(g, _mm512_sub_ps(_mm512_loadu_ps(x + at), mean), *product);
    if (out)
        store(out + at, g, stream);
}

INLINE void reduce_group(const struct norm_segment *segment, float *const *gradients, int count,
                         const uint8_t *mask, const float *x, const float *mean, float *out,
                         size_t base, double *sums, double *products)
{
    const size_t spatial = segment->spatial, stride = (size_t)segment->lanes;
    const bool stream = segment->stream && !is_one_of(out, gradients, count);
    const __m512 m = _mm512_loadu_ps(mean + base);
    for (size_t s = 0; s < spatial;) {
        size_t stop = next_stop(s, spatial);
        __m512 sum[4], product[4];
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++)
            sum[k] = product[k] = _mm512_setzero_ps();
        for (; s + 4 <= stop; s += 4)
#pragma GCC unroll 4
            for (int k = 0; k < 4; k++)
                reduce_position(gradients, count, mask, x, m, out, stream,
                                (s + (size_t)k) * stride + base, &sum[k], &product[k]);
        for (; s < stop; s++)
            reduce_position(gradients, count, mask, x, m, out, stream, s * stride + base, &sum[0],
                            &product[0]);
        add_to_double(sums + base,
                      _mm512_add_ps(_mm512_add_ps(sum[0], sum[1]), _mm512_add_ps(sum[2], sum[3])));
        add_to_double(products + base, _mm512_add_ps(_mm512_add_ps(product[0], product[1]),
                                                     _mm512_add_ps(product[2], product[3])));
    }
}

static void reduce(const struct norm_segment *segment, float *const *gradients, int count,
                   const uint8_t *mask, const float *x, const float *mean, float *out, double *sums,
                   double *products)
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
    const bool stream = segment->stream && !is_one_of(dx, gradients, count);
    const __m512 m = _mm512_loadu_ps(mean + base), va = _mm512_loadu_ps(a + base),
                 vb = _mm512_loadu_ps(b + base), vc = _mm512_loadu_ps(c + base);
    for (size_t s = 0; s < spatial; s++) {
        size_t at = s * stride + base;
        __m512 g = load_gradient(gradients, count, mask, at);
        __m512 v = _mm512_fmadd_ps(_mm512_sub_ps(_mm512_loadu_ps(x + at), m), vb, vc);
        store(dx + at, _mm512_fmadd_ps(g, va, v), stream);
    }
}

static void propagate(const struct norm_segment *segment, float *const *gradients, int count,
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

#pragma GCC pop_options

const struct norm_kernels norm_kernels_avx512 = {.name = "own:avx512",
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

const struct norm_kernels norm_kernels_avx512 = {.name = "own:avx512", .fits = fits};

#endif
