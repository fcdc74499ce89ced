#include "predict/network.h"

#include <stddef.h>

/* --- who talks to whom ------------------------------------------------------------------------ */

/* In a round of halving, rank r talks to the one whose number differs in one bit. */
static int most_crossing(int ranks, int per_host, int bit)
{
    int most = 0, on_host = 0;
    for (int r = 0; r < ranks; r++) {
        int partner = r ^ bit;
        on_host = r % per_host ? on_host : 0;
        on_host += partner < ranks && partner / per_host != r / per_host;
        most = on_host > most ? on_host : most;
    }
    return most;
}

struct group group_of(int ranks, int per_host)
{
    struct group group = {.ranks = ranks, .per_host = per_host < ranks ? per_host : ranks};
    group.hosts = (ranks + group.per_host - 1) / group.per_host;
    for (int bit = 1; bit * 2 <= ranks && group.rounds < GROUP_MAX_ROUNDS; bit *= 2)
        group.crossing[group.rounds++] = most_crossing(ranks, group.per_host, bit);
    return group;
}

/* --- messages --------------------------------------------------------------------------------- */

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Each rank sends so much and receives so much at the same time; `crossing` of a host share its
 * link, the others stay inside. */
static double exchange(const struct network *network, int crossing, double bytes)
{
    if (crossing == 0)
        return network->host_latency + bytes / network->host_bandwidth;
    double link = bytes * crossing / (network->bandwidth * network->payload);
    return network->latency + larger(link, bytes / network->rank_bandwidth);
}

static double add(const struct network *network, double bytes)
{
    return bytes / network->add_bandwidth;
}

/* Neighbours in a line or ring: one rank of a host talks across, if there are other hosts. */
static double pass_on(const struct network *network, const struct group *group, double bytes)
{
    double inside = group->per_host > 1 ? exchange(network, 0, bytes) : 0;
    return group->hosts > 1 ? larger(inside, exchange(network, 1, bytes)) : inside;
}

/* A message that reaches all, or collects from all, along a tree. */
static double tree(const struct network *network, const struct group *group, double bytes)
{
    double seconds = 0;
    int reached = 1;
    for (int i = 0; reached < group->ranks; i++, reached *= 2)
        seconds +=
            exchange(network, group->hosts > 1 && reached * 2 > group->per_host ? 1 : 0, bytes);
    return seconds;
}

/* --- sums ------------------------------------------------------------------------------------- */

/* Up to `below` bytes (exclusive) this algorithm; the last row of a table has no end. */
struct rule {
    double below;
    enum allreduce choice;
};
struct rules {
    int ranks_below;
    struct rule rows[7];
};

enum { ANY = GROUP_MAX_RANKS * 2 };
static const double endless = 1e300;

/* The commutative half of ompi_coll_tuned_allreduce_intra_dec_fixed, Open MPI 4.1.4. */
static const struct rules all_rules[] = {
    {4,
     {{8, ALLREDUCE_RING},
      {4096, ALLREDUCE_RECURSIVE_DOUBLING},
      {8192, ALLREDUCE_RING},
      {16384, ALLREDUCE_RECURSIVE_DOUBLING},
      {65536, ALLREDUCE_RING},
      {262144, ALLREDUCE_SEGMENTED_RING},
      {endless, ALLREDUCE_RABENSEIFNER}}},
    {8,
     {{16, ALLREDUCE_RING},
      {8192, ALLREDUCE_RECURSIVE_DOUBLING},
      {endless, ALLREDUCE_RABENSEIFNER}}},
    {16, {{8192, ALLREDUCE_RECURSIVE_DOUBLING}, {endless, ALLREDUCE_RABENSEIFNER}}},
    {32,
     {{64, ALLREDUCE_SEGMENTED_RING},
      {4096, ALLREDUCE_RECURSIVE_DOUBLING},
      {endless, ALLREDUCE_RABENSEIFNER}}},
    {64, {{128, ALLREDUCE_SEGMENTED_RING}, {endless, ALLREDUCE_RABENSEIFNER}}},
    {128, {{262144, ALLREDUCE_RECURSIVE_DOUBLING}, {endless, ALLREDUCE_RABENSEIFNER}}},
    {256,
     {{131072, ALLREDUCE_NONOVERLAPPING},
      {262144, ALLREDUCE_RECURSIVE_DOUBLING},
      {endless, ALLREDUCE_RABENSEIFNER}}},
    {512, {{4096, ALLREDUCE_NONOVERLAPPING}, {endless, ALLREDUCE_RABENSEIFNER}}},
    {2048,
     {{2048, ALLREDUCE_NONOVERLAPPING},
      {16384, ALLREDUCE_RECURSIVE_DOUBLING},
      {endless, ALLREDUCE_RABENSEIFNER}}},
    {4096,
     {{2048, ALLREDUCE_NONOVERLAPPING},
      {4096, ALLREDUCE_SEGMENTED_RING},
      {16384, ALLREDUCE_RECURSIVE_DOUBLING},
      {endless, ALLREDUCE_RABENSEIFNER}}},
    {ANY,
     {{2048, ALLREDUCE_NONOVERLAPPING},
      {16384, ALLREDUCE_SEGMENTED_RING},
      {32768, ALLREDUCE_RECURSIVE_DOUBLING},
      {endless, ALLREDUCE_RABENSEIFNER}}},
};

