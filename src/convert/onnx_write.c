#include "convert/onnx_write.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "convert/face.h"
#include "convert/onnx_network.h"
#include "convert/signatures.h"
#include "exec/params.h"

/* What a protobuf message may have. */
#define MOST_BYTES (((size_t)1 << 31) - 1)

struct writer {
    const struct face *face;
    struct signatures signatures;
    struct onnx_network network;
};

/* ---- both ends ---- */

/* Numbers of columns marked so become sign(x) * log(1 + |x|). */
static const char *write_logarithms(struct writer *writer, const char *x)
{
    struct onnx_network *network = &writer->network;
    struct onnx_nodes *nodes = &network->nodes;
    int count = writer->face->number_count;
    float *which = ARENA_ARRAY(network->arena, float, count);
    network->failed |= !which;
    for (int i = 0; which && i < count; i++)
        which[i] = writer->face->numbers[i].logarithm;
    if (!which)
        return x;
    onnx_const(nodes, "logarithms", &(struct tensor){DTYPE_F32, SHAPE(count), which});
    onnx_const_float(nodes, "logarithms/one", 1);
    onnx_const_float(nodes, "logarithms/half", 0.5f);
    onnx_node(nodes, "Greater", "logarithms/wanted", ONNX_INPUTS("logarithms", "logarithms/half"));
    onnx_node(nodes, "Abs", "logarithms/size", ONNX_INPUTS(x));
    onnx_node(nodes, "Add", "logarithms/above", ONNX_INPUTS("logarithms/size", "logarithms/one"));
    onnx_node(nodes, "Log", "logarithms/log", ONNX_INPUTS("logarithms/above"));
    onnx_node(nodes, "Sign", "logarithms/sign", ONNX_INPUTS(x));
    onnx_node(nodes, "Mul", "logarithms/signed", ONNX_INPUTS("logarithms/sign", "logarithms/log"));
    onnx_node(nodes, "Where", "logarithms/numbers",
              ONNX_INPUTS("logarithms/wanted", "logarithms/signed", x));
    return "logarithms/numbers";
}

static bool any_logarithm(const struct face *face)
{
    for (int i = 0; i < face->number_count; i++)
        if (face->numbers[i].logarithm)
            return true;
    return false;
}

static void write_inputs(struct writer *writer)
{
    struct onnx_network *network = &writer->network;
    for (int i = 0; i < graph_input_count(network->graph); i++) {
        value_id input = graph_input_value(network->graph, i);
        const struct value *value = graph_value(network->graph, input);
        const char *name = strcmp(value->name, "image") == 0 ? "input_tensor" : value->name;
        if (!network->needed[input])
            continue;
        onnx_port(&network->nodes, ONNX_GRAPH_INPUT, name, value->dtype, &value->shape);
        network->names[input] = name;
        if (!strcmp(value->name, "numeric") && any_logarithm(writer->face))
            network->names[input] = write_logarithms(writer, name);
    }
}

static void give(struct onnx_nodes *nodes, const char *name, enum dtype dtype, struct shape shape)
{
    onnx_port(nodes, ONNX_GRAPH_OUTPUT, name, dtype, &shape);
}

static void write_softmax(struct onnx_nodes *nodes, const char *name, const char *x)
{
    onnx_begin(nodes, "Softmax", name);
    onnx_input(nodes, x);
    onnx_output(nodes, name);
    onnx_attr_int(nodes, "axis", 1);
    onnx_end(nodes);
}

static void write_two_logits(struct onnx_nodes *nodes, const char *x)
{
    onnx_const_float(nodes, "zero", 0);
    onnx_node(nodes, "Mul", "zeros", ONNX_INPUTS(x, "zero"));
    onnx_begin(nodes, "Concat", "two_logits");
    onnx_input(nodes, "zeros");
    onnx_input(nodes, x);
    onnx_output(nodes, "two_logits");
    onnx_attr_int(nodes, "axis", 1);
    onnx_end(nodes);
}

/* The probabilities among the answers of the signature "predict"; classes and texts are for
 * servers. */
static void write_answer(struct onnx_nodes *nodes, const struct signature_tensor *output,
                         enum answer_kind kind, const char *x)
{
    switch (kind) {
    case ANSWER_ROWS:
        onnx_node(nodes, "Identity", output->key, ONNX_INPUTS(x));
        break;
    case ANSWER_SOFTMAX:
        write_softmax(nodes, output->key, x);
        break;
    case ANSWER_LOGISTIC:
        onnx_node(nodes, "Sigmoid", output->key, ONNX_INPUTS(x));
        break;
    case ANSWER_PAIR:
        write_two_logits(nodes, x);
        write_softmax(nodes, output->key, "two_logits");
        break;
    default:
        return;
    }
    give(nodes, output->key, output->dtype, output->shape);
}

static const struct signature *find_predict(const struct signatures *signatures)
{
    for (int i = 0; i < signatures->count; i++)
        if (!strcmp(signatures->list[i].name, "predict"))
            return &signatures->list[i];
    return &signatures->list[0];
}

