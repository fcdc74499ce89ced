#include "cli/latency.h"

#include <math.h>

#include "support/test.h"

TEST(latency, gives_quantiles_within_half_a_percent)
{
    struct latency latency = {0};
    for (int i = 1; i <= 10000; i++)
        latency_add(&latency, i * 1e-5);
    ASSERT_NEAR(latency_quantile(&latency, 0.5), 0.05, 0.006, 0);
    ASSERT_NEAR(latency_quantile(&latency, 0.99), 0.099, 0.006, 0);
    ASSERT_NEAR(latency_mean(&latency), 0.050005, 1e-9, 0);
    ASSERT_NUMBER(latency_quantile(&latency, 0), ==, 1e-5);
    ASSERT_NUMBER(latency_quantile(&latency, 1), ==, 0.1);
}

TEST(latency, of_nothing_is_no_number)
{
    struct latency latency = {0};
    ASSERT_TRUE(isnan(latency_quantile(&latency, 0.5)) && isnan(latency_mean(&latency)));
}

TEST(latency, of_several_threads_adds_up)
{
    struct latency one = {0}, two = {0}, both = {0};
    for (int i = 0; i < 100; i++) {
        latency_add(&one, 0.001);
        latency_add(&two, 0.1);
    }
    latency_merge(&both, &one);
    latency_merge(&both, &two);
    ASSERT_INT(both.count, ==, 200);
    ASSERT_NUMBER(both.least, ==, 0.001);
    ASSERT_NUMBER(both.greatest, ==, 0.1);
    ASSERT_NEAR(latency_quantile(&both, 0.25), 0.001, 0.006, 0);
    ASSERT_NEAR(latency_quantile(&both, 0.75), 0.1, 0.006, 0);
    ASSERT_INT(latency_between(&both, 0.01, 1), ==, 100);
}

TEST(latency, counts_what_is_out_of_reach_in_the_last_bucket)
{
    struct latency latency = {0};
    latency_add(&latency, 0);
    latency_add(&latency, 1e9);
    ASSERT_NUMBER(latency_quantile(&latency, 1), ==, 1e9);
    ASSERT_INT(latency.count, ==, 2);
}
