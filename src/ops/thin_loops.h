/* The loops of kernel_conv_thin.c, for as many lanes as vector.h has: a part of kernel_conv_thin_eights.c and
 * kernel_conv_thin_sixteens.c. A register is one block of channels. */
#ifndef OPS_THIN_LOOPS_H
#define OPS_THIN_LOOPS_H

#include "ops/thin.h"
#include "ops/vector_masks.h"

#if defined(__x86_64__)

#include "exec/known_ops.h"
#include "exec/op.h"

VECTOR_BEGIN

enum { KERNEL = THIN_KERNEL, TAPS = THIN_TAPS, SUMS = THIN_SUMS, LANES = VECTOR_LANES };

/* Of a tile: the row and the column of each lane's largest. */
enum { CHOICE_BYTES = 2 * VECTOR_MASK_BYTES };

static bool thin_is_here(void)
{
    return vector_is_here();
}

/* --- Forward --- */

/* weights [LANES, 9] to one register a tap. */
INLINE void load_weights(const float *weights, vector *taps)
{
#pragma GCC unroll 16
    for (int t = 0; t < TAPS; t++)
        taps[t] = vector_gather(weights + t, TAPS);
}

/* The 2x2 outputs whose upper left input is x; each of the 16 inputs is read once. */
INLINE void tile(const float *x, int64_t width, const vector *taps, vector out[2][2])
{
    out[0][0] = out[0][1] = out[1][0] = out[1][1] = vector_zero();
#pragma GCC unroll 16
    for (int i = 0; i < KERNEL + 1; i++)
#pragma GCC unroll 16
        for (int j = 0; j < KERNEL + 1; j++) {
            vector value = vector_all_at(x + i * width + j);
#pragma GCC unroll 16
            for (int r = 0; r < 2; r++)
#pragma GCC unroll 16
                for (int c = 0; c < 2; c++)
                    if (i >= r && i - r < KERNEL && j >= c && j - c < KERNEL)
                        out[r][c] = vector_fma(value, taps[(i - r) * KERNEL + j - c], out[r][c]);
        }
}

INLINE vector one_output(const float *x, int64_t width, const vector *taps)
{
    vector sum = vector_zero();
#pragma GCC unroll 16
    for (int i = 0; i < KERNEL; i++)
#pragma GCC unroll 16
        for (int j = 0; j < KERNEL; j++)
            sum = vector_fma(vector_all_at(x + i * width + j), taps[i * KERNEL + j], sum);
    return sum;
}

INLINE vector finish(vector value, vector bias, bool relu)
{
    value = vector_add(value, bias);
    return relu ? vector_at_least(vector_zero(), value) : value;
}

/* Ties go to the first, in rows from the left, as everywhere. */
INLINE vector largest(vector t[2][2], uint8_t *choice)
{
    vector_mask right0 = vector_greater(t[0][1], t[0][0]);
    vector_mask right1 = vector_greater(t[1][1], t[1][0]);
    vector upper = vector_select(right0, t[0][1], t[0][0]);
    vector lower = vector_select(right1, t[1][1], t[1][0]);
    vector_mask below = vector_greater(lower, upper);
    if (choice) {
        vector_mask_store(choice, below);
        vector_mask_store(choice + VECTOR_MASK_BYTES, vector_mask_select(below, right1, right0));
    }
    return vector_select(below, lower, upper);
}

INLINE void forward_pooled(const struct thin_state *state, const float *x, const vector *taps,
                           vector bias, float *y, uint8_t *choices)
{
    for (int64_t r = 0; r < state->rows; r++)
        for (int64_t c = 0; c < state->columns; c++) {
            vector outputs[2][2];
            int64_t at = r * state->columns + c;
            tile(x + 2 * r * state->width + 2 * c, state->width, taps, outputs);
            vector value = largest(outputs, choices ? choices + at * CHOICE_BYTES : NULL);
            vector_store(y + at * LANES, finish(value, bias, state->relu));
        }
}

INLINE void forward_full(const struct thin_state *state, const float *x, const vector *taps,
                         vector bias, float *y)
{
    int64_t r = 0;
    for (; r + 2 <= state->rows; r += 2) {
        float *upper = y + r * state->columns * LANES, *lower = upper + state->columns * LANES;
        const float *row = x + r * state->width;
        int64_t c = 0;
        for (; c + 2 <= state->columns; c += 2) {
            vector outputs[2][2];
            tile(row + c, state->width, taps, outputs);
            for (int k = 0; k < 2; k++) {
                vector_store(upper + (c + k) * LANES, finish(outputs[0][k], bias, state->relu));
                vector_store(lower + (c + k) * LANES, finish(outputs[1][k], bias, state->relu));
            }
        }
        for (; c < state->columns; c++) {
            vector_store(upper + c * LANES,
                         finish(one_output(row + c, state->width, taps), bias, state->relu));
            vector_store(
                lower + c * LANES,
                finish(one_output(row + state->width + c, state->width, taps), bias, state->relu));
        }
    }
    for (; r < state->rows; r++)
        for (int64_t c = 0; c < state->columns; c++)
            vector_store(y + (r * state->columns + c) * LANES,
                         finish(one_output(x + r * state->width + c, state->width, taps), bias,
                                state->relu));
}

