/* A fully connected layer: x [N, K] by weights [O, K], optional bias [O]. Behind a flatten the
 * planner hands the picture itself, [N, C, H, W], with K = C*H*W in that order. */
#include "ops/dense.h"
#include "exec/known_ops.h"
#include "ops/weighted.h"

struct attributes {
    int units;
};

static int infer(const struct graph *graph, const struct node *node, struct value *out,
                 struct error *err)
{
    (void)err;
    const struct attributes *a = node->attributes;
    out->shape = SHAPE(graph_value(graph, node->inputs[WEIGHTED_X])->shape.dim[0], a->units);
    return 0;
}

static double flops(const struct graph *graph, const struct node *node)
{
    return 2.0 * (double)shape_count(&graph_value(graph, node->inputs[WEIGHTED_WEIGHTS])->shape);
}

static int make_backward(struct plan_builder *builder, const struct plan_node *node,
                         const struct dnn_dense *dense, struct weighted *made, struct error *err)
{
    const struct dnn_primitive *forward = made->passes[PASS_FORWARD];
    struct dnn_primitive **weights = &made->passes[PASS_BACKWARD_WEIGHTS];
    struct dnn_primitive **data = &made->passes[PASS_BACKWARD];
    if (dnn_dense_backward_weights(dense, forward, weights, err) < 0)
        return -1;
    builder_own(builder, *weights);
    if (!builder_wants_gradient(builder, node->inputs[WEIGHTED_X]))
        return 0;
    if (dnn_dense_backward_data(dense, forward, data, err) < 0)
        return -1;
    builder_own(builder, *data);
    return 0;
}

static int prepare(struct plan_builder *builder, struct plan_node *node, struct error *err)
{
    const struct attributes *a = node->node->attributes;
    struct dnn_dense dense = {.src = builder_layout(builder, node->inputs[WEIGHTED_X]),
                              .units = a->units,
                              .bias = node->input_count > WEIGHTED_BIAS,
                              .relu = node->relu,
                              .as_for_many = builder_is_serving(builder)};
    struct weighted made = {0};
    bool training = builder_is_training(builder);
    if (dnn_dense_forward(&dense, !builder_is_serving(builder), &made.passes[PASS_FORWARD], err) < 0)
        return -1;
    builder_own(builder, made.passes[PASS_FORWARD]);
    if (training && make_backward(builder, node, &dense, &made, err) < 0)
        return -1;
    return weighted_bind(builder, node, &made, err);
}

static const struct op_kernel kernel_dnn = {
    .name = "onednn",
    .prepare = prepare,
    .pass = {weighted_forward, weighted_backward_weights, weighted_backward},
    .relu_forward = true,
};

static const struct op_kernel *const kernels[] = {&dense_kernel_rows, &kernel_dnn, NULL};

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
