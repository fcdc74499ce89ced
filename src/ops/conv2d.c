/* Convolution over pictures: x [N, C, H, W] by weights [O, C/groups, kh, kw], optional bias [O]. */
#include "base/arena.h"
#include "base/error.h"
#include "exec/known_ops.h"
#include "exec/op.h"
#include "ops/window.h"

struct attributes {
    int channels, groups;
    struct window rows, columns;
};

static int infer(const struct graph *graph, const struct node *node, struct value *out,
                 struct error *err)
{
    const struct attributes *a = node->attributes;
    const struct shape *x = &graph_value(graph, node->inputs[CONV_X])->shape;
    struct window rows = a->rows, columns = a->columns;
    int64_t height, width;
    if (window_resolve(&rows, x->dim[2], &height, err) < 0 ||
        window_resolve(&columns, x->dim[3], &width, err) < 0)
        return -1;
    out->shape = SHAPE(x->dim[0], a->channels, height, width);
    return 0;
}

static double flops(const struct graph *graph, const struct node *node)
{
    const struct shape *weights = &graph_value(graph, node->inputs[CONV_WEIGHTS])->shape;
    const struct shape *y = &graph_value(graph, node->output)->shape;
    return 2.0 * (double)shape_count(weights) * (double)(y->dim[2] * y->dim[3]);
}

/* --- oneDNN's kernels --- */

struct state {
    struct dnn_call *forward, *backward_data, *backward_weights;
};

static struct dnn_conv describe(const struct plan_builder *builder, const struct plan_node *node)
{
    const struct attributes *a = node->node->attributes;
    struct dnn_conv conv = {
        .src = builder_shape(builder, node->inputs[CONV_X]),
        .weights = builder_shape(builder, node->inputs[CONV_WEIGHTS]),
        .dst = builder_shape(builder, node->output),
        .groups = a->groups,
        .stride = a->rows.stride,
        .dilation = a->rows.dilation,
        .bias = node->input_count > CONV_BIAS,
        .relu = node->relu,
        .sum = node->residual >= 0,
    };
    struct window rows = a->rows, columns = a->columns;
    int64_t ignored;
    window_resolve(&rows, conv.src.dim[2], &ignored, NULL);
    window_resolve(&columns, conv.src.dim[3], &ignored, NULL);
    conv.pad_before[0] = rows.pad_before;
    conv.pad_before[1] = columns.pad_before;
    conv.pad_after[0] = rows.pad_after;
    conv.pad_after[1] = columns.pad_after;
    return conv;
}

static int prepare_backward(struct plan_builder *builder, struct plan_node *node,
                            const struct dnn_conv *conv, const struct dnn_primitive *forward,
                            struct state *state, const char **names, struct error *err)
{
    static const enum dnn_argument weights_arguments[] = {DNN_SRC, DNN_DIFF_DST, DNN_DIFF_WEIGHTS,
                                                          DNN_DIFF_BIAS};
    const int weights_roles[] = {ROLE_INPUT + CONV_X, ROLE_GRADIENT,
                                 ROLE_GRADIENT_OF_INPUT + CONV_WEIGHTS,
                                 conv->bias ? ROLE_GRADIENT_OF_INPUT + CONV_BIAS : -1};
    struct dnn_primitive *weights = NULL, *data = NULL;
    if (dnn_conv_backward_weights(conv, forward, &weights, err) < 0)
        return -1;
    builder_own(builder, weights);
    names[1] = dnn_kernel(weights);
    state->backward_weights = builder_call(builder, node, PASS_BACKWARD_WEIGHTS, weights, 4,
                                           weights_arguments, weights_roles, err);
    if (!state->backward_weights)
        return -1;
    if (!builder_wants_gradient(builder, node->inputs[CONV_X]))
        return 0;

    static const enum dnn_argument data_arguments[] = {DNN_DIFF_DST, DNN_WEIGHTS, DNN_DIFF_SRC};
    static const int data_roles[] = {ROLE_GRADIENT, ROLE_INPUT + CONV_WEIGHTS,
                                     ROLE_GRADIENT_OF_INPUT + CONV_X};
    if (dnn_conv_backward_data(conv, forward, &data, err) < 0)
        return -1;
    builder_own(builder, data);
    names[2] = dnn_kernel(data);
    state->backward_data =
        builder_call(builder, node, PASS_BACKWARD, data, 3, data_arguments, data_roles, err);
    return state->backward_data ? 0 : -1;
}

