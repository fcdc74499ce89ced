/* The loops of kernel_conv_thin.c for AVX2: blocks of 8 channels. */
#include "ops/thin.h"

#if defined(__x86_64__)
#include "exec/known_ops.h"
#include "exec/op.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma")
#include "ops/avx2.h"

enum { KERNEL = THIN_KERNEL, TAPS = THIN_TAPS, SUMS = THIN_SUMS, LANES = 8 };

/* --- Forward --- */

/* weights [8, 9] to one register a tap. */
INLINE void load_weights(const float *weights, __m256 *taps)
{
#pragma GCC unroll 16
    for (int t = 0; t < TAPS; t++)
        taps[t] = _mm256_set_ps(weights[7 * TAPS + t], weights[6 * TAPS + t], weights[5 * TAPS + t],
                                weights[4 * TAPS + t], weights[3 * TAPS + t], weights[2 * TAPS + t],
                                weights[TAPS + t], weights[t]);
}

/* The 2x2 outputs whose upper left input is x; each of the 16 inputs is read once. */
INLINE void tile(const float *x, int64_t width, const __m256 *taps, __m256 out[2][2])
{
    out[0][0] = out[0][1] = out[1][0] = out[1][1] = _mm256_setzero_ps();
#pragma GCC unroll 16
    for (int i = 0; i < KERNEL + 1; i++)
#pragma GCC unroll 16
        for (int j = 0; j < KERNEL + 1; j++) {
            __m256 value = _mm256_broadcast_ss(x + i * width + j);
#pragma GCC unroll 16
            for (int r = 0; r < 2; r++)
#pragma GCC unroll 16
                for (int c = 0; c < 2; c++)
                    if (i >= r && i - r < KERNEL && j >= c && j - c < KERNEL)
                        out[r][c] =
                            _mm256_fmadd_ps(value, taps[(i - r) * KERNEL + j - c], out[r][c]);
        }
}

INLINE __m256 one_output(const float *x, int64_t width, const __m256 *taps)
{
    __m256 sum = _mm256_setzero_ps();
#pragma GCC unroll 16
    for (int i = 0; i < KERNEL; i++)
#pragma GCC unroll 16
        for (int j = 0; j < KERNEL; j++)
            sum =
                _mm256_fmadd_ps(_mm256_broadcast_ss(x + i * width + j), taps[i * KERNEL + j], sum);
    return sum;
}

INLINE __m256 finish(__m256 value, __m256 bias, bool relu)
{
    value = _mm256_add_ps(value, bias);
    /* The second operand of max is what a NaN gives: keep the NaN. */
    return relu ? _mm256_max_ps(_mm256_setzero_ps(), value) : value;
}

/* Ties go to the first, in rows from the left, as everywhere. */
INLINE __m256 largest(__m256 t[2][2], uint8_t *choice)
{
    __m256 right0 = _mm256_cmp_ps(t[0][1], t[0][0], _CMP_GT_OQ);
    __m256 right1 = _mm256_cmp_ps(t[1][1], t[1][0], _CMP_GT_OQ);
    __m256 upper = _mm256_blendv_ps(t[0][0], t[0][1], right0);
    __m256 lower = _mm256_blendv_ps(t[1][0], t[1][1], right1);
    __m256 below = _mm256_cmp_ps(lower, upper, _CMP_GT_OQ);
    if (choice) {
        choice[0] = (uint8_t)_mm256_movemask_ps(below);
        choice[1] = (uint8_t)_mm256_movemask_ps(_mm256_blendv_ps(right0, right1, below));
    }
    return _mm256_blendv_ps(upper, lower, below);
}

INLINE void forward_pooled(const struct thin_state *state, const float *x, const __m256 *taps,
                           __m256 bias, float *y, uint8_t *choices)
{
    for (int64_t r = 0; r < state->rows; r++)
        for (int64_t c = 0; c < state->columns; c++) {
            __m256 outputs[2][2];
            int64_t at = r * state->columns + c;
            tile(x + 2 * r * state->width + 2 * c, state->width, taps, outputs);
            __m256 value = largest(outputs, choices ? choices + 2 * at : NULL);
            _mm256_storeu_ps(y + at * LANES, finish(value, bias, state->relu));
        }
}

INLINE void forward_full(const struct thin_state *state, const float *x, const __m256 *taps,
                         __m256 bias, float *y)
{
    int64_t r = 0;
    for (; r + 2 <= state->rows; r += 2) {
        float *upper = y + r * state->columns * LANES, *lower = upper + state->columns * LANES;
        const float *row = x + r * state->width;
        int64_t c = 0;
        for (; c + 2 <= state->columns; c += 2) {
            __m256 outputs[2][2];
            tile(row + c, state->width, taps, outputs);
            for (int k = 0; k < 2; k++) {
                _mm256_storeu_ps(upper + (c + k) * LANES, finish(outputs[0][k], bias, state->relu));
                _mm256_storeu_ps(lower + (c + k) * LANES, finish(outputs[1][k], bias, state->relu));
            }
        }
        for (; c < state->columns; c++) {
            _mm256_storeu_ps(upper + c * LANES,
                             finish(one_output(row + c, state->width, taps), bias, state->relu));
            _mm256_storeu_ps(
                lower + c * LANES,
                finish(one_output(row + state->width + c, state->width, taps), bias, state->relu));
        }
    }
    for (; r < state->rows; r++)
        for (int64_t c = 0; c < state->columns; c++)
            _mm256_storeu_ps(y + (r * state->columns + c) * LANES,
                             finish(one_output(x + r * state->width + c, state->width, taps), bias,
                                    state->relu));
}

