/* The loops of kernel_conv_thin.c for AVX-512: blocks of 16 channels. */
#include "ops/thin.h"

#if defined(__x86_64__)
#include "exec/known_ops.h"
#include "exec/op.h"

#pragma GCC push_options
#pragma GCC target("avx512f")
#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

enum { KERNEL = THIN_KERNEL, TAPS = THIN_TAPS, SUMS = THIN_SUMS, LANES = 16 };

static bool is_here(void)
{
    return __builtin_cpu_supports("avx512f");
}

/* --- Forward --- */

/* weights [16, 9] to one register a tap. */
INLINE void load_weights(const float *weights, __m512 *taps)
{
    const __m512i places =
        _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                           _mm512_set1_epi32(TAPS));
#pragma GCC unroll 16
    for (int t = 0; t < TAPS; t++)
        taps[t] = _mm512_i32gather_ps(places, weights + t, sizeof(float));
}

/* The 2x2 outputs whose upper left input is x; each of the 16 inputs is read once. */
INLINE void tile(const float *x, int64_t width, const __m512 *taps, __m512 out[2][2])
{
    out[0][0] = out[0][1] = out[1][0] = out[1][1] = _mm512_setzero_ps();
#pragma GCC unroll 16
    for (int i = 0; i < KERNEL + 1; i++)
#pragma GCC unroll 16
        for (int j = 0; j < KERNEL + 1; j++) {
            __m512 value = _mm512_set1_ps(x[i * width + j]);
#pragma GCC unroll 16
            for (int r = 0; r < 2; r++)
#pragma GCC unroll 16
                for (int c = 0; c < 2; c++)
                    if (i >= r && i - r < KERNEL && j >= c && j - c < KERNEL)
                        out[r][c] =
                            _mm512_fmadd_ps(value, taps[(i - r) * KERNEL + j - c], out[r][c]);
        }
}

INLINE __m512 one_output(const float *x, int64_t width, const __m512 *taps)
{
    __m512 sum = _mm512_setzero_ps();
#pragma GCC unroll 16
    for (int i = 0; i < KERNEL; i++)
#pragma GCC unroll 16
        for (int j = 0; j < KERNEL; j++)
            sum = _mm512_fmadd_ps(_mm512_set1_ps(x[i * width + j]), taps[i * KERNEL + j], sum);
    return sum;
}

INLINE __m512 finish(__m512 value, __m512 bias, bool relu)
{
    value = _mm512_add_ps(value, bias);
    /* The second operand of max is what a NaN gives: keep the NaN. */
    return relu ? _mm512_max_ps(_mm512_setzero_ps(), value) : value;
}

/* Ties go to the first, in rows from the left, as everywhere. */
INLINE __m512 largest(__m512 t[2][2], __mmask16 *choice)
{
    __mmask16 right0 = _mm512_cmp_ps_mask(t[0][1], t[0][0], _CMP_GT_OQ);
    __mmask16 right1 = _mm512_cmp_ps_mask(t[1][1], t[1][0], _CMP_GT_OQ);
    __m512 upper = _mm512_mask_blend_ps(right0, t[0][0], t[0][1]);
    __m512 lower = _mm512_mask_blend_ps(right1, t[1][0], t[1][1]);
    __mmask16 below = _mm512_cmp_ps_mask(lower, upper, _CMP_GT_OQ);
    if (choice) {
        choice[0] = below;
        choice[1] = (__mmask16)((right1 & below) | (right0 & ~below));
    }
    return _mm512_mask_blend_ps(below, upper, lower);
}

INLINE void forward_pooled(const struct thin_state *state, const float *x, const __m512 *taps,
                           __m512 bias, float *y, __mmask16 *choices)
{
    for (int64_t r = 0; r < state->rows; r++)
        for (int64_t c = 0; c < state->columns; c++) {
            __m512 outputs[2][2];
            int64_t at = r * state->columns + c;
            tile(x + 2 * r * state->width + 2 * c, state->width, taps, outputs);
            __m512 value = largest(outputs, choices ? choices + 2 * at : NULL);
            _mm512_storeu_ps(y + at * LANES, finish(value, bias, state->relu));
        }
}

INLINE void forward_full(const struct thin_state *state, const float *x, const __m512 *taps,
                         __m512 bias, float *y)
{
    int64_t r = 0;
    for (; r + 2 <= state->rows; r += 2) {
        float *upper = y + r * state->columns * LANES, *lower = upper + state->columns * LANES;
        const float *row = x + r * state->width;
        int64_t c = 0;
        for (; c + 2 <= state->columns; c += 2) {
            __m512 outputs[2][2];
            tile(row + c, state->width, taps, outputs);
            for (int k = 0; k < 2; k++) {
                _mm512_storeu_ps(upper + (c + k) * LANES, finish(outputs[0][k], bias, state->relu));
                _mm512_storeu_ps(lower + (c + k) * LANES, finish(outputs[1][k], bias, state->relu));
            }
        }
        for (; c < state->columns; c++) {
            _mm512_storeu_ps(upper + c * LANES,
                             finish(one_output(row + c, state->width, taps), bias, state->relu));
            _mm512_storeu_ps(
                lower + c * LANES,
                finish(one_output(row + state->width + c, state->width, taps), bias, state->relu));
        }
    }
    for (; r < state->rows; r++)
        for (int64_t c = 0; c < state->columns; c++)
            _mm512_storeu_ps(y + (r * state->columns + c) * LANES,
                             finish(one_output(x + r * state->width + c, state->width, taps), bias,
                                    state->relu));
}

