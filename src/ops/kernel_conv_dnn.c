/* Convolutions by oneDNN: any shape, on whatever the processor has. */
#include "base/arena.h"
#include "base/error.h"
#include "exec/known_ops.h"
#include "ops/conv_attributes.h"

struct state {
    struct dnn_call *forward, *backward_data, *backward_weights;
};

struct dnn_conv conv_describe(const struct plan_builder *builder, const struct plan_node *node)
{
    const struct conv_attributes *a = node->node->attributes;
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
                            struct state *state, const struct dnn_primitive **passes,
                            struct error *err)
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
    passes[PASS_BACKWARD_WEIGHTS] = weights;
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
    passes[PASS_BACKWARD] = data;
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
    struct dnn_conv conv = conv_describe(builder, node);
    struct dnn_primitive *forward = NULL;
    if (dnn_conv_forward(&conv, builder_is_training(builder), &forward, err) < 0)
        return -1;
    builder_own(builder, forward);
    const struct dnn_primitive *passes[PASS_COUNT] = {forward};
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
        prepare_backward(builder, node, &plain, forward, state, passes, err) < 0)
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

const struct op_kernel conv_kernel_dnn = {
    .name = "onednn",
    .prepare = prepare,
    .pass = {forward, backward_weights, backward},
    .relu_forward = true,
    .residual_serving = true,
};