static void forward(const struct op_run *run, int64_t index)
{
    const struct thin_state *state = run->state;
    int64_t n = index / state->blocks, block = index % state->blocks;
    const float *x = run->inputs[CONV_X] + n * state->height * state->width;
    float *y = run->output + index * state->rows * state->columns * LANES;
    __m256 taps[TAPS];
    load_weights(run->inputs[CONV_WEIGHTS] + block * LANES * TAPS, taps);
    __m256 bias =
        state->bias ? _mm256_loadu_ps(run->inputs[CONV_BIAS] + block * LANES) : _mm256_setzero_ps();
    if (!state->pool)
        forward_full(state, x, taps, bias, y);
    else
        forward_pooled(state, x, taps, bias, y,
                       state->training
                           ? (uint8_t *)run->workspace + 2 * index * state->rows * state->columns
                           : NULL);
}

/* --- Weight gradients --- */

INLINE void add_tile(const float *x, int64_t width, __m256 gradients[2][2], __m256 *sums)
{
#pragma GCC unroll 16
    for (int i = 0; i < KERNEL + 1; i++)
#pragma GCC unroll 16
        for (int j = 0; j < KERNEL + 1; j++) {
            __m256 value = _mm256_broadcast_ss(x + i * width + j);
#pragma GCC unroll 16
            for (int r = 0; r < 2; r++)
#pragma GCC unroll 16
                for (int c = 0; c < 2; c++)
                    if (i >= r && i - r < KERNEL && j >= c && j - c < KERNEL) {
                        int tap = (i - r) * KERNEL + j - c;
                        sums[tap] = _mm256_fmadd_ps(value, gradients[r][c], sums[tap]);
                    }
        }
}

INLINE __m256 load_gradient(const float *gradient, const float *y, int64_t at, bool relu)
{
    __m256 g = _mm256_loadu_ps(gradient + at * LANES);
    if (!relu)
        return g;
    __m256 on = _mm256_cmp_ps(_mm256_loadu_ps(y + at * LANES), _mm256_setzero_ps(), _CMP_GT_OQ);
    return _mm256_and_ps(g, on);
}

INLINE void gradient_pooled(const struct thin_state *state, const float *x, const float *gradient,
                            const float *y, const uint8_t *choices, __m256 *sums)
{
    for (int64_t r = 0; r < state->rows; r++)
        for (int64_t c = 0; c < state->columns; c++) {
            int64_t at = r * state->columns + c;
            __m256 g = load_gradient(gradient, y, at, state->relu);
            __m256 below = expand_bits(choices[2 * at]), right = expand_bits(choices[2 * at + 1]);
            __m256 upper = _mm256_andnot_ps(below, g), lower = _mm256_and_ps(below, g);
            __m256 parts[2][2] = {{_mm256_andnot_ps(right, upper), _mm256_and_ps(right, upper)},
                                  {_mm256_andnot_ps(right, lower), _mm256_and_ps(right, lower)}};
            add_tile(x + 2 * r * state->width + 2 * c, state->width, parts, sums);
            sums[TAPS] = _mm256_add_ps(sums[TAPS], g);
        }
}

INLINE void gradient_full(const struct thin_state *state, const float *x, const float *gradient,
                          const float *y, __m256 *sums)
{
    for (int64_t r = 0; r < state->rows; r++)
        for (int64_t c = 0; c < state->columns; c++) {
            __m256 g = load_gradient(gradient, y, r * state->columns + c, state->relu);
            const float *patch = x + r * state->width + c;
#pragma GCC unroll 16
            for (int i = 0; i < KERNEL; i++)
#pragma GCC unroll 16
                for (int j = 0; j < KERNEL; j++)
                    sums[i * KERNEL + j] = _mm256_fmadd_ps(
                        _mm256_broadcast_ss(patch + i * state->width + j), g, sums[i * KERNEL + j]);
            sums[TAPS] = _mm256_add_ps(sums[TAPS], g);
        }
}

static void add_gradient(const struct op_run *run, int64_t index, float *partial)
{
    const struct thin_state *state = run->state;
    int64_t n = index / state->blocks, pixels = state->rows * state->columns;
    const float *x = run->inputs[CONV_X] + n * state->height * state->width;
    const float *gradient = run->gradients[0] + index * pixels * LANES;
    const float *y = state->relu ? run->output + index * pixels * LANES : NULL;
    __m256 sums[SUMS];
    for (int t = 0; t < SUMS; t++)
        sums[t] = _mm256_setzero_ps();
    if (state->pool)
        gradient_pooled(state, x, gradient, y, (const uint8_t *)run->workspace + 2 * index * pixels,
                        sums);
    else
        gradient_full(state, x, gradient, y, sums);
    for (int t = 0; t < SUMS; t++)
        _mm256_storeu_ps(partial + (index * SUMS + t) * LANES, sums[t]);
}

#pragma GCC pop_options

const struct thin_kernels thin_kernels_avx2 = {.name = "avx2",
                                               .lanes = LANES,
                                               .is_here = f32x8_is_here,
                                               .forward = forward,
                                               .gradient = add_gradient};

#else

static bool is_here(void)
{
    return false;
}

const struct thin_kernels thin_kernels_avx2 = {.name = "avx2", .lanes = 8, .is_here = is_here};

#endif
