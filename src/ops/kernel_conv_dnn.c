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

/* On NEON the library has kernels for plain layouts only, none that ours should adapt to. (Where it has
 * blocks on arm64, with registers of 512 bits, it is left alone.) */
static void name_layout(struct layout *layout)
{
#if defined(__aarch64__)
    struct shape shape = layout_shape(layout);
    if (shape.dim[1] % 8 == 0 && layout_is_plain(layout))
        *layout = layout_channels_in_eights(&shape);
#else
    (void)layout;
#endif
}

int conv_layouts(const struct plan_builder *builder, const struct plan_node *node, struct layout *x,
                 struct layout *y, struct error *err)
{
    struct dnn_primitive *conv = NULL;
    struct dnn_conv description = conv_describe(builder, node);
    description.relu = description.sum = false;
    if (dnn_conv_forward(&description, builder_is_training(builder), &conv, err) < 0)
        return -1;
    *x = dnn_layout(conv, DNN_SRC);
    *y = dnn_layout(conv, DNN_DST);
    dnn_primitive_destroy(conv);
    name_layout(x);
    name_layout(y);
    return 0;
}

int conv_layout_block(const struct layout *layout)
{
    struct layout_form form;
    return layout_form(layout, &form) && form.blocks > 1 ? (int)form.inner : 0;
}

int conv_block(const struct plan_builder *builder, const struct plan_node *node)
{
    struct layout x, y;
    if (conv_layouts(builder, node, &x, &y, NULL) < 0)
        return 0;
    return conv_layout_block(&x) == conv_layout_block(&y) ? conv_layout_block(&y) : 0;
}

static int make_backward(struct plan_builder *builder, const struct plan_node *node,
                         const struct dnn_conv *conv, bool weights, struct weighted *made,
                         struct error *err)
{
    const struct dnn_primitive *forward = made->passes[PASS_FORWARD];
    struct dnn_primitive **data = &made->passes[PASS_BACKWARD];
    if (weights) {
        struct dnn_primitive **gradient = &made->passes[PASS_BACKWARD_WEIGHTS];
        if (dnn_conv_backward_weights(conv, forward, gradient, err) < 0)
            return -1;
        builder_own(builder, *gradient);
    }
    if (!builder_wants_gradient(builder, node->inputs[CONV_X]))
        return 0;
    if (dnn_conv_backward_data(conv, forward, data, err) < 0)
        return -1;
    builder_own(builder, *data);
    return 0;
}

int conv_make_passes(struct plan_builder *builder, struct plan_node *node, bool weights,
                     struct weighted *made, struct error *err)
{
    struct dnn_conv conv = conv_describe(builder, node);
    bool training = builder_is_training(builder);
    if (dnn_conv_forward(&conv, training, &made->passes[PASS_FORWARD], err) < 0)
        return -1;
    builder_own(builder, made->passes[PASS_FORWARD]);
    if (conv.sum)
        builder_accumulate(builder, node);
    struct dnn_conv plain = conv;
    plain.relu = plain.sum = false;
    return training ? make_backward(builder, node, &plain, weights, made, err) : 0;
}

static int prepare(struct plan_builder *builder, struct plan_node *node, struct error *err)
{
    struct weighted made = {0};
    if (conv_make_passes(builder, node, true, &made, err) < 0)
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
