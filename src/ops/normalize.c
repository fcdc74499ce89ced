/* y = (x - minimum) / range, column by column of [N, K]; 0 where the range is 0. Minimum and range
 * come from the data's statistics and are kept like batch norm's, so that whoever has the weights
 * has them, too. */
#include "base/arena.h"
#include "base/error.h"
#include "exec/known_ops.h"
#include "exec/op.h"

struct state {
    int64_t rows, columns;
};

static int infer(const struct graph *graph, const struct node *node, struct value *out,
                 struct error *err)
{
    (void)err;
    out->shape = graph_value(graph, node->inputs[NORMALIZE_X])->shape;
    return 0;
}

static int prepare(struct plan_builder *builder, struct plan_node *node, struct error *err)
{
    struct state *state = ARENA_NEW(builder_arena(builder), struct state);
    if (!state)
        return error_set(err, ERROR_MEMORY, "no memory for a normalisation");
    struct shape shape = builder_shape(builder, node->inputs[NORMALIZE_X]);
    struct layout plain = layout_plain(&shape);
    *state = (struct state){shape.dim[0], shape.dim[1]};
    node->state = state;
    builder_use(builder, node, PASS_FORWARD, ROLE_INPUT + NORMALIZE_X, &plain);
    builder_use(builder, node, PASS_FORWARD, ROLE_INPUT + NORMALIZE_MINIMUM, NULL);
    builder_use(builder, node, PASS_FORWARD, ROLE_INPUT + NORMALIZE_RANGE, NULL);
    builder_output(builder, node, &plain);
    builder_use(builder, node, PASS_BACKWARD, ROLE_INPUT + NORMALIZE_RANGE, NULL);
    builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT, &plain);
    builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT_OF_INPUT + NORMALIZE_X, &plain);
    return 0;
}

/* Divides, rather than multiply by a reciprocal: the largest value is to give exactly 1. */
static void forward(const struct op_run *run)
{
    const struct state *state = run->state;
    const float *minimum = run->inputs[NORMALIZE_MINIMUM], *range = run->inputs[NORMALIZE_RANGE];
    for (int64_t n = 0; n < state->rows; n++) {
        const float *x = run->inputs[NORMALIZE_X] + n * state->columns;
        float *y = run->output + n * state->columns;
        for (int64_t c = 0; c < state->columns; c++)
            y[c] = range[c] == 0 ? 0 : (x[c] - minimum[c]) / range[c];
    }
}

static void backward(const struct op_run *run)
{
    const struct state *state = run->state;
    const float *range = run->inputs[NORMALIZE_RANGE];
    for (int64_t n = 0; n < state->rows; n++) {
        const float *dy = run->gradients[0] + n * state->columns;
        float *dx = run->input_gradients[NORMALIZE_X] + n * state->columns;
        for (int64_t c = 0; c < state->columns; c++)
            dx[c] = range[c] == 0 ? 0 : dy[c] / range[c];
    }
}

static const struct op_kernel kernel_own = {
    .name = "own",
    .prepare = prepare,
    .pass = {forward, NULL, backward},
};

static const struct op_kernel *const kernels[] = {&kernel_own, NULL};

value_id lockstep_normalize(struct graph *graph, value_id x, struct normalize_options options)
{
    if (!graph_holds(graph, x, "normalize"))
        return -1;
    const char *name = options.name ? options.name : graph_make_name(graph, "normalize");
    const struct shape *shape = &graph_value(graph, x)->shape;
    if (shape->ndim != 2)
        return graph_fail(graph, "%s: a normalisation takes [N, K], not %d dimensions", name,
                          shape->ndim);
    struct shape columns = SHAPE(shape->dim[1]);
    value_id inputs[] = {
        x,
        graph_param(graph, graph_join_name(graph, name, "minimum"), columns,
                    (struct initializer){.kind = INIT_ZEROS}, PARAM_STATISTIC),
        graph_param(graph, graph_join_name(graph, name, "range"), columns,
                    (struct initializer){.kind = INIT_ONES}, PARAM_STATISTIC),
    };
    return graph_node(graph, &op_normalize, name, NULL, inputs, 3);
}

static value_id example(struct graph *graph, int variant)
{
    if (variant > 0)
        return -1;
    value_id x = lockstep_input(graph, "x", DTYPE_F32, SHAPE(SHAPE_BATCH, 5));
    return lockstep_normalize(graph, x, (struct normalize_options){0});
}

const struct op op_normalize = {
    .name = "normalize", .infer = infer, .kernels = kernels, .example = example};
