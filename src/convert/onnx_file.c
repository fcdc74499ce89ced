#include "convert/onnx_file.h"

#include <inttypes.h>

#include "base/arena.h"
#include "base/error.h"
#include "wire/proto.h"

/* Numbers of the fields, from onnx.proto. */
enum { MODEL_PRODUCER = 2, MODEL_GRAPH = 7, MODEL_OPSET = 8 };
enum { OPSET_DOMAIN = 1, OPSET_VERSION = 2 };
enum {
    GRAPH_NODE = 1,
    GRAPH_TENSOR = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    GRAPH_SPARSE_TENSOR = 15
};
enum {
    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_NAME = 3,
    NODE_OP = 4,
    NODE_ATTRIBUTE = 5,
    NODE_DOMAIN = 7
};
enum {
    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_FLOAT = 2,
    ATTRIBUTE_INTEGER = 3,
    ATTRIBUTE_TEXT = 4,
    ATTRIBUTE_TENSOR = 5,
    ATTRIBUTE_FLOATS = 7,
    ATTRIBUTE_INTEGERS = 8
};
enum { PORT_NAME = 1, PORT_TYPE = 2, TYPE_TENSOR = 1, TENSOR_ELEMENT = 1, TENSOR_SHAPE = 2 };
enum { SHAPE_DIM = 1, DIM_VALUE = 1 };

static int no_memory(struct error *err)
{
    return error_set(err, ERROR_MEMORY, "no memory for the network");
}

/* How many fields of this number the message has. */
static int count_fields(struct proto_reader reader, uint32_t number, int limit, const char *what,
                        int *out, struct error *err)
{
    struct proto_field field;
    int got, count = 0;
    while ((got = proto_next(&reader, &field, err)) > 0)
        if (field.number == number && ++count > limit)
            return error_set(err, ERROR_FORMAT, "more than %d %s", limit, what);
    *out = count;
    return got;
}

static int take_text(const struct proto_reader *reader, const struct proto_field *field,
                     struct arena *arena, const char **out, struct error *err)
{
    if (proto_expect(reader, field, PROTO_BYTES, err) < 0)
        return -1;
    *out = onnx_take_text(field, arena);
    return *out ? 0 : no_memory(err);
}

/* --- Attributes and nodes --- */

static int take_lists(struct proto_reader reader, struct arena *arena, struct onnx_attribute *out,
                      struct error *err)
{
    int64_t integers = 0, numbers = 0;
    int64_t room = reader.end - reader.at; /* no list has more elements than bytes */
    int64_t *integer_list = NULL;
    float *number_list = NULL;
    struct proto_field field;
    int got;
    while ((got = proto_next(&reader, &field, err)) > 0) {
        int status = 0;
        if (field.number == ATTRIBUTE_INTEGERS) {
            if (!integer_list)
                integer_list = ARENA_ARRAY(arena, int64_t, room);
            status = integer_list
                         ? onnx_take_integers(&reader, &field, integer_list, &integers, room, err)
                         : no_memory(err);
        } else if (field.number == ATTRIBUTE_FLOATS) {
            if (!number_list)
                number_list = ARENA_ARRAY(arena, float, room);
            status = number_list
                         ? onnx_take_floats(&reader, &field, number_list, &numbers, room, err)
                         : no_memory(err);
        }
        if (status < 0)
            return -1;
    }
    out->integers = integer_list;
    out->integer_count = (int)integers;
    out->numbers = number_list;
    out->number_count = (int)numbers;
    return got;
}

static int take_tensor_attribute(const struct proto_reader *reader, const struct proto_field *field,
                                 struct arena *arena, struct onnx_attribute *out, struct error *err)
{
    struct onnx_tensor *tensor = ARENA_NEW(arena, struct onnx_tensor);
    if (!tensor)
        return no_memory(err);
    out->tensor = tensor;
    return onnx_take_tensor(reader, field, arena, tensor, err);
}

