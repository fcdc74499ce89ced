#include "train/pieces.h"

#include <assert.h>

#include "base/error.h"
#include "base/memory.h"

/* What is in the places while the plan is made. */
struct simulation {
    struct pieces *pieces;
    struct tree_node stack[TREE_MAX_NODES]; /* finished nodes, in order */
    int place[TREE_MAX_NODES];
    int depth;
    bool *taken;
};

static int take_place(struct simulation *simulation)
{
    int place = 0;
    while (simulation->taken[place])
        place++;
    simulation->taken[place] = true;
    if (place >= simulation->pieces->place_count)
        simulation->pieces->place_count = place + 1;
    return place;
}

static void push(struct simulation *simulation, struct pieces_group *group, struct tree_node node,
                 int place)
{
    int shards = simulation->pieces->shards;
    while (simulation->depth &&
           tree_joins(shards, simulation->stack[simulation->depth - 1], node)) {
        int lower = simulation->place[--simulation->depth];
        node.first = simulation->stack[simulation->depth].first;
        group->additions[group->addition_count++] = (struct pieces_addition){lower, place};
        simulation->taken[place] = false;
        place = lower;
    }
    assert(simulation->depth < TREE_MAX_NODES);
    simulation->stack[simulation->depth] = node;
    simulation->place[simulation->depth++] = place;
}

static void plan_group(struct simulation *simulation, struct pieces_group *group)
{
    int shard = simulation->pieces->first + group->first;
    for (int i = 0; i < group->count; i++)
        group->places[i] = take_place(simulation);
    for (int i = 0; i < group->count; i++)
        push(simulation, group, (struct tree_node){shard + i, shard + i + 1}, group->places[i]);
}

/* One block: the groups, their lists, and what the simulation marks. */
static int take_memory(struct pieces *pieces, struct simulation *simulation, struct error *err)
{
    size_t count = (size_t)pieces->count;
    size_t groups = (size_t)pieces->group_count * sizeof *pieces->groups;
    size_t additions = count * sizeof(struct pieces_addition), places = count * sizeof(int);
    char *memory = memory_allocate(groups + additions + places + count + TREE_MAX_NODES);
    if (!memory)
        return error_set(err, ERROR_MEMORY, "no memory to sort %d pieces", pieces->count);
    pieces->memory = memory;
    pieces->groups = (void *)memory;
    simulation->taken = (bool *)(memory + groups + additions + places);
    struct pieces_addition *addition = (void *)(memory + groups);
    int *place = (void *)(memory + groups + additions);
    for (int g = 0; g < pieces->group_count; g++) {
        struct pieces_group *group = &pieces->groups[g];
        group->first = g * pieces->lanes;
        int left = pieces->count - group->first;
        group->count = left < pieces->lanes ? left : pieces->lanes;
        group->places = place + group->first;
        /* A group adds at most as often as all pieces so far allow; together fewer than pieces. */
        group->additions = addition;
    }
    return 0;
}

int pieces_plan(int shards, struct tree_node held, int lanes, struct pieces *out, struct error *err)
{
    struct pieces pieces = {
        .count = held.end - held.first, .lanes = lanes, .shards = shards, .first = held.first};
    pieces.group_count = (pieces.count + lanes - 1) / lanes;
    struct simulation simulation = {.pieces = &pieces};
    if (take_memory(&pieces, &simulation, err) < 0)
        return -1;
    struct pieces_addition *next = pieces.groups[0].additions;
    for (int g = 0; g < pieces.group_count; g++) {
        pieces.groups[g].additions = next;
        plan_group(&simulation, &pieces.groups[g]);
        next += pieces.groups[g].addition_count;
    }
    pieces.part_count = simulation.depth;
    memcpy(pieces.parts, simulation.place, sizeof pieces.parts);
    *out = pieces;
    return 0;
}

void pieces_release(struct pieces *pieces)
{
    memory_free(pieces->memory);
    *pieces = (struct pieces){0};
}
