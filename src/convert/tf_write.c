#include "convert/tf_write.h"

#include <string.h>

#include "wire/proto.h"

/* node_def.proto, attr_value.proto, tensor.proto and tensor_shape.proto. */
enum { NODE_NAME = 1, NODE_OP, NODE_INPUT, NODE_ATTR = 5 };
enum { ENTRY_KEY = 1, ENTRY_VALUE };
enum {
    ATTR_LIST = 1,
    ATTR_TEXT,
    ATTR_INT,
    ATTR_FLOAT,
    ATTR_BOOL,
    ATTR_TYPE,
    ATTR_SHAPE,
    ATTR_TENSOR,
    ATTR_FUNCTION = 10,
};
enum { TENSOR_DTYPE = 1, TENSOR_SHAPE, TENSOR_CONTENT = 4, TENSOR_TEXTS = 8 };
enum { SHAPE_DIM = 2, DIM_SIZE = 1 };
enum { FUNCTION_NAME = 1 };

/* ---- messages ---- */

void tf_put_shape(struct strbuf *out, uint32_t field, const struct shape *shape)
{
    size_t message = proto_begin(out, field);
    for (int i = 0; i < shape->ndim; i++) {
        size_t dim = proto_begin(out, SHAPE_DIM);
        proto_add_varint(out, DIM_SIZE, (uint64_t)shape->dim[i]);
        proto_end(out, dim);
    }
    proto_end(out, message);
}

static void put_texts(struct strbuf *out, const struct text_view *texts, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        proto_add_bytes(out, TENSOR_TEXTS, texts[i].bytes, texts[i].count);
}

void tf_put_tensor(struct strbuf *out, uint32_t field, const struct tensor *tensor)
{
    size_t message = proto_begin(out, field);
    proto_add_varint(out, TENSOR_DTYPE, (uint64_t)tf_type_of(tensor->dtype));
    tf_put_shape(out, TENSOR_SHAPE, &tensor->shape);
    if (tensor->dtype == DTYPE_STRING)
        put_texts(out, tensor->data, shape_count(&tensor->shape));
    else
        proto_add_bytes(out, TENSOR_CONTENT, tensor->data, tensor_bytes(tensor));
    proto_end(out, message);
}

/* ---- nodes ---- */

void tf_nodes_init(struct tf_nodes *nodes, uint32_t field)
{
    *nodes = (struct tf_nodes){.field = field};
    strbuf_init(&nodes->bytes);
}

void tf_nodes_release(struct tf_nodes *nodes)
{
    strbuf_release(&nodes->bytes);
}

void tf_begin(struct tf_nodes *nodes, const char *op, const char *name)
{
    nodes->node = proto_begin(&nodes->bytes, nodes->field);
    proto_add_text(&nodes->bytes, NODE_NAME, name);
    proto_add_text(&nodes->bytes, NODE_OP, op);
}

void tf_input(struct tf_nodes *nodes, const char *tensor)
{
    proto_add_text(&nodes->bytes, NODE_INPUT, tensor);
}

void tf_end(struct tf_nodes *nodes)
{
    proto_end(&nodes->bytes, nodes->node);
}

/* An entry of the map of attributes, and the value in it. */
struct attribute {
    size_t entry, value;
};

static struct attribute begin_attribute(struct tf_nodes *nodes, const char *name)
{
    struct attribute attribute = {.entry = proto_begin(&nodes->bytes, NODE_ATTR)};
    proto_add_text(&nodes->bytes, ENTRY_KEY, name);
    attribute.value = proto_begin(&nodes->bytes, ENTRY_VALUE);
    return attribute;
}

static void end_attribute(struct tf_nodes *nodes, struct attribute attribute)
{
    proto_end(&nodes->bytes, attribute.value);
    proto_end(&nodes->bytes, attribute.entry);
}

static void add_number(struct tf_nodes *nodes, const char *name, uint32_t kind, uint64_t value)
{
    struct attribute attribute = begin_attribute(nodes, name);
    proto_add_varint(&nodes->bytes, kind, value);
    end_attribute(nodes, attribute);
}

void tf_attr_type(struct tf_nodes *nodes, const char *name, int type)
{
    add_number(nodes, name, ATTR_TYPE, (uint64_t)type);
}

void tf_attr_int(struct tf_nodes *nodes, const char *name, int64_t value)
{
    add_number(nodes, name, ATTR_INT, (uint64_t)value);
}

void tf_attr_bool(struct tf_nodes *nodes, const char *name, bool value)
{
    add_number(nodes, name, ATTR_BOOL, value);
}

void tf_attr_float(struct tf_nodes *nodes, const char *name, float value)
{
    struct attribute attribute = begin_attribute(nodes, name);
    proto_add_float(&nodes->bytes, ATTR_FLOAT, value);
    end_attribute(nodes, attribute);
}

void tf_attr_text(struct tf_nodes *nodes, const char *name, const char *value)
{
    struct attribute attribute = begin_attribute(nodes, name);
    proto_add_text(&nodes->bytes, ATTR_TEXT, value);
    end_attribute(nodes, attribute);
}