static int read_attribute(struct proto_reader reader, struct arena *arena,
                          struct onnx_attribute *out, struct error *err)
{
    struct proto_reader lists = reader;
    struct proto_field field;
    int got;
    *out = (struct onnx_attribute){.name = ""};
    while ((got = proto_next(&reader, &field, err)) > 0) {
        int status = 0;
        switch (field.number) {
        case ATTRIBUTE_NAME:
            status = take_text(&reader, &field, arena, &out->name, err);
            break;
        case ATTRIBUTE_FLOAT:
            out->number = proto_float((uint32_t)field.value);
            break;
        case ATTRIBUTE_INTEGER:
            out->integer = (int64_t)field.value;
            break;
        case ATTRIBUTE_TEXT:
            status = take_text(&reader, &field, arena, &out->text, err);
            break;
        case ATTRIBUTE_TENSOR:
            status = take_tensor_attribute(&reader, &field, arena, out, err);
            break;
        default:
            break;
        }
        if (status < 0)
            return -1;
    }
    return got < 0 ? -1 : take_lists(lists, arena, out, err);
}

struct node_parts {
    const char **inputs, **outputs;
    struct onnx_attribute *attributes;
};

static int make_room(struct proto_reader reader, struct arena *arena, struct node_parts *parts,
                     struct error *err)
{
    int inputs = 0, outputs = 0, attributes = 0;
    if (count_fields(reader, NODE_INPUT, ONNX_MAX_PORTS, "inputs of a node", &inputs, err) < 0 ||
        count_fields(reader, NODE_OUTPUT, ONNX_MAX_PORTS, "outputs of a node", &outputs, err) < 0 ||
        count_fields(reader, NODE_ATTRIBUTE, ONNX_MAX_PORTS, "attributes of a node", &attributes,
                     err) < 0)
        return -1;
    parts->inputs = ARENA_ARRAY(arena, const char *, inputs + 1);
    parts->outputs = ARENA_ARRAY(arena, const char *, outputs + 1);
    parts->attributes = ARENA_ARRAY(arena, struct onnx_attribute, attributes + 1);
    return parts->inputs && parts->outputs && parts->attributes ? 0 : no_memory(err);
}

static int take_attribute(const struct proto_reader *reader, const struct proto_field *field,
                          struct arena *arena, struct onnx_attribute *out, struct error *err)
{
    struct proto_reader inner;
    if (proto_enter(reader, field, &inner, err) < 0)
        return -1;
    return read_attribute(inner, arena, out, err);
}

static int take_node_field(const struct proto_reader *reader, const struct proto_field *field,
                           struct arena *arena, const struct node_parts *parts,
                           struct onnx_node *out, struct error *err)
{
    switch (field->number) {
    case NODE_INPUT:
        return take_text(reader, field, arena, &parts->inputs[out->input_count++], err);
    case NODE_OUTPUT:
        return take_text(reader, field, arena, &parts->outputs[out->output_count++], err);
    case NODE_NAME:
        return take_text(reader, field, arena, &out->name, err);
    case NODE_OP:
        return take_text(reader, field, arena, &out->op, err);
    case NODE_DOMAIN:
        return take_text(reader, field, arena, &out->domain, err);
    case NODE_ATTRIBUTE:
        return take_attribute(reader, field, arena, &parts->attributes[out->attribute_count++],
                              err);
    default:
        return 0;
    }
}

static int read_node(struct proto_reader reader, struct arena *arena, struct onnx_node *out,
                     struct error *err)
{
    struct node_parts parts;
    struct proto_field field;
    int got;
    *out = (struct onnx_node){.op = "", .name = "", .domain = ""};
    if (make_room(reader, arena, &parts, err) < 0)
        return -1;
    while ((got = proto_next(&reader, &field, err)) > 0)
        if (take_node_field(&reader, &field, arena, &parts, out, err) < 0)
            return error_wrap(err, "node %s", *out->name ? out->name : out->op);
    out->inputs = parts.inputs;
    out->outputs = parts.outputs;
    out->attributes = parts.attributes;
    return got;
}

/* --- Inputs and outputs --- */

