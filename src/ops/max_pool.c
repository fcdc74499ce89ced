/* The largest element of each window. */
#include "exec/known_ops.h"
#include "ops/pool.h"

value_id lockstep_max_pool(struct graph *graph, value_id x, struct pool_options options)
{
    return pool_build(graph, &op_max_pool, x, &options, true);
}

static value_id example(struct graph *graph, int variant)
{
    static const struct pool_options variants[] = {
        {.kernel = 2},
        {.kernel = 3, .stride = 2, .padding = PADDING_SAME},
        {.kernel = 3, .stride = 2, .padding = PADDING_EXPLICIT, .pad_before = 1},
        {.kernel_height = 3,
         .kernel_width = 2,
         .stride_height = 2,
         .stride_width = 1,
         .padding = PADDING_EXPLICIT,
         .pad_rows = {1, 1},
         .pad_columns = {0, 1}},
    };
    if (variant >= (int)(sizeof variants / sizeof variants[0]))
        return -1;
    value_id x = lockstep_input(graph, "x", DTYPE_F32, SHAPE(SHAPE_BATCH, 3, 7, 6));
    return lockstep_max_pool(graph, x, variants[variant]);
}

const struct op op_max_pool = {
    .name = "max_pool",
    .attributes_size = sizeof(struct pool_attributes),
    .infer = pool_infer,
    .kernels = pool_kernels,
    .example = example,
};
