/* ONNX operators that work element by element, or along one axis. */
#include <math.h>

#include "base/error.h"
#include "convert/onnx_reading.h"

static const struct shape *shape_of(const struct reading *reading, value_id value)
{
    return &graph_value(reading->graph, value)->shape;
}

static void read_relu(struct reading *reading, const struct onnx_node *node)
{
    value_id x = reading_value(reading, node, 0);
    if (x >= 0)
        reading_give(reading, node, lockstep_relu(reading->graph, x));
}

static void read_sigmoid(struct reading *reading, const struct onnx_node *node)
{
    value_id x = reading_value(reading, node, 0);
    if (x >= 0)
        reading_give(reading, node, lockstep_sigmoid(reading->graph, x));
}

/* A limit of Clip: input `index` since version 11, an attribute before. False: refused. */
static bool take_limit(struct reading *reading, const struct onnx_node *node, int index,
                       const char *name, float *limit)
{
    *limit = onnx_number(node, name, *limit);
    if (!reading_input(reading, node, index))
        return true;
    const struct onnx_tensor *tensor = reading_constant(reading, node, index);
    if (!tensor || !tensor->floats || tensor->count != 1) {
        reading_refuse(reading, node, "its %s must be one number in the file", name);
        return false;
    }
    *limit = tensor->floats[0];
    return true;
}

static void read_clip(struct reading *reading, const struct onnx_node *node)
{
    value_id x = reading_value(reading, node, 0);
    float low = -INFINITY, high = INFINITY;
    if (x < 0 || !take_limit(reading, node, 1, "min", &low) ||
        !take_limit(reading, node, 2, "max", &high))
        return;
    if (!(low <= high)) { /* the standard says: then everything is `max` */
        reading_refuse(reading, node, "nothing lies between %g and %g", (double)low, (double)high);
        return;
    }
    /* A ReLU joins the operation before it; a clip stands alone. */
    reading_give(reading, node,
                 low == 0 && high == INFINITY ? lockstep_relu(reading->graph, x)
                                              : lockstep_clip(reading->graph, x, low, high));
}

/* --- Functions of one number --- */

static const struct {
    const char *op;
    enum unary kind;
    float alpha, beta; /* where the file does not say */
} functions[] = {
    {"Tanh", UNARY_TANH, 0, 0},
    {"LeakyRelu", UNARY_LEAKY_RELU, 0.01f, 0},
    {"Elu", UNARY_ELU, 1, 0},
    {"Softplus", UNARY_SOFTPLUS, 0, 0},
    {"Softsign", UNARY_SOFTSIGN, 0, 0},
    {"HardSigmoid", UNARY_HARD_SIGMOID, 0.2f, 0.5f},
    {"HardSwish", UNARY_HARD_SWISH, 0, 0},
    {"Erf", UNARY_ERF, 0, 0},
    {"Exp", UNARY_EXP, 0, 0},
    {"Log", UNARY_LOG, 0, 0},
    {"Sqrt", UNARY_SQRT, 0, 0},
    {"Abs", UNARY_ABS, 0, 0},
    {"Neg", UNARY_NEGATE, 0, 0},
    {"Reciprocal", UNARY_RECIPROCAL, 0, 0},
};

static void read_function(struct reading *reading, const struct onnx_node *node)
{
    value_id x = reading_value(reading, node, 0);
    if (x < 0)
        return;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!strcmp(functions[i].op, node->op)) {
            float alpha = onnx_number(node, "alpha", functions[i].alpha);
            float beta = onnx_number(node, "beta", functions[i].beta);
            reading_give(reading, node,
                         lockstep_unary(reading->graph, x, functions[i].kind, alpha, beta));
        }
}

