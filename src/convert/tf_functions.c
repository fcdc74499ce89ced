/* Operations element by element, along an axis and on shapes, in TensorFlow's words. Values of four
 * dimensions are N, H, W, C there: where the order of elements counts they are turned. */
#include <math.h>

#include "base/arena.h"
#include "convert/tf_network_parts.h"
#include "ops/elements.h"
#include "ops/softmax.h"

static const int32_t to_channels_last[] = {0, 2, 3, 1}, to_channels_first[] = {0, 3, 1, 2};

static const char *scalar(struct tf_network *network, const char *stem, const char *rest,
                          float number)
{
    const char *name = tf_join(network, stem, rest);
    tf_const_float(network->nodes, name, number);
    return name;
}

static const char *two(struct tf_network *network, const char *stem, const char *rest,
                       const char *op, const char *a, const char *b)
{
    const char *name = tf_join(network, stem, rest);
    tf_node(network->nodes, op, name, TF_FLOAT, TF_INPUTS(a, b));
    return name;
}

static const char *one(struct tf_network *network, const char *stem, const char *op, const char *x)
{
    const char *name = tf_join(network, stem, op);
    tf_node(network->nodes, op, name, TF_FLOAT, TF_INPUTS(x));
    return name;
}

/* ---- two values ---- */

/* A parameter that meets pictures has its dimensions in our order. */
static const char *operand(struct tf_network *network, const struct node *node, int input)
{
    const struct value *value = graph_value(network->graph, node->inputs[input]);
    const char *x = tf_tensor(network, node, input);
    int ndim = graph_value(network->graph, node->output)->shape.ndim, own = value->shape.ndim;
    int32_t dims[4] = {1, 1, 1, 1};
    if (value->kind != VALUE_PARAM || ndim != 4 || shape_count(&value->shape) == 1)
        return x;
    for (int i = 0; i < own; i++)
        dims[4 - own + i] = (int32_t)value->shape.dim[i];
    const char *stem = tf_join(network, tf_stem(network, node), input ? "right" : "left");
    x = own < 4 ? tf_write_reshape(network, stem, x, dims, 4) : x;
    return tf_write_transpose(network, stem, x, to_channels_last, 4);
}

const char *tf_write_arithmetic(struct tf_network *network, const struct node *node)
{
    static const char *const names[] = {[ARITHMETIC_ADD] = "AddV2",
                                        [ARITHMETIC_SUBTRACT] = "Sub",
                                        [ARITHMETIC_MULTIPLY] = "Mul",
                                        [ARITHMETIC_DIVIDE] = "RealDiv"};
    const char *op = names[((const struct arithmetic_attributes *)node->attributes)->kind];
    const char *a = operand(network, node, 0), *b = operand(network, node, 1);
    return two(network, tf_stem(network, node), op, op, a, b);
}

/* ---- one value ---- */

static const char *clip(struct tf_network *network, const char *stem, const char *x, float low,
                        float high)
{
    const char *name = tf_join(network, stem, "ClipByValue");
    const char *least = scalar(network, stem, "low", low);
    const char *most = scalar(network, stem, "high", high);
    tf_node(network->nodes, "ClipByValue", name, TF_FLOAT, TF_INPUTS(x, least, most));
    return name;
}

const char *tf_write_clip(struct tf_network *network, const struct node *node)
{
    const struct clip_attributes *a = node->attributes;
    if (a->low == 0 && a->high == 6)
        return tf_write_simple(network, node, "Relu6");
    return clip(network, tf_stem(network, node), tf_tensor(network, node, 0), a->low, a->high);
}

/* Those that TensorFlow has; the others are put together. */
static const char *const functions[] = {
    [UNARY_TANH] = "Tanh",         [UNARY_SOFTPLUS] = "Softplus",
    [UNARY_SOFTSIGN] = "Softsign", [UNARY_ERF] = "Erf",
    [UNARY_EXP] = "Exp",           [UNARY_LOG] = "Log",
    [UNARY_SQRT] = "Sqrt",         [UNARY_ABS] = "Abs",
    [UNARY_NEGATE] = "Neg",        [UNARY_RECIPROCAL] = "Reciprocal",
    [UNARY_POWER] = NULL,
};

static const char *write_leaky_relu(struct tf_network *network, const char *stem, const char *x,
                                    float alpha)
{
    const char *name = tf_join(network, stem, "LeakyRelu");
    tf_begin(network->nodes, "LeakyRelu", name);
    tf_input(network->nodes, x);
    tf_attr_type(network->nodes, "T", TF_FLOAT);
    tf_attr_float(network->nodes, "alpha", alpha);
    tf_end(network->nodes);
    return name;
}

