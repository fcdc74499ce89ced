#include "predict/network.h"

#include "support/test.h"

/* Round numbers: a megabyte a second everywhere, a millisecond a message. */
static struct network simple(void)
{
    return (struct network){.bandwidth = 1e6,
                            .payload = 1,
                            .latency = 1e-3,
                            .rank_bandwidth = 1e12,
                            .host_bandwidth = 1e9,
                            .host_latency = 1e-5,
                            .add_bandwidth = 1e12,
                            .pack_bandwidth = 1e12};
}

static void assert_near(double actual, double expected)
{
    ASSERT_NUMBER(actual, >=, expected * (1 - 1e-4));
    ASSERT_NUMBER(actual, <=, expected * (1 + 1e-4));
}

TEST(network, chooses_what_open_mpi_chooses)
{
    ASSERT_INT(allreduce_choice(2, 4), ==, ALLREDUCE_RING);
    ASSERT_INT(allreduce_choice(2, 4095), ==, ALLREDUCE_RECURSIVE_DOUBLING);
    ASSERT_INT(allreduce_choice(3, 100000), ==, ALLREDUCE_SEGMENTED_RING);
    ASSERT_INT(allreduce_choice(2, 1 << 20), ==, ALLREDUCE_RABENSEIFNER);
    ASSERT_INT(allreduce_choice(8, 8191), ==, ALLREDUCE_RECURSIVE_DOUBLING);
    ASSERT_INT(allreduce_choice(64, 262143), ==, ALLREDUCE_RECURSIVE_DOUBLING);
    ASSERT_INT(allreduce_choice(200, 1000), ==, ALLREDUCE_NONOVERLAPPING);
    ASSERT_INT(allreduce_choice(4096, 16383), ==, ALLREDUCE_SEGMENTED_RING);
    ASSERT_INT(allreduce_choice(65536, 1e12), ==, ALLREDUCE_RABENSEIFNER);
}

TEST(network, costs_a_single_rank_nothing)
{
    struct network network = simple();
    struct group alone = group_of(1, 8);
    ASSERT_NUMBER(network_allreduce(&network, &alone, 1e8), ==, 0);
    ASSERT_NUMBER(network_sum(&network, &alone, 1e8, false), ==, 0);
    ASSERT_NUMBER(network_sum(&network, &alone, 1e8, true), ==, 0);
    ASSERT_NUMBER(network_gather(&network, &alone, 1e8), ==, 0);
}

/* Half there, half back, each way at once; two messages. */
TEST(network, adds_up_over_two_ranks_as_by_hand)
{
    struct network network = simple();
    struct group two = group_of(2, 1);
    assert_near(network_allreduce(&network, &two, 1e6), 1 + 2e-3);
    network.payload = 0.5;
    assert_near(network_allreduce(&network, &two, 1e6), 2 + 2e-3);
    network.add_bandwidth = 1e6;
    assert_near(network_allreduce(&network, &two, 1e6), 2 + 2e-3 + 0.5);
}

/* Three quarters of the bytes each way, twice; two rounds of two messages. */
TEST(network, adds_up_over_four_hosts_as_by_hand)
{
    struct network network = simple();
    struct group four = group_of(4, 1);
    assert_near(network_allreduce(&network, &four, 1e6), 1.5 + 4e-3);
}

TEST(network, lets_the_ranks_of_a_host_add_up_inside_first)
{
    struct network network = simple();
    struct group spread = group_of(16, 1), dense = group_of(16, 8), one = group_of(16, 16);
    /* Two hosts: half of the bytes there and half back, whatever the ranks in them. */
    double inside = 2 * 3 * 1e-5 + 2 * 0.875e-3;
    assert_near(network_allreduce(&network, &dense, 1e6), 1 + 2e-3 + inside);
    ASSERT_NUMBER(network_allreduce(&network, &dense, 1e6), <,
                  network_allreduce(&network, &spread, 1e6));
    ASSERT_NUMBER(network_allreduce(&network, &one, 1e6), <, 0.01);
}

TEST(network, sends_half_as_much_as_halves)
{
    struct network network = simple();
    struct group two = group_of(2, 1);
    assert_near(network_sum(&network, &two, 1e6, true), 0.5 + 2e-3);
}

/* Three quarters of the bytes each way, twice, but in two messages; hosts of several ranks, or many
 * of them, leave it to Open MPI. */
TEST(network, adds_up_slices_between_a_few_hosts_of_one_rank)
{
    struct network network = simple();
    struct group four = group_of(4, 1), dense = group_of(4, 2), many = group_of(64, 1);
    assert_near(network_sum(&network, &four, 1e6, false), 1.5 + 2e-3);
    assert_near(network_sum(&network, &dense, 1e6, false),
                network_allreduce(&network, &dense, 1e6));
    assert_near(network_sum(&network, &many, 1e6, false), network_allreduce(&network, &many, 1e6));
}

TEST(network, counts_the_ranks_that_share_a_link)
{
    struct group group = group_of(12, 3); /* hosts of 0-2, 3-5, 6-8, 9-11 */
    ASSERT_INT(group.hosts, ==, 4);
    ASSERT_INT(group.rounds, ==, 3);
    ASSERT_INT(group.crossing[0], ==, 1); /* 2-3 and 8-9 */
    ASSERT_INT(group.crossing[2], ==, 3);
    group = group_of(64, 8);
    ASSERT_INT(group.crossing[2], ==, 0);
    ASSERT_INT(group.crossing[3], ==, 8);
}

TEST(network, is_never_faster_with_more_bytes_less_bandwidth_or_more_latency)
{
    for (int ranks = 2; ranks <= 5000; ranks = ranks * 3 / 2 + 1)
        for (int per_host = 1; per_host <= 16; per_host *= 2) {
            struct network network = simple(), slower = simple(), later = simple();
            struct group group = group_of(ranks, per_host);
            slower.bandwidth /= 2;
            later.latency *= 2;
            double seconds = network_allreduce(&network, &group, 1e6);
            ASSERT_NUMBER(seconds, >, 0);
            ASSERT_NUMBER(network_allreduce(&network, &group, 2e6), >=, seconds);
            ASSERT_NUMBER(network_allreduce(&slower, &group, 1e6), >=, seconds);
            ASSERT_NUMBER(network_allreduce(&later, &group, 1e6), >=, seconds);
        }
}
