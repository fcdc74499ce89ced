/* TensorFlow's operations in our words, one function each. */
#include <float.h>

#include "base/arena.h"
#include "base/error.h"
#include "convert/tf_import_parts.h"
#include "exec/known_ops.h"

/* Of a convolution or matrix product that still waits for a bias. */
struct import_product {
    struct import_value x, weights;
    const struct tf_def_node *node;
    bool convolution;
    struct conv2d_options options;
    int channels;     /* out */
    bool transposed;  /* the matrix is [out, in] */
    value_id settled; /* without a bias; -1: not yet */
};

struct import_value import_nothing(void)
{
    return (struct import_value){.kind = IMPORT_NOTHING};
}

struct import_value import_value_of(value_id id)
{
    return (struct import_value){.kind = id < 0 ? IMPORT_NOTHING : IMPORT_VALUE, .id = id};
}

const struct shape *import_shape_of(const struct import *import, const struct import_value *value)
{
    return &graph_value(import->graph, value->id)->shape;
}

struct import_value import_take(struct import *import, struct import_frame *frame,
                                const struct tf_def_node *node, int input)
{
    struct import_value value = import_settle(import, import_input(import, frame, node, input));
    bool padded = value.pads[0] || value.pads[1] || value.pads[2] || value.pads[3];
    if (value.kind == IMPORT_NOTHING)
        return value;
    return value.kind != IMPORT_VALUE || padded ? import_refuse(import, node) : value;
}

int import_ints(const struct import_value *value, int64_t *out, int room)
{
    const struct tensor *tensor = &value->constant;
    int64_t count = value->kind == IMPORT_CONSTANT ? shape_count(&tensor->shape) : -1;
    if (count < 0 || count > room || (tensor->dtype != DTYPE_I32 && tensor->dtype != DTYPE_I64))
        return -1;
    for (int64_t i = 0; i < count; i++)
        out[i] = tensor->dtype == DTYPE_I32 ? ((const int32_t *)tensor->data)[i]
                                            : ((const int64_t *)tensor->data)[i];
    return (int)count;
}

/* ---- sources ---- */

static struct import_value import_const(struct import *import, struct import_frame *frame,
                                        const struct tf_def_node *node)
{
    struct import_value value = {.kind = IMPORT_CONSTANT};
    struct error ignored;
    (void)frame;
    /* One of a type we lack is refused where it is used. */
    if (tf_def_tensor(node, "value", import->arena, &value.constant, &ignored) < 0)
        return import_refuse(import, node);
    return value;
}

static struct import_value import_handle(struct import *import, struct import_frame *frame,
                                         const struct tf_def_node *node)
{
    (void)import;
    (void)frame;
    return (struct import_value){.kind = IMPORT_VARIABLE, .variable = node};
}

static struct import_value import_read(struct import *import, struct import_frame *frame,
                                       const struct tf_def_node *node)
{
    struct import_value value = import_input(import, frame, node, 0);
    if (value.kind == IMPORT_VARIABLE)
        value.kind = IMPORT_WEIGHTS;
    else if (value.kind != IMPORT_NOTHING)
        return import_refuse(import, node);
    return value;
}

static struct import_value import_pass(struct import *import, struct import_frame *frame,
                                       const struct tf_def_node *node)
{
    return import_input(import, frame, node, 0);
}

/* ---- products and biases ---- */

static value_id build_product(struct import *import, const struct import_product *product,
                              const struct import_value *bias)
{
    struct conv2d_options options = product->options;
    struct graph *graph = import->graph;
    options.no_bias = !bias;
    value_id id = product->convolution
                      ? lockstep_conv2d(graph, product->x.id, product->channels, options)
                      : lockstep_dense(graph, product->x.id, product->channels,
                                       (struct dense_options){.no_bias = !bias});
    if (id < 0)
        return id;
    const struct node *node = graph_node_at(graph, graph_value(graph, id)->producer);
    enum import_turn turn = product->convolution  ? TURN_CONVOLUTION
                            : product->transposed ? TURN_MATRIX_TRANSPOSED
                                                  : TURN_MATRIX;
    bool kept =
        import_add_load(import, node->inputs[1], &product->weights, turn, product->x.flat) &&
        (!bias || import_add_load(import, node->inputs[2], bias, TURN_NONE, NULL));
    return kept ? id : -1;
}

