/* The AVX2 kernels are built without fused multiply-add, so that they round as the portable ones
 * and as TensorFlow's. */
#include "data/resample.h"

#include <stdbool.h>

#include "data/pictures.h"

void taps_fill(struct tap *taps, int count, struct line line, int places)
{
    for (int i = 0; i < count; i++) {
        float at = line.origin + (float)(line.skipped + i) * line.step;
        at = at > 0 ? at : 0;
        int first = (int)at;
        float weight = at - (float)first;
        if (first >= places - 1) {
            first = places > 1 ? places - 2 : 0;
            weight = places > 1 ? 1 : 0;
        }
        taps[i] = (struct tap){first, weight};
    }
}

static void across_portable(const uint8_t *in, const struct tap *taps, int count, float *row)
{
    for (int i = 0; i < count; i++) {
        const uint8_t *left = in + 3 * (ptrdiff_t)taps[i].first;
        for (int c = 0; c < 3; c++)
            row[4 * i + c] = (float)left[c] + (float)(left[3 + c] - left[c]) * taps[i].weight;
    }
}

static void down_portable(const float *upper, const float *lower, float weight, int count,
                          const struct picture_numbers *numbers, float *out)
{
    for (int i = 0; i < count; i++)
        for (int c = 0; c < 3; c++) {
            float high = upper[4 * i + c], low = lower[4 * i + c];
            float value = high + (low - high) * weight;
            out[3 * i + c] = (value - numbers->mean[c]) * numbers->scale[c];
        }
}

const struct resample_kernels resample_portable = {"portable", across_portable, down_portable};

#ifdef __x86_64__
#include <immintrin.h>

/* Two results at a time: eight bytes from the left pixel of each hold the right one too. */
__attribute__((target("avx2"))) static void across_avx2(const uint8_t *in, const struct tap *taps,
                                                        int count, float *row)
{
    const __m128i sort = _mm_setr_epi8(0, 1, 2, -1, 8, 9, 10, -1, 3, 4, 5, -1, 11, 12, 13, -1);
    int i = 0;
    for (; i + 2 <= count; i += 2) {
        __m128i a = _mm_loadl_epi64((const __m128i *)(in + 3 * (ptrdiff_t)taps[i].first));
        __m128i b = _mm_loadl_epi64((const __m128i *)(in + 3 * (ptrdiff_t)taps[i + 1].first));
        __m128i bytes = _mm_shuffle_epi8(_mm_unpacklo_epi64(a, b), sort);
        __m256i left = _mm256_cvtepu8_epi32(bytes);
        __m256i right = _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8));
        __m256 weight = _mm256_insertf128_ps(_mm256_set1_ps(taps[i].weight),
                                             _mm_set1_ps(taps[i + 1].weight), 1);
        __m256 step = _mm256_cvtepi32_ps(_mm256_sub_epi32(right, left));
        __m256 sum = _mm256_add_ps(_mm256_cvtepi32_ps(left), _mm256_mul_ps(step, weight));
        _mm256_storeu_ps(row + 4 * (ptrdiff_t)i, sum);
    }
    across_portable(in, taps + i, count - i, row + 4 * (ptrdiff_t)i);
}

/* Two pixels, blended and scaled, as four floats each. */
struct blend {
    __m256 weight, mean, scale;
};

__attribute__((target("avx2"), always_inline)) static inline __m256
blend_two(const struct blend *blend, const float *upper, const float *lower)
{
    __m256 high = _mm256_loadu_ps(upper), low = _mm256_loadu_ps(lower);
    __m256 value = _mm256_add_ps(high, _mm256_mul_ps(_mm256_sub_ps(low, high), blend->weight));
    return _mm256_mul_ps(_mm256_sub_ps(value, blend->mean), blend->scale);
}

/* Each store of four floats overlaps the next pixel's; the last of an even row stores its three
 * apart, and that of an odd row is left to plain code, so that nothing is written behind. */
__attribute__((target("avx2"))) static void down_avx2(const float *upper, const float *lower,
                                                      float weight, int count,
                                                      const struct picture_numbers *numbers,
                                                      float *out)
{
    const float *m = numbers->mean, *s = numbers->scale;
    const struct blend blend = {_mm256_set1_ps(weight),
                                _mm256_setr_ps(m[0], m[1], m[2], 0, m[0], m[1], m[2], 0),
                                _mm256_setr_ps(s[0], s[1], s[2], 0, s[0], s[1], s[2], 0)};
    int i = 0;
    for (; i + 3 <= count; i += 2, upper += 8, lower += 8, out += 6) {
        __m256 two = blend_two(&blend, upper, lower);
        _mm_storeu_ps(out, _mm256_castps256_ps128(two));
        _mm_storeu_ps(out + 3, _mm256_extractf128_ps(two, 1));
    }
    if (i + 2 <= count) {
        __m256 two = blend_two(&blend, upper, lower);
        __m128 last = _mm256_extractf128_ps(two, 1);
        _mm_storeu_ps(out, _mm256_castps256_ps128(two));
        _mm_storel_pi((__m64 *)(out + 3), last);
        _mm_store_ss(out + 5, _mm_movehl_ps(last, last));
    } else {
        down_portable(upper, lower, weight, count - i, numbers, out);
    }
}

static const struct resample_kernels avx2_kernels = {"avx2", across_avx2, down_avx2};

const struct resample_kernels *resample_fastest(void)
{
    return __builtin_cpu_supports("avx2") ? &avx2_kernels : &resample_portable;
}
#else
const struct resample_kernels *resample_fastest(void)
{
    return &resample_portable;
}
#endif

size_t resample_row_floats(int width)
{
    return 4 * (size_t)width;
}

/* The source row `y` across, from the two rows kept: neighbouring results mostly share one. */
struct row_cache {
    float *rows[2];
    int holds[2];
};

static const float *row_at(struct row_cache *cache, const struct resample_kernels *kernels,
                           const struct pixels *in, const struct tap *taps, int width, int y)
{
    int slot = y & 1;
    if (cache->holds[slot] != y)
        kernels->across(in->data + (size_t)y * in->stride, taps, width, cache->rows[slot]);
    cache->holds[slot] = y;
    return cache->rows[slot];
}

void resample(const struct resample_kernels *kernels, const struct pixels *in,
              const struct tap *across, int width, const struct tap *down, int height,
              const struct picture_numbers *numbers, float *rows, float *out)
{
    struct row_cache cache = {{rows, rows + resample_row_floats(width)}, {-1, -1}};
    for (int y = 0; y < height; y++, out += 3 * (size_t)width) {
        int first = down[y].first;
        bool between = down[y].weight > 0;
        const float *upper = row_at(&cache, kernels, in, across, width, first);
        const float *lower =
            between ? row_at(&cache, kernels, in, across, width, first + 1) : upper;
        kernels->down(upper, lower, down[y].weight, width, numbers, out);
    }
}