enum allreduce allreduce_choice(int ranks, double bytes)
{
    const struct rules *rules = all_rules;
    while (ranks >= rules->ranks_below)
        rules++;
    const struct rule *rule = rules->rows;
    while (bytes >= rule->below)
        rule++;
    return rule->choice;
}

static int power_below(const struct group *group)
{
    return 1 << group->rounds;
}

/* Ranks beyond a power of two hand their numbers to a neighbour first and get the sum at the end. */
static double for_the_rest(const struct network *network, const struct group *group, double before,
                           double after)
{
    if (group->ranks == power_below(group))
        return 0;
    int crossing = group->crossing[0];
    return exchange(network, crossing, before) + exchange(network, crossing, after);
}

static double recursive_doubling(const struct network *network, const struct group *group,
                                 double bytes)
{
    double seconds = for_the_rest(network, group, bytes, bytes);
    for (int i = 0; i < group->rounds; i++)
        seconds += exchange(network, group->crossing[i], bytes) + add(network, bytes);
    return seconds;
}

static double ring(const struct network *network, const struct group *group, double bytes)
{
    double piece = bytes / group->ranks, steps = group->ranks - 1;
    return steps * (2 * pass_on(network, group, piece) + add(network, piece));
}

/* Halves of halves are exchanged, nearest ranks first, and gathered the way back. */
static double rabenseifner(const struct network *network, const struct group *group, double bytes)
{
    double seconds = for_the_rest(network, group, bytes / 2, bytes), piece = bytes;
    if (seconds > 0)
        seconds += exchange(network, group->crossing[0], bytes / 2) + add(network, bytes / 2);
    for (int i = 0; i < group->rounds; i++) {
        piece /= 2;
        seconds += 2 * exchange(network, group->crossing[i], piece) + add(network, piece);
    }
    return seconds;
}

/* A tree to one rank and a tree from it; Open MPI chooses it for few bytes on many ranks. */
static double nonoverlapping(const struct network *network, const struct group *group, double bytes)
{
    return 2 * tree(network, group, bytes) + (group->rounds + 1) * add(network, bytes);
}

double network_allreduce(const struct network *network, const struct group *group, double bytes)
{
    if (group->ranks == 1 || bytes <= 0)
        return 0;
    switch (allreduce_choice(group->ranks, bytes)) {
    case ALLREDUCE_NONOVERLAPPING:
        return nonoverlapping(network, group, bytes);
    case ALLREDUCE_RECURSIVE_DOUBLING:
        return recursive_doubling(network, group, bytes);
    case ALLREDUCE_RING:
    case ALLREDUCE_SEGMENTED_RING:
        return ring(network, group, bytes);
    case ALLREDUCE_RABENSEIFNER:
        break;
    }
    return rabenseifner(network, group, bytes);
}

/* --- gathering -------------------------------------------------------------------------------- */

/* Few bytes: Bruck's rounds, in each of which a rank sends all that it has. Many: round the ring,
 * which keeps most of the way inside hosts (coll_tuned's rules for MPI_Allgatherv, simplified). */
static double all_gather(const struct network *network, const struct group *group, double bytes)
{
    enum { BRUCK_BELOW = 8192 };
    if (bytes >= BRUCK_BELOW || group->ranks == 2)
        return (group->ranks - 1) * pass_on(network, group, bytes);
    double seconds = 0;
    for (int held = 1; held < group->ranks; held *= 2) {
        int sent = held * 2 <= group->ranks ? held : group->ranks - held;
        seconds += exchange(network, group->hosts > 1 ? group->per_host : 0, bytes * sent);
    }
    return seconds;
}

double network_gather(const struct network *network, const struct group *group, double bytes)
{
    if (group->ranks == 1)
        return 0;
    return all_gather(network, group, sizeof(size_t)) + all_gather(network, group, bytes);
}

/* Every rank sends each of the others so much at once. */
static double to_each_other(const struct network *network, const struct group *group, double bytes)
{
    double seconds = 0;
    if (group->per_host > 1)
        seconds += exchange(network, 0, bytes * (group->per_host - 1));
    if (group->hosts > 1)
        seconds += exchange(network, group->per_host, bytes * (group->ranks - group->per_host));
    return seconds;
}

/* Each rank gets its slice of everyone's numbers, adds it up, and gives it to all. */
static double fold(const struct network *network, const struct group *group, double bytes,
                   double wire)
{
    return 2 * to_each_other(network, group, wire / group->ranks) + add(network, bytes);
}

double network_sum(const struct network *network, const struct group *group, double bytes,
                   bool half)
{
    if (group->ranks == 1 || bytes <= 0)
        return 0;
    /* All but the own slice are packed and unpacked, twice. */
    if (half)
        return fold(network, group, bytes, bytes / 2) + 4 * bytes / network->pack_bandwidth;
    if (group->per_host == 1 && group->ranks <= NETWORK_FOLDS_UP_TO)
        return fold(network, group, bytes, bytes);
    return network_allreduce(network, group, bytes);
}
