/* The one order in which shards are added. A node covers shards [first, end): a single shard, or the
 * sum of its lower and its upper half, where the lower half is the largest power of two that leaves
 * something for the upper. A rank holds neighbouring shards, whose sum is one node where their number
 * is a power of two and divides all, otherwise a few; the ranks exchange those and add them up as
 * one process would have. */
#ifndef COMM_TREE_H
#define COMM_TREE_H

#include <stdbool.h>

enum { TREE_MAX_NODES = 64 }; /* of one rank: two per level */

struct tree_node {
    int first, end;
};

/* The shards of one rank: all ranks have as many, or one more than others. */
struct tree_node tree_held(int shards, int ranks, int rank);
/* The nodes that make up [held.first, held.end), in order; returns how many. */
int tree_nodes(int shards, struct tree_node held, struct tree_node nodes[TREE_MAX_NODES]);
/* Where a node of several shards is cut: it is [first, cut) + [cut, end). */
int tree_cut(struct tree_node node);
/* Whether two neighbouring nodes, the lower first, are halves of one. */
bool tree_joins(int shards, struct tree_node lower, struct tree_node upper);

#endif
