/* The loops of kernel_max_pool.c for AVX-512. Where windows do not overlap, as in most networks, backward
 * goes through the windows and writes each one's cells; otherwise each cell gathers from its windows. */
#include "ops/max_pool.h"

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx512f")
#include <immintrin.h>
#include <stddef.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 16 };

static bool fits(int64_t lanes)
{
    return lanes % LANES == 0 && __builtin_cpu_supports("avx512f");
}

/* The low byte of each of sixteen numbers. */
INLINE void store_bytes(uint8_t *out, __m512i numbers)
{
    _mm_storeu_si128((__m128i *)(void *)out, _mm512_cvtepi32_epi8(numbers));
}

INLINE __m512i load_bytes(const uint8_t *in)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)in));
}

INLINE void store(float *out, __m512 value, bool stream)
{
    if (stream)
        _mm512_stream_ps(out, value);
    else
        _mm512_storeu_ps(out, value);
}

/* --- Forward --- */

/* The cells of a window along one axis that lie in the picture. */
struct span {
    int64_t begin, first, end; /* the window's first cell may lie in the padding */
};

INLINE struct span span_of(const struct max_pool_axis *axis, int64_t window)
{
    int64_t begin = window * axis->stride - axis->before;
    return (struct span){begin, larger(begin, 0), smaller(begin + axis->kernel, axis->in)};
}

/* The largest cell of a window, and its number within the window. */
INLINE __m512 largest(const struct max_pool_state *state, const float *x, struct span rows,
                      struct span columns, __m512i *choice)
{
    const int64_t width = state->columns.kernel, row_floats = state->columns.in * state->lanes;
    int number = (int)((rows.first - rows.begin) * width + columns.first - columns.begin);
    int skip = (int)(width - (columns.end - columns.first));
    __m512 best = _mm512_set1_ps(-__builtin_inff());
    __m512i chosen = _mm512_set1_epi32(number);
    for (int64_t r = rows.first; r < rows.end; r++, number += skip)
        for (int64_t c = columns.first; c < columns.end; c++, number++) {
            __m512 value = _mm512_loadu_ps(x + r * row_floats + c * state->lanes);
            /* Once there, a NaN stays: nothing is greater. */
            __mmask16 more = _mm512_kor(_mm512_cmp_ps_mask(value, best, _CMP_GT_OQ),
                                        _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q));
            best = _mm512_mask_mov_ps(best, more, value);
            chosen = _mm512_mask_mov_epi32(chosen, more, _mm512_set1_epi32(number));
        }
    *choice = chosen;
    return best;
}

static void forward(const struct max_pool_state *state, const float *x, float *y, uint8_t *choices)
{
    for (int64_t r = 0; r < state->rows.out; r++) {
        struct span rows = span_of(&state->rows, r);
        for (int64_t c = 0; c < state->columns.out; c++) {
            struct span columns = span_of(&state->columns, c);
            for (int64_t lane = 0; lane < state->lanes; lane += LANES) {
                int64_t at = (r * state->columns.out + c) * state->lanes + lane;
                __m512i choice;
                __m512 value = largest(state, x + lane, rows, columns, &choice);
                if (state->relu) /* the second operand is what a NaN gives */
                    value = _mm512_max_ps(_mm512_setzero_ps(), value);
                _mm512_storeu_ps(y + at, value);
                if (choices)
                    store_bytes(choices + at, choice);
            }
        }
    }
}

/* --- Backward --- */

INLINE __m512 load_gradient(const float *gradient, const float *y, int64_t at)
{
    __m512 g = _mm512_loadu_ps(gradient + at);
    if (!y)
        return g;
    __mmask16 on = _mm512_cmp_ps_mask(_mm512_loadu_ps(y + at), _mm512_setzero_ps(), _CMP_GT_OQ);
    return _mm512_maskz_mov_ps(on, g);
}

INLINE __m512 if_chosen(__m512 gradient, __m512i choice, int64_t number)
{
    __mmask16 mine = _mm512_cmpeq_epi32_mask(choice, _mm512_set1_epi32((int)number));
    return _mm512_maskz_mov_ps(mine, gradient);
}

static bool tiles(const struct max_pool_axis *axis)
{
    return axis->kernel == axis->stride && !axis->before && axis->out * axis->stride == axis->in;
}

/* Windows that do not overlap. Cells between or behind them have no gradient. */
static void by_windows(const struct max_pool_state *state, const float *gradient, const float *y,
                       const uint8_t *choices, float *out)
{
    const int64_t lanes = state->lanes, width = state->columns.in, kernel = state->columns.kernel;
    const bool all = tiles(&state->rows) && tiles(&state->columns), stream = state->stream && all;
    if (!all)
        memset(out, 0, (size_t)(state->rows.in * width * lanes) * sizeof *out);
    for (int64_t i = 0; i < state->rows.out; i++) {
        struct span rows = span_of(&state->rows, i);
        for (int64_t j = 0; j < state->columns.out; j++) {
            struct span columns = span_of(&state->columns, j);
            for (int64_t lane = 0; lane < lanes; lane += LANES) {
                int64_t at = (i * state->columns.out + j) * lanes + lane;
                __m512 g = load_gradient(gradient, y, at);
                __m512i choice = load_bytes(choices + at);
                for (int64_t r = rows.first; r < rows.end; r++)
                    for (int64_t c = columns.first; c < columns.end; c++)
                        store(out + (r * width + c) * lanes + lane,
                              if_chosen(g, choice, (r - rows.begin) * kernel + c - columns.begin),
                              stream);
            }
        }
    }
}

static void by_cells(const struct max_pool_state *state, const float *gradient, const float *y,
                     const uint8_t *choices, float *out)
{
    const struct max_pool_axis *rows = &state->rows, *columns = &state->columns;
    for (int64_t r = 0; r < rows->in; r++) {
        int64_t first_row, last_row, first, last;
        windows_of(rows, r, &first_row, &last_row);
        for (int64_t c = 0; c < columns->in; c++) {
            windows_of(columns, c, &first, &last);
            for (int64_t lane = 0; lane < state->lanes; lane += LANES) {
                __m512 sum = _mm512_setzero_ps();
                for (int64_t i = first_row; i <= last_row; i++)
                    for (int64_t j = first; j <= last; j++) {
                        int64_t at = (i * columns->out + j) * state->lanes + lane;
                        int64_t row = r - i * rows->stride + rows->before;
                        int64_t column = c - j * columns->stride + columns->before;
                        sum = _mm512_add_ps(sum, if_chosen(load_gradient(gradient, y, at),
                                                           load_bytes(choices + at),
                                                           row * columns->kernel + column));
                    }
                store(out + (r * columns->in + c) * state->lanes + lane, sum, state->stream);
            }
        }
    }
}

static void backward(const struct max_pool_state *state, const float *gradient, const float *y,
                     const uint8_t *choices, float *out)
{
    if (state->rows.kernel <= state->rows.stride && state->columns.kernel <= state->columns.stride)
        by_windows(state, gradient, y, choices, out);
    else
        by_cells(state, gradient, y, choices, out);
    _mm_sfence();
}

#pragma GCC pop_options

const struct max_pool_kernels max_pool_kernels_avx512 = {
    .name = "avx512", .fits = fits, .forward = forward, .backward = backward};

#else

static bool fits(int64_t lanes)
{
    (void)lanes;
    return false;
}

const struct max_pool_kernels max_pool_kernels_avx512 = {.name = "avx512", .fits = fits};

#endif
