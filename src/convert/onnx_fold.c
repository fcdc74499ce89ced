/* What exporters leave to be computed although it is known: constants, and the shapes of values
 * with the arithmetic on them. The batch is not known; it passes through as ONNX_BATCH. */
#include <math.h>

#include "base/error.h"
#include "convert/onnx_reading.h"

enum { MOST_ELEMENTS = 1 << 28 }; /* of one result; all together are bounded by the budget */

static void give(struct reading *reading, const struct onnx_node *node,
                 const struct onnx_tensor *tensor, const char *parameter)
{
    reading_give_constant(reading, node->outputs[0], tensor, parameter);
}

/* Whose tensor it is, if it is trained: what only moves numbers keeps the name. */
static const char *parameter_of(struct reading *reading, const struct onnx_node *node)
{
    const struct term *term = reading_input(reading, node, 0);
    return term ? term->parameter : NULL;
}

static bool is_floating(const struct onnx_tensor *tensor)
{
    return tensor->floats != NULL;
}

/* Room for the elements; false when there is none, or when the file makes more of itself than any
 * network needs. */
static bool make_room(struct reading *reading, struct onnx_tensor *out, bool floating,
                      float **floats, int64_t **integers)
{
    if (out->count > reading->budget)
        return false;
    reading->budget -= out->count;
    *floats = floating ? reading_floats(reading, out->count) : NULL;
    *integers = floating ? NULL : reading_integers(reading, out->count);
    out->floats = *floats;
    out->integers = *integers;
    return *floats || *integers;
}

/* --- Making --- */

static bool fold_constant(struct reading *reading, const struct onnx_node *node)
{
    static const char *const names[] = {"value",     "value_float", "value_floats",
                                        "value_int", "value_ints",  NULL};
    const struct onnx_attribute *attribute = NULL;
    int which = 0;
    for (; names[which] && !attribute; which++)
        attribute = onnx_attribute(node, names[which]);
    if (!attribute)
        return false;
    struct onnx_tensor made = {.name = node->outputs[0], .count = 1};
    switch (which - 1) {
    case 0:
        if (!attribute->tensor)
            return false;
        made = *attribute->tensor;
        made.name = node->outputs[0];
        break;
    case 1:
        made.type = ONNX_FLOAT;
        made.floats = &attribute->number;
        break;
    case 2:
        made = (struct onnx_tensor){.name = made.name,
                                    .type = ONNX_FLOAT,
                                    .ndim = 1,
                                    .dim = {attribute->number_count},
                                    .count = attribute->number_count,
                                    .floats = attribute->numbers};
        break;
    case 3:
        made.type = ONNX_INT64;
        made.integers = &attribute->integer;
        break;
    default:
        made = (struct onnx_tensor){.name = made.name,
                                    .type = ONNX_INT64,
                                    .ndim = 1,
                                    .dim = {attribute->integer_count},
                                    .count = attribute->integer_count,
                                    .integers = attribute->integers};
        break;
    }
    if (!made.floats && !made.integers)
        return false;
    give(reading, node, &made, NULL);
    return true;
}

/* Of a constant, too; from the 15th version on, of a part of the dimensions. */
static bool fold_shape(struct reading *reading, const struct onnx_node *node)
{
    const struct term *term = reading_input(reading, node, 0);
    if (!term || (term->kind != TERM_VALUE && term->kind != TERM_CONSTANT) ||
        (term->kind == TERM_VALUE && term->value < 0))
        return false;
    bool value = term->kind == TERM_VALUE;
    const struct shape *shape = value ? &graph_value(reading->graph, term->value)->shape : NULL;
    int ndim = value ? shape->ndim : term->tensor.ndim;
    int64_t start = onnx_integer(node, "start", 0), end = onnx_integer(node, "end", ndim);
    start = start < 0 ? start + ndim : start;
    end = end < 0 ? end + ndim : end;
    start = start < 0 ? 0 : start > ndim ? ndim : start;
    end = end < start ? start : end > ndim ? ndim : end;
    int64_t *dims = reading_integers(reading, ndim);
    struct onnx_tensor made = {.name = node->outputs[0],
                               .type = ONNX_INT64,
                               .ndim = 1,
                               .dim = {end - start},
                               .count = end - start,
                               .integers = dims};
    for (int64_t i = start; dims && i < end; i++) {
        int64_t dim = value ? shape->dim[i] : term->tensor.dim[i];
        dims[i - start] = value && dim == SHAPE_BATCH ? ONNX_BATCH : dim;
    }
    give(reading, node, &made, NULL);
    return true;
}

