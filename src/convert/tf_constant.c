/* Constants in a GraphDef: TensorProto in its two forms, raw bytes and lists of values. */
#include <inttypes.h>

#include "base/arena.h"
#include "base/error.h"
#include "convert/tf_parse.h"
#include "convert/tf_types.h"
#include "wire/proto.h"

enum { ATTR_TENSOR = 8 };
enum {
    TENSOR_DTYPE = 1,
    TENSOR_SHAPE,
    TENSOR_CONTENT = 4,
    TENSOR_FLOATS,
    TENSOR_INTS = 7,
    TENSOR_TEXTS,
    TENSOR_INT64S = 10,
};

/* A few bytes may promise any number of elements. */
enum { MOST_ELEMENTS = 1 << 26 };

struct constant {
    struct tensor *out;
    int64_t count, filled;
};

static void put_integer(struct constant *constant, uint64_t value)
{
    if (constant->filled >= constant->count)
        return;
    if (constant->out->dtype == DTYPE_I32)
        ((int32_t *)constant->out->data)[constant->filled++] = (int32_t)value;
    else if (constant->out->dtype == DTYPE_U8)
        ((uint8_t *)constant->out->data)[constant->filled++] = (uint8_t)value;
    else if (constant->out->dtype == DTYPE_I64)
        ((int64_t *)constant->out->data)[constant->filled++] = (int64_t)value;
}

static void put_float(struct constant *constant, uint32_t bits)
{
    if (constant->filled < constant->count && constant->out->dtype == DTYPE_F32)
        ((float *)constant->out->data)[constant->filled++] = proto_float(bits);
}

static void take_integers(struct constant *constant, const struct proto_field *field)
{
    struct proto_reader packed;
    uint64_t value;
    if (field->wire == PROTO_VARINT)
        put_integer(constant, field->value);
    if (field->wire != PROTO_BYTES)
        return;
    proto_open(&packed, field->bytes, field->count);
    while (proto_take_varint(&packed, &value))
        put_integer(constant, value);
}

static void take_floats(struct constant *constant, const struct proto_field *field)
{
    struct proto_reader packed;
    uint32_t bits;
    if (field->wire == PROTO_FIXED32)
        put_float(constant, (uint32_t)field->value);
    if (field->wire != PROTO_BYTES)
        return;
    proto_open(&packed, field->bytes, field->count);
    while (proto_take_fixed32(&packed, &bits))
        put_float(constant, bits);
}

static int take_content(struct constant *constant, const struct proto_field *field,
                        struct error *err)
{
    size_t bytes = tensor_bytes(constant->out);
    if (field->count == 0)
        return 0;
    if (constant->out->dtype == DTYPE_STRING || field->wire != PROTO_BYTES || field->count != bytes)
        return error_set(err, ERROR_FORMAT, "a constant of %zu bytes has %zu", bytes, field->count);
    memcpy(constant->out->data, field->bytes, bytes);
    constant->filled = constant->count;
    return 0;
}

static void take_text(struct constant *constant, const struct proto_field *field)
{
    if (constant->out->dtype == DTYPE_STRING && field->wire == PROTO_BYTES &&
        constant->filled < constant->count)
        ((struct text_view *)constant->out->data)[constant->filled++] =
            (struct text_view){(const char *)field->bytes, field->count};
}

static int take_values(struct constant *constant, struct proto_reader reader, struct error *err)
{
    struct proto_field field;
    int status;
    while ((status = proto_next(&reader, &field, err)) > 0) {
        if (field.number == TENSOR_CONTENT && take_content(constant, &field, err) < 0)
            return -1;
        if (field.number == TENSOR_FLOATS)
            take_floats(constant, &field);
        if (field.number == TENSOR_INTS || field.number == TENSOR_INT64S)
            take_integers(constant, &field);
        if (field.number == TENSOR_TEXTS)
            take_text(constant, &field);
    }
    return status;
}

/* Fewer values than elements: the last one stands for the rest. */
static void repeat_last(struct constant *constant)
{
    size_t bytes = dtype_bytes(constant->out->dtype);
    char *data = constant->out->data;
    for (int64_t i = constant->filled; i > 0 && i < constant->count; i++)
        memcpy(data + (size_t)i * bytes, data + (size_t)(i - 1) * bytes, bytes);
}

static int take_form(struct proto_reader reader, enum dtype *dtype, struct shape *shape,
                     struct error *err)
{
    struct proto_reader inner, dim;
    struct proto_field field, part, size;
    int status, type = 0;
    *shape = (struct shape){0};
    while ((status = proto_next(&reader, &field, err)) > 0) {
        if (field.number == TENSOR_DTYPE)
            type = (int)field.value;
        if (field.number != TENSOR_SHAPE || proto_enter(&reader, &field, &inner, err) < 0)
            continue;
        while (proto_next(&inner, &part, err) > 0) {
            if (part.number != 2)
                continue;
            if (shape->ndim == TENSOR_MAX_DIMS || proto_enter(&inner, &part, &dim, err) < 0)
                return error_set(err, ERROR_FORMAT, "a constant of more than %d dimensions",
                                 TENSOR_MAX_DIMS);
            shape->dim[shape->ndim] = 0;
            while (proto_next(&dim, &size, err) > 0)
                if (size.number == 1)
                    shape->dim[shape->ndim] = (int64_t)size.value;
            shape->ndim++;
        }
    }
    if (status == 0 && !tf_type_to_dtype(type, dtype))
        return error_set(err, ERROR_FORMAT, "a constant of TensorFlow's type %d", type);
    return status;
}

static int check_size(const struct shape *shape, struct error *err)
{
    int64_t count = 1;
    for (int i = 0; i < shape->ndim; i++) {
        if (shape->dim[i] < 0 || shape->dim[i] > MOST_ELEMENTS)
            return error_set(err, ERROR_FORMAT, "a constant with a dimension of %" PRId64,
                             shape->dim[i]);
        count *= shape->dim[i];
        if (count > MOST_ELEMENTS)
            return error_set(err, ERROR_FORMAT, "a constant of more than %d elements",
                             MOST_ELEMENTS);
    }
    return 0;
}

static int read_tensor(struct proto_reader message, struct arena *arena, struct tensor *out,
                       struct error *err)
{
    enum dtype dtype;
    struct shape shape;
    if (take_form(message, &dtype, &shape, err) < 0 || check_size(&shape, err) < 0 ||
        tensor_create(arena, dtype, shape, out, err) < 0)
        return -1;
    struct constant constant = {.out = out, .count = shape_count(&shape)};
    if (take_values(&constant, message, err) < 0)
        return -1;
    repeat_last(&constant);
    return 0;
}

int tf_def_tensor(const struct tf_def_node *node, const char *name, struct arena *arena,
                  struct tensor *out, struct error *err)
{
    struct proto_reader message;
    if (!tf_def_message(node, name, ATTR_TENSOR, &message))
        return error_set(err, ERROR_FORMAT, "%s has no constant", node->name);
    return read_tensor(message, arena, out, err) == 0 ? 0 : error_wrap(err, "%s", node->name);
}