struct import_value import_settle(struct import *import, struct import_value value)
{
    if (value.kind == IMPORT_SCALED)
        return import_unshifted(import, value);
    if (value.kind != IMPORT_PRODUCT)
        return value;
    if (value.product->settled < 0)
        value.product->settled = build_product(import, value.product, NULL);
    return import_value_of(value.product->settled);
}

static struct import_value make_product(struct import *import, struct import_product product)
{
    struct import_product *copy = ARENA_NEW(import->arena, struct import_product);
    if (!copy)
        return import_nothing();
    *copy = product;
    copy->settled = -1;
    return (struct import_value){.kind = IMPORT_PRODUCT, .product = copy};
}

static struct import_value import_mat_mul(struct import *import, struct import_frame *frame,
                                          const struct tf_def_node *node)
{
    struct import_value x = import_take(import, frame, node, 0);
    struct import_value weights = import_input(import, frame, node, 1);
    struct shape shape;
    bool transposed = tf_def_bool(node, "transpose_b", false);
    if (x.kind == IMPORT_NOTHING || weights.kind == IMPORT_NOTHING)
        return import_nothing();
    if (!import_is_weights(&weights) || !import_weights_shape(&weights, &shape) ||
        shape.ndim != 2 || tf_def_bool(node, "transpose_a", false) ||
        import_shape_of(import, &x)->ndim != 2 ||
        shape.dim[transposed ? 1 : 0] != import_shape_of(import, &x)->dim[1] ||
        shape.dim[transposed ? 0 : 1] < 1 || shape.dim[transposed ? 0 : 1] > INT32_MAX)
        return import_refuse(import, node);
    return make_product(import,
                        (struct import_product){.x = x,
                                                .weights = weights,
                                                .node = node,
                                                .channels = (int)shape.dim[transposed ? 0 : 1],
                                                .transposed = transposed});
}

bool import_both_axes(const struct tf_def_node *node, const char *name, int missing, int *out)
{
    int64_t list[4];
    int count = tf_def_ints(node, name, list, 4);
    *out = missing;
    if (count < 0)
        return true;
    if (count != 4 || list[0] != 1 || list[3] != 1 || list[1] != list[2] || list[1] < 1 ||
        list[1] > 1 << 16)
        return false;
    *out = (int)list[1];
    return true;
}

bool import_padding(const struct tf_def_node *node, const int64_t before[4], enum padding *padding,
                    int *first, int *last)
{
    int64_t pads[8] = {0};
    bool padded = before[0] || before[1] || before[2] || before[3];
    *padding = tf_def_text_is(node, "padding", "SAME", false) ? PADDING_SAME : PADDING_VALID;
    if (tf_def_text_is(node, "padding", "EXPLICIT", false)) {
        if (tf_def_ints(node, "explicit_paddings", pads, 8) != 8)
            return false;
        *padding = PADDING_EXPLICIT;
    }
    if (padded && *padding != PADDING_VALID)
        return false;
    for (int i = 0; padded && i < 4; i++)
        pads[2 + i] = before[i];
    if (padded)
        *padding = PADDING_EXPLICIT;
    *first = (int)pads[2];
    *last = (int)pads[3];
    return pads[0] == 0 && pads[1] == 0 && pads[6] == 0 && pads[7] == 0 && pads[2] == pads[4] &&
           pads[3] == pads[5] && pads[2] >= 0 && pads[3] >= 0 && pads[2] < 1 << 16 &&
           pads[3] < 1 << 16;
}

bool import_is_picture(const struct import *import, const struct import_value *x)
{
    return x->kind == IMPORT_VALUE && import_shape_of(import, x)->ndim == 4 && !x->channels_first;
}