static void read_gelu(struct reading *reading, const struct onnx_node *node)
{
    value_id x = reading_value(reading, node, 0);
    if (strcmp(onnx_text(node, "approximate", "none"), "none") != 0)
        reading_refuse(reading, node, "only the exact GELU is computed");
    else if (x >= 0)
        reading_give(reading, node, lockstep_unary(reading->graph, x, UNARY_GELU, 0, 0));
}

static void read_power(struct reading *reading, const struct onnx_node *node)
{
    value_id x = reading_value(reading, node, 0);
    const struct onnx_tensor *power = reading_constant(reading, node, 1);
    if (x < 0)
        return;
    if (!power || power->count != 1) {
        reading_refuse(reading, node, "its exponent must be one number in the file");
        return;
    }
    float exponent = power->floats ? power->floats[0] : (float)power->integers[0];
    reading_give(reading, node, lockstep_unary(reading->graph, x, UNARY_POWER, exponent, 0));
}

/* --- Of two values --- */

static void read_arithmetic(struct reading *reading, const struct onnx_node *node)
{
    static const char *const names[] = {"Add", "Sub", "Mul", "Div"};
    value_id a = reading_value(reading, node, 0);
    value_id b = a < 0 ? -1 : reading_value(reading, node, 1);
    if (b < 0)
        return;
    const struct shape *x = shape_of(reading, a), *y = shape_of(reading, b);
    int ndim = x->ndim > y->ndim ? x->ndim : y->ndim;
    bool fits = true;
    for (int i = 1; i <= ndim; i++) {
        int64_t left = i <= x->ndim ? x->dim[x->ndim - i] : 1;
        int64_t right = i <= y->ndim ? y->dim[y->ndim - i] : 1;
        bool batch = left == SHAPE_BATCH || right == SHAPE_BATCH;
        fits = fits && (left == right || left == 1 || right == 1) && batch == (i == ndim);
    }
    if (!fits) {
        char left[96], right[96];
        reading_refuse(reading, node, "%s and %s do not fit together with the batch in front",
                       shape_text(x, left, sizeof left), shape_text(y, right, sizeof right));
        return;
    }
    for (int i = 0; i < 4; i++)
        if (!strcmp(names[i], node->op))
            reading_give(reading, node,
                         lockstep_arithmetic(reading->graph, a, b, (enum arithmetic)i));
}

static void read_sum(struct reading *reading, const struct onnx_node *node)
{
    value_id sum = reading_value(reading, node, 0);
    for (int i = 1; sum >= 0 && i < node->input_count; i++) {
        value_id next = reading_value(reading, node, i);
        if (next < 0)
            return;
        if (!shape_equal(shape_of(reading, sum), shape_of(reading, next))) {
            reading_refuse(reading, node, "its inputs differ in shape");
            return;
        }
        sum = lockstep_add(reading->graph, sum, next);
    }
    if (sum >= 0)
        reading_give(reading, node, sum);
}

/* --- Along an axis --- */

/* Before version 13 everything from the axis on was one long axis. */
static void read_softmax(struct reading *reading, const struct onnx_node *node)
{
    value_id x = reading_value(reading, node, 0);
    bool old = reading->file->opset < 13, logarithm = !strcmp(node->op, "LogSoftmax");
    if (x < 0)
        return;
    struct shape shape = *shape_of(reading, x);
    int64_t axis = onnx_integer(node, "axis", old ? 1 : -1);
    if (axis < 0)
        axis += shape.ndim;
    if (axis < 1 || axis >= shape.ndim || (old && axis != 1 && axis != shape.ndim - 1)) {
        reading_refuse(reading, node, "axis %lld of %d dimensions", (long long)axis, shape.ndim);
        return;
    }
    bool flat = old && axis < shape.ndim - 1;
    if (flat)
        x = lockstep_flatten(reading->graph, x);
    x = logarithm ? lockstep_log_softmax(reading->graph, x, (int)axis)
                  : lockstep_softmax(reading->graph, x, (int)axis);
    reading_give(reading, node, flat ? lockstep_reshape(reading->graph, x, shape) : x);
}

