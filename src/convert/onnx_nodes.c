#include "convert/onnx_nodes.h"

#include "wire/proto.h"

/* onnx.proto */
enum { MODEL_IR = 1, MODEL_PRODUCER, MODEL_PRODUCER_VERSION, MODEL_GRAPH = 7, MODEL_OPSET = 8 };
enum { OPSET_DOMAIN = 1, OPSET_VERSION };
enum { GRAPH_NODE = 1, GRAPH_NAME, GRAPH_INITIALIZER = 5 };
enum { NODE_INPUT = 1, NODE_OUTPUT, NODE_NAME, NODE_OP, NODE_ATTRIBUTE };
enum {
    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_FLOAT,
    ATTRIBUTE_INT,
    ATTRIBUTE_INTS = 8,
    ATTRIBUTE_TYPE = 20
};
enum { TYPE_FLOAT = 1, TYPE_INT = 2, TYPE_INTS = 7 };
enum { TENSOR_DIM = 1, TENSOR_TYPE, TENSOR_NAME = 8, TENSOR_RAW = 9 };
enum { VALUE_NAME = 1, VALUE_TYPE, TYPE_TENSOR = 1, TENSOR_TYPE_ELEMENT = 1, TENSOR_TYPE_SHAPE };
enum { SHAPE_DIM = 1, DIM_VALUE = 1, DIM_PARAMETER };
enum { IR_VERSION = 8, OPSET = 17 };

static int type_of(enum dtype dtype)
{
    return dtype == DTYPE_I64 ? ONNX_INT64 : ONNX_FLOAT;
}

/* ---- nodes ---- */

void onnx_begin(struct onnx_nodes *nodes, const char *op, const char *name)
{
    nodes->node = proto_begin(&nodes->bytes, GRAPH_NODE);
    proto_add_text(&nodes->bytes, NODE_OP, op);
    proto_add_text(&nodes->bytes, NODE_NAME, name);
}

void onnx_input(struct onnx_nodes *nodes, const char *value)
{
    proto_add_text(&nodes->bytes, NODE_INPUT, value);
}

void onnx_output(struct onnx_nodes *nodes, const char *value)
{
    proto_add_text(&nodes->bytes, NODE_OUTPUT, value);
}

void onnx_end(struct onnx_nodes *nodes)
{
    proto_end(&nodes->bytes, nodes->node);
}

static size_t begin_attribute(struct onnx_nodes *nodes, const char *name, int type)
{
    size_t attribute = proto_begin(&nodes->bytes, NODE_ATTRIBUTE);
    proto_add_text(&nodes->bytes, ATTRIBUTE_NAME, name);
    proto_add_varint(&nodes->bytes, ATTRIBUTE_TYPE, (uint64_t)type);
    return attribute;
}

void onnx_attr_int(struct onnx_nodes *nodes, const char *name, int64_t value)
{
    size_t attribute = begin_attribute(nodes, name, TYPE_INT);
    proto_add_varint(&nodes->bytes, ATTRIBUTE_INT, (uint64_t)value);
    proto_end(&nodes->bytes, attribute);
}

void onnx_attr_float(struct onnx_nodes *nodes, const char *name, float value)
{
    size_t attribute = begin_attribute(nodes, name, TYPE_FLOAT);
    proto_add_float(&nodes->bytes, ATTRIBUTE_FLOAT, value);
    proto_end(&nodes->bytes, attribute);
}

void onnx_attr_ints(struct onnx_nodes *nodes, const char *name, const int64_t *values, int count)
{
    size_t attribute = begin_attribute(nodes, name, TYPE_INTS);
    for (int i = 0; i < count; i++)
        proto_add_varint(&nodes->bytes, ATTRIBUTE_INTS, (uint64_t)values[i]);
    proto_end(&nodes->bytes, attribute);
}

void onnx_node(struct onnx_nodes *nodes, const char *op, const char *name,
               const char *const *inputs)
{
    onnx_begin(nodes, op, name);
    for (; *inputs; inputs++)
        onnx_input(nodes, *inputs);
    onnx_output(nodes, name);
    onnx_end(nodes);
}