/* max(x, 0) + alpha (exp(min(x, 0)) - 1): TensorFlow's Elu has no alpha. */
static const char *write_elu(struct tf_network *network, const char *stem, const char *x,
                             float alpha)
{
    if (alpha == 1)
        return one(network, stem, "Elu", x);
    const char *below =
        two(network, stem, "Minimum", "Minimum", x, scalar(network, stem, "zero", 0));
    const char *scaled = two(network, stem, "Mul", "Mul", one(network, stem, "Expm1", below),
                             scalar(network, stem, "alpha", alpha));
    return two(network, stem, "AddV2", "AddV2", one(network, stem, "Relu", x), scaled);
}

/* alpha x + beta, cut at 0 and 1. */
static const char *write_hard_sigmoid(struct tf_network *network, const char *stem, const char *x,
                                      float alpha, float beta)
{
    const char *scaled =
        two(network, stem, "scaled", "Mul", x, scalar(network, stem, "alpha", alpha));
    const char *shifted =
        two(network, stem, "shifted", "AddV2", scaled, scalar(network, stem, "beta", beta));
    return clip(network, stem, shifted, 0, 1);
}

/* x (1 + erf(x / sqrt(2))) / 2 */
static const char *write_gelu(struct tf_network *network, const char *stem, const char *x)
{
    const char *inner =
        two(network, stem, "scaled", "Mul", x, scalar(network, stem, "root", 0.70710678f));
    const char *grown = two(network, stem, "grown", "AddV2", one(network, stem, "Erf", inner),
                            scalar(network, stem, "one", 1));
    const char *half = two(network, stem, "halved", "Mul", x, scalar(network, stem, "half", 0.5f));
    return two(network, stem, "Gelu", "Mul", half, grown);
}

const char *tf_write_unary(struct tf_network *network, const struct node *node)
{
    const struct unary_attributes *a = node->attributes;
    const char *stem = tf_stem(network, node), *x = tf_tensor(network, node, 0);
    switch (a->kind) {
    case UNARY_LEAKY_RELU:
        return write_leaky_relu(network, stem, x, a->alpha);
    case UNARY_ELU:
        return write_elu(network, stem, x, a->alpha);
    case UNARY_HARD_SIGMOID:
        return write_hard_sigmoid(network, stem, x, a->alpha, a->beta);
    case UNARY_HARD_SWISH:
        return two(network, stem, "Mul", "Mul", x,
                   write_hard_sigmoid(network, stem, x, 1.0f / 6, 0.5f));
    case UNARY_SILU:
        return two(network, stem, "Mul", "Mul", x, one(network, stem, "Sigmoid", x));
    case UNARY_GELU:
        return write_gelu(network, stem, x);
    case UNARY_POWER:
        return two(network, stem, "Pow", "Pow", x, scalar(network, stem, "exponent", a->alpha));
    default:
        return one(network, stem, functions[a->kind], x);
    }
}

/* ---- axes and shapes ---- */

/* TensorFlow's is along the last axis: the one wanted is brought there, and back. */
const char *tf_write_softmax(struct tf_network *network, const struct node *node)
{
    const struct softmax_attributes *a = node->attributes;
    const char *op = a->logarithm ? "LogSoftmax" : "Softmax";
    const char *stem = tf_stem(network, node), *x = tf_tensor(network, node, 0);
    static const int places_of_pictures[] = {0, 3, 1, 2};
    int ndim = tf_shape_of(network, node, 0)->ndim, last = ndim - 1;
    int axis = ndim == 4 ? places_of_pictures[a->axis] : a->axis;
    int32_t order[TENSOR_MAX_DIMS]; /* swaps two, so it is its own way back */
    for (int i = 0; i < ndim; i++)
        order[i] = i == axis ? last : i == last ? axis : i;
    if (axis == last)
        return one(network, stem, op, x);
    x = tf_write_transpose(network, tf_join(network, stem, "there"), x, order, ndim);
    x = one(network, stem, op, x);
    return tf_write_transpose(network, tf_join(network, stem, "back"), x, order, ndim);
}

/* In our order of channels first. */
const char *tf_write_new_shape(struct tf_network *network, const struct node *node)
{
    const struct reshape_attributes *a = node->attributes;
    const char *stem = tf_stem(network, node), *x = tf_tensor(network, node, 0);
    int32_t dims[TENSOR_MAX_DIMS];
    for (int i = 0; i < a->shape.ndim; i++)
        dims[i] = i == 0 ? -1 : (int32_t)a->shape.dim[i];
    if (tf_shape_of(network, node, 0)->ndim == 4)
        x = tf_write_transpose(network, tf_join(network, stem, "ours"), x, to_channels_first, 4);
    x = tf_write_reshape(network, stem, x, dims, a->shape.ndim);
    if (a->shape.ndim == 4)
        x = tf_write_transpose(network, tf_join(network, stem, "theirs"), x, to_channels_last, 4);
    return x;
}
