/* The loops of kernel_max_pool.c, for as many lanes as vector.h has: a part of kernel_max_pool_eights.c and
 * kernel_max_pool_sixteens.c. Where windows do not overlap, as in most networks, backward goes through the
 * windows and writes each one's cells; otherwise each cell gathers from its windows. */
#ifndef OPS_MAX_POOL_LOOPS_H
#define OPS_MAX_POOL_LOOPS_H

#include "ops/max_pool.h"
#include "ops/vector_masks.h"

#if defined(__x86_64__)

VECTOR_BEGIN

enum { LANES = VECTOR_LANES };

static bool max_pool_fits(int64_t lanes)
{
    return lanes % LANES == 0 && vector_is_here();
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
INLINE vector largest(const struct max_pool_state *state, const float *x, struct span rows,
                      struct span columns, vector_numbers *choice)
{
    const int64_t width = state->columns.kernel, row_floats = state->columns.in * state->lanes;
    int number = (int)((rows.first - rows.begin) * width + columns.first - columns.begin);
    int skip = (int)(width - (columns.end - columns.first));
    vector best = vector_all(-__builtin_inff());
    vector_numbers chosen = numbers_all(number);
    for (int64_t r = rows.first; r < rows.end; r++, number += skip)
        for (int64_t c = columns.first; c < columns.end; c++, number++) {
            vector value = vector_load(x + r * row_floats + c * state->lanes);
            /* Once there, a NaN stays: nothing is greater. */
            vector_mask more = vector_mask_or(vector_greater(value, best), vector_is_nan(value));
            best = vector_select(more, value, best);
            chosen = numbers_select(more, numbers_all(number), chosen);
        }
    *choice = chosen;
    return best;
}

static void max_pool_forward(const struct max_pool_state *state, const float *x, float *y,
                             uint8_t *choices)
{
    for (int64_t r = 0; r < state->rows.out; r++) {
        struct span rows = span_of(&state->rows, r);
        for (int64_t c = 0; c < state->columns.out; c++) {
            struct span columns = span_of(&state->columns, c);
            for (int64_t lane = 0; lane < state->lanes; lane += LANES) {
                int64_t at = (r * state->columns.out + c) * state->lanes + lane;
                vector_numbers choice;
                vector value = largest(state, x + lane, rows, columns, &choice);
                if (state->relu)
                    value = vector_at_least(vector_zero(), value);
                vector_store(y + at, value);
                if (choices)
                    numbers_store(choices + at, choice);
            }
        }
    }
}

/* --- Backward --- */

INLINE vector load_gradient(const float *gradient, const float *y, int64_t at)
{
    vector g = vector_load(gradient + at);
    if (!y)
        return g;
    return vector_where(vector_greater(vector_load(y + at), vector_zero()), g);
}

INLINE vector if_chosen(vector gradient, vector_numbers choice, int64_t number)
{
    return vector_where(numbers_equal(choice, numbers_all((int)number)), gradient);
}

/* Whole lines at a time: registers of 16 lanes. */
INLINE bool streams(const struct max_pool_state *state)
{
    return state->stream && LANES == 16;
}

INLINE bool tiles(const struct max_pool_axis *axis)
{
    return axis->kernel == axis->stride && !axis->before && axis->out * axis->stride == axis->in;
}

/* Windows that do not overlap. Cells between or behind them have no gradient. */
static void by_windows(const struct max_pool_state *state, const float *gradient, const float *y,
                       const uint8_t *choices, float *out)
{
    const int64_t lanes = state->lanes, width = state->columns.in, kernel = state->columns.kernel;
    const bool all = tiles(&state->rows) && tiles(&state->columns), stream = streams(state) && all;
    if (!all)
        memset(out, 0, (size_t)(state->rows.in * width * lanes) * sizeof *out);
    for (int64_t i = 0; i < state->rows.out; i++) {
        struct span rows = span_of(&state->rows, i);
        for (int64_t j = 0; j < state->columns.out; j++) {
            struct span columns = span_of(&state->columns, j);
            for (int64_t lane = 0; lane < lanes; lane += LANES) {
                int64_t at = (i * state->columns.out + j) * lanes + lane;
                vector g = load_gradient(gradient, y, at);
                vector_numbers choice = numbers_load(choices + at);
                for (int64_t r = rows.first; r < rows.end; r++)
                    for (int64_t c = columns.first; c < columns.end; c++)
                        vector_put(
                            out + (r * width + c) * lanes + lane,
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
    const bool stream = streams(state);
    for (int64_t r = 0; r < rows->in; r++) {
        int64_t first_row, last_row, first, last;
        windows_of(rows, r, &first_row, &last_row);
        for (int64_t c = 0; c < columns->in; c++) {
            windows_of(columns, c, &first, &last);
            for (int64_t lane = 0; lane < state->lanes; lane += LANES) {
                vector sum = vector_zero();
                for (int64_t i = first_row; i <= last_row; i++)
                    for (int64_t j = first; j <= last; j++) {
                        int64_t at = (i * columns->out + j) * state->lanes + lane;
                        int64_t row = r - i * rows->stride + rows->before;
                        int64_t column = c - j * columns->stride + columns->before;
                        sum = vector_add(sum, if_chosen(load_gradient(gradient, y, at),
                                                        numbers_load(choices + at),
                                                        row * columns->kernel + column));
                    }
                vector_put(out + (r * columns->in + c) * state->lanes + lane, sum, stream);
            }
        }
    }
}

static void max_pool_backward(const struct max_pool_state *state, const float *gradient,
                              const float *y, const uint8_t *choices, float *out)
{
    if (state->rows.kernel <= state->rows.stride && state->columns.kernel <= state->columns.stride)
        by_windows(state, gradient, y, choices, out);
    else
        by_cells(state, gradient, y, choices, out);
    _mm_sfence();
}

VECTOR_END

#else

static bool max_pool_fits(int64_t lanes)
{
    (void)lanes;
    return false;
}

#endif

#endif
