/* Operations element by element and along an axis, in ONNX's words. */
#include <math.h>

#include "convert/onnx_network_parts.h"
#include "ops/elements.h"
#include "ops/softmax.h"

static const char *scalar(struct onnx_network *network, const char *stem, const char *rest,
                          float number)
{
    const char *name = onnx_join(network, stem, rest);
    onnx_const_float(&network->nodes, name, number);
    return name;
}

static const char *two(struct onnx_network *network, const char *stem, const char *rest,
                       const char *op, const char *a, const char *b)
{
    const char *name = onnx_join(network, stem, rest);
    onnx_node(&network->nodes, op, name, ONNX_INPUTS(a, b));
    return name;
}

static const char *one(struct onnx_network *network, const char *stem, const char *op,
                       const char *x)
{
    const char *name = onnx_join(network, stem, op);
    onnx_node(&network->nodes, op, name, ONNX_INPUTS(x));
    return name;
}

const char *onnx_write_arithmetic(struct onnx_network *network, const struct node *node,
                                  struct error *err)
{
    static const char *const names[] = {[ARITHMETIC_ADD] = "Add",
                                        [ARITHMETIC_SUBTRACT] = "Sub",
                                        [ARITHMETIC_MULTIPLY] = "Mul",
                                        [ARITHMETIC_DIVIDE] = "Div"};
    (void)err;
    return onnx_write_simple(network, node,
                             names[((const struct arithmetic_attributes *)node->attributes)->kind]);
}

/* A limit that is none is left out. */
const char *onnx_write_clip(struct onnx_network *network, const struct node *node,
                            struct error *err)
{
    const struct clip_attributes *a = node->attributes;
    const char *low = isinf(a->low) ? "" : scalar(network, node->name, "low", a->low);
    const char *high = isinf(a->high) ? "" : scalar(network, node->name, "high", a->high);
    const char *name = onnx_join(network, node->name, "Clip");
    (void)err;
    onnx_begin(&network->nodes, "Clip", name);
    onnx_input(&network->nodes, onnx_name_of(network, node, 0));
    onnx_input(&network->nodes, low);
    if (*high)
        onnx_input(&network->nodes, high);
    onnx_output(&network->nodes, name);
    onnx_end(&network->nodes);
    return name;
}

const char *onnx_write_reshape(struct onnx_network *network, const struct node *node,
                               struct error *err)
{
    const struct reshape_attributes *a = node->attributes;
    const char *shape = onnx_join(network, node->name, "shape");
    int64_t dims[TENSOR_MAX_DIMS];
    (void)err;
    for (int i = 0; i < a->shape.ndim; i++)
        dims[i] = i == 0 ? -1 : a->shape.dim[i];
    onnx_const(&network->nodes, shape, &(struct tensor){DTYPE_I64, SHAPE(a->shape.ndim), dims});
    return two(network, node->name, "Reshape", "Reshape", onnx_name_of(network, node, 0), shape);
}

const char *onnx_write_softmax(struct onnx_network *network, const struct node *node,
                               struct error *err)
{
    const struct softmax_attributes *a = node->attributes;
    const char *name = onnx_begin_like(network, node, a->logarithm ? "LogSoftmax" : "Softmax");
    (void)err;
    onnx_attr_int(&network->nodes, "axis", a->axis);
    onnx_end(&network->nodes);
    return name;
}

/* ---- functions of one number ---- */

/* Those that version 17 of the operators has; the others are put together. */
static const struct {
    const char *op;
    bool alpha, beta;
} functions[] = {
    [UNARY_TANH] = {.op = "Tanh"},
    [UNARY_LEAKY_RELU] = {.op = "LeakyRelu", .alpha = true},
    [UNARY_ELU] = {.op = "Elu", .alpha = true},
    [UNARY_SOFTPLUS] = {.op = "Softplus"},
    [UNARY_SOFTSIGN] = {.op = "Softsign"},
    [UNARY_HARD_SIGMOID] = {.op = "HardSigmoid", .alpha = true, .beta = true},
    [UNARY_HARD_SWISH] = {.op = "HardSwish"},
    [UNARY_SILU] = {0},
    [UNARY_GELU] = {0},
    [UNARY_ERF] = {.op = "Erf"},
    [UNARY_EXP] = {.op = "Exp"},
    [UNARY_LOG] = {.op = "Log"},
    [UNARY_SQRT] = {.op = "Sqrt"},
    [UNARY_ABS] = {.op = "Abs"},
    [UNARY_NEGATE] = {.op = "Neg"},
    [UNARY_RECIPROCAL] = {.op = "Reciprocal"},
    [UNARY_POWER] = {0},
};

/* x (1 + erf(x / sqrt(2))) / 2 */
static const char *write_gelu(struct onnx_network *network, const char *stem, const char *x)
{
    const char *inner =
        two(network, stem, "scaled", "Mul", x, scalar(network, stem, "root", 0.70710678f));
    const char *grown = two(network, stem, "grown", "Add", one(network, stem, "Erf", inner),
                            scalar(network, stem, "one", 1));
    const char *half = two(network, stem, "halved", "Mul", x, scalar(network, stem, "half", 0.5f));
    return two(network, stem, "Gelu", "Mul", half, grown);
}

const char *onnx_write_unary(struct onnx_network *network, const struct node *node,
                             struct error *err)
{
    const struct unary_attributes *a = node->attributes;
    const char *x = onnx_name_of(network, node, 0), *stem = node->name;
    (void)err;
    if (a->kind == UNARY_SILU)
        return two(network, stem, "Mul", "Mul", x, one(network, stem, "Sigmoid", x));
    if (a->kind == UNARY_GELU)
        return write_gelu(network, stem, x);
    if (a->kind == UNARY_POWER)
        return two(network, stem, "Pow", "Pow", x, scalar(network, stem, "exponent", a->alpha));
    const char *name = onnx_begin_like(network, node, functions[a->kind].op);
    if (functions[a->kind].alpha)
        onnx_attr_float(&network->nodes, "alpha", a->alpha);
    if (functions[a->kind].beta)
        onnx_attr_float(&network->nodes, "beta", a->beta);
    onnx_end(&network->nodes);
    return name;
}