void tf_attr_shape(struct tf_nodes *nodes, const char *name, const struct shape *shape)
{
    struct attribute attribute = begin_attribute(nodes, name);
    tf_put_shape(&nodes->bytes, ATTR_SHAPE, shape);
    end_attribute(nodes, attribute);
}

void tf_attr_tensor(struct tf_nodes *nodes, const char *name, const struct tensor *tensor)
{
    struct attribute attribute = begin_attribute(nodes, name);
    tf_put_tensor(&nodes->bytes, ATTR_TENSOR, tensor);
    end_attribute(nodes, attribute);
}

void tf_attr_function(struct tf_nodes *nodes, const char *name, const char *function)
{
    struct attribute attribute = begin_attribute(nodes, name);
    size_t value = proto_begin(&nodes->bytes, ATTR_FUNCTION);
    proto_add_text(&nodes->bytes, FUNCTION_NAME, function);
    proto_end(&nodes->bytes, value);
    end_attribute(nodes, attribute);
}

/* Lists use the numbers of the single values. */
static void add_packed(struct tf_nodes *nodes, const char *name, uint32_t kind,
                       const int64_t *values, int count)
{
    struct attribute attribute = begin_attribute(nodes, name);
    size_t list = proto_begin(&nodes->bytes, ATTR_LIST);
    if (count > 0) {
        size_t packed = proto_begin(&nodes->bytes, kind);
        for (int i = 0; i < count; i++)
            proto_put_varint(&nodes->bytes, (uint64_t)values[i]);
        proto_end(&nodes->bytes, packed);
    }
    proto_end(&nodes->bytes, list);
    end_attribute(nodes, attribute);
}

void tf_attr_ints(struct tf_nodes *nodes, const char *name, const int64_t *values, int count)
{
    add_packed(nodes, name, ATTR_INT, values, count);
}

void tf_attr_types(struct tf_nodes *nodes, const char *name, const int *types, int count)
{
    struct attribute attribute = begin_attribute(nodes, name);
    size_t list = proto_begin(&nodes->bytes, ATTR_LIST);
    for (int i = 0; i < count; i++) /* unpacked is read, too */
        proto_add_varint(&nodes->bytes, ATTR_TYPE, (uint64_t)types[i]);
    proto_end(&nodes->bytes, list);
    end_attribute(nodes, attribute);
}

void tf_attr_shapes(struct tf_nodes *nodes, const char *name, const struct shape *shape, int count)
{
    struct attribute attribute = begin_attribute(nodes, name);
    size_t list = proto_begin(&nodes->bytes, ATTR_LIST);
    for (int i = 0; i < count; i++)
        tf_put_shape(&nodes->bytes, ATTR_SHAPE, shape);
    proto_end(&nodes->bytes, list);
    end_attribute(nodes, attribute);
}

/* ---- whole nodes ---- */

void tf_node(struct tf_nodes *nodes, const char *op, const char *name, int type,
             const char *const *inputs)
{
    tf_begin(nodes, op, name);
    for (; *inputs; inputs++)
        tf_input(nodes, *inputs);
    tf_attr_type(nodes, "T", type);
    tf_end(nodes);
}

void tf_const(struct tf_nodes *nodes, const char *name, const struct tensor *tensor)
{
    tf_begin(nodes, "Const", name);
    tf_attr_type(nodes, "dtype", tf_type_of(tensor->dtype));
    tf_attr_tensor(nodes, "value", tensor);
    tf_end(nodes);
}

void tf_const_int(struct tf_nodes *nodes, const char *name, int32_t value)
{
    tf_const(nodes, name, &(struct tensor){DTYPE_I32, {0}, &value});
}

void tf_const_ints(struct tf_nodes *nodes, const char *name, const int32_t *values, int count)
{
    tf_const(nodes, name, &(struct tensor){DTYPE_I32, SHAPE(count), (void *)(uintptr_t)values});
}

void tf_const_float(struct tf_nodes *nodes, const char *name, float value)
{
    tf_const(nodes, name, &(struct tensor){DTYPE_F32, {0}, &value});
}

void tf_const_texts(struct tf_nodes *nodes, const char *name, const char *const *texts, int count)
{
    struct strbuf *out = &nodes->bytes;
    tf_begin(nodes, "Const", name);
    tf_attr_type(nodes, "dtype", TF_STRING);
    struct attribute attribute = begin_attribute(nodes, "value");
    size_t message = proto_begin(out, ATTR_TENSOR);
    proto_add_varint(out, TENSOR_DTYPE, TF_STRING);
    tf_put_shape(out, TENSOR_SHAPE, &SHAPE(count));
    for (int i = 0; i < count; i++)
        proto_add_bytes(out, TENSOR_TEXTS, texts[i], strlen(texts[i]));
    proto_end(out, message);
    end_attribute(nodes, attribute);
    tf_end(nodes);
}