static struct import_value import_conv(struct import *import, struct import_frame *frame,
                                       const struct tf_def_node *node)
{
    struct import_value x = import_settle(import, import_input(import, frame, node, 0));
    struct import_value weights = import_input(import, frame, node, 1);
    struct conv2d_options options = {0};
    struct shape shape;
    bool depthwise = strcmp(node->op, "Conv2D") != 0;
    if (x.kind == IMPORT_NOTHING || weights.kind == IMPORT_NOTHING)
        return import_nothing();
    if (!import_is_picture(import, &x) || !import_is_weights(&weights) ||
        !import_weights_shape(&weights, &shape) || shape.ndim != 4 ||
        !tf_def_text_is(node, "data_format", "NHWC", true) ||
        !import_both_axes(node, "strides", 1, &options.stride) ||
        !import_both_axes(node, "dilations", 1, &options.dilation) ||
        !import_padding(node, x.pads, &options.padding, &options.pad_before, &options.pad_after))
        return import_refuse(import, node);
    for (int i = 0; i < 4; i++)
        if (shape.dim[i] < 1 || shape.dim[i] > 1 << 20)
            return import_refuse(import, node);
    int64_t in = import_shape_of(import, &x)->dim[1];
    int64_t groups = depthwise ? in : in / shape.dim[2];
    options.kernel_height = (int)shape.dim[0];
    options.kernel_width = (int)shape.dim[1];
    options.groups = (int)groups;
    int64_t channels = depthwise ? shape.dim[2] * shape.dim[3] : shape.dim[3];
    if (groups < 1 || (depthwise ? shape.dim[2] != in : shape.dim[2] * groups != in) ||
        channels > 1 << 20)
        return import_refuse(import, node);
    return make_product(import, (struct import_product){.x = x,
                                                        .weights = weights,
                                                        .node = node,
                                                        .convolution = true,
                                                        .options = options,
                                                        .channels = (int)channels});
}

static struct import_value add_bias(struct import *import, const struct tf_def_node *node,
                                    const struct import_value *product,
                                    const struct import_value *bias)
{
    struct shape shape;
    if (!import_weights_shape(bias, &shape) || shape.ndim != 1 ||
        shape.dim[0] != product->product->channels)
        return import_refuse(import, node);
    return import_value_of(build_product(import, product->product, bias));
}

static struct import_value import_add(struct import *import, struct import_frame *frame,
                                      const struct tf_def_node *node)
{
    struct import_value a = import_input(import, frame, node, 0);
    struct import_value b = import_input(import, frame, node, 1);
    if (a.kind == IMPORT_NOTHING || b.kind == IMPORT_NOTHING)
        return import_nothing();
    if (a.kind == IMPORT_PRODUCT && import_is_weights(&b))
        return add_bias(import, node, &a, &b);
    if (b.kind == IMPORT_PRODUCT && import_is_weights(&a))
        return add_bias(import, node, &b, &a);
    if (import_is_weights(&a) || import_is_weights(&b))
        return import_arithmetic(import, node, a, b);
    a = import_take(import, frame, node, 0);
    b = import_take(import, frame, node, 1);
    if (a.kind != IMPORT_VALUE || b.kind != IMPORT_VALUE)
        return import_nothing();
    if (!shape_equal(import_shape_of(import, &a), import_shape_of(import, &b)) ||
        memcmp(a.flat, b.flat, sizeof a.flat) != 0 || a.channels_first != b.channels_first)
        return import_refuse(import, node);
    struct import_value sum = a;
    sum.id = lockstep_add(import->graph, a.id, b.id);
    return sum.id < 0 ? import_nothing() : sum;
}

/* Mul, Sub and Rsqrt have a meaning where weights are. */
static struct import_value import_other(struct import *import, struct import_frame *frame,
                                        const struct tf_def_node *node)
{
    struct import_value a = import_input(import, frame, node, 0);
    struct import_value b = node->input_count > 1 ? import_input(import, frame, node, 1) : a;
    if (a.kind == IMPORT_NOTHING || b.kind == IMPORT_NOTHING)
        return import_nothing();
    if (a.kind == IMPORT_PRODUCT)
        a = import_settle(import, a);
    if (b.kind == IMPORT_PRODUCT)
        b = import_settle(import, b);
    return import_arithmetic(import, node, a, b);
}

/* ---- element by element ---- */