/* Logits come first, whatever the signature says: who trains on takes the first output. */
static void write_outputs(struct writer *writer)
{
    struct onnx_network *network = &writer->network;
    const struct signature *predict = find_predict(&writer->signatures);
    bool rows = false;
    for (int i = 0; i < predict->output_count; i++)
        rows |= predict->answers[i].kind == ANSWER_ROWS;
    if (!rows) {
        value_id value = graph_output_value(network->graph, 0);
        onnx_node(&network->nodes, "Identity", "logits", ONNX_INPUTS(network->names[value]));
        give(&network->nodes, "logits", DTYPE_F32, graph_value(network->graph, value)->shape);
    }
    for (int i = 0; i < predict->output_count; i++) {
        const struct answer *answer = &predict->answers[i];
        value_id value = graph_output_value(network->graph, answer->port);
        write_answer(&network->nodes, &predict->outputs[i], answer->kind, network->names[value]);
    }
}

/* ---- the file ---- */

static size_t bytes_of(const struct value *value)
{
    return (size_t)shape_count(&value->shape) * sizeof(float);
}

static bool is_weights(const struct onnx_network *network, value_id id)
{
    return network->needed[id] && graph_value(network->graph, id)->kind == VALUE_PARAM &&
           network->names[id];
}

/* Of the graph: its fields so far and the weights that follow. */
static size_t measure(const struct onnx_network *network, struct strbuf *room)
{
    size_t bytes = network->nodes.bytes.length;
    for (value_id id = 0; id < graph_value_count(network->graph); id++) {
        const struct value *value = graph_value(network->graph, id);
        if (!is_weights(network, id))
            continue;
        strbuf_clear(room);
        onnx_weights_header(room, network->names[id], &value->shape, bytes_of(value));
        bytes += room->length + bytes_of(value);
    }
    return bytes;
}

static int write_weights(struct file_draft *draft, const struct onnx_network *network, value_id id,
                         struct strbuf *header, struct error *err)
{
    const struct value *value = graph_value(network->graph, id);
    int index = params_find(network->params, value->name);
    const void *numbers = params_plain(network->params, index);
    struct slab room = {0};
    strbuf_clear(header);
    onnx_weights_header(header, network->names[id], &value->shape, bytes_of(value));
    if (header->failed)
        return error_set(err, ERROR_MEMORY, "no memory for the names of weights");
    int status = file_draft_write(draft, header->text, header->length, err);
    if (status == 0 && !numbers) {
        status = slab_create(bytes_of(value), "weights in plain order", &room, err);
        struct tensor plain = {DTYPE_F32, value->shape, room.data};
        if (status == 0)
            status = params_read(network->params, index, &plain, err);
        numbers = room.data;
    }
    if (status == 0)
        status = file_draft_write(draft, numbers, bytes_of(value), err);
    slab_release(&room);
    return status;
}

static int write_draft(struct file_draft *draft, const struct writer *writer, size_t graph_bytes,
                       struct strbuf *room, struct error *err)
{
    const struct onnx_network *network = &writer->network;
    strbuf_clear(room);
    onnx_model_header(room, writer->face->model, graph_bytes);
    if (room->failed)
        return error_set(err, ERROR_MEMORY, "no memory for the ONNX file");
    if (file_draft_write(draft, room->text, room->length, err) < 0 ||
        file_draft_write(draft, network->nodes.bytes.text, network->nodes.bytes.length, err) < 0)
        return -1;
    for (value_id id = 0; id < graph_value_count(network->graph); id++)
        if (is_weights(network, id) && write_weights(draft, network, id, room, err) < 0)
            return -1;
    return 0;
}

static int write_file(const char *path, const struct writer *writer, bool *too_large,
                      struct error *err)
{
    struct file_draft draft;
    struct strbuf room;
    strbuf_init(&room);
    size_t bytes = measure(&writer->network, &room);
    *too_large = bytes + 1024 > MOST_BYTES;
    int status = 0;
    if (!*too_large) {
        status = file_draft_begin(path, &draft, err);
        if (status == 0 && write_draft(&draft, writer, bytes, &room, err) < 0) {
            file_draft_drop(&draft);
            status = -1;
        }
        if (status == 0)
            status = file_draft_finish(&draft, err);
    }
    strbuf_release(&room);
    return status;
}

static int write_all(const char *path, struct writer *writer, bool *too_large, struct error *err)
{
    struct onnx_network *network = &writer->network;
    network->needed = signatures_needed(network->graph, network->arena);
    network->names =
        ARENA_ARRAY(network->arena, const char *, graph_value_count(network->graph) + 1);
    if (!network->needed || !network->names)
        return error_set(err, ERROR_MEMORY, "no memory for the ONNX graph");
    if (signatures_make(network->graph, writer->face, network->arena, &writer->signatures, err) < 0)
        return -1;
    write_inputs(writer);
    if (onnx_network_write(network, err) < 0)
        return -1;
    write_outputs(writer);
    if (network->failed || network->nodes.bytes.failed)
        return error_set(err, ERROR_MEMORY, "no memory for the ONNX graph");
    return write_file(path, writer, too_large, err);
}

int onnx_write(const char *path, const struct graph *graph, const struct params *params,
               const struct face *face, bool *too_large, struct error *err)
{
    struct writer writer = {.face = face,
                            .network = {.graph = graph, .params = params, .arena = arena_create()}};
    if (!writer.network.arena)
        return error_set(err, ERROR_MEMORY, "no memory for the ONNX file");
    strbuf_init(&writer.network.nodes.bytes);
    int status = write_all(path, &writer, too_large, err);
    strbuf_release(&writer.network.nodes.bytes);
    arena_destroy(writer.network.arena);
    return status;
}
