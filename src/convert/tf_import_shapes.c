/* TensorFlow's operations over windows and shapes in our words, one function each. */
#include "base/arena.h"
#include "base/error.h"
#include "convert/tf_import_parts.h"

struct import_value import_pool(struct import *import, struct import_frame *frame,
                                const struct tf_def_node *node)
{
    struct import_value x = import_take(import, frame, node, 0);
    struct pool_options options = {0};
    static const int64_t none[4];
    if (x.kind == IMPORT_NOTHING)
        return x;
    if (!import_is_picture(import, &x) || !tf_def_text_is(node, "data_format", "NHWC", true) ||
        !import_both_axes(node, "ksize", 0, &options.kernel) ||
        !import_both_axes(node, "strides", 1, &options.stride) || options.kernel < 1 ||
        !import_padding(node, none, &options.padding, &options.pad_before, &options.pad_after))
        return import_refuse(import, node);
    bool max = !strcmp(node->op, "MaxPool");
    return import_value_of(max ? lockstep_max_pool(import->graph, x.id, options)
                               : lockstep_avg_pool(import->graph, x.id, options));
}

struct import_value import_mean(struct import *import, struct import_frame *frame,
                                const struct tf_def_node *node)
{
    struct import_value x = import_take(import, frame, node, 0);
    struct import_value axes = import_input(import, frame, node, 1);
    int64_t list[4];
    if (x.kind == IMPORT_NOTHING || axes.kind == IMPORT_NOTHING)
        return import_nothing();
    if (!import_is_picture(import, &x) || import_ints(&axes, list, 4) != 2 || list[0] != 1 ||
        list[1] != 2)
        return import_refuse(import, node);
    value_id id = lockstep_global_avg_pool(import->graph, x.id);
    return import_value_of(
        tf_def_bool(node, "keep_dims", false) ? id : lockstep_flatten(import->graph, id));
}

struct import_value import_pad(struct import *import, struct import_frame *frame,
                               const struct tf_def_node *node)
{
    struct import_value x = import_take(import, frame, node, 0);
    struct import_value pads = import_input(import, frame, node, 1);
    int64_t list[8];
    if (x.kind == IMPORT_NOTHING || pads.kind == IMPORT_NOTHING)
        return import_nothing();
    if (!import_is_picture(import, &x) || import_ints(&pads, list, 8) != 8 || list[0] || list[1] ||
        list[6] || list[7])
        return import_refuse(import, node);
    memcpy(x.pads, list + 2, sizeof x.pads);
    return x;
}

struct import_value import_transpose(struct import *import, struct import_frame *frame,
                                     const struct tf_def_node *node)
{
    static const int64_t channels_first[] = {0, 3, 1, 2}, channels_last[] = {0, 2, 3, 1};
    struct import_value x = import_take(import, frame, node, 0);
    struct import_value order = import_input(import, frame, node, 1);
    int64_t list[4];
    if (x.kind == IMPORT_NOTHING || order.kind == IMPORT_NOTHING)
        return import_nothing();
    bool four = import_shape_of(import, &x)->ndim == 4 && import_ints(&order, list, 4) == 4;
    const int64_t *wanted = x.channels_first ? channels_last : channels_first;
    if (!four || memcmp(list, wanted, sizeof list) != 0)
        return import_refuse(import, node);
    x.channels_first = !x.channels_first;
    return x;
}

/* Weights with 1 in all dimensions but one are a vector, whatever the dimensions. */
static struct import_value as_vector(struct import *import, const struct tf_def_node *node,
                                     struct import_value weights, const struct shape *shape)
{
    int64_t count = 1;
    int wide = 0;
    for (int i = 0; i < shape->ndim; i++) {
        wide += shape->dim[i] != 1;
        count = shape->dim[i] != 1 ? shape->dim[i] : count;
    }
    struct shape old;
    if (wide > 1 || !import_weights_shape(&weights, &old) || shape_count(&old) != count)
        return import_refuse(import, node);
    weights.is_vector = true;
    return weights;
}

struct import_value import_squeeze(struct import *import, struct import_frame *frame,
                                   const struct tf_def_node *node)
{
    struct import_value x = import_input(import, frame, node, 0);
    struct shape shape;
    if (x.kind == IMPORT_NOTHING)
        return x;
    if (!import_is_weights(&x) || !import_weights_shape(&x, &shape))
        return import_refuse(import, node);
    return as_vector(import, node, x, &shape);
}