static struct import_value import_relu(struct import *import, struct import_frame *frame,
                                       const struct tf_def_node *node)
{
    struct import_value x = import_take(import, frame, node, 0);
    if (x.kind == IMPORT_VALUE)
        x.id = lockstep_relu(import->graph, x.id);
    return x.id < 0 ? import_nothing() : x;
}

static struct import_value import_sigmoid(struct import *import, struct import_frame *frame,
                                          const struct tf_def_node *node)
{
    struct import_value x = import_take(import, frame, node, 0);
    if (x.kind == IMPORT_VALUE)
        x.id = lockstep_sigmoid(import->graph, x.id);
    return x.id < 0 ? import_nothing() : x;
}

static struct import_value import_clip(struct import *import, struct import_frame *frame,
                                       const struct tf_def_node *node)
{
    struct import_value x = import_take(import, frame, node, 0);
    float limits[2] = {0, 6}; /* Relu6 */
    for (int i = 0; i < 2 && node->input_count == 3; i++) {
        struct import_value limit = import_input(import, frame, node, 1 + i);
        if (limit.kind == IMPORT_NOTHING)
            return import_nothing();
        if (limit.kind != IMPORT_CONSTANT || limit.constant.dtype != DTYPE_F32 ||
            shape_count(&limit.constant.shape) != 1)
            return import_refuse(import, node);
        limits[i] = *(const float *)limit.constant.data;
    }
    if (x.kind == IMPORT_VALUE)
        x.id = lockstep_clip(import->graph, x.id, limits[0], limits[1]);
    return x.id < 0 ? import_nothing() : x;
}

static struct import_value import_function(struct import *import, struct import_frame *frame,
                                           const struct tf_def_node *node)
{
    static const struct {
        const char *op;
        enum unary kind;
        float alpha; /* where the node does not say */
    } rows[] = {
        {"Abs", UNARY_ABS, 0},
        {"Elu", UNARY_ELU, 1},
        {"Erf", UNARY_ERF, 0},
        {"Exp", UNARY_EXP, 0},
        {"LeakyRelu", UNARY_LEAKY_RELU, 0.2f},
        {"Log", UNARY_LOG, 0},
        {"Neg", UNARY_NEGATE, 0},
        {"Reciprocal", UNARY_RECIPROCAL, 0},
        {"Softplus", UNARY_SOFTPLUS, 0},
        {"Softsign", UNARY_SOFTSIGN, 0},
        {"Sqrt", UNARY_SQRT, 0},
        {"Tanh", UNARY_TANH, 0},
    };
    struct import_value x = import_take(import, frame, node, 0);
    for (size_t i = 0; x.kind == IMPORT_VALUE && i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].op, node->op))
            x.id = lockstep_unary(import->graph, x.id, rows[i].kind,
                                  tf_def_float(node, "alpha", rows[i].alpha), 0);
    return x.id < 0 ? import_nothing() : x;
}

static struct import_value import_norm(struct import *import, struct import_frame *frame,
                                       const struct tf_def_node *node)
{
    struct import_value x = import_take(import, frame, node, 0), numbers[4];
    bool whole = x.kind == IMPORT_VALUE;
    for (int i = 0; i < 4; i++) {
        numbers[i] = import_input(import, frame, node, 1 + i);
        whole = whole && numbers[i].kind != IMPORT_NOTHING;
    }
    if (!whole)
        return import_nothing();
    if (!import_is_picture(import, &x) || tf_def_bool(node, "is_training", true) ||
        !tf_def_text_is(node, "data_format", "NHWC", true))
        return import_refuse(import, node);
    for (int i = 0; i < 4; i++) {
        struct shape shape;
        if (!import_is_weights(&numbers[i]) || !import_weights_shape(&numbers[i], &shape) ||
            shape.ndim != 1 || shape.dim[0] != import_shape_of(import, &x)->dim[1])
            return import_refuse(import, node);
    }
    float epsilon = tf_def_float(node, "epsilon", 1e-4f);
    value_id id = lockstep_batch_norm(
        import->graph, x.id,
        (struct batch_norm_options){.epsilon = epsilon > 0 ? epsilon : FLT_MIN});
    if (id < 0)
        return import_nothing();
    const struct node *made =
        graph_node_at(import->graph, graph_value(import->graph, id)->producer);
    for (int i = 0; i < 4; i++)
        if (!import_add_load(import, made->inputs[BATCH_NORM_SCALE + i], &numbers[i], TURN_NONE,
                             NULL))
            return import_nothing();
    return import_value_of(id);
}

