#include "train/pieces.h"

#include "base/error.h"
#include "support/test.h"

static float tree_sum(const float *values, struct tree_node node)
{
    if (node.end - node.first == 1)
        return values[node.first];
    int cut = tree_cut(node);
    return tree_sum(values, (struct tree_node){node.first, cut}) +
           tree_sum(values, (struct tree_node){cut, node.end});
}

/* Carries the plan out on one number per place. */
static void carry_out(const struct pieces *pieces, const float *values, float *places)
{
    for (int g = 0; g < pieces->group_count; g++) {
        const struct pieces_group *group = &pieces->groups[g];
        for (int i = 0; i < group->count; i++) {
            ASSERT_INT(group->places[i], <, pieces->place_count);
            places[group->places[i]] = values[pieces->first + group->first + i];
        }
        for (int i = 0; i < group->addition_count; i++)
            places[group->additions[i].to] += places[group->additions[i].from];
    }
}

TEST(pieces, leave_each_node_of_the_rank_in_its_place)
{
    float values[40], places[80];
    for (int i = 0; i < 40; i++)
        values[i] = 1.0F / (float)(i * i + 7);
    for (int shards = 1; shards <= 40; shards++)
        for (int ranks = 1; ranks <= shards && ranks < 6; ranks++)
            for (int rank = 0; rank < ranks; rank++)
                for (int lanes = 1; lanes <= 4; lanes++) {
                    struct pieces pieces;
                    struct error err = {0};
                    struct tree_node nodes[TREE_MAX_NODES];
                    struct tree_node held = tree_held(shards, ranks, rank);
                    int count = tree_nodes(shards, held, nodes);
                    ASSERT_OK(pieces_plan(shards, held, lanes, &pieces, &err), err);
                    carry_out(&pieces, values, places);
                    ASSERT_INT(pieces.part_count, ==, count);
                    ASSERT_INT(pieces.parts[0], ==, 0);
                    for (int n = 0; n < count; n++)
                        ASSERT_TRUE(places[pieces.parts[n]] == tree_sum(values, nodes[n]));
                    pieces_release(&pieces);
                }
}

TEST(pieces, need_few_places)
{
    struct pieces pieces;
    struct error err = {0};
    ASSERT_OK(pieces_plan(64, (struct tree_node){0, 64}, 1, &pieces, &err), err);
    ASSERT_INT(pieces.place_count, ==, 7);
    pieces_release(&pieces);
    ASSERT_OK(pieces_plan(1, (struct tree_node){0, 1}, 1, &pieces, &err), err);
    ASSERT_INT(pieces.place_count, ==, 1);
    pieces_release(&pieces);
}
