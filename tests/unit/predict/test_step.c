#include "predict/step.h"

#include "support/test.h"

/* Three gradients of a megabyte each, final after 2, 3 and 4 seconds. */
static struct step_gradient gradients[] = {{1e6, 2}, {1e6, 3}, {1e6, 4}};
static const struct step_work work = {
    .gradients = gradients, .count = 3, .compute = 4, .update = 0.5};

/* A sum over two ranks takes a second for a megabyte; messages themselves cost nothing. */
static const struct network second_a_megabyte = {.bandwidth = 1e6,
                                                 .payload = 1,
                                                 .rank_bandwidth = 1e12,
                                                 .host_bandwidth = 1e12,
                                                 .add_bandwidth = 1e12,
                                                 .pack_bandwidth = 1e12};

static struct step_times simulate(int ranks, double bucket_bytes, struct step_sharing sharing,
                                  const struct network *network, double slowest)
{
    struct group group = group_of(ranks, 1);
    struct step_setting setting = {.network = network,
                                   .group = &group,
                                   .sharing = sharing,
                                   .bucket_bytes = bucket_bytes,
                                   .slowest = slowest};
    struct step_times times;
    step_simulate(&work, &setting, &times);
    return times;
}

static void assert_near(double actual, double expected)
{
    ASSERT_NUMBER(actual, >=, expected - 1e-3);
    ASSERT_NUMBER(actual, <=, expected + 1e-3);
}

static const struct step_sharing none = {0};

TEST(step, is_computation_and_update_on_one_rank)
{
    struct step_times times = simulate(1, 1, none, &second_a_megabyte, 1);
    assert_near(times.step, 4.5);
    assert_near(times.talk, 0);
}

TEST(step, takes_no_longer_where_talking_costs_nothing)
{
    struct network free = second_a_megabyte;
    free.bandwidth = 1e15;
    assert_near(simulate(2, 1, none, &free, 1).step, 4.5);
    assert_near(simulate(1024, 1, none, &free, 1).step, 4.5);
}

TEST(step, with_one_bucket_is_computation_then_transfer)
{
    struct step_times times = simulate(2, 0, none, &second_a_megabyte, 1);
    assert_near(times.step, 4 + 3 + 0.5);
    assert_near(times.exposed, 3);
    assert_near(times.hidden, 0);
    ASSERT_INT(times.buckets, ==, 1);
}

/* 2 to 3, 3 to 4, 4 to 5: only the last is waited for. */
TEST(step, hides_buckets_behind_the_rest_of_the_computation)
{
    struct step_times times = simulate(2, 1, none, &second_a_megabyte, 1);
    assert_near(times.step, 4 + 1 + 0.5);
    assert_near(times.exposed, 1);
    assert_near(times.hidden, 2);
    ASSERT_INT(times.buckets, ==, 3);
}

/* One at a time: 2 to 4, 4 to 6, 6 to 8. */
TEST(step, handles_one_bucket_at_a_time)
{
    struct network slow = second_a_megabyte;
    slow.bandwidth /= 2;
    struct step_times times = simulate(2, 1, none, &slow, 1);
    assert_near(times.step, 8.5);
    assert_near(times.hidden, 2);
}

TEST(step, closes_a_bucket_with_the_gradient_that_fills_it)
{
    struct step_times times = simulate(2, 1.5e6, none, &second_a_megabyte, 1);
    ASSERT_INT(times.buckets, ==, 2); /* 2 MB from second 3, 1 MB behind it: 3 to 5 to 6 */
    assert_near(times.step, 6.5);
}

/* From second 2 on both go at half their speed: at 4 the first bucket is there, and one second of
 * computation is done of two; at 6 the second, and all of it; the last goes alone. */
TEST(step, slows_both_down_where_they_share_cores)
{
    struct step_sharing half = {.compute_loss = 0.5, .talk_loss = 0.5};
    struct step_times times = simulate(2, 1, half, &second_a_megabyte, 1);
    assert_near(times.step, 6 + 1 + 0.5);
    assert_near(times.hidden, 4);
    assert_near(times.exposed, 1);
}

/* Half a megabyte a second beside the computation: 2 to 4, and the other two alone. */
TEST(step, talks_no_faster_than_its_limit_beside_the_computation)
{
    struct step_sharing limited = {.talk_limit = 0.5e6};
    struct step_times times = simulate(2, 1, limited, &second_a_megabyte, 1);
    assert_near(times.step, 4 + 2 + 0.5);
    assert_near(times.hidden, 2);
    assert_near(times.exposed, 2);
}

TEST(step, fills_a_link_that_is_slower_than_its_limit)
{
    struct step_sharing limited = {.talk_limit = 2e6};
    assert_near(simulate(2, 1, limited, &second_a_megabyte, 1).step, 4 + 1 + 0.5);
}

TEST(step, waits_for_the_slowest_rank)
{
    assert_near(simulate(2, 1, none, &second_a_megabyte, 1.5).step, 6 + 1 + 0.5);
}

TEST(step, is_never_faster_on_a_slower_network)
{
    double before = 0;
    for (double bandwidth = 1e9; bandwidth > 1e3; bandwidth /= 1.7) {
        struct network network = second_a_megabyte;
        network.bandwidth = bandwidth;
        double now = simulate(6, 1, none, &network, 1).step;
        ASSERT_NUMBER(now, >=, before);
        before = now;
    }
}
