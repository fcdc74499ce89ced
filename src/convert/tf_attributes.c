/* Attributes of a node in a GraphDef: looked up in its bytes, which were walked through before. */
#include "base/arena.h"
#include "convert/tf_messages.h"
#include "convert/tf_parse.h"
#include "wire/proto.h"

enum { TENSOR_SHAPE_DIM = 2, TENSOR_SHAPE_UNKNOWN, MOST_NAME = 4096 };

bool tf_read_shape(struct proto_reader reader, struct shape *out)
{
    struct proto_field field;
    *out = (struct shape){0};
    int status;
    while ((status = proto_next(&reader, &field, NULL)) > 0) {
        struct proto_reader dim;
        struct proto_field size;
        if (field.number == TENSOR_SHAPE_UNKNOWN && field.value)
            return false;
        if (field.number != TENSOR_SHAPE_DIM)
            continue;
        if (out->ndim == TENSOR_MAX_DIMS || proto_enter(&reader, &field, &dim, NULL) < 0)
            return false;
        out->dim[out->ndim] = 0;
        while ((status = proto_next(&dim, &size, NULL)) > 0)
            if (size.number == 1 && size.wire == PROTO_VARINT)
                out->dim[out->ndim] = (int64_t)size.value;
        if (status < 0)
            return false;
        out->ndim++;
    }
    return status == 0;
}

enum {
    ATTR_LIST = 1,
    ATTR_TEXT,
    ATTR_INT,
    ATTR_FLOAT,
    ATTR_BOOL,
    ATTR_SHAPE = 7,
    ATTR_FUNCTION = 10,
    NODE_ATTR = 5,
};

static bool key_is(struct proto_reader entry, const char *name)
{
    struct proto_field field;
    bool same = false;
    while (proto_next(&entry, &field, NULL) > 0)
        if (field.number == MAP_KEY && field.wire == PROTO_BYTES)
            same = field.count == strlen(name) && !memcmp(field.bytes, name, field.count);
    return same;
}

/* The field `kind` of the attribute's value, and the reader it is in. */
static bool find_value(const struct tf_def_node *node, const char *name, uint32_t kind,
                       struct proto_reader *value, struct proto_field *out)
{
    struct proto_reader reader, entry;
    struct proto_field field, part;
    proto_open(&reader, node->bytes, node->byte_count);
    while (proto_next(&reader, &field, NULL) > 0) {
        if (field.number != NODE_ATTR || proto_enter(&reader, &field, &entry, NULL) < 0 ||
            !key_is(entry, name))
            continue;
        while (proto_next(&entry, &part, NULL) > 0)
            if (part.number == MAP_VALUE && proto_enter(&entry, &part, value, NULL) == 0)
                while (proto_next(value, out, NULL) > 0)
                    if (out->number == kind)
                        return true;
    }
    return false;
}

int64_t tf_def_int(const struct tf_def_node *node, const char *name, int64_t missing)
{
    struct proto_reader value;
    struct proto_field field;
    bool found = find_value(node, name, ATTR_INT, &value, &field);
    return found && field.wire == PROTO_VARINT ? (int64_t)field.value : missing;
}

bool tf_def_bool(const struct tf_def_node *node, const char *name, bool missing)
{
    struct proto_reader value;
    struct proto_field field;
    bool found = find_value(node, name, ATTR_BOOL, &value, &field);
    return found && field.wire == PROTO_VARINT ? field.value != 0 : missing;
}

float tf_def_float(const struct tf_def_node *node, const char *name, float missing)
{
    struct proto_reader value;
    struct proto_field field;
    bool found = find_value(node, name, ATTR_FLOAT, &value, &field);
    return found && field.wire == PROTO_FIXED32 ? proto_float((uint32_t)field.value) : missing;
}

bool tf_def_text_is(const struct tf_def_node *node, const char *name, const char *text,
                    bool missing)
{
    struct proto_reader value;
    struct proto_field field;
    if (!find_value(node, name, ATTR_TEXT, &value, &field) || field.wire != PROTO_BYTES)
        return missing;
    return field.count == strlen(text) && !memcmp(field.bytes, text, field.count);
}

int tf_def_ints(const struct tf_def_node *node, const char *name, int64_t *out, int room)
{
    struct proto_reader value, list, packed;
    struct proto_field field, part;
    uint64_t number;
    int count = 0;
    if (!find_value(node, name, ATTR_LIST, &value, &field) ||
        proto_enter(&value, &field, &list, NULL) < 0)
        return -1;
    while (proto_next(&list, &part, NULL) > 0) {
        if (part.number != ATTR_INT)
            continue;
        if (part.wire == PROTO_VARINT && count < room)
            out[count++] = (int64_t)part.value;
        if (part.wire != PROTO_BYTES)
            continue;
        proto_open(&packed, part.bytes, part.count);
        while (count < room && proto_take_varint(&packed, &number))
            out[count++] = (int64_t)number;
    }
    return count;
}

const char *tf_def_function_name(const struct tf_def_node *node, const char *name,
                                 struct arena *arena)
{
    struct proto_reader value, function;
    struct proto_field field, part;
    if (!find_value(node, name, ATTR_FUNCTION, &value, &field) ||
        proto_enter(&value, &field, &function, NULL) < 0)
        return NULL;
    while (proto_next(&function, &part, NULL) > 0)
        if (part.number == 1 && part.wire == PROTO_BYTES && part.count <= MOST_NAME)
            return arena_format(arena, "%.*s", (int)part.count, (const char *)part.bytes);
    return NULL;
}

bool tf_def_message(const struct tf_def_node *node, const char *name, uint32_t kind,
                    struct proto_reader *out)
{
    struct proto_reader value;
    struct proto_field field;
    return find_value(node, name, kind, &value, &field) &&
           proto_enter(&value, &field, out, NULL) == 0;
}

bool tf_def_shape(const struct tf_def_node *node, const char *name, struct shape *out)
{
    struct proto_reader shape;
    return tf_def_message(node, name, ATTR_SHAPE, &shape) && tf_read_shape(shape, out);
}