static bool fold_constant_of_shape(struct reading *reading, const struct onnx_node *node)
{
    const struct onnx_tensor *shape = reading_constant(reading, node, 0);
    const struct onnx_attribute *attribute = onnx_attribute(node, "value");
    const struct onnx_tensor *value = attribute ? attribute->tensor : NULL;
    struct onnx_tensor made = {
        .name = node->outputs[0], .type = value ? value->type : ONNX_FLOAT, .count = 1};
    float *floats;
    int64_t *integers;
    if (!shape || !shape->integers || shape->count > ONNX_MAX_DIMS || (value && value->count != 1))
        return false;
    for (int64_t i = 0; i < shape->count; i++) {
        int64_t dim = shape->integers[i];
        if (dim < 0 || (made.count && dim > MOST_ELEMENTS / made.count))
            return false;
        made.dim[made.ndim++] = dim;
        made.count *= dim;
    }
    if (!make_room(reading, &made, !value || is_floating(value), &floats, &integers))
        return false;
    for (int64_t i = 0; value && i < made.count; i++) {
        if (floats)
            floats[i] = value->floats[0];
        else
            integers[i] = value->integers[0];
    }
    give(reading, node, &made, NULL);
    return true;
}

/* --- Moving --- */

static void copy_element(float *floats, int64_t *integers, int64_t to,
                         const struct onnx_tensor *tensor, int64_t from)
{
    if (floats)
        floats[to] = tensor->floats[from];
    else
        integers[to] = tensor->integers[from];
}

/* Rows of the first dimension, by number. */
static bool fold_gather(struct reading *reading, const struct onnx_node *node)
{
    const struct onnx_tensor *data = reading_constant(reading, node, 0);
    const struct onnx_tensor *indices = reading_constant(reading, node, 1);
    if (!data || !indices || !indices->integers || data->ndim < 1 || data->count < 1 ||
        onnx_integer(node, "axis", 0) != 0 || data->ndim - 1 + indices->ndim > ONNX_MAX_DIMS)
        return false;
    int64_t rows = data->dim[0], length = data->count / rows;
    if (indices->count > MOST_ELEMENTS / length)
        return false;
    struct onnx_tensor made = {
        .name = node->outputs[0], .type = data->type, .count = indices->count * length};
    float *floats;
    int64_t *integers;
    for (int i = 0; i < indices->ndim; i++)
        made.dim[made.ndim++] = indices->dim[i];
    for (int i = 1; i < data->ndim; i++)
        made.dim[made.ndim++] = data->dim[i];
    if (!make_room(reading, &made, is_floating(data), &floats, &integers))
        return false;
    for (int64_t i = 0; i < indices->count; i++) {
        int64_t row = indices->integers[i] < 0 ? indices->integers[i] + rows : indices->integers[i];
        if (row < 0 || row >= rows)
            return false;
        for (int64_t k = 0; k < length; k++)
            copy_element(floats, integers, i * length + k, data, row * length + k);
    }
    give(reading, node, &made, NULL);
    return true;
}

static bool sizes_fit(const struct onnx_tensor *a, const struct onnx_tensor *b, int axis)
{
    bool fits = a->ndim == b->ndim && is_floating(a) == is_floating(b);
    for (int i = 0; fits && i < a->ndim; i++)
        fits = i == axis || a->dim[i] == b->dim[i];
    return fits;
}