static void forward(const struct op_run *run, int64_t index)
{
    const struct thin_state *state = run->state;
    int64_t n = index / state->blocks, block = index % state->blocks;
    const float *x = run->inputs[CONV_X] + n * state->height * state->width;
    float *y = run->output + index * state->rows * state->columns * LANES;
    __m512 taps[TAPS];
    load_weights(run->inputs[CONV_WEIGHTS] + block * LANES * TAPS, taps);
    __m512 bias =
        state->bias ? _mm512_loadu_ps(run->inputs[CONV_BIAS] + block * LANES) : _mm512_setzero_ps();
    if (!state->pool)
        forward_full(state, x, taps, bias, y);
    else
        forward_pooled(state, x, taps, bias, y,
                       state->training
                           ? (__mmask16 *)run->workspace + 2 * index * state->rows * state->columns
                           : NULL);
}

/* --- Weight gradients --- */

INLINE void add_tile(const float *x, int64_t width, __m512 gradients[2][2], __m512 *sums)
{
#pragma GCC unroll 16
    for (int i = 0; i < KERNEL + 1; i++)
#pragma GCC unroll 16
        for (int j = 0; j < KERNEL + 1; j++) {
            __m512 value = _mm512_set1_ps(x[i * width + j]);
#pragma GCC unroll 16
            for (int r = 0; r < 2; r++)
#pragma GCC unroll 16
                for (int c = 0; c < 2; c++)
                    if (i >= r && i - r < KERNEL && j >= c && j - c < KERNEL) {
                        int tap = (i - r) * KERNEL + j - c;
                        sums[tap] = _mm512_fmadd_ps(value, gradients[r][c], sums[tap]);
                    }
        }
}

INLINE __m512 load_gradient(const float *gradient, const float *y, int64_t at, bool relu)
{
    __m512 g = _mm512_loadu_ps(gradient + at * LANES);
    if (!relu)
        return g;
    __mmask16 on =
        _mm512_cmp_ps_mask(_mm512_loadu_ps(y + at * LANES), _mm512_setzero_ps(), _CMP_GT_OQ);
    return _mm512_maskz_mov_ps(on, g);
}

INLINE void gradient_pooled(const struct thin_state *state, const float *x, const float *gradient,
                            const float *y, const __mmask16 *choices, __m512 *sums)
{
    for (int64_t r = 0; r < state->rows; r++)
        for (int64_t c = 0; c < state->columns; c++) {
            int64_t at = r * state->columns + c;
            __m512 g = load_gradient(gradient, y, at, state->relu);
            __mmask16 below = choices[2 * at], right = choices[2 * at + 1];
            __m512 parts[2][2] = {
                {_mm512_maskz_mov_ps(_mm512_knot(below | right), g),
                 _mm512_maskz_mov_ps(_mm512_kandn(below, right), g)},
                {_mm512_maskz_mov_ps(_mm512_kandn(right, below), g),
                 _mm512_maskz_mov_ps(below & right, g)},
            };
            add_tile(x + 2 * r * state->width + 2 * c, state->width, parts, sums);
            sums[TAPS] = _mm512_add_ps(sums[TAPS], g);
        }
}

INLINE void gradient_full(const struct thin_state *state, const float *x, const float *gradient,
                          const float *y, __m512 *sums)
{
    for (int64_t r = 0; r < state->rows; r++)
        for (int64_t c = 0; c < state->columns; c++) {
            __m512 g = load_gradient(gradient, y, r * state->columns + c, state->relu);
            const float *patch = x + r * state->width + c;
#pragma GCC unroll 16
            for (int i = 0; i < KERNEL; i++)
#pragma GCC unroll 16
                for (int j = 0; j < KERNEL; j++)
                    sums[i * KERNEL + j] = _mm512_fmadd_ps(
                        _mm512_set1_ps(patch[i * state->width + j]), g, sums[i * KERNEL + j]);
            sums[TAPS] = _mm512_add_ps(sums[TAPS], g);
        }
}

static void add_gradient(const struct op_run *run, int64_t index, float *partial)
{
    const struct thin_state *state = run->state;
    int64_t n = index / state->blocks, pixels = state->rows * state->columns;
    const float *x = run->inputs[CONV_X] + n * state->height * state->width;
    const float *gradient = run->gradients[0] + index * pixels * LANES;
    const float *y = state->relu ? run->output + index * pixels * LANES : NULL;
    __m512 sums[SUMS];
    for (int t = 0; t < SUMS; t++)
        sums[t] = _mm512_setzero_ps();
    if (state->pool)
        gradient_pooled(state, x, gradient, y,
                        (const __mmask16 *)run->workspace + 2 * index * pixels, sums);
    else
        gradient_full(state, x, gradient, y, sums);
    for (int t = 0; t < SUMS; t++)
        _mm512_storeu_ps(partial + (index * SUMS + t) * LANES, sums[t]);
}

#pragma GCC pop_options

const struct thin_kernels thin_kernels_avx512 = {.name = "avx512",
                                                 .lanes = LANES,
                                                 .is_here = is_here,
                                                 .forward = forward,
                                                 .gradient = add_gradient};

#else

static bool is_here(void)
{
    return false;
}

const struct thin_kernels thin_kernels_avx512 = {.name = "avx512", .lanes = 16, .is_here = is_here};

#endif
