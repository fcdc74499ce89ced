#include "predict/forecast.h"

#include "support/test.h"

static struct step_gradient gradients[] = {{40e6, 0.2}, {40e6, 0.3}, {20e6, 0.4}};
static const struct step_work work = {
    .gradients = gradients, .count = 3, .compute = 0.4, .update = 0.1};
static const size_t sizes[] = {1 << 20, 16 << 20, 0};

static struct forecast_question question(double bandwidth)
{
    return (struct forecast_question){.work = &work,
                                      .batch = 8,
                                      .network = {.bandwidth = bandwidth,
                                                  .payload = 1,
                                                  .latency = 1e-5,
                                                  .rank_bandwidth = 1e15,
                                                  .host_bandwidth = 1e15,
                                                  .add_bandwidth = 1e15,
                                                  .pack_bandwidth = 1e15},
                                      .per_host = 4,
                                      .bucket_sizes = sizes,
                                      .bucket_count = 3,
                                      .seed = 1};
}

TEST(forecast, has_one_rank_efficient)
{
    struct forecast_question asked = question(1e9);
    struct forecast one;
    forecast(&asked, 1, &one);
    ASSERT_NUMBER(one.efficiency, ==, 1);
    ASSERT_NUMBER(one.examples_per_second, ==, 16);
    ASSERT_INT(one.hosts, ==, 1);
}

TEST(forecast, loses_nothing_on_a_network_that_costs_nothing)
{
    struct forecast_question asked = question(1e18);
    asked.network.latency = 0;
    for (int ranks = 1; ranks <= 4096; ranks *= 8) {
        struct forecast row;
        forecast(&asked, ranks, &row);
        ASSERT_NUMBER(row.efficiency, >, 0.9999);
        ASSERT_INT(row.hosts, ==, ranks <= 4 ? 1 : ranks / 4);
    }
}

TEST(forecast, takes_the_best_of_the_buckets)
{
    struct forecast_question asked = question(1e9), given = question(1e9);
    struct forecast best, one;
    forecast(&asked, 64, &best);
    for (int i = 0; i < 3; i++) {
        given.bucket_sizes = &sizes[i];
        given.bucket_count = 1;
        forecast(&given, 64, &one);
        ASSERT_NUMBER(best.times.step, <=, one.times.step);
    }
    ASSERT_TRUE(best.bucket_bytes != 0);
}

/* Halves are sent from every rank to every other, past the neighbours of the same host: many ranks
 * of a host crowd its link. */
TEST(forecast, gains_by_halves_with_one_rank_a_host_but_not_with_many)
{
    struct forecast_question floats = question(1e8), halves = question(1e8);
    struct forecast whole, half;
    halves.half = true;
    floats.per_host = halves.per_host = 1;
    forecast(&floats, 8, &whole);
    forecast(&halves, 8, &half);
    ASSERT_NUMBER(half.times.step, <, whole.times.step);
    floats.per_host = halves.per_host = 8;
    forecast(&floats, 64, &whole);
    forecast(&halves, 64, &half);
    ASSERT_NUMBER(half.times.step, >, whole.times.step);
}

TEST(forecast, draws_the_slowest_of_many_the_same_each_time)
{
    ASSERT_NUMBER(forecast_slowest(1, 0.1, 1), ==, 1);
    ASSERT_NUMBER(forecast_slowest(512, 0, 1), ==, 1);
    double few = forecast_slowest(8, 0.1, 1), many = forecast_slowest(512, 0.1, 1);
    ASSERT_NUMBER(few, ==, forecast_slowest(8, 0.1, 1));
    /* The mean of the greatest of 8 normal draws is 1.42 deviations, of 512 3.04. */
    ASSERT_NUMBER(few, >, 1.11);
    ASSERT_NUMBER(few, <, 1.17);
    ASSERT_NUMBER(many, >, 1.28);
    ASSERT_NUMBER(many, <, 1.33);
}