static void read_concat(struct reading *reading, const struct onnx_node *node)
{
    enum { AT_ONCE = 10 }; /* as many as the operation joins */
    value_id values[AT_ONCE];
    int count = 0;
    int64_t axis = onnx_integer(node, "axis", 1);
    for (int i = 0; i < node->input_count; i++) {
        const struct term *term = reading_input(reading, node, i);
        if (!term || term->kind != TERM_VALUE) {
            reading_refuse(reading, node, "constants among what it joins");
            return;
        }
        const struct shape *shape = shape_of(reading, term->value);
        if (shape->ndim < 2 || (axis != 1 && axis != 1 - shape->ndim)) {
            reading_refuse(reading, node, "only channels (axis 1) are joined");
            return;
        }
        if (count == AT_ONCE) {
            values[0] = lockstep_concat(reading->graph, values, count);
            count = 1;
        }
        values[count++] = term->value;
    }
    if (count)
        reading_give(reading, node,
                     count > 1 ? lockstep_concat(reading->graph, values, count) : values[0]);
}

/* --- What changes nothing, or only in training --- */

static void read_identity(struct reading *reading, const struct onnx_node *node)
{
    value_id x = reading_value(reading, node, 0);
    if (x >= 0)
        reading_give(reading, node, x);
}

static void read_cast(struct reading *reading, const struct onnx_node *node)
{
    if (onnx_integer(node, "to", 0) != ONNX_FLOAT)
        reading_refuse(reading, node, "to=%lld; only float (1) is computed with",
                       (long long)onnx_integer(node, "to", 0));
    else
        read_identity(reading, node);
}

/* Files written for training say so in the third input (before version 12 nothing did: then the
 * node is only there because somebody wanted it). */
static void read_dropout(struct reading *reading, const struct onnx_node *node)
{
    value_id x = reading_value(reading, node, 0);
    const struct onnx_tensor *ratio = reading_constant(reading, node, 1);
    const struct onnx_tensor *training = reading_constant(reading, node, 2);
    if (x < 0)
        return;
    if (node->output_count > 1 && reading_term(reading, node->outputs[1])->readers) {
        reading_refuse(reading, node, "its mask is used by another node");
        return;
    }
    float rate = onnx_number(node, "ratio", 0.5f);
    if (ratio && ratio->floats && ratio->count == 1)
        rate = ratio->floats[0];
    bool trains = reading->file->opset < 12 ||
                  (training && training->integers && training->count == 1 && training->integers[0]);
    if (trains && !(rate >= 0 && rate < 1))
        reading_refuse(reading, node, "a ratio of %g", (double)rate);
    else
        reading_give(reading, node, trains ? lockstep_dropout(reading->graph, x, rate) : x);
}

const struct onnx_operator onnx_elements[] = {
    {"Relu", read_relu},
    {"Sigmoid", read_sigmoid},
    {"Clip", read_clip},
    {"Tanh", read_function},
    {"LeakyRelu", read_function},
    {"Elu", read_function},
    {"Softplus", read_function},
    {"Softsign", read_function},
    {"HardSigmoid", read_function},
    {"HardSwish", read_function},
    {"Erf", read_function},
    {"Exp", read_function},
    {"Log", read_function},
    {"Sqrt", read_function},
    {"Abs", read_function},
    {"Neg", read_function},
    {"Reciprocal", read_function},
    {"Gelu", read_gelu},
    {"Pow", read_power},
    {"Add", read_arithmetic},
    {"Sub", read_arithmetic},
    {"Mul", read_arithmetic},
    {"Div", read_arithmetic},
    {"Sum", read_sum},
    {"Softmax", read_softmax},
    {"LogSoftmax", read_softmax},
    {"Concat", read_concat},
    {"Identity", read_identity},
    {"Cast", read_cast},
    {"Dropout", read_dropout},
    {NULL, NULL},
};