/* A dimension without a value, or with a name instead, may be anything. */
static int read_dim(struct proto_reader reader, int64_t *out, struct error *err)
{
    struct proto_field field;
    int got;
    *out = -1;
    while ((got = proto_next(&reader, &field, err)) > 0)
        if (field.number == DIM_VALUE && field.wire == PROTO_VARINT && (int64_t)field.value > 0)
            *out = (int64_t)field.value;
    return got;
}

static int read_dims(struct proto_reader reader, struct onnx_port *out, struct error *err)
{
    struct proto_field field;
    struct proto_reader inner;
    int got;
    out->ndim = 0;
    while ((got = proto_next(&reader, &field, err)) > 0) {
        if (field.number != SHAPE_DIM)
            continue;
        if (out->ndim == ONNX_MAX_DIMS)
            return error_set(err, ERROR_FORMAT, "%s has more than %d dimensions", out->name,
                             ONNX_MAX_DIMS);
        if (proto_enter(&reader, &field, &inner, err) < 0 ||
            read_dim(inner, &out->dim[out->ndim++], err) < 0)
            return -1;
    }
    return got;
}

static int read_tensor_type(struct proto_reader reader, struct onnx_port *out, struct error *err)
{
    struct proto_field field;
    struct proto_reader inner;
    int got;
    while ((got = proto_next(&reader, &field, err)) > 0) {
        if (field.number == TENSOR_ELEMENT)
            out->type = (int)field.value;
        if (field.number == TENSOR_SHAPE &&
            (proto_enter(&reader, &field, &inner, err) < 0 || read_dims(inner, out, err) < 0))
            return -1;
    }
    return got;
}

static int read_type(struct proto_reader reader, struct onnx_port *out, struct error *err)
{
    struct proto_field field;
    struct proto_reader inner;
    int got;
    while ((got = proto_next(&reader, &field, err)) > 0)
        if (field.number == TYPE_TENSOR && (proto_enter(&reader, &field, &inner, err) < 0 ||
                                            read_tensor_type(inner, out, err) < 0))
            return -1;
    return got;
}

static int read_port(struct proto_reader reader, struct arena *arena, struct onnx_port *out,
                     struct error *err)
{
    struct proto_field field;
    struct proto_reader inner;
    int got;
    *out = (struct onnx_port){.name = "", .ndim = -1};
    while ((got = proto_next(&reader, &field, err)) > 0) {
        if (field.number == PORT_NAME && take_text(&reader, &field, arena, &out->name, err) < 0)
            return -1;
        if (field.number == PORT_TYPE &&
            (proto_enter(&reader, &field, &inner, err) < 0 || read_type(inner, out, err) < 0))
            return -1;
    }
    return got;
}

/* --- The whole --- */

struct graph_parts {
    struct onnx_node *nodes;
    struct onnx_tensor *tensors;
    struct onnx_port *inputs, *outputs;
};

static int make_graph_room(struct proto_reader reader, struct arena *arena,
                           struct graph_parts *parts, struct error *err)
{
    int nodes = 0, tensors = 0, inputs = 0, outputs = 0;
    if (count_fields(reader, GRAPH_NODE, ONNX_MAX_NODES, "nodes", &nodes, err) < 0 ||
        count_fields(reader, GRAPH_TENSOR, ONNX_MAX_NODES, "tensors", &tensors, err) < 0 ||
        count_fields(reader, GRAPH_INPUT, ONNX_MAX_NODES, "inputs", &inputs, err) < 0 ||
        count_fields(reader, GRAPH_OUTPUT, ONNX_MAX_PORTS, "outputs", &outputs, err) < 0)
        return -1;
    parts->nodes = ARENA_ARRAY(arena, struct onnx_node, nodes + 1);
    parts->tensors = ARENA_ARRAY(arena, struct onnx_tensor, tensors + 1);
    parts->inputs = ARENA_ARRAY(arena, struct onnx_port, inputs + 1);
    parts->outputs = ARENA_ARRAY(arena, struct onnx_port, outputs + 1);
    return parts->nodes && parts->tensors && parts->inputs && parts->outputs ? 0 : no_memory(err);
}