static bool fold_concat(struct reading *reading, const struct onnx_node *node)
{
    const struct onnx_tensor *first = reading_constant(reading, node, 0);
    if (!first)
        return false;
    int64_t axis = onnx_integer(node, "axis", 0), outer = 1, inner = 1, at = 0;
    axis = axis < 0 ? axis + first->ndim : axis;
    if (axis < 0 || axis >= first->ndim)
        return false;
    struct onnx_tensor made = *first;
    made.name = node->outputs[0];
    made.dim[axis] = made.count = 0;
    for (int i = 0; i < node->input_count; i++) {
        const struct onnx_tensor *next = reading_constant(reading, node, i);
        if (!next || !sizes_fit(first, next, (int)axis) || next->count > MOST_ELEMENTS ||
            made.count > MOST_ELEMENTS)
            return false;
        made.dim[axis] += next->dim[axis];
        made.count += next->count;
    }
    for (int i = 0; i < first->ndim; i++) {
        outer *= i < axis ? first->dim[i] : 1;
        inner *= i > axis ? first->dim[i] : 1;
    }
    float *floats;
    int64_t *integers;
    if (!make_room(reading, &made, is_floating(first), &floats, &integers))
        return false;
    for (int64_t o = 0; o < outer; o++)
        for (int i = 0; i < node->input_count; i++) {
            const struct onnx_tensor *next = reading_constant(reading, node, i);
            int64_t length = next->dim[axis] * inner;
            for (int64_t k = 0; k < length; k++)
                copy_element(floats, integers, at++, next, o * length + k);
        }
    give(reading, node, &made, NULL);
    return true;
}

/* Turns the dimensions round; weights of exporters that have them the other way. */
static bool fold_transpose(struct reading *reading, const struct onnx_node *node)
{
    const struct onnx_tensor *data = reading_constant(reading, node, 0);
    const struct onnx_attribute *order = onnx_attribute(node, "perm");
    if (!data || (order && order->integer_count != data->ndim))
        return false;
    struct onnx_tensor made = *data;
    int64_t step[ONNX_MAX_DIMS + 1], from[ONNX_MAX_DIMS] = {0}, size = 1;
    unsigned seen = 0;
    for (int i = data->ndim - 1; i >= 0; i--) {
        step[i] = size;
        size *= data->dim[i];
    }
    for (int i = 0; i < data->ndim; i++) {
        int64_t axis = order ? order->integers[i] : data->ndim - 1 - i;
        if (axis < 0 || axis >= data->ndim || seen & 1u << axis)
            return false;
        seen |= 1u << axis;
        made.dim[i] = data->dim[axis];
        from[i] = step[axis];
    }
    float *floats;
    int64_t *integers;
    if (!make_room(reading, &made, is_floating(data), &floats, &integers))
        return false;
    for (int64_t i = 0; i < made.count; i++) {
        int64_t rest = i, at = 0;
        for (int d = made.ndim - 1; d >= 0; d--) {
            at += rest % made.dim[d] * from[d];
            rest /= made.dim[d];
        }
        copy_element(floats, integers, i, data, at);
    }
    give(reading, node, &made, parameter_of(reading, node));
    return true;
}

/* --- The same numbers in another shape --- */

/* A copy by this name is a tensor of its own: exporters that find equal tensors keep one and leave
 * these for the others. */
static bool fold_identity(struct reading *reading, const struct onnx_node *node)
{
    const struct onnx_tensor *data = reading_constant(reading, node, 0);
    if (!data)
        return false;
    give(reading, node, data, parameter_of(reading, node) ? node->outputs[0] : NULL);
    return true;
}

static bool fold_squeeze(struct reading *reading, const struct onnx_node *node)
{
    const struct onnx_tensor *data = reading_constant(reading, node, 0);
    if (!data)
        return false;
    struct onnx_tensor made = *data;
    int axes[ONNX_MAX_DIMS], count = onnx_axes(reading, node, 1, data->ndim, axes);
    unsigned drop = 0;
    if (count == -2)
        return false;
    for (int i = 0; i < data->ndim && count == -1; i++)
        drop |= data->dim[i] == 1 ? 1u << i : 0;
    for (int i = 0; i < count; i++) {
        if (data->dim[axes[i]] != 1)
            return false;
        drop |= 1u << axes[i];
    }
    made.ndim = 0;
    for (int i = 0; i < data->ndim; i++)
        if (!(drop & 1u << i))
            made.dim[made.ndim++] = data->dim[i];
    give(reading, node, &made, parameter_of(reading, node));
    return true;
}

