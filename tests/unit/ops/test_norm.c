/* Batch norm's inner loops: those for vector registers against those in plain C, called directly, so that
 * the ones this processor would not choose are tested, too. */
#include <math.h>
#include <string.h>

#include "ops/norm.h"
#include "support/test.h"

enum { MOST = 4096, MOST_LANES = 64, MASK_BYTES = MOST / 8 };

/* One register, several, and odd numbers of them; positions that fill no group of four and more than one
 * piece of 64. */
static const struct norm_segment segments[] = {
    {1, 8, false},  {5, 8, true},   {63, 8, false}, {131, 8, true},  {1, 16, false}, {6, 16, true},
    {67, 16, true}, {1, 48, false}, {9, 48, true},  {70, 24, false}, {70, 24, true}, {37, 64, true},
};
enum { SEGMENTS = sizeof segments / sizeof *segments };

/* Arrays begin with a line, as in a plan. */
struct arrays {
    _Alignas(64) float x[MOST];
    _Alignas(64) float residual[MOST];
    _Alignas(64) float gradients[NORM_MAX_GRADIENTS][MOST];
    _Alignas(64) float out[MOST];
    float channels[5][MOST_LANES];
    uint8_t mask[MASK_BYTES];
    double sums[2][MOST_LANES];
};

static float drawn(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / (float)(1 << 23) - 1;
}

static void fill(struct arrays *arrays)
{
    uint32_t state = 7;
    memset(arrays, 0, sizeof *arrays);
    for (int i = 0; i < MOST; i++) {
        arrays->x[i] = 3 + drawn(&state);
        arrays->residual[i] = drawn(&state);
        for (int k = 0; k < NORM_MAX_GRADIENTS; k++)
            arrays->gradients[k][i] = drawn(&state);
    }
    for (int k = 0; k < 5; k++)
        for (int c = 0; c < MOST_LANES; c++)
            arrays->channels[k][c] = (k == 0 ? 3 : 0) + drawn(&state);
    for (int i = 0; i < MASK_BYTES; i++)
        arrays->mask[i] = (uint8_t)(128 + 128 * drawn(&state));
    for (int k = 0; k < 2; k++) /* sums are added to what is there */
        for (int c = 0; c < MOST_LANES; c++)
            arrays->sums[k][c] = c;
}

/* Rounding of one product and some sums of numbers below 8. */
static void compare_floats(const float *actual, const float *expected, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ASSERT_NEAR((double)actual[i], (double)expected[i], 1e-6, 4);
}

/* Of up to 131 floats, in pieces of 64. */
static void compare_sums(const struct arrays *actual, const struct arrays *expected, int lanes)
{
    for (int k = 0; k < 2; k++)
        for (int c = 0; c < lanes; c++)
            ASSERT_NEAR(actual->sums[k][c], expected->sums[k][c], 1e-6, 64);
}

/* Calls `check` for each segment these kernels fit, with two copies of the same numbers. */
static void for_segments(const struct norm_kernels *kernels,
                         void (*check)(const struct norm_kernels *kernels,
                                       const struct norm_segment *segment, struct arrays *ours,
                                       struct arrays *plain))
{
    static struct arrays ours, plain;
    int fitting = 0;
    for (int i = 0; i < SEGMENTS; i++) {
        if (!kernels->fits(segments[i].lanes))
            continue;
        fill(&ours);
        fill(&plain);
        check(kernels, &segments[i], &ours, &plain);
        fitting++;
    }
    if (!fitting)
        test_skip("this processor cannot run %s", kernels->name);
}

static void check_sums(const struct norm_kernels *kernels, const struct norm_segment *segment,
                       struct arrays *ours, struct arrays *plain)
{
    kernels->sum(segment, ours->x, ours->channels[0], ours->sums[0], ours->sums[1]);
    norm_kernels_portable.sum(segment, plain->x, plain->channels[0], plain->sums[0],
                              plain->sums[1]);
    compare_sums(ours, plain, segment->lanes);
}

static void apply(const struct norm_kernels *kernels, const struct norm_segment *segment,
                  struct arrays *a, bool residual, bool relu, bool mask)
{
    kernels->apply(segment, a->x, residual ? a->residual : NULL, a->channels[0], a->channels[1],
                   a->channels[2], relu, a->out, mask ? a->mask : NULL);
}