static int take_graph_field(const struct proto_reader *reader, const struct proto_field *field,
                            struct arena *arena, const struct graph_parts *parts,
                            struct onnx_file *out, struct error *err)
{
    struct proto_reader inner;
    switch (field->number) {
    case GRAPH_TENSOR:
        return onnx_take_tensor(reader, field, arena, &parts->tensors[out->tensor_count++], err);
    case GRAPH_SPARSE_TENSOR:
        return error_set(err, ERROR_FORMAT, "sparse tensors are not read");
    case GRAPH_NODE:
        if (proto_enter(reader, field, &inner, err) < 0)
            return -1;
        return read_node(inner, arena, &parts->nodes[out->node_count++], err);
    case GRAPH_INPUT:
        if (proto_enter(reader, field, &inner, err) < 0)
            return -1;
        return read_port(inner, arena, &parts->inputs[out->input_count++], err);
    case GRAPH_OUTPUT:
        if (proto_enter(reader, field, &inner, err) < 0)
            return -1;
        return read_port(inner, arena, &parts->outputs[out->output_count++], err);
    default:
        return 0;
    }
}

static int read_graph(struct proto_reader reader, struct arena *arena, struct onnx_file *out,
                      struct error *err)
{
    struct graph_parts parts;
    struct proto_field field;
    int got;
    if (make_graph_room(reader, arena, &parts, err) < 0)
        return -1;
    while ((got = proto_next(&reader, &field, err)) > 0)
        if (take_graph_field(&reader, &field, arena, &parts, out, err) < 0)
            return -1;
    out->nodes = parts.nodes;
    out->tensors = parts.tensors;
    out->inputs = parts.inputs;
    out->outputs = parts.outputs;
    return got;
}

/* The version of the operators with no domain, which are ONNX's own; other sets may stand beside. */
static int read_opset(struct proto_reader reader, int64_t *out, struct error *err)
{
    struct proto_field field;
    int64_t version = 0;
    bool own = true;
    int got;
    while ((got = proto_next(&reader, &field, err)) > 0) {
        if (field.number == OPSET_DOMAIN && field.wire == PROTO_BYTES)
            own = field.count == 0 || (field.count == 7 && !memcmp(field.bytes, "ai.onnx", 7));
        if (field.number == OPSET_VERSION)
            version = (int64_t)field.value;
    }
    if (own && version > 0)
        *out = version;
    return got;
}

static bool is_own(const struct proto_field *producer)
{
    static const char name[] = "lockstep";
    return producer->wire == PROTO_BYTES && producer->count == sizeof name - 1 &&
           memcmp(producer->bytes, name, sizeof name - 1) == 0;
}

int onnx_parse(const void *bytes, size_t count, struct arena *arena, struct onnx_file *out,
               struct error *err)
{
    struct onnx_file file = {0};
    struct proto_reader reader, inner;
    struct proto_field field;
    int got;
    bool found = false;
    proto_open(&reader, bytes, count);
    while ((got = proto_next(&reader, &field, err)) > 0) {
        if (field.number == MODEL_PRODUCER)
            file.own = is_own(&field);
        if (field.number != MODEL_GRAPH && field.number != MODEL_OPSET)
            continue;
        if (proto_enter(&reader, &field, &inner, err) < 0)
            return -1;
        if (field.number == MODEL_OPSET && read_opset(inner, &file.opset, err) < 0)
            return -1;
        if (field.number == MODEL_GRAPH && found)
            return error_set(err, ERROR_FORMAT, "two networks in one file");
        if (field.number == MODEL_GRAPH && read_graph(inner, arena, &file, err) < 0)
            return -1;
        found = found || field.number == MODEL_GRAPH;
    }
    if (got < 0)
        return -1;
    if (!found)
        return error_set(err, ERROR_FORMAT, "no network is in it; is it an ONNX file?");
    if (!file.opset)
        file.opset = 1; /* none of ONNX's own operators, then */
    *out = file;
    return 0;
}