static bool fold_unsqueeze(struct reading *reading, const struct onnx_node *node)
{
    const struct onnx_tensor *data = reading_constant(reading, node, 0);
    const struct onnx_attribute *attribute = onnx_attribute(node, "axes");
    const struct onnx_tensor *list = reading_constant(reading, node, 1);
    int64_t more = attribute ? attribute->integer_count : list ? list->count : -1;
    if (!data || more < 0 || more > ONNX_MAX_DIMS - data->ndim)
        return false;
    struct onnx_tensor made = *data;
    int axes[ONNX_MAX_DIMS], ndim = data->ndim + (int)more, at = 0;
    int count = onnx_axes(reading, node, 1, ndim, axes);
    unsigned added = 0;
    for (int i = 0; i < count; i++)
        added |= 1u << axes[i];
    if (count != more || __builtin_popcount(added) != count)
        return false;
    for (int i = 0; i < ndim; i++)
        made.dim[i] = added & 1u << i ? 1 : data->dim[at++];
    made.ndim = ndim;
    give(reading, node, &made, parameter_of(reading, node));
    return true;
}

static bool fold_reshape(struct reading *reading, const struct onnx_node *node)
{
    const struct onnx_tensor *data = reading_constant(reading, node, 0);
    const struct onnx_tensor *wanted = reading_constant(reading, node, 1);
    if (!data || !wanted || !wanted->integers || wanted->count > ONNX_MAX_DIMS || data->count < 1)
        return false;
    struct onnx_tensor made = *data;
    int64_t known = 1;
    int rest = -1;
    made.ndim = (int)wanted->count;
    for (int i = 0; i < made.ndim; i++) {
        int64_t dim = wanted->integers[i];
        if (dim == 0 && i < data->ndim && !onnx_integer(node, "allowzero", 0))
            dim = data->dim[i];
        if (dim == -1 && rest < 0) {
            rest = i;
            continue;
        }
        if (dim < 1 || dim > data->count / known)
            return false;
        made.dim[i] = dim;
        known *= dim;
    }
    if (rest >= 0) {
        made.dim[rest] = data->count / known;
        known *= made.dim[rest];
    }
    if (known != data->count)
        return false;
    give(reading, node, &made, parameter_of(reading, node));
    return true;
}

static bool fold_cast(struct reading *reading, const struct onnx_node *node)
{
    const struct onnx_tensor *data = reading_constant(reading, node, 0);
    enum onnx_type to = (enum onnx_type)onnx_integer(node, "to", 0);
    bool floating = to == ONNX_FLOAT;
    float *floats;
    int64_t *integers;
    if (!data || (!floating && to != ONNX_INT64 && to != ONNX_INT32))
        return false;
    struct onnx_tensor made = *data;
    made.type = to;
    if (!make_room(reading, &made, floating, &floats, &integers))
        return false;
    for (int64_t i = 0; i < made.count; i++) {
        if (floats)
            floats[i] = is_floating(data) ? data->floats[i] : (float)data->integers[i];
        else if (!is_floating(data))
            integers[i] = data->integers[i];
        else if (fabsf(data->floats[i]) < 0x1p62f)
            integers[i] = (int64_t)data->floats[i];
        else
            return false;
        if (floats && data->integers && data->integers[i] == ONNX_BATCH)
            return false; /* the batch is only known as an integer */
    }
    give(reading, node, &made, parameter_of(reading, node));
    return true;
}

