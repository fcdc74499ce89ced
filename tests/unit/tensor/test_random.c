#include <math.h>
#include <omp.h>

#include "base/memory.h"
#include "support/test.h"
#include "tensor/random.h"

enum { MANY = 1 << 20 };

struct moments {
    double mean, variance, fourth, low, high;
};

static struct moments moments_of(const float *values, size_t count)
{
    struct moments m = {.low = INFINITY, .high = -INFINITY};
    for (size_t i = 0; i < count; i++)
        m.mean += values[i] / (double)count;
    for (size_t i = 0; i < count; i++) {
        double d = values[i] - m.mean;
        m.variance += d * d / (double)count;
        m.fourth += d * d * d * d / (double)count;
        m.low = fmin(m.low, values[i]);
        m.high = fmax(m.high, values[i]);
    }
    return m;
}

static void assert_near(double value, double expected, double tolerance)
{
    if (!(fabs(value - expected) <= tolerance))
        FAIL("%.9g is not within %.3g of %.9g", value, tolerance, expected);
}

TEST(random, uniform_numbers_fill_their_range_evenly)
{
    float *values = memory_allocate(MANY * sizeof *values);
    random_fill_uniform(1, -1, 3, values, MANY);
    struct moments m = moments_of(values, MANY);
    assert_near(m.mean, 1, 5 * sqrt(16.0 / 12 / MANY));
    assert_near(m.variance, 16.0 / 12, 0.01);
    ASSERT_TRUE(m.low >= -1 && m.low < -0.999);
    ASSERT_TRUE(m.high < 3 && m.high > 2.999);
    memory_free(values);
}

TEST(random, normal_numbers_have_the_moments_and_the_tails_of_a_normal)
{
    float *values = memory_allocate(MANY * sizeof *values);
    random_fill_normal(2, 0.5f, values, MANY);
    struct moments m = moments_of(values, MANY);
    assert_near(m.mean, 0, 5 * 0.5 / sqrt(MANY));
    assert_near(m.variance, 0.25, 0.002);
    assert_near(m.fourth / (m.variance * m.variance), 3, 0.03);
    /* 1e6 draws reach beyond 4.5 deviations and (almost) never beyond 6. */
    ASSERT_TRUE(m.high > 0.5 * 4.3 && m.high < 0.5 * 6.3);
    ASSERT_TRUE(m.low < 0.5 * -4.3 && m.low > 0.5 * -6.3);
    int beyond_two = 0;
    for (int i = 0; i < MANY; i++)
        beyond_two += fabsf(values[i]) > 1.0f;
    assert_near(beyond_two / (double)MANY, 0.0455003, 0.001);
    memory_free(values);
}

TEST(random, truncated_normals_stay_within_two_deviations)
{
    float *values = memory_allocate(MANY * sizeof *values);
    random_fill_truncated_normal(3, 2, values, MANY);
    struct moments m = moments_of(values, MANY);
    assert_near(m.mean, 0, 5 * 2 / sqrt(MANY));
    assert_near(m.variance, 4 * 0.7737413, 0.01);
    ASSERT_TRUE(m.low >= -4.00001 && m.high <= 4.00001);
    ASSERT_TRUE(m.low < -3.99 && m.high > 3.99);
    memory_free(values);
}

/* Distribution function of what is drawn, at each decile of a large sample, against erf. */
TEST(random, normal_numbers_follow_the_distribution_function)
{
    float *values = memory_allocate(MANY * sizeof *values);
    random_fill_normal(4, 1, values, MANY);
    for (double at = -3; at <= 3; at += 0.25) {
        int below = 0;
        for (int i = 0; i < MANY; i++)
            below += values[i] < at;
        double p = 0.5 * erfc(-at / sqrt(2));
        assert_near(below / (double)MANY, p, 5 * sqrt(p * (1 - p) / MANY));
    }
    memory_free(values);
}

TEST(random, arrays_do_not_depend_on_threads_or_length)
{
    enum { COUNT = 100003 };
    float *a = memory_allocate(COUNT * sizeof *a), *b = memory_allocate(COUNT * sizeof *b);
    int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    random_fill_normal(5, 1, a, COUNT);
    omp_set_num_threads(3);
    random_fill_normal(5, 1, b, COUNT);
    omp_set_num_threads(threads);
    ASSERT_BYTES(a, b, COUNT * sizeof *a);
    for (size_t count = 1; count < 3000; count += 411) {
        memset(b, 0, COUNT * sizeof *b);
        random_fill_normal(5, 1, b, count);
        ASSERT_BYTES(a, b, count * sizeof *a);
        ASSERT_TRUE(b[count] == 0); /* nothing is written behind the end */
    }
    memory_free(a);
    memory_free(b);
}

