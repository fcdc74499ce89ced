/* 1 / (1 + exp(-x)). */
#include <math.h>

#include "base/arena.h"
#include "base/error.h"
#include "exec/elementwise.h"
#include "exec/op.h"

extern const struct op op_sigmoid;

struct state {
    size_t count;
};

/* In row-major order: the padding of a blocked layout must stay zero, and a sigmoid of zero is
 * not. */
static int prepare(struct plan_builder *builder, struct plan_node *node, struct error *err)
{
    struct state *state = ARENA_NEW(builder_arena(builder), struct state);
    if (!state)
        return error_set(err, ERROR_MEMORY, "no memory for a sigmoid");
    struct shape shape = builder_shape(builder, node->inputs[0]);
    struct layout plain = layout_plain(&shape);
    state->count = (size_t)shape_count(&shape);
    node->state = state;
    builder_use(builder, node, PASS_FORWARD, ROLE_INPUT, &plain);
    builder_output(builder, node, &plain);
    builder_allow_overwrite(builder, node, 0);
    builder_use(builder, node, PASS_BACKWARD, ROLE_OUTPUT, NULL);
    builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT, &plain);
    builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT_OF_INPUT, &plain);
    builder_gradient_in_place(builder, node);
    return 0;
}

static void forward(const struct op_run *run)
{
    size_t count = ((const struct state *)run->state)->count;
    const float *x = run->inputs[0];
#pragma omp parallel for schedule(static) if (count > ELEMENTWISE_PIECE)
    for (size_t i = 0; i < count; i++)
        run->output[i] = 1 / (1 + expf(-x[i]));
}

static void backward(const struct op_run *run)
{
    size_t count = ((const struct state *)run->state)->count;
    const float *y = run->output, *gradient = run->gradients[0];
#pragma omp parallel for schedule(static) if (count > ELEMENTWISE_PIECE)
    for (size_t i = 0; i < count; i++)
        run->input_gradients[0][i] = gradient[i] * y[i] * (1 - y[i]);
}

static const struct op_kernel kernel_own = {
    .name = "own",
    .prepare = prepare,
    .pass = {forward, NULL, backward},
};

static const struct op_kernel *const kernels[] = {&kernel_own, NULL};

value_id lockstep_sigmoid(struct graph *graph, value_id x)
{
    if (!graph_holds(graph, x, "sigmoid"))
        return -1;
    return graph_node(graph, &op_sigmoid, graph_make_name(graph, "sigmoid"), NULL, &x, 1);
}

static value_id example(struct graph *graph, int variant)
{
    if (variant > 0)
        return -1;
    value_id x = lockstep_input(graph, "x", DTYPE_F32, SHAPE(SHAPE_BATCH, 3, 4, 5));
    return lockstep_sigmoid(graph, x);
}

const struct op op_sigmoid = {
    .name = "sigmoid", .infer = op_infer_same, .kernels = kernels, .example = example};