/* Of a list, such as a shape. */
static bool fold_slice(struct reading *reading, const struct onnx_node *node)
{
    const struct onnx_tensor *data = reading_constant(reading, node, 0);
    const struct onnx_tensor *starts = reading_constant(reading, node, 1);
    const struct onnx_tensor *ends = reading_constant(reading, node, 2);
    const struct onnx_tensor *steps = reading_constant(reading, node, 4);
    if (!data || !starts || !ends || data->ndim != 1 || !starts->integers || !ends->integers ||
        starts->count != 1 || ends->count != 1 ||
        (steps && (!steps->integers || steps->count != 1 || steps->integers[0] != 1)) ||
        (reading_input(reading, node, 4) && !steps))
        return false;
    int64_t size = data->dim[0], start = starts->integers[0], end = ends->integers[0];
    start = start < 0 ? start + size : start;
    end = end < 0 ? end + size : end;
    start = start < 0 ? 0 : start > size ? size : start;
    end = end < start ? start : end > size ? size : end;
    struct onnx_tensor made = *data;
    made.dim[0] = made.count = end - start;
    if (made.floats)
        made.floats += start;
    else
        made.integers += start;
    give(reading, node, &made, NULL);
    return true;
}

/* --- Arithmetic --- */

/* False: not for these, as the batch is one of them, or it would not fit. */
static bool combine_integers(char op, int64_t a, int64_t b, int64_t *out)
{
    if (a == ONNX_BATCH || b == ONNX_BATCH)
        return false;
    switch (op) {
    case 'A':
        return !__builtin_add_overflow(a, b, out);
    case 'S':
        return !__builtin_sub_overflow(a, b, out);
    case 'M':
        return !__builtin_mul_overflow(a, b, out);
    default:
        *out = b ? a / b : 0;
        return b != 0;
    }
}

static float combine_floats(char op, float a, float b)
{
    return op == 'A' ? a + b : op == 'S' ? a - b : op == 'M' ? a * b : a / b;
}

/* Add, Sub, Mul, Div of equal shapes, or of a single number with anything. */
static bool fold_arithmetic(struct reading *reading, const struct onnx_node *node)
{
    const struct onnx_tensor *a = reading_constant(reading, node, 0);
    const struct onnx_tensor *b = reading_constant(reading, node, 1);
    if (!a || !b || is_floating(a) != is_floating(b))
        return false;
    bool same = a->ndim == b->ndim && a->count == b->count && sizes_fit(a, b, -1);
    if (!same && !(a->count == 1 && a->ndim <= b->ndim) && !(b->count == 1 && b->ndim <= a->ndim))
        return false;
    struct onnx_tensor made = a->count == 1 && !same ? *b : *a;
    float *floats;
    int64_t *integers;
    if (!make_room(reading, &made, is_floating(a), &floats, &integers))
        return false;
    for (int64_t i = 0; i < made.count; i++) {
        int64_t left = a->count == 1 ? 0 : i, right = b->count == 1 ? 0 : i;
        if (floats)
            floats[i] = combine_floats(*node->op, a->floats[left], b->floats[right]);
        else if (!combine_integers(*node->op, a->integers[left], b->integers[right], &integers[i]))
            return false;
    }
    give(reading, node, &made, NULL);
    return true;
}

static const struct {
    const char *op;
    bool (*fold)(struct reading *reading, const struct onnx_node *node);
} folds[] = {
    {"Constant", fold_constant},   {"ConstantOfShape", fold_constant_of_shape},
    {"Shape", fold_shape},         {"Gather", fold_gather},
    {"Concat", fold_concat},       {"Transpose", fold_transpose},
    {"Identity", fold_identity},   {"Squeeze", fold_squeeze},
    {"Unsqueeze", fold_unsqueeze}, {"Reshape", fold_reshape},
    {"Cast", fold_cast},           {"Slice", fold_slice},
    {"Add", fold_arithmetic},      {"Sub", fold_arithmetic},
    {"Mul", fold_arithmetic},      {"Div", fold_arithmetic},
};

bool onnx_fold(struct reading *reading, const struct onnx_node *node)
{
    if (!node->output_count || (*node->domain && strcmp(node->domain, "ai.onnx") != 0))
        return false;
    for (size_t i = 0; i < sizeof folds / sizeof *folds; i++)
        if (!strcmp(folds[i].op, node->op))
            return folds[i].fold(reading, node);
    return false;
}
