/* a + b, of equal shapes. Its gradient is the output's own, for both. */
#include "base/arena.h"
#include "base/error.h"
#include "exec/elementwise.h"
#include "exec/known_ops.h"
#include "exec/op.h"

static int infer(const struct graph *graph, const struct node *node, struct value *out,
                 struct error *err)
{
    const struct shape *a = &graph_value(graph, node->inputs[0])->shape;
    const struct shape *b = &graph_value(graph, node->inputs[1])->shape;
    if (!shape_equal(a, b)) {
        char left[96], right[96];
        return error_set(err, ERROR_FORMAT, "cannot add %s and %s",
                         shape_text(a, left, sizeof left), shape_text(b, right, sizeof right));
    }
    out->shape = *a;
    return 0;
}

struct state {
    size_t count;
};

static int prepare(struct plan_builder *builder, struct plan_node *node, struct error *err)
{
    struct state *state = ARENA_NEW(builder_arena(builder), struct state);
    if (!state)
        return error_set(err, ERROR_MEMORY, "no memory for an addition");
    const struct layout *layout = builder_layout(builder, node->inputs[0]);
    state->count = layout_bytes(layout) / sizeof(float);
    node->state = state;
    for (int i = 0; i < 2; i++) {
        builder_use(builder, node, PASS_FORWARD, ROLE_INPUT + i, layout);
        builder_use(builder, node, PASS_RECOMPUTE, ROLE_INPUT + i, layout);
    }
    builder_output(builder, node, layout);
    if (node->inputs[0] != node->inputs[1])
        builder_allow_overwrite(builder, node, 0);
    builder_pass_gradient(builder, node, 0);
    builder_pass_gradient(builder, node, 1);
    return 0;
}

static void forward(const struct op_run *run)
{
    elementwise_sum(run->output, run->inputs, 2, ((const struct state *)run->state)->count);
    if (run->node->relu)
        elementwise_relu(run->output, run->output, ((const struct state *)run->state)->count);
}

static const struct op_kernel kernel_own = {
    .name = "own",
    .prepare = prepare,
    .pass = {forward, NULL, NULL, forward},
    .relu_forward = true,
};

static const struct op_kernel *const kernels[] = {&kernel_own, NULL};

value_id lockstep_add(struct graph *graph, value_id a, value_id b)
{
    if (!graph_holds(graph, a, "add") || !graph_holds(graph, b, "add"))
        return -1;
    value_id inputs[] = {a, b};
    return graph_node(graph, &op_add, graph_make_name(graph, "add"), NULL, inputs, 2);
}

static value_id example(struct graph *graph, int variant)
{
    if (variant > 0)
        return -1;
    value_id x = lockstep_input(graph, "x", DTYPE_F32, SHAPE(SHAPE_BATCH, 3, 4, 5));
    value_id y = lockstep_input(graph, "y", DTYPE_F32, SHAPE(SHAPE_BATCH, 3, 4, 5));
    return lockstep_add(graph, x, y);
}

const struct op op_add = {.name = "add", .infer = infer, .kernels = kernels, .example = example};
