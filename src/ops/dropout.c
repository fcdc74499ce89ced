/* Sets each element to zero with probability `rate` and scales the others by 1 / (1 - rate), in
 * training; elsewhere it is the input itself. The mask is drawn again in backward from the same
 * numbers, so it takes no memory. */
#include "base/arena.h"
#include "base/error.h"
#include "exec/elementwise.h"
#include "exec/op.h"
#include "tensor/random.h"

extern const struct op op_dropout;

struct attributes {
    float rate;
};

static int infer(const struct graph *graph, const struct node *node, struct value *out,
                 struct error *err)
{
    const struct attributes *a = node->attributes;
    if (!(a->rate >= 0 && a->rate < 1))
        return error_set(err, ERROR_FORMAT, "a dropout rate of %g; it must be in [0, 1)",
                         (double)a->rate);
    out->shape = graph_value(graph, node->inputs[0])->shape;
    return 0;
}

struct state {
    size_t count;
};

static int prepare(struct plan_builder *builder, struct plan_node *node, struct error *err)
{
    struct state *state = ARENA_NEW(builder_arena(builder), struct state);
    if (!state)
        return error_set(err, ERROR_MEMORY, "no memory for a dropout");
    const struct layout *layout = builder_layout(builder, node->inputs[0]);
    state->count = layout_bytes(layout) / sizeof(float);
    node->state = state;
    builder_use(builder, node, PASS_FORWARD, ROLE_INPUT, layout);
    builder_output(builder, node, layout);
    if (!builder_is_training(builder)) {
        builder_view(builder, node, 0);
        return 0;
    }
    builder_allow_overwrite(builder, node, 0);
    builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT, layout);
    builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT_OF_INPUT, layout);
    builder_gradient_in_place(builder, node);
    return 0;
}

static void apply(const struct op_run *run, float *out, const float *in)
{
    const struct attributes *a = run->node->node->attributes;
    size_t count = ((const struct state *)run->state)->count;
    /* 2^64 * rate: a number below it drops the element. */
    uint64_t limit = (uint64_t)((double)a->rate * 18446744073709551616.0);
    float scale = 1 / (1 - a->rate);
    uint64_t key = run->random;
#pragma omp parallel for schedule(static) if (count > ELEMENTWISE_PIECE)
    for (size_t i = 0; i < count; i++)
        out[i] = random_at(key, i) < limit ? 0 : in[i] * scale;
}

static void forward(const struct op_run *run)
{
    apply(run, run->output, run->inputs[0]);
}

static void backward(const struct op_run *run)
{
    apply(run, run->input_gradients[0], run->gradients[0]);
}

static const struct op_kernel kernel_own = {
    .name = "own",
    .prepare = prepare,
    .pass = {forward, NULL, backward},
};

static const struct op_kernel *const kernels[] = {&kernel_own, NULL};

value_id lockstep_dropout(struct graph *graph, value_id x, float rate)
{
    if (!graph_holds(graph, x, "dropout"))
        return -1;
    return graph_node(graph, &op_dropout, graph_make_name(graph, "dropout"),
                      &(struct attributes){rate}, &x, 1);
}

static value_id example(struct graph *graph, int variant)
{
    if (variant > 0)
        return -1;
    value_id x = lockstep_input(graph, "x", DTYPE_F32, SHAPE(SHAPE_BATCH, 40));
    return lockstep_dropout(graph, x, 0.3f);
}

const struct op op_dropout = {
    .name = "dropout",
    .attributes_size = sizeof(struct attributes),
    .infer = infer,
    .kernels = kernels,
    .example = example,
};
