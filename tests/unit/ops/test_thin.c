/* The loops of the 3x3 convolution of one channel against plain C, called directly, so that those which this
 * processor would not choose are tested, too. */
#include "exec/known_ops.h"
#include "exec/op.h"
#include "ops/thin.h"
#include "support/test.h"

enum { BATCH = 2, SIDE = 11, FULL = SIDE - 2, MOST_CHANNELS = 32 };
enum { MOST_OUTPUTS = BATCH * MOST_CHANNELS * FULL * FULL };

static float x[BATCH][SIDE][SIDE], weights[MOST_CHANNELS][THIN_KERNEL][THIN_KERNEL];
static float bias[MOST_CHANNELS], y[MOST_OUTPUTS], gradients[MOST_OUTPUTS];
static float partial[BATCH * MOST_CHANNELS * THIN_SUMS];
static uint16_t workspace[MOST_OUTPUTS];

static float drawn(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / (float)(1 << 23) - 1;
}

static void draw(float *out, size_t count, uint32_t seed)
{
    for (size_t i = 0; i < count; i++)
        out[i] = drawn(&seed);
}

static double output_at(int n, int channel, int64_t row, int64_t column)
{
    double sum = 0;
    for (int i = 0; i < THIN_KERNEL; i++)
        for (int j = 0; j < THIN_KERNEL; j++)
            sum += (double)x[n][row + i][column + j] * (double)weights[channel][i][j];
    return sum;
}

/* Where in the full picture the output lies that a cell of y comes from; its value, before the bias. */
static double chosen_at(const struct thin_state *state, int n, int channel, int64_t *row,
                        int64_t *column)
{
    if (!state->pool)
        return output_at(n, channel, *row, *column);
    int64_t first_row = 2 * *row, first = 2 * *column;
    double best = -1e30;
    for (int64_t r = first_row; r < first_row + 2; r++)
        for (int64_t c = first; c < first + 2; c++) {
            double value = output_at(n, channel, r, c);
            if (value > best) {
                best = value;
                *row = r;
                *column = c;
            }
        }
    return best;
}

/* One lane's outputs and its sums of gradients. */
static void check_lane(const struct thin_state *state, int64_t index, int lane)
{
    int lanes = state->kernels->lanes, n = (int)(index / state->blocks);
    int channel = (int)(index % state->blocks) * lanes + lane;
    double sums[THIN_SUMS] = {0};
    for (int64_t r = 0; r < state->rows; r++)
        for (int64_t c = 0; c < state->columns; c++) {
            int64_t row = r, column = c,
                    at = ((index * state->rows + r) * state->columns + c) * lanes + lane;
            double value = chosen_at(state, n, channel, &row, &column);
            value += state->bias ? (double)bias[channel] : 0;
            if (state->relu && value < 0)
                value = 0;
            ASSERT_NEAR((double)y[at], value, 1e-6, 9);
            if (state->relu && y[at] <= 0)
                continue;
            for (int t = 0; t < THIN_TAPS; t++)
                sums[t] += (double)gradients[at] *
                           (double)x[n][row + t / THIN_KERNEL][column + t % THIN_KERNEL];
            sums[THIN_TAPS] += (double)gradients[at];
        }
    for (int t = 0; t < THIN_SUMS; t++)
        ASSERT_NEAR((double)partial[(index * THIN_SUMS + t) * lanes + lane], sums[t], 1e-6, 81);
}

static void check(const struct thin_kernels *kernels, bool pool, bool relu, bool with_bias)
{
    int64_t side = pool ? FULL / 2 : FULL;
    struct thin_state state = {.kernels = kernels,
                               .batch = BATCH,
                               .height = SIDE,
                               .width = SIDE,
                               .blocks = MOST_CHANNELS / kernels->lanes,
                               .rows = side,
                               .columns = side,
                               .bias = with_bias,
                               .relu = relu,
                               .pool = pool,
                               .training = true};
    float *inputs[] = {
        [CONV_X] = &x[0][0][0], [CONV_WEIGHTS] = &weights[0][0][0], [CONV_BIAS] = bias};
    struct op_run run = {.state = &state,
                         .inputs = inputs,
                         .output = y,
                         .gradients = {gradients},
                         .gradient_count = 1,
                         .workspace = workspace};
    for (int64_t i = 0; i < BATCH * state.blocks; i++) {
        kernels->forward(&run, i);
        kernels->gradient(&run, i, partial);
    }
    for (int64_t i = 0; i < BATCH * state.blocks; i++)
        for (int lane = 0; lane < kernels->lanes; lane++)
            check_lane(&state, i, lane);
}

static void check_all(const struct thin_kernels *kernels)
{
    if (!kernels->is_here())
        test_skip("this processor cannot run own:thin:%s", kernels->name);
    draw(&x[0][0][0], sizeof x / sizeof(float), 1);
    draw(&weights[0][0][0], sizeof weights / sizeof(float), 2);
    draw(bias, MOST_CHANNELS, 3);
    draw(gradients, MOST_OUTPUTS, 4);
    for (int variant = 0; variant < 8; variant++)
        check(kernels, variant & 1, variant & 2, variant & 4);
}

TEST(thin, avx2_computes_what_plain_c_does)
{
    check_all(&thin_kernels_avx2);
}

TEST(thin, avx512_computes_what_plain_c_does)
{
    check_all(&thin_kernels_avx512);
}