static void thin_forward(const struct op_run *run, int64_t index)
{
    const struct thin_state *state = run->state;
    int64_t n = index / state->blocks, block = index % state->blocks;
    const float *x = run->inputs[CONV_X] + n * state->height * state->width;
    float *y = run->output + index * state->rows * state->columns * LANES;
    vector taps[TAPS];
    load_weights(run->inputs[CONV_WEIGHTS] + block * LANES * TAPS, taps);
    vector bias = state->bias ? vector_load(run->inputs[CONV_BIAS] + block * LANES) : vector_zero();
    if (!state->pool)
        forward_full(state, x, taps, bias, y);
    else
        forward_pooled(state, x, taps, bias, y,
                       state->training ? (uint8_t *)run->workspace +
                                             index * state->rows * state->columns * CHOICE_BYTES
                                       : NULL);
}

/* --- Weight gradients --- */

INLINE void add_tile(const float *x, int64_t width, vector gradients[2][2], vector *sums)
{
#pragma GCC unroll 16
    for (int i = 0; i < KERNEL + 1; i++)
#pragma GCC unroll 16
        for (int j = 0; j < KERNEL + 1; j++) {
            vector value = vector_all_at(x + i * width + j);
#pragma GCC unroll 16
            for (int r = 0; r < 2; r++)
#pragma GCC unroll 16
                for (int c = 0; c < 2; c++)
                    if (i >= r && i - r < KERNEL && j >= c && j - c < KERNEL) {
                        int tap = (i - r) * KERNEL + j - c;
                        sums[tap] = vector_fma(value, gradients[r][c], sums[tap]);
                    }
        }
}

INLINE vector load_gradient(const float *gradient, const float *y, int64_t at, bool relu)
{
    vector g = vector_load(gradient + at * LANES);
    if (!relu)
        return g;
    return vector_where(vector_greater(vector_load(y + at * LANES), vector_zero()), g);
}

INLINE void gradient_pooled(const struct thin_state *state, const float *x, const float *gradient,
                            const float *y, const uint8_t *choices, vector *sums)
{
    for (int64_t r = 0; r < state->rows; r++)
        for (int64_t c = 0; c < state->columns; c++) {
            int64_t at = r * state->columns + c;
            vector g = load_gradient(gradient, y, at, state->relu);
            vector_mask below = vector_mask_load(choices + at * CHOICE_BYTES);
            vector_mask right = vector_mask_load(choices + at * CHOICE_BYTES + VECTOR_MASK_BYTES);
            vector upper = vector_where_not(below, g), lower = vector_where(below, g);
            vector parts[2][2] = {{vector_where_not(right, upper), vector_where(right, upper)},
                                  {vector_where_not(right, lower), vector_where(right, lower)}};
            add_tile(x + 2 * r * state->width + 2 * c, state->width, parts, sums);
            sums[TAPS] = vector_add(sums[TAPS], g);
        }
}

INLINE void gradient_full(const struct thin_state *state, const float *x, const float *gradient,
                          const float *y, vector *sums)
{
    for (int64_t r = 0; r < state->rows; r++)
        for (int64_t c = 0; c < state->columns; c++) {
            vector g = load_gradient(gradient, y, r * state->columns + c, state->relu);
            const float *patch = x + r * state->width + c;
#pragma GCC unroll 16
            for (int i = 0; i < KERNEL; i++)
#pragma GCC unroll 16
                for (int j = 0; j < KERNEL; j++)
                    sums[i * KERNEL + j] = vector_fma(vector_all_at(patch + i * state->width + j),
                                                      g, sums[i * KERNEL + j]);
            sums[TAPS] = vector_add(sums[TAPS], g);
        }
}

static void thin_gradient(const struct op_run *run, int64_t index, float *partial)
{
    const struct thin_state *state = run->state;
    int64_t n = index / state->blocks, pixels = state->rows * state->columns;
    const float *x = run->inputs[CONV_X] + n * state->height * state->width;
    const float *gradient = run->gradients[0] + index * pixels * LANES;
    const float *y = state->relu ? run->output + index * pixels * LANES : NULL;
    vector sums[SUMS];
    for (int t = 0; t < SUMS; t++)
        sums[t] = vector_zero();
    if (state->pool)
        gradient_pooled(state, x, gradient, y,
                        (const uint8_t *)run->workspace + index * pixels * CHOICE_BYTES, sums);
    else
        gradient_full(state, x, gradient, y, sums);
    for (int t = 0; t < SUMS; t++)
        vector_store(partial + (index * SUMS + t) * LANES, sums[t]);
}

VECTOR_END

#else

static bool thin_is_here(void)
{
    return false;
}

#endif

#endif
