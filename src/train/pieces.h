/* The order in which one rank's pieces of a batch are computed and their gradients added up. Pieces
 * are computed in groups, as many at a time as there are lanes, each into memory of its own (a
 * place); after each group places are added in pairs, in the order of comm/tree.h, so that few are
 * needed. All is known before the first step. */
#ifndef TRAIN_PIECES_H
#define TRAIN_PIECES_H

#include "comm/tree.h"

struct error;

struct pieces_addition {
    int to, from; /* places: `to` becomes the sum, `from` is free again */
};

struct pieces_group {
    int first, count;                  /* pieces, counted from the rank's first one */
    int *places;                       /* [count], of each piece */
    struct pieces_addition *additions; /* when all of the group are computed */
    int addition_count;
};

struct pieces {
    int count, lanes;
    int shards, first; /* of the tree: where in it the rank's pieces begin */
    struct pieces_group *groups;
    int group_count;
    int place_count;
    int parts[TREE_MAX_NODES]; /* places that hold the rank's nodes at the end; the first is 0 */
    int part_count;
    void *memory;
};

/* `held` of `shards` in the tree, at most `lanes` at a time. */
int pieces_plan(int shards, struct tree_node held, int lanes, struct pieces *out,
                struct error *err);
void pieces_release(struct pieces *pieces); /* accepts all zero */

#endif
