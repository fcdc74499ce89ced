#include "comm/tree.h"

struct tree_node tree_held(int shards, int ranks, int rank)
{
    return (struct tree_node){(int)((long long)shards * rank / ranks),
                              (int)((long long)shards * (rank + 1) / ranks)};
}

int tree_cut(struct tree_node node)
{
    int lower = 1;
    while (lower * 2 < node.end - node.first)
        lower *= 2;
    return node.first + lower;
}

static int collect(struct tree_node node, struct tree_node held, struct tree_node *nodes, int count)
{
    if (node.end <= held.first || node.first >= held.end)
        return count;
    if (node.first >= held.first && node.end <= held.end) {
        nodes[count] = node;
        return count + 1;
    }
    int cut = tree_cut(node);
    count = collect((struct tree_node){node.first, cut}, held, nodes, count);
    return collect((struct tree_node){cut, node.end}, held, nodes, count);
}

int tree_nodes(int shards, struct tree_node held, struct tree_node nodes[TREE_MAX_NODES])
{
    return collect((struct tree_node){0, shards}, held, nodes, 0);
}

bool tree_joins(int shards, struct tree_node lower, struct tree_node upper)
{
    struct tree_node node = {0, shards};
    while (node.end - node.first > 1) {
        int cut = tree_cut(node);
        if (node.first == lower.first && node.end == upper.end)
            return lower.end == cut && upper.first == cut;
        if (lower.first < cut)
            node.end = cut;
        else
            node.first = cut;
    }
    return false;
}
