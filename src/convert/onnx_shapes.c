/* ONNX operators that give the same numbers another shape. The batch must stay in front. */
#include <inttypes.h>

#include "base/error.h"
#include "convert/onnx_reading.h"

static const struct shape *shape_of(const struct reading *reading, value_id value)
{
    return &graph_value(reading->graph, value)->shape;
}

/* [N, K] by the operation that a dense layer looks through. */
static void give_shape(struct reading *reading, const struct onnx_node *node, value_id x,
                       struct shape shape)
{
    if (shape_equal(&shape, shape_of(reading, x)))
        reading_give(reading, node, x);
    else if (shape.ndim == 2)
        reading_give(reading, node, lockstep_flatten(reading->graph, x));
    else
        reading_give(reading, node, lockstep_reshape(reading->graph, x, shape));
}

/* 0 stands for what was there, -1 for what is left over. False: they do not fit. */
static bool resolve(const struct reading *reading, const struct shape *x, const int64_t *wanted,
                    int64_t count, struct shape *out)
{
    int64_t elements = shape_count(x), known = 1;
    int rest = -1;
    if (count < 1 || count > TENSOR_MAX_DIMS)
        return false;
    *out = (struct shape){.ndim = (int)count, .dim = {SHAPE_BATCH}};
    for (int i = 1; i < count; i++) {
        int64_t dim = wanted[i] == 0 && i < x->ndim ? x->dim[i] : wanted[i];
        if (dim == -1 && rest < 0) {
            rest = i;
            continue;
        }
        if (dim < 1 || dim > elements / known)
            return false;
        out->dim[i] = dim;
        known *= dim;
    }
    if (rest >= 0) {
        out->dim[rest] = elements / known;
        known *= out->dim[rest];
    }
    bool batch = wanted[0] == ONNX_BATCH || wanted[0] == 0 || wanted[0] == reading->batch ||
                 (wanted[0] == -1 && rest < 0);
    return batch && known == elements;
}

static void read_reshape(struct reading *reading, const struct onnx_node *node)
{
    const struct onnx_attribute *attribute = onnx_attribute(node, "shape");
    const struct onnx_tensor *wanted = reading_constant(reading, node, 1);
    value_id x = reading_value(reading, node, 0);
    struct shape shape;
    if (x < 0)
        return;
    const int64_t *dims = attribute ? attribute->integers : wanted ? wanted->integers : NULL;
    int64_t count = attribute ? attribute->integer_count : wanted ? wanted->count : 0;
    /* New exporters say allowzero on every one of these; it means something only to zeros. */
    bool zeros = false;
    for (int64_t i = 0; dims && i < count && onnx_integer(node, "allowzero", 0); i++)
        zeros |= dims[i] == 0;
    if (!dims || zeros || !resolve(reading, shape_of(reading, x), dims, count, &shape)) {
        char text[96];
        reading_refuse(reading, node, "%s to a shape %s",
                       shape_text(shape_of(reading, x), text, sizeof text),
                       dims ? "that does not have the batch in front, or other elements"
                            : "that is not known before it runs");
        return;
    }
    give_shape(reading, node, x, shape);
}

static void read_flatten(struct reading *reading, const struct onnx_node *node)
{
    value_id x = reading_value(reading, node, 0);
    if (x < 0)
        return;
    const struct shape *shape = shape_of(reading, x);
    int64_t axis = onnx_integer(node, "axis", 1);
    if (axis < 0)
        axis += shape->ndim;
    if (axis != 1 || shape->ndim < 2)
        reading_refuse(reading, node, "axis %" PRId64 " of %d dimensions; only 1 keeps the batch",
                       axis, shape->ndim);
    else
        give_shape(reading, node, x, SHAPE(SHAPE_BATCH, shape_count(shape)));
}

static void read_squeeze(struct reading *reading, const struct onnx_node *node)
{
    value_id x = reading_value(reading, node, 0);
    if (x < 0)
        return;
    struct shape from = *shape_of(reading, x), to = {0};
    int axes[ONNX_MAX_DIMS], count = onnx_axes(reading, node, 1, from.ndim, axes);
    bool drop[TENSOR_MAX_DIMS] = {false}, fits = count != -2;
    for (int i = 1; i < from.ndim && count == -1; i++)
        drop[i] = from.dim[i] == 1; /* without axes, all of them */
    for (int i = 0; i < count; i++) {
        fits = fits && from.dim[axes[i]] == 1;
        drop[axes[i]] = true;
    }
    for (int i = 0; i < from.ndim; i++)
        if (!drop[i])
            to.dim[to.ndim++] = from.dim[i];
    if (fits)
        give_shape(reading, node, x, to);
    else
        reading_refuse(reading, node, "axes that have more than one element, or are not known");
}

static void read_unsqueeze(struct reading *reading, const struct onnx_node *node)
{
    value_id x = reading_value(reading, node, 0);
    if (x < 0)
        return;
    struct shape from = *shape_of(reading, x), to = {0};
    const struct onnx_attribute *attribute = onnx_attribute(node, "axes");
    const struct onnx_tensor *tensor = reading_constant(reading, node, 1);
    int64_t more = attribute ? attribute->integer_count : tensor ? tensor->count : 0;
    int axes[ONNX_MAX_DIMS], ndim = from.ndim + (more < TENSOR_MAX_DIMS ? (int)more : 0);
    int count = ndim > TENSOR_MAX_DIMS ? -2 : onnx_axes(reading, node, 1, ndim, axes);
    bool added[TENSOR_MAX_DIMS] = {false};
    for (int i = 0; i < count; i++)
        added[axes[i]] = true;
    if (count < 1 || count != more || added[0]) {
        reading_refuse(reading, node, "axes in front of the batch, or not known");
        return;
    }
    int at = 0;
    for (to.ndim = 0; to.ndim < ndim; to.ndim++) {
        if (!added[to.ndim] && at == from.ndim) {
            reading_refuse(reading, node, "an axis twice");
            return;
        }
        to.dim[to.ndim] = added[to.ndim] ? 1 : from.dim[at++];
    }
    give_shape(reading, node, x, to);
}

const struct onnx_operator onnx_shapes[] = {
    {"Reshape", read_reshape},
    {"Flatten", read_flatten},
    {"Squeeze", read_squeeze},
    {"Unsqueeze", read_unsqueeze},
    {NULL, NULL},
};