/* The shape of a value is asked for to keep the batch when the rest is reshaped. */
struct import_value import_shape(struct import *import, struct import_frame *frame,
                                 const struct tf_def_node *node)
{
    struct import_value x = import_take(import, frame, node, 0);
    x.kind = x.kind == IMPORT_VALUE ? IMPORT_SHAPE : x.kind;
    return x;
}

struct import_value import_slice(struct import *import, struct import_frame *frame,
                                 const struct tf_def_node *node)
{
    struct import_value x = import_input(import, frame, node, 0);
    int64_t first, end;
    if (x.kind == IMPORT_NOTHING || node->input_count < 3)
        return import_nothing();
    struct import_value begin = import_input(import, frame, node, 1);
    struct import_value stop = import_input(import, frame, node, 2);
    if (x.kind != IMPORT_SHAPE || import_ints(&begin, &first, 1) != 1 ||
        import_ints(&stop, &end, 1) != 1 || first != 0 || end != 1)
        return import_refuse(import, node);
    return (struct import_value){.kind = IMPORT_BATCH};
}

/* [batch, K] as a shape to reshape to. */
struct import_value import_pack(struct import *import, struct import_frame *frame,
                                const struct tf_def_node *node)
{
    struct import_value made = {.kind = IMPORT_CONSTANT};
    int64_t *list = ARENA_ARRAY(import->arena, int64_t, 2);
    bool fits = node->input_count == 2 && list;
    for (int i = 0; fits && i < 2; i++) {
        struct import_value part = import_input(import, frame, node, i);
        if (part.kind == IMPORT_NOTHING)
            return import_nothing();
        list[i] = -1;
        fits = i == 0 ? part.kind == IMPORT_BATCH : import_ints(&part, &list[i], 1) == 1;
    }
    if (!fits)
        return import_refuse(import, node);
    made.constant = (struct tensor){DTYPE_I64, SHAPE(2), list};
    return made;
}

/* Only to rows; what is in a row stays in TensorFlow's order, and the next matrix is turned. */
struct import_value import_reshape(struct import *import, struct import_frame *frame,
                                   const struct tf_def_node *node)
{
    struct import_value x = import_input(import, frame, node, 0);
    struct import_value shape = import_input(import, frame, node, 1);
    int64_t list[2];
    struct shape to = {0};
    if (x.kind == IMPORT_NOTHING || shape.kind == IMPORT_NOTHING)
        return import_nothing();
    if (import_is_weights(&x)) {
        to.ndim = import_ints(&shape, to.dim, TENSOR_MAX_DIMS);
        return to.ndim < 1 ? import_refuse(import, node) : as_vector(import, node, x, &to);
    }
    x = import_take(import, frame, node, 0);
    if (x.kind != IMPORT_VALUE)
        return import_nothing();
    const struct shape *old = import_shape_of(import, &x);
    struct shape rest = *old;
    rest.dim[0] = 1;
    if (import_ints(&shape, list, 2) != 2 || list[0] != -1 || list[1] != shape_count(&rest))
        return import_refuse(import, node);
    if (old->ndim == 2)
        return x;
    struct import_value rows = import_value_of(lockstep_flatten(import->graph, x.id));
    if (old->ndim == 4 && !x.channels_first && old->dim[2] * old->dim[3] > 1) {
        old = import_shape_of(import, &x);
        rows.flat[0] = old->dim[2];
        rows.flat[1] = old->dim[3];
        rows.flat[2] = old->dim[1];
    }
    return rows;
}

struct import_value import_concat(struct import *import, struct import_frame *frame,
                                  const struct tf_def_node *node)
{
    int count = node->input_count - 1;
    struct import_value axis =
        count > 0 ? import_input(import, frame, node, count) : import_nothing();
    value_id *parts = ARENA_ARRAY(import->arena, value_id, node->input_count + 1);
    int64_t along;
    bool whole = axis.kind != IMPORT_NOTHING && parts, fits = import_ints(&axis, &along, 1) == 1;
    int ndim = 0;
    for (int i = 0; whole && i < count; i++) {
        struct import_value part = import_take(import, frame, node, i);
        whole = part.kind == IMPORT_VALUE;
        if (!whole)
            break;
        ndim = import_shape_of(import, &part)->ndim;
        parts[i] = part.id;
        fits = fits && !part.channels_first && !part.flat[2];
    }
    if (!whole)
        return import_nothing();
    if (!fits || (ndim == 4 ? along != 3 && along != -1 : along != 1 && along != -1))
        return import_refuse(import, node);
    return import_value_of(lockstep_concat(import->graph, parts, count));
}
