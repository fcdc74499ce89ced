/* Convolutions by oneDNN: any shape, on whatever the processor has. */
#include "exec/known_ops.h"
#include "ops/conv_attributes.h"
#include "ops/weighted.h"

_Static_assert((int)CONV_WEIGHTS == (int)WEIGHTED_WEIGHTS && (int)CONV_BIAS == (int)WEIGHTED_BIAS,
               "a convolution's inputs are in the common order");

struct dnn_conv conv_describe(const struct plan_builder *builder, const struct plan_node *node)
{
    const struct conv_attributes *a = node->node->attributes;
    struct dnn_conv conv = {
        .src = builder_shape(builder, node->inputs[CONV_X]),
        .weights = builder_shape(builder, node->inputs[CONV_WEIGHTS]),
        .dst = builder_shape(builder, node->output),
        .groups = a->groups,
        .stride = {a->rows.stride, a->columns.stride},
        .dilation = {a->rows.dilation, a->columns.dilation},
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

static int make_backward(struct plan_builder *builder, const struct plan_node *node,
                         const struct dnn_conv *conv, struct weighted *made, struct error *err)
{
    const struct dnn_primitive *forward = made->passes[PASS_FORWARD];
    struct dnn_primitive **weights = &made->passes[PASS_BACKWARD_WEIGHTS];
    struct dnn_primitive **data = &made->passes[PASS_BACKWARD];
    if (dnn_conv_backward_weights(conv, forward, weights, err) < 0)
        return -1;
    builder_own(builder, *weights);
    if (!builder_wants_gradient(builder, node->inputs[CONV_X]))
        return 0;
    if (dnn_conv_backward_data(conv, forward, data, err) < 0)
        return -1;
    builder_own(builder, *data);
    return 0;
}

static int prepare(struct plan_builder *builder, struct plan_node *node, struct error *err)
{
    struct dnn_conv conv = conv_describe(builder, node);
    struct weighted made = {0};
    bool training = builder_is_training(builder);
    if (dnn_conv_forward(&conv, training, &made.passes[PASS_FORWARD], err) < 0)
        return -1;
    builder_own(builder, made.passes[PASS_FORWARD]);
    if (conv.sum)
        builder_accumulate(builder, node);
    struct dnn_conv plain = conv;
    plain.relu = plain.sum = false;
    if (training && make_backward(builder, node, &plain, &made, err) < 0)
        return -1;
    return weighted_bind(builder, node, &made, err);
}

const struct op_kernel conv_kernel_dnn = {
    .name = "onednn",
    .prepare = prepare,
    .pass = {weighted_forward, weighted_backward_weights, weighted_backward},
    .relu_forward = true,
    .residual_serving = true,
};
