#include "comm/tree.h"
#include "support/test.h"

/* The sum of a node, taken from the top down: what everything else must agree with. */
static float sum(const float *values, struct tree_node node)
{
    if (node.end - node.first == 1)
        return values[node.first];
    int cut = tree_cut(node);
    return sum(values, (struct tree_node){node.first, cut}) +
           sum(values, (struct tree_node){cut, node.end});
}

TEST(tree, cuts_at_a_power_of_two)
{
    ASSERT_INT(tree_cut((struct tree_node){0, 2}), ==, 1);
    ASSERT_INT(tree_cut((struct tree_node){0, 3}), ==, 2);
    ASSERT_INT(tree_cut((struct tree_node){0, 8}), ==, 4);
    ASSERT_INT(tree_cut((struct tree_node){8, 12}), ==, 10);
    ASSERT_INT(tree_cut((struct tree_node){0, 12}), ==, 8);
}

TEST(tree, gives_every_rank_neighbours_and_every_shard_to_one)
{
    for (int shards = 1; shards <= 70; shards++)
        for (int ranks = 1; ranks <= shards; ranks++) {
            int next = 0;
            for (int r = 0; r < ranks; r++) {
                struct tree_node held = tree_held(shards, ranks, r);
                ASSERT_INT(held.first, ==, next);
                ASSERT_INT(held.end - held.first, >=, shards / ranks);
                ASSERT_INT(held.end - held.first, <=, shards / ranks + 1);
                next = held.end;
            }
            ASSERT_INT(next, ==, shards);
        }
}

/* Adding neighbours as soon as they are halves of one node gives each rank's nodes, and from those
 * of all ranks the root, with the bits of the whole tree. */
TEST(tree, is_the_same_sum_whoever_adds)
{
    float values[70];
    for (int i = 0; i < 70; i++)
        values[i] = 1.0F / (float)(i * i + 3);
    for (int shards = 1; shards <= 70; shards++)
        for (int ranks = 1; ranks <= shards; ranks++) {
            struct tree_node stack[TREE_MAX_NODES * 8];
            float sums[TREE_MAX_NODES * 8];
            int depth = 0;
            for (int r = 0; r < ranks; r++) {
                struct tree_node nodes[TREE_MAX_NODES];
                int count = tree_nodes(shards, tree_held(shards, ranks, r), nodes);
                for (int n = 0; n < count; n++) {
                    struct tree_node node = nodes[n];
                    float value = sum(values, node);
                    while (depth && tree_joins(shards, stack[depth - 1], node)) {
                        value = sums[--depth] + value;
                        node.first = stack[depth].first;
                    }
                    stack[depth] = node;
                    sums[depth++] = value;
                }
            }
            ASSERT_INT(depth, ==, 1);
            ASSERT_TRUE(sums[0] == sum(values, (struct tree_node){0, shards}));
        }
}