static int prepare(struct plan_builder *builder, struct plan_node *node, struct error *err)
{
    struct state *state = ARENA_NEW(builder_arena(builder), struct state);
    if (!state)
        return error_set(err, ERROR_MEMORY, "no memory for a convolution");
    node->state = state;
    struct dnn_conv conv = describe(builder, node);
    struct dnn_primitive *forward = NULL;
    if (dnn_conv_forward(&conv, builder_is_training(builder), &forward, err) < 0)
        return -1;
    builder_own(builder, forward);
    const char *names[3] = {dnn_kernel(forward), NULL, NULL};
    static const enum dnn_argument arguments[] = {DNN_SRC, DNN_WEIGHTS, DNN_BIAS, DNN_DST};
    const int roles[] = {ROLE_INPUT + CONV_X, ROLE_INPUT + CONV_WEIGHTS,
                         conv.bias ? ROLE_INPUT + CONV_BIAS : -1, ROLE_OUTPUT};
    struct layout output = dnn_layout(forward, DNN_DST);
    builder_output(builder, node, &output);
    if (conv.sum)
        builder_accumulate(builder, node);
    state->forward = builder_call(builder, node, PASS_FORWARD, forward, 4, arguments, roles, err);
    if (!state->forward)
        return -1;
    struct dnn_conv plain = conv;
    plain.relu = plain.sum = false;
    if (builder_is_training(builder) &&
        prepare_backward(builder, node, &plain, forward, state, names, err) < 0)
        return -1;
    bool same = (!names[1] || strcmp(names[0], names[1]) == 0) &&
                (!names[2] || strcmp(names[0], names[2]) == 0);
    if (same)
        builder_kernel_name(builder, node, "%s", names[0]);
    else
        builder_kernel_name(builder, node, "%s, w %s, d %s", names[0], names[1],
                            names[2] ? names[2] : "-");
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
    .residual_serving = true,
};

static const struct op_kernel *const kernels[] = {&kernel_dnn, NULL};

/* --- Building --- */

static struct window axis(const struct conv2d_options *options, int kernel)
{
    return (struct window){.kernel = kernel ? kernel : options->kernel,
                           .stride = options->stride ? options->stride : 1,
                           .dilation = options->dilation ? options->dilation : 1,
                           .padding = options->padding,
                           .pad_before = options->pad_before, .pad_after = options->pad_after};
}

value_id lockstep_conv2d(struct graph *graph, value_id x, int channels,
                         struct conv2d_options options)
{
    if (x < 0)
        return x;
    const char *name = options.name ? options.name : graph_make_name(graph, "conv2d");
    const struct shape *shape = &graph_value(graph, x)->shape;
    struct attributes attributes = {.channels = channels,
                                    .groups = options.groups ? options.groups : 1,
                                    .rows = axis(&options, options.kernel_height),
                                    .columns = axis(&options, options.kernel_width)};
    if (shape->ndim != 4)
        return graph_fail(graph, "%s: a convolution takes [N, C, H, W], not %d dimensions", name,
                          shape->ndim);
    if (channels < 1 || attributes.groups < 1 || shape->dim[1] % attributes.groups ||
        channels % attributes.groups)
        return graph_fail(graph, "%s: %lld channels to %d do not divide into %d groups", name,
                          (long long)shape->dim[1], channels, attributes.groups);
    if (attributes.rows.kernel < 1 || attributes.columns.kernel < 1)
        return graph_fail(graph, "%s: no kernel size given", name);
    if (options.weights_init.kind == INIT_DEFAULT)
        options.weights_init.kind = INIT_GLOROT_UNIFORM;
    if (options.bias_init.kind == INIT_DEFAULT)
        options.bias_init.kind = INIT_ZEROS;
    struct shape weights = SHAPE(channels, shape->dim[1] / attributes.groups,
                                 attributes.rows.kernel, attributes.columns.kernel);
    value_id inputs[3] = {x};
    inputs[1] = graph_param(graph, graph_join_name(graph, name, "weights"), weights,
                            options.weights_init, PARAM_TRAINABLE | PARAM_DECAY);
    if (!options.no_bias)
        inputs[2] = graph_param(graph, graph_join_name(graph, name, "bias"), SHAPE(channels),
                                options.bias_init, PARAM_TRAINABLE | PARAM_DECAY);
    return graph_node(graph, &op_conv2d, name, &attributes, inputs, options.no_bias ? 2 : 3);
}

static value_id example(struct graph *graph, int variant)
{
    static const struct conv2d_options variants[] = {
        {.kernel = 3, .padding = PADDING_SAME},
        {.kernel = 3, .stride = 2, .padding = PADDING_EXPLICIT, .pad_before = 1, .no_bias = 1},
        {.kernel = 1},
        {.kernel = 2, .groups = 4, .dilation = 2},
    };
    if (variant >= (int)(sizeof variants / sizeof variants[0]))
        return -1;
    value_id x = lockstep_input(graph, "x", DTYPE_F32, SHAPE(SHAPE_BATCH, 4, 7, 6));
    return lockstep_conv2d(graph, x, 8, variants[variant]);
}

const struct op op_conv2d = {
    .name = "conv2d",
    .attributes_size = sizeof(struct attributes),
    .infer = infer,
    .kernels = kernels,
    .flops = flops,
    .example = example,
};