TEST(random, an_array_holds_the_numbers_of_the_stream_in_order)
{
    float uniform[1500], normal[1500];
    random_fill_uniform(6, 0, 1, uniform, 1500);
    random_fill_normal(7, 1, normal, 1500);
    struct random uniform_stream = {.key = 6}, normal_stream = {.key = 7};
    for (int i = 0; i < 1500; i++) {
        ASSERT_TRUE(uniform[i] == random_uniform(&uniform_stream));
        ASSERT_TRUE(normal[i] == random_normal(&normal_stream));
    }
}

/* Fixed for ever: checkpoints and published results rely on what a seed means. */
TEST(random, a_seed_means_the_same_numbers_for_ever)
{
    ASSERT_INT(random_at(0, 0), ==, 0xe220a8397b1dcdaf); /* splitmix64's first of seed 0 */
    ASSERT_INT(random_at(0, 1), ==, 0x6e789e6aa1b965f4);
    float values[4000];
    uint64_t hash = 0;
    for (int kind = 0; kind < 3; kind++) {
        if (kind == 0)
            random_fill_uniform(8, -1, 1, values, 4000);
        else if (kind == 1)
            random_fill_normal(8, 1, values, 4000);
        else
            random_fill_truncated_normal(8, 1, values, 4000);
        for (int i = 0; i < 4000; i++) {
            uint32_t bits;
            memcpy(&bits, &values[i], sizeof bits);
            hash = random_key(hash, bits);
        }
    }
    hash = random_key(hash, (uint64_t)random_permute(9, 1000, 123));
    hash = random_key(hash, random_key_text(9, "conv1/weights"));
    ASSERT_INT(hash, ==, -6873013042004040410);
}

TEST(random, streams_of_different_keys_are_unlike)
{
    int equal_bits = 0;
    for (uint64_t i = 0; i < 1000; i++)
        equal_bits += 64 - __builtin_popcountll(random_at(random_key(1, i), 0) ^
                                                random_at(random_key(1, i + 1), 0));
    assert_near(equal_bits / 64000.0, 0.5, 0.01);
    ASSERT_INT(random_key(1, 2), !=, random_key(2, 1));
    ASSERT_INT(random_key_text(1, "a"), !=, random_key_text(1, "b"));
}

TEST(random, numbers_below_a_limit_are_all_equally_likely)
{
    struct random random = {.key = 10};
    int counts[7] = {0};
    for (int i = 0; i < 70000; i++) {
        int64_t drawn = random_below(&random, 7);
        ASSERT_TRUE(drawn >= 0 && drawn < 7);
        counts[drawn]++;
    }
    for (int i = 0; i < 7; i++)
        assert_near(counts[i], 10000, 5 * sqrt(10000));
    for (int i = 0; i < 100; i++) {
        int64_t drawn = random_below(&random, INT64_MAX);
        ASSERT_TRUE(drawn >= 0 && drawn < INT64_MAX);
    }
}

TEST(random, a_permutation_visits_every_number_once)
{
    static const int64_t counts[] = {1, 2, 3, 4, 5, 7, 8, 9, 63, 64, 65, 1000, 60000};
    unsigned char *seen = memory_allocate(60000);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        memset(seen, 0, 60000);
        for (int64_t i = 0; i < counts[c]; i++) {
            int64_t image = random_permute(11, counts[c], i);
            ASSERT_TRUE(image >= 0 && image < counts[c]);
            ASSERT_INT(seen[image]++, ==, 0);
        }
    }
    memory_free(seen);
}

/* Every order of four should come up equally often over the keys. */
TEST(random, every_order_of_a_small_set_comes_up)
{
    int counts[256] = {0};
    for (uint64_t key = 0; key < 24000; key++) {
        int code = 0;
        for (int i = 0; i < 4; i++)
            code = code * 4 + (int)random_permute(random_key(12, key), 4, i);
        counts[code]++;
    }
    int orders = 0;
    for (int i = 0; i < 256; i++) {
        orders += counts[i] > 0;
        if (counts[i] > 0)
            assert_near(counts[i], 1000, 200);
    }
    ASSERT_INT(orders, ==, 24);
}
