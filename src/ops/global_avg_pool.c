/* The mean of each channel over the whole picture: [N, C, H, W] to [N, C, 1, 1]. */
#include "ops/pool.h"

extern const struct op op_global_avg_pool;

value_id lockstep_global_avg_pool(struct graph *graph, value_id x)
{
    if (!graph_holds(graph, x, "global_avg_pool"))
        return -1;
    struct pool_attributes attributes = {.global = true};
    return graph_node(graph, &op_global_avg_pool, graph_make_name(graph, "global_avg_pool"),
                      &attributes, &x, 1);
}

static value_id example(struct graph *graph, int variant)
{
    if (variant > 0)
        return -1;
    value_id x = lockstep_input(graph, "x", DTYPE_F32, SHAPE(SHAPE_BATCH, 5, 4, 3));
    return lockstep_global_avg_pool(graph, x);
}

const struct op op_global_avg_pool = {
    .name = "global_avg_pool",
    .attributes_size = sizeof(struct pool_attributes),
    .infer = pool_infer,
    .kernels = pool_kernels,
    .example = example,
};