static void check_apply(const struct norm_kernels *kernels, const struct norm_segment *segment,
                        struct arrays *ours, struct arrays *plain)
{
    size_t count = segment->spatial * (size_t)segment->lanes;
    for (int variant = 0; variant < 8; variant++) {
        bool residual = variant & 1, relu = variant & 2, mask = relu && (variant & 4);
        apply(kernels, segment, ours, residual, relu, mask);
        apply(&norm_kernels_portable, segment, plain, residual, relu, mask);
        compare_floats(ours->out, plain->out, count);
        for (size_t i = 0; mask && i < count; i++)
            ASSERT_INT(ours->mask[i / 8] >> i % 8 & 1, ==, ours->out[i] > 0);
    }
}

/* The ReLU lets a NaN through, and its bit: what went wrong must be seen. */
static void check_nan(const struct norm_kernels *kernels, const struct norm_segment *segment,
                      struct arrays *ours, struct arrays *plain)
{
    (void)plain;
    size_t at = segment->spatial * (size_t)segment->lanes - 1;
    ours->x[at] = NAN;
    apply(kernels, segment, ours, false, true, true);
    ASSERT_TRUE(isnan(ours->out[at]));
    ASSERT_INT(ours->mask[at / 8] >> at % 8 & 1, ==, 1);
}

static void backward(const struct norm_kernels *kernels, const struct norm_segment *segment,
                     struct arrays *a, int count, bool mask, float *out)
{
    float *gradients[] = {a->gradients[0], a->gradients[1], a->gradients[2]};
    const uint8_t *bits = mask ? a->mask : NULL;
    kernels->reduce(segment, gradients, count, bits, a->x, a->channels[0], out, a->sums[0],
                    a->sums[1]);
    kernels->propagate(segment, gradients, count, bits, a->x, a->channels[0], a->channels[1],
                       a->channels[2], a->channels[3], out ? out : gradients[0]);
}

static void check_backward(const struct norm_kernels *kernels, const struct norm_segment *segment,
                           struct arrays *ours, struct arrays *plain)
{
    size_t count = segment->spatial * (size_t)segment->lanes;
    for (int gradients = 1; gradients <= NORM_MAX_GRADIENTS; gradients++)
        for (int variant = 0; variant < 4; variant++) {
            bool mask = variant & 1, away = variant & 2;
            backward(kernels, segment, ours, gradients, mask, away ? ours->out : NULL);
            backward(&norm_kernels_portable, segment, plain, gradients, mask,
                     away ? plain->out : NULL);
            compare_sums(ours, plain, segment->lanes);
            compare_floats(away ? ours->out : ours->gradients[0],
                           away ? plain->out : plain->gradients[0], count);
            fill(ours);
            fill(plain);
        }
}

/* reduce leaves the gradient itself, where a residual wants it, also in place of one it read. */
static void check_written(const struct norm_kernels *kernels, const struct norm_segment *segment,
                          struct arrays *ours, struct arrays *plain)
{
    size_t count = segment->spatial * (size_t)segment->lanes;
    for (int in_place = 0; in_place < 2; in_place++) {
        float *mine[] = {ours->gradients[0], ours->gradients[1]};
        float *theirs[] = {plain->gradients[0], plain->gradients[1]};
        float *out = in_place ? mine[1] : ours->out;
        kernels->reduce(segment, mine, 2, ours->mask, ours->x, ours->channels[0], out,
                        ours->sums[0], ours->sums[1]);
        norm_kernels_portable.reduce(segment, theirs, 2, plain->mask, plain->x, plain->channels[0],
                                     plain->out, plain->sums[0], plain->sums[1]);
        compare_floats(out, plain->out, count);
        compare_sums(ours, plain, segment->lanes);
    }
}

TEST(norm, avx2_sums_as_plain_c_does)
{
    for_segments(&norm_kernels_avx2, check_sums);
}

TEST(norm, avx2_normalises_as_plain_c_does)
{
    for_segments(&norm_kernels_avx2, check_apply);
}

TEST(norm, avx2_lets_nans_through)
{
    for_segments(&norm_kernels_avx2, check_nan);
}

TEST(norm, avx2_has_the_gradients_of_plain_c)
{
    for_segments(&norm_kernels_avx2, check_backward);
    for_segments(&norm_kernels_avx2, check_written);
}

TEST(norm, avx512_sums_as_plain_c_does)
{
    for_segments(&norm_kernels_avx512, check_sums);
}

TEST(norm, avx512_normalises_as_plain_c_does)
{
    for_segments(&norm_kernels_avx512, check_apply);
}

TEST(norm, avx512_lets_nans_through)
{
    for_segments(&norm_kernels_avx512, check_nan);
}

TEST(norm, avx512_has_the_gradients_of_plain_c)
{
    for_segments(&norm_kernels_avx512, check_backward);
    for_segments(&norm_kernels_avx512, check_written);
}

TEST(norm, plain_c_lets_nans_through)
{
    for_segments(&norm_kernels_portable, check_nan);
}
