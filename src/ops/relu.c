/* max(x, 0). Mostly fused into the operation before it; this is the one that stands alone. */
#include "base/arena.h"
#include "base/error.h"
#include "exec/elementwise.h"
#include "exec/known_ops.h"
#include "exec/op.h"

struct state {
    size_t count;
};

static int prepare(struct plan_builder *builder, struct plan_node *node, struct error *err)
{
    struct state *state = ARENA_NEW(builder_arena(builder), struct state);
    if (!state)
        return error_set(err, ERROR_MEMORY, "no memory for a ReLU");
    const struct layout *layout = builder_layout(builder, node->inputs[0]);
    state->count = layout_bytes(layout) / sizeof(float);
    node->state = state;
    builder_use(builder, node, PASS_FORWARD, ROLE_INPUT, layout);
    builder_use(builder, node, PASS_RECOMPUTE, ROLE_INPUT, layout);
    builder_output(builder, node, layout);
    builder_allow_overwrite(builder, node, 0);
    builder_use(builder, node, PASS_BACKWARD, ROLE_OUTPUT, NULL);
    builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT, layout);
    builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT_OF_INPUT, layout);
    builder_gradient_in_place(builder, node);
    return 0;
}

static void forward(const struct op_run *run)
{
    elementwise_relu(run->output, run->inputs[0], ((const struct state *)run->state)->count);
}

static void backward(const struct op_run *run)
{
    elementwise_relu_gradient(run->input_gradients[0], run->gradients, run->gradient_count,
                              run->output, ((const struct state *)run->state)->count);
}

static const struct op_kernel kernel_own = {
    .name = "own",
    .prepare = prepare,
    .pass = {forward, NULL, backward, forward},
    .sums_gradients = true,
};

static const struct op_kernel *const kernels[] = {&kernel_own, NULL};

value_id lockstep_relu(struct graph *graph, value_id x)
{
    if (!graph_holds(graph, x, "relu"))
        return -1;
    return graph_node(graph, &op_relu, graph_make_name(graph, "relu"), NULL, &x, 1);
}

static value_id example(struct graph *graph, int variant)
{
    if (variant > 0)
        return -1;
    value_id x = lockstep_input(graph, "x", DTYPE_F32, SHAPE(SHAPE_BATCH, 3, 4, 5));
    return lockstep_relu(graph, x);
}

const struct op op_relu = {.name = "relu", .infer = op_infer_same, .kernels = kernels, .example = example};