/* ---- tensors ---- */

static void put_tensor(struct strbuf *out, const char *name, enum dtype dtype,
                       const struct shape *shape)
{
    for (int i = 0; i < shape->ndim; i++)
        proto_add_varint(out, TENSOR_DIM, (uint64_t)shape->dim[i]);
    proto_add_varint(out, TENSOR_TYPE, (uint64_t)type_of(dtype));
    proto_add_text(out, TENSOR_NAME, name);
}

void onnx_const(struct onnx_nodes *nodes, const char *name, const struct tensor *tensor)
{
    size_t initializer = proto_begin(&nodes->bytes, GRAPH_INITIALIZER);
    put_tensor(&nodes->bytes, name, tensor->dtype, &tensor->shape);
    proto_add_bytes(&nodes->bytes, TENSOR_RAW, tensor->data, tensor_bytes(tensor));
    proto_end(&nodes->bytes, initializer);
}

void onnx_const_int(struct onnx_nodes *nodes, const char *name, int64_t value)
{
    onnx_const(nodes, name, &(struct tensor){DTYPE_I64, SHAPE(1), &value});
}

void onnx_const_float(struct onnx_nodes *nodes, const char *name, float value)
{
    onnx_const(nodes, name, &(struct tensor){DTYPE_F32, {0}, &value});
}

/* A length-delimited field without what it holds. */
static void put_header(struct strbuf *out, uint32_t field, size_t bytes)
{
    proto_put_varint(out, (uint64_t)field << 3 | PROTO_BYTES);
    proto_put_varint(out, bytes);
}

void onnx_weights_header(struct strbuf *out, const char *name, const struct shape *shape,
                         size_t bytes)
{
    struct strbuf tensor;
    strbuf_init(&tensor);
    put_tensor(&tensor, name, DTYPE_F32, shape);
    put_header(&tensor, TENSOR_RAW, bytes);
    put_header(out, GRAPH_INITIALIZER, tensor.length + bytes);
    strbuf_add_bytes(out, tensor.text, tensor.length);
    out->failed |= tensor.failed;
    strbuf_release(&tensor);
}

/* ---- around them ---- */

void onnx_port(struct onnx_nodes *nodes, uint32_t field, const char *name, enum dtype dtype,
               const struct shape *shape)
{
    struct strbuf *out = &nodes->bytes;
    size_t port = proto_begin(out, field);
    proto_add_text(out, VALUE_NAME, name);
    size_t type = proto_begin(out, VALUE_TYPE), tensor = proto_begin(out, TYPE_TENSOR);
    proto_add_varint(out, TENSOR_TYPE_ELEMENT, (uint64_t)type_of(dtype));
    size_t dims = proto_begin(out, TENSOR_TYPE_SHAPE);
    for (int i = 0; i < shape->ndim; i++) {
        size_t dim = proto_begin(out, SHAPE_DIM);
        if (shape->dim[i] == SHAPE_BATCH)
            proto_add_text(out, DIM_PARAMETER, "N");
        else
            proto_add_varint(out, DIM_VALUE, (uint64_t)shape->dim[i]);
        proto_end(out, dim);
    }
    proto_end(out, dims);
    proto_end(out, tensor);
    proto_end(out, type);
    proto_end(out, port);
}

void onnx_model_header(struct strbuf *out, const char *model, size_t graph_bytes)
{
    struct strbuf name;
    strbuf_init(&name);
    proto_add_text(&name, GRAPH_NAME, model);
    proto_add_varint(out, MODEL_IR, IR_VERSION);
    proto_add_text(out, MODEL_PRODUCER, "lockstep");
    proto_add_text(out, MODEL_PRODUCER_VERSION, LOCKSTEP_VERSION);
    size_t opset = proto_begin(out, MODEL_OPSET);
    proto_add_text(out, OPSET_DOMAIN, "");
    proto_add_varint(out, OPSET_VERSION, OPSET);
    proto_end(out, opset);
    put_header(out, MODEL_GRAPH, name.length + graph_bytes);
    strbuf_add_bytes(out, name.text, name.length);
    out->failed |= name.failed;
    strbuf_release(&name);
}
