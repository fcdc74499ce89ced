/* The loops of kernel_max_pool.c for AVX2. */
#include "ops/max_pool.h"

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#include <immintrin.h>
#include <string.h>

enum { LANES = 8 };

static bool fits(int64_t lanes)
{
    return lanes % LANES == 0 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

/* --- One segment: [in rows, in columns, lanes] --- */

/* The low byte of each of eight numbers. */
static inline void store_bytes(uint8_t *out, __m256i numbers)
{
    __m256i words = _mm256_packus_epi32(numbers, numbers);
    __m256i bytes = _mm256_packus_epi16(words, words);
    int32_t low = _mm256_extract_epi32(bytes, 0), high = _mm256_extract_epi32(bytes, 4);
    memcpy(out, &low, sizeof low);
    memcpy(out + 4, &high, sizeof high);
}

static inline __m256i load_bytes(const uint8_t *in)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)in));
}

/* The largest cell of the window whose first cell (which may lie in the padding) is (row, column),
 * and its number within the window. */
static inline __m256 largest(const struct max_pool_state *state, const float *x, int64_t row,
                             int64_t column, __m256i *choice)
{
    const struct max_pool_axis *rows = &state->rows, *columns = &state->columns;
    int64_t first_row = larger(row, 0), end_row = smaller(row + rows->kernel, rows->in);
    int64_t first = larger(column, 0), end = smaller(column + columns->kernel, columns->in);
    __m256 best = _mm256_set1_ps(-__builtin_inff());
    __m256i chosen = _mm256_set1_epi32((int)((first_row - row) * columns->kernel + first - column));
    for (int64_t r = first_row; r < end_row; r++)
        for (int64_t c = first; c < end; c++) {
            __m256 value = _mm256_loadu_ps(x + (r * columns->in + c) * state->lanes);
            /* Once there, a NaN stays: nothing is greater. */
            __m256 more = _mm256_or_ps(_mm256_cmp_ps(value, best, _CMP_GT_OQ),
                                       _mm256_cmp_ps(value, value, _CMP_UNORD_Q));
            best = _mm256_blendv_ps(best, value, more);
            __m256i number = _mm256_set1_epi32((int)((r - row) * columns->kernel + c - column));
            chosen = _mm256_blendv_epi8(chosen, number, _mm256_castps_si256(more));
        }
    *choice = chosen;
    return best;
}

static void forward_segment(const struct max_pool_state *state, const float *x, float *y,
                            uint8_t *choices)
{
    const struct max_pool_axis *rows = &state->rows, *columns = &state->columns;
    for (int64_t r = 0; r < rows->out; r++)
        for (int64_t c = 0; c < columns->out; c++)
            for (int64_t lane = 0; lane < state->lanes; lane += LANES) {
                int64_t at = (r * columns->out + c) * state->lanes + lane;
                __m256i choice;
                __m256 value = largest(state, x + lane, r * rows->stride - rows->before,
                                       c * columns->stride - columns->before, &choice);
                if (state->relu) /* the second operand is what a NaN gives */
                    value = _mm256_max_ps(_mm256_setzero_ps(), value);
                _mm256_storeu_ps(y + at, value);
                if (choices)
                    store_bytes(choices + at, choice);
            }
}

static void backward_segment(const struct max_pool_state *state, const float *gradient,
                             const float *y, const uint8_t *choices, float *out)
{
    const struct max_pool_axis *rows = &state->rows, *columns = &state->columns;
    const __m256 zero = _mm256_setzero_ps();
    for (int64_t r = 0; r < rows->in; r++) {
        int64_t first_row, last_row, first, last;
        windows_of(rows, r, &first_row, &last_row);
        for (int64_t c = 0; c < columns->in; c++) {
            windows_of(columns, c, &first, &last);
            for (int64_t lane = 0; lane < state->lanes; lane += LANES) {
                __m256 sum = zero;
                for (int64_t i = first_row; i <= last_row; i++)
                    for (int64_t j = first; j <= last; j++) {
                        int64_t at = (i * columns->out + j) * state->lanes + lane;
                        int64_t row = r - i * rows->stride + rows->before;
                        int64_t column = c - j * columns->stride + columns->before;
                        __m256i number = _mm256_set1_epi32((int)(row * columns->kernel + column));
                        __m256 mine = _mm256_castsi256_ps(
                            _mm256_cmpeq_epi32(load_bytes(choices + at), number));
                        if (y)
                            mine = _mm256_and_ps(
                                mine, _mm256_cmp_ps(_mm256_loadu_ps(y + at), zero, _CMP_GT_OQ));
                        sum =
                            _mm256_add_ps(sum, _mm256_and_ps(mine, _mm256_loadu_ps(gradient + at)));
                    }
                _mm256_storeu_ps(out + (r * columns->in + c) * state->lanes + lane, sum);
            }
        }
    }
}

#pragma GCC pop_options

const struct max_pool_kernels max_pool_kernels_avx2 = {
    .name = "avx2", .fits = fits, .forward = forward_segment, .backward = backward_segment};

#else

static bool fits(int64_t lanes)
{
    (void)lanes;
    return false;
}

const struct max_pool_kernels max_pool_kernels_avx2 = {.name = "avx2", .fits = fits};

#endif