/* ---- the end ---- */

static struct import_value import_softmax(struct import *import, struct import_frame *frame,
                                          const struct tf_def_node *node)
{
    struct import_value x = import_take(import, frame, node, 0);
    if (x.kind == IMPORT_NOTHING)
        return x;
    if (import_shape_of(import, &x)->ndim != 2 || x.flat[2])
        return import_refuse(import, node);
    return (struct import_value){.kind = IMPORT_ANSWER, .id = x.id, .answer = ANSWER_SOFTMAX};
}

static struct import_value import_arg_max(struct import *import, struct import_frame *frame,
                                          const struct tf_def_node *node)
{
    struct import_value x = import_settle(import, import_input(import, frame, node, 0));
    struct import_value axis = import_input(import, frame, node, 1);
    int64_t along;
    if (x.kind == IMPORT_NOTHING || axis.kind == IMPORT_NOTHING)
        return import_nothing();
    bool fits = x.kind == IMPORT_VALUE || (x.kind == IMPORT_ANSWER && x.answer == ANSWER_SOFTMAX);
    if (!fits || import_ints(&axis, &along, 1) != 1 || (along != 1 && along != -1) ||
        import_shape_of(import, &x)->ndim != 2 || x.flat[2])
        return import_refuse(import, node);
    return (struct import_value){.kind = IMPORT_ANSWER, .id = x.id, .answer = ANSWER_ARGMAX};
}

/* ---- all of them ---- */

static const struct {
    const char *op;
    import_fn *import;
} operations[] = {
    {"Abs", import_function},
    {"Add", import_add},
    {"AddV2", import_add},
    {"ArgMax", import_arg_max},
    {"AvgPool", import_pool},
    {"BiasAdd", import_add},
    {"ClipByValue", import_clip},
    {"ConcatV2", import_concat},
    {"Const", import_const},
    {"Conv2D", import_conv},
    {"DepthwiseConv2dNative", import_conv},
    {"Elu", import_function},
    {"Erf", import_function},
    {"Exp", import_function},
    {"FusedBatchNorm", import_norm},
    {"FusedBatchNormV2", import_norm},
    {"FusedBatchNormV3", import_norm},
    {"Identity", import_pass},
    {"LeakyRelu", import_function},
    {"Log", import_function},
    {"MatMul", import_mat_mul},
    {"MaxPool", import_pool},
    {"Mean", import_mean},
    {"Mul", import_other},
    {"Neg", import_function},
    {"Pack", import_pack},
    {"Pad", import_pad},
    {"PreventGradient", import_pass},
    {"ReadVariableOp", import_read},
    {"Reciprocal", import_function},
    {"Relu", import_relu},
    {"Relu6", import_clip},
    {"Reshape", import_reshape},
    {"Rsqrt", import_other},
    {"Shape", import_shape},
    {"Sigmoid", import_sigmoid},
    {"Softmax", import_softmax},
    {"Softplus", import_function},
    {"Softsign", import_function},
    {"Sqrt", import_function},
    {"Squeeze", import_squeeze},
    {"StopGradient", import_pass},
    {"StridedSlice", import_slice},
    {"Sub", import_other},
    {"Tanh", import_function},
    {"Transpose", import_transpose},
    {"VarHandleOp", import_handle},
};

struct import_value import_node(struct import *import, struct import_frame *frame,
                                const struct tf_def_node *node)
{
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (!strcmp(operations[i].op, node->op)) {
            struct import_value value = operations[i].import(import, frame, node);
            bool fits =
                value.kind != IMPORT_VALUE || import_is_sensible(import_shape_of(import, &value));
            return fits ? value : import_refuse(import, node);
        }
    /* What it is made from may lack operations, too. */
    for (int i = 0; i < node->input_count; i++)
        import_input(import, frame, node, i);
    return import_refuse(import, node);
}
