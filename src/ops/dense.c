/* A fully connected layer: x [N, K] by weights [O, K], optional bias [O]. Behind a flatten the
 * planner hands the picture itself, [N, C, H, W], with K = C*H*W in that order. */
#include "base/arena.h"
#include "base/error.h"
#include "exec/known_ops.h"
#include "exec/op.h"

enum { DENSE_X, DENSE_WEIGHTS, DENSE_BIAS };

struct attributes {
    int units;
};

static int infer(const struct graph *graph, const struct node *node, struct value *out,
                 struct error *err)
{
    (void)err;
    const struct attributes *a = node->attributes;
    out->shape = SHAPE(graph_value(graph, node->inputs[DENSE_X])->shape.dim[0], a->units);
    return 0;
}

static double flops(const struct graph *graph, const struct node *node)
{
    return 2.0 * (double)shape_count(&graph_value(graph, node->inputs[DENSE_WEIGHTS])->shape);
}

struct state {
    struct dnn_call *forward, *backward_data, *backward_weights;
};

static int prepare_backward(struct plan_builder *builder, struct plan_node *node,
                            const struct dnn_dense *dense, const struct dnn_primitive *forward,
                            struct state *state, const struct dnn_primitive **passes,
                            struct error *err)
{
    static const enum dnn_argument weights_arguments[] = {DNN_SRC, DNN_DIFF_DST, DNN_DIFF_WEIGHTS,
                                                          DNN_DIFF_BIAS};
    const int weights_roles[] = {ROLE_INPUT + DENSE_X, ROLE_GRADIENT,
                                 ROLE_GRADIENT_OF_INPUT + DENSE_WEIGHTS,
                                 dense->bias ? ROLE_GRADIENT_OF_INPUT + DENSE_BIAS : -1};
    struct dnn_primitive *weights = NULL, *data = NULL;
    if (dnn_dense_backward_weights(dense, forward, &weights, err) < 0)
        return -1;
    builder_own(builder, weights);
    passes[PASS_BACKWARD_WEIGHTS] = weights;
    state->backward_weights = builder_call(builder, node, PASS_BACKWARD_WEIGHTS, weights, 4,
                                           weights_arguments, weights_roles, err);
    if (!state->backward_weights)
        return -1;
    if (!builder_wants_gradient(builder, node->inputs[DENSE_X]))
        return 0;
    static const enum dnn_argument data_arguments[] = {DNN_DIFF_DST, DNN_WEIGHTS, DNN_DIFF_SRC};
    static const int data_roles[] = {ROLE_GRADIENT, ROLE_INPUT + DENSE_WEIGHTS,
                                     ROLE_GRADIENT_OF_INPUT + DENSE_X};
    if (dnn_dense_backward_data(dense, forward, &data, err) < 0)
        return -1;
    builder_own(builder, data);
    passes[PASS_BACKWARD] = data;
    state->backward_data =
        builder_call(builder, node, PASS_BACKWARD, data, 3, data_arguments, data_roles, err);
    return state->backward_data ? 0 : -1;
}

static int prepare(struct plan_builder *builder, struct plan_node *node, struct error *err)
{
    struct state *state = ARENA_NEW(builder_arena(builder), struct state);
    if (!state)
        return error_set(err, ERROR_MEMORY, "no memory for a dense layer");
    node->state = state;
    const struct attributes *a = node->node->attributes;
    struct dnn_dense dense = {.src = builder_layout(builder, node->inputs[DENSE_X]),
                              .units = a->units,
                              .bias = node->input_count > DENSE_BIAS,
                              .relu = node->relu};
    struct dnn_primitive *forward = NULL;
    if (dnn_dense_forward(&dense, builder_is_training(builder), &forward, err) < 0)
        return -1;
    builder_own(builder, forward);
    const struct dnn_primitive *passes[PASS_COUNT] = {forward};
    struct layout output = dnn_layout(forward, DNN_DST);
    builder_output(builder, node, &output);
    static const enum dnn_argument arguments[] = {DNN_SRC, DNN_WEIGHTS, DNN_BIAS, DNN_DST};
    const int roles[] = {ROLE_INPUT + DENSE_X, ROLE_INPUT + DENSE_WEIGHTS,
                         dense.bias ? ROLE_INPUT + DENSE_BIAS : -1, ROLE_OUTPUT};
    state->forward = builder_call(builder, node, PASS_FORWARD, forward, 4, arguments, roles, err);
    if (!state->forward)
        return -1;
    if (builder_is_training(builder) &&
        prepare_backward(builder, node, &dense, forward, state, passes, err) < 0)
        return -1;
    builder_kernel_names(builder, node, passes);
    return 0;
}

static void forward(const struct op_run *run)
{
    dnn_call_run(((const struct state *)run->state)->forward);
}

static void backward_weights(const struct op_run *run)
{
    dnn_call_run(((const struct state *)run->state)->backward_weights);
}

static void backward(const struct op_run *run)
{
    dnn_call_run(((const struct state *)run->state)->backward_data);
}

static const struct op_kernel kernel_dnn = {
    .name = "onednn",
    .prepare = prepare,
    .pass = {forward, backward_weights, backward},
    .relu_forward = true,
};

static const struct op_kernel *const kernels[] = {&kernel_dnn, NULL};

value_id lockstep_dense(struct graph *graph, value_id x, int units, struct dense_options options)
{
    if (!graph_holds(graph, x, "dense"))
        return -1;
    const char *name = options.name ? options.name : graph_make_name(graph, "dense");
    const struct shape *shape = &graph_value(graph, x)->shape;
    if (shape->ndim != 2)
        return graph_fail(graph, "%s: a dense layer takes [N, K], not %d dimensions; flatten first",
                          name, shape->ndim);
    if (units < 1)
        return graph_fail(graph, "%s: %d units", name, units);
    if (options.weights_init.kind == INIT_DEFAULT)
        options.weights_init.kind = INIT_GLOROT_UNIFORM;
    if (options.bias_init.kind == INIT_DEFAULT)
        options.bias_init.kind = INIT_ZEROS;
    struct shape weights = SHAPE(units, shape->dim[1]);
    value_id inputs[3] = {x};
    inputs[1] = graph_param(graph, graph_join_name(graph, name, "weights"), weights,
                            options.weights_init, PARAM_TRAINABLE | PARAM_DECAY);
    if (!options.no_bias)
        inputs[2] = graph_param(graph, graph_join_name(graph, name, "bias"), SHAPE(units),
                                options.bias_init, PARAM_TRAINABLE | PARAM_DECAY);
    return graph_node(graph, &op_dense, name, &(struct attributes){units}, inputs,
                      options.no_bias ? 2 : 3);
}

static value_id example(struct graph *graph, int variant)
{
    if (variant > 1)
        return -1;
    value_id x = lockstep_input(graph, "x", DTYPE_F32, SHAPE(SHAPE_BATCH, 7));
    return lockstep_dense(graph, x, 5, (struct dense_options){.no_bias = variant});
}

const struct op op_dense = {
    .name = "dense",
    .attributes_size = sizeof(struct attributes),
    .infer = infer,
    .kernels = kernels,
    .flops = flops,
    .example = example,
};
