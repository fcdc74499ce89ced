/* Max pooling's loops against plain C, called directly, so that those which this processor would not choose
 * are tested, too. */
#include <math.h>

#include "ops/max_pool.h"
#include "support/test.h"

enum { MOST_LANES = 32, MOST_SIDE = 12, MOST = MOST_SIDE * MOST_SIDE * MOST_LANES };

/* Arrays begin with a line, as in a plan. */
static _Alignas(64) float x[MOST], y[MOST], gradient[MOST], out[MOST];
static uint8_t choices[MOST];
static double wanted[MOST];

/* Windows that tile, leave cells out, overlap, and reach into the padding. */
static const struct max_pool_axis axes[] = {
    {12, 6, 2, 2, 0}, {11, 5, 2, 2, 0}, {12, 6, 3, 2, 1}, {10, 3, 2, 4, 1}, {9, 9, 3, 1, 1},
};
enum { AXES = sizeof axes / sizeof *axes };

/* Few different values: there are ties. */
static void draw(float *values, uint32_t state)
{
    for (int i = 0; i < MOST; i++) {
        state = state * 1664525u + 1013904223u;
        values[i] = (float)(state >> 28) - 8;
    }
}

static void check_window(const struct max_pool_state *state, int64_t r, int64_t c, int64_t lane)
{
    const struct max_pool_axis *rows = &state->rows, *columns = &state->columns;
    int64_t at = (r * columns->out + c) * state->lanes + lane, chosen = -1;
    float best = 0;
    for (int64_t i = 0; i < rows->kernel; i++)
        for (int64_t j = 0; j < columns->kernel; j++) {
            int64_t row = r * rows->stride - rows->before + i;
            int64_t column = c * columns->stride - columns->before + j;
            int64_t cell = (row * columns->in + column) * state->lanes + lane;
            bool inside = row >= 0 && row < rows->in && column >= 0 && column < columns->in;
            if (inside && (chosen < 0 || x[cell] > best)) {
                best = x[cell];
                chosen = cell;
            }
        }
    if (state->relu && best < 0)
        best = 0;
    ASSERT_NUMBER((double)y[at], ==, (double)best);
    if (!state->relu || best > 0)
        wanted[chosen] += (double)gradient[at];
}

/* Whole numbers: sums have no rounding. */
static void check(const struct max_pool_state *state)
{
    int64_t cells = state->rows.in * state->columns.in * state->lanes;
    for (int i = 0; i < MOST; i++) {
        out[i] = NAN; /* every cell must be written */
        wanted[i] = 0;
    }
    state->kernels->forward(state, x, y, choices);
    state->kernels->backward(state, gradient, state->relu ? y : NULL, choices, out);
    for (int64_t r = 0; r < state->rows.out; r++)
        for (int64_t c = 0; c < state->columns.out; c++)
            for (int64_t lane = 0; lane < state->lanes; lane++)
                check_window(state, r, c, lane);
    for (int64_t i = 0; i < cells; i++)
        ASSERT_NUMBER((double)out[i], ==, wanted[i]);
}

static void check_all(const struct max_pool_kernels *kernels)
{
    if (!kernels->fits(MOST_LANES))
        test_skip("this processor cannot run own:%s", kernels->name);
    draw(x, 1);
    draw(gradient, 2);
    for (int64_t lanes = 8; lanes <= MOST_LANES; lanes *= 2)
        for (int i = 0; kernels->fits(lanes) && i < AXES * AXES; i++)
            for (int variant = 0; variant < 4; variant++)
                check(&(struct max_pool_state){.kernels = kernels,
                                               .rows = axes[i / AXES],
                                               .columns = axes[i % AXES],
                                               .segments = 1,
                                               .lanes = lanes,
                                               .relu = variant & 1,
                                               .training = true,
                                               .stream = variant & 2});
}

static void check_nan(const struct max_pool_kernels *kernels)
{
    if (!kernels->fits(MOST_LANES))
        test_skip("this processor cannot run own:%s", kernels->name);
    struct max_pool_state state = {
        .kernels = kernels, .rows = axes[0], .columns = axes[0], .lanes = MOST_LANES, .relu = true};
    draw(x, 1);
    x[3] = NAN;
    kernels->forward(&state, x, y, NULL);
    ASSERT_TRUE(isnan(y[3]));
    ASSERT_FALSE(isnan(y[2]));
}

TEST(max_pool, avx2_computes_what_plain_c_does)
{
    check_all(&max_pool_kernels_avx2);
}

TEST(max_pool, avx512_computes_what_plain_c_does)
{
    check_all(&max_pool_kernels_avx512);
}

TEST(max_pool, avx2_lets_nans_through)
{
    check_nan(&max_pool_kernels_avx2);
}

TEST(max_pool, avx512_lets_nans_through)
{
    check_nan(&max_pool_kernels_avx512);
}
