#include "convert/savedmodel_read.h"

#include <limits.h>
#include <math.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/file_map.h"
#include "base/memory.h"
#include "convert/imported_parts.h"
#include "convert/tf_import.h"
#include "convert/tf_network.h"
#include "convert/tf_types.h"
#include "exec/params.h"
#include "store/bundle.h"

/* Of one example: a few bytes may promise any size. */
enum { MOST_ELEMENTS = 1 << 30 };

struct reader {
    const char *directory, *path; /* of saved_model.pb */
    struct imported *model;
    struct arena *arena;
    struct tf_def_model parsed;
    const struct tf_def_signature *signature;
    struct import import;
    struct bundle *bundle; /* NULL: no variables */
};

/* ---- inputs ---- */

static const struct tf_def_signature *choose_signature(const struct tf_def_model *parsed)
{
    const struct tf_def_signature *first = NULL;
    for (int i = 0; i < parsed->signature_count; i++) {
        const struct tf_def_signature *signature = &parsed->signatures[i];
        if (!strcmp(signature->name, "serving_default"))
            return signature;
        if (!first && signature->input_count > 0 && signature->output_count > 0)
            first = signature;
    }
    return first;
}

static int refuse_input(const struct reader *reader, const struct tf_def_port *port,
                        struct error *err)
{
    return error_set(err, ERROR_FORMAT,
                     "%s: the input %s is no float32 with a free first and else known dimensions",
                     reader->path, port->key);
}

/* Pictures, N, H, W, C there, are logically N, C, H, W here. */
static int add_input(struct reader *reader, struct import_frame *frame,
                     const struct tf_def_port *port, struct error *err)
{
    struct shape shape = port->shape;
    if (!port->known_shape || shape.ndim < 2 || shape.dim[0] != -1 || port->type != TF_FLOAT)
        return refuse_input(reader, port, err);
    int64_t elements = 1;
    for (int i = 1; i < shape.ndim; i++) {
        if (shape.dim[i] < 1 || shape.dim[i] > MOST_ELEMENTS / elements)
            return refuse_input(reader, port, err);
        elements *= shape.dim[i];
    }
    bool picture = shape.ndim == 4;
    if (picture)
        shape = SHAPE(SHAPE_BATCH, port->shape.dim[3], port->shape.dim[1], port->shape.dim[2]);
    /* By this name data is found for it. */
    const char *name = picture && reader->signature->input_count == 1 ? "image" : port->key;
    value_id id = graph_input(reader->model->graph, name, DTYPE_F32, shape);
    if (picture)
        graph_mark_channels_last(reader->model->graph, id);
    import_set(&reader->import, frame, port->tensor,
               (struct import_value){.kind = IMPORT_VALUE, .id = id});
    return 0;
}

/* ---- outputs ---- */

/* The outputs' values, each once, become outputs of the graph. */
static int port_for(value_id id, value_id *ports, int *count)
{
    for (int i = 0; i < *count; i++)
        if (ports[i] == id)
            return i;
    ports[*count] = id;
    return (*count)++;
}

static int take_output(struct reader *reader, struct import_frame *frame,
                       const struct tf_def_port *port, struct import_value *out, struct error *err)
{
    *out = import_settle(&reader->import, import_tensor(&reader->import, frame, port->tensor));
    bool padded = out->pads[0] || out->pads[1] || out->pads[2] || out->pads[3];
    if (out->kind == IMPORT_VALUE && !padded && !out->flat[2] &&
        graph_value(reader->model->graph, out->id)->shape.ndim != 4) {
        out->answer = ANSWER_ROWS;
        return 0;
    }
    if (out->kind == IMPORT_ANSWER || out->kind == IMPORT_NOTHING)
        return 0;
    return error_set(err, ERROR_FORMAT, "%s: the output %s is nothing that can be answered in rows",
                     reader->path, port->key);
}

static struct shape answer_shape(const struct graph *graph, const struct import_value *value)
{
    struct shape shape = graph_value(graph, value->id)->shape;
    return value->answer == ANSWER_ARGMAX ? SHAPE(SHAPE_BATCH) : shape;
}

static int make_signature(struct reader *reader, const struct import_value *outputs,
                          value_id *ports, int *port_count, struct error *err)
{
    const struct tf_def_signature *theirs = reader->signature;
    struct signature *signature = ARENA_NEW(reader->arena, struct signature);
    struct signature_tensor *in =
        ARENA_ARRAY(reader->arena, struct signature_tensor, theirs->input_count + 1);
    struct signature_tensor *out =
        ARENA_ARRAY(reader->arena, struct signature_tensor, theirs->output_count + 1);
    struct question *questions =
        ARENA_ARRAY(reader->arena, struct question, theirs->input_count + 1);
    struct answer *answers = ARENA_ARRAY(reader->arena, struct answer, theirs->output_count + 1);
    if (!signature || !in || !out || !questions || !answers)
        return error_set(err, ERROR_MEMORY, "no memory for the signature");
    for (int i = 0; i < theirs->input_count; i++) {
        const struct tf_def_port *port = &theirs->inputs[i];
        in[i] = (struct signature_tensor){port->key, port->tensor, DTYPE_F32, port->shape};
        questions[i] = (struct question){QUESTION_ROWS, i, 0};
    }
    for (int i = 0; i < theirs->output_count; i++) {
        const struct tf_def_port *port = &theirs->outputs[i];
        answers[i].kind = outputs[i].answer;
        answers[i].port = port_for(outputs[i].id, ports, port_count);
        out[i] = (struct signature_tensor){
            port->key, port->tensor, outputs[i].answer == ANSWER_ARGMAX ? DTYPE_I64 : DTYPE_F32,
            answer_shape(reader->model->graph, &outputs[i])};
    }
    *signature = (struct signature){theirs->name,        theirs->method,       in,        out,
                                    theirs->input_count, theirs->output_count, questions, answers};
    reader->model->signatures = signature;
    reader->model->signature_count = 1;
    return 0;
}

/* One value of which classes are told is a classifier's, with a loss, so that it can be evaluated. */
static void name_outputs(struct reader *reader, const value_id *ports, int count)
{
    struct graph *graph = reader->model->graph;
    const struct shape *shape = &graph_value(graph, ports[0])->shape;
    if (count == 1 && shape->ndim == 2 && shape->dim[1] > 1) {
        lockstep_classifier(graph, ports[0], 0);
        return;
    }
    for (int i = 0; i < count; i++) {
        const char *name = arena_format(reader->arena, "output_%d", i);
        lockstep_output(graph, name ? name : "", ports[i]);
    }
}

/* ---- the graph ---- */

static int walk(struct reader *reader, struct error *err)
{
    const struct tf_def_signature *signature = reader->signature;
    struct import *import = &reader->import;
    struct import_frame *frame = import_main_frame(import);
    struct import_value *outputs =
        ARENA_ARRAY(reader->arena, struct import_value, signature->output_count + 1);
    value_id *ports = ARENA_ARRAY(reader->arena, value_id, signature->output_count + 1);
    int port_count = 0;
    if (!frame || !outputs || !ports)
        return error_set(err, ERROR_MEMORY, "no memory for the graph");
    for (int i = 0; i < signature->input_count; i++)
        if (add_input(reader, frame, &signature->inputs[i], err) < 0)
            return -1;
    for (int i = 0; i < signature->output_count; i++)
        if (take_output(reader, frame, &signature->outputs[i], &outputs[i], err) < 0)
            return -1;
    if (import->failed)
        return error_wrap(err, "%s", reader->path);
    if (unsupported_refuse(&import->unsupported, "it has operations this program lacks:", err) < 0)
        return error_wrap(err, "%s", reader->path);
    for (int i = 0; i < signature->output_count; i++)
        if (outputs[i].kind == IMPORT_NOTHING)
            return graph_finish(reader->model->graph, err) < 0
                       ? error_wrap(err, "%s", reader->path)
                       : error_set(err, ERROR_FORMAT, "%s: the output %s cannot be followed back",
                                   reader->path, signature->outputs[i].key);
    if (make_signature(reader, outputs, ports, &port_count, err) < 0)
        return -1;
    name_outputs(reader, ports, port_count);
    return graph_finish(reader->model->graph, err) < 0 ? error_wrap(err, "%s", reader->path) : 0;
}

static int list_ports(struct reader *reader, struct error *err)
{
    struct signatures all;
    struct face none = {.model = "", .missing_category = ""};
    if (signatures_make(reader->model->graph, &none, reader->arena, &all, err) < 0)
        return -1;
    reader->model->inputs = all.inputs;
    reader->model->input_count = all.input_count;
    reader->model->outputs = all.outputs;
    reader->model->output_count = all.output_count;
    if (all.input_count == reader->signature->input_count)
        return 0;
    return error_set(err, ERROR_FORMAT, "%s: an input of its signature is used by no output",
                     reader->path);
}

/* ---- weights ---- */

static const struct tf_def_node *node_behind(const struct tf_def_graph *graph, const char *tensor)
{
    const char *colon = strchr(tensor, ':');
    const struct tf_def_node *node =
        tf_find_node(graph, tensor, colon ? (size_t)(colon - tensor) : strlen(tensor));
    for (int i = 0; node && i < 8 && !strcmp(node->op, "Identity") && node->input_count == 1; i++) {
        tensor = node->inputs[0];
        colon = strchr(tensor, ':');
        node = tf_find_node(graph, tensor, colon ? (size_t)(colon - tensor) : strlen(tensor));
    }
    return node;
}

/* "RestoreV2:3" or "RestoreV2:tensors:3", perhaps behind Identity. */
static int restored_index(const struct tf_def_graph *graph, const char *tensor)
{
    for (int i = 0; i < 8; i++) {
        const char *colon = strrchr(tensor, ':');
        const char *first = strchr(tensor, ':');
        size_t length = first ? (size_t)(first - tensor) : strlen(tensor);
        const struct tf_def_node *node = tf_find_node(graph, tensor, length);
        if (!node)
            return -1;
        if (!strcmp(node->op, "RestoreV2"))
            return colon ? (int)strtol(colon + 1, NULL, 10) : 0;
        if (strcmp(node->op, "Identity") != 0 || node->input_count < 1)
            return -1;
        tensor = node->inputs[0];
    }
    return -1;
}

/* The name in the list that a RestoreV2 was given, or NULL. */
static const char *name_in_list(struct reader *reader, const struct tf_def_graph *graph,
                                const struct tf_def_node *assign)
{
    int index = restored_index(graph, assign->inputs[1]);
    const struct tf_def_node *restore = index >= 0 ? node_behind(graph, assign->inputs[1]) : NULL;
    struct tensor names;
    struct error ignored;
    if (!restore || strcmp(restore->op, "RestoreV2") != 0 || restore->input_count < 2)
        return NULL;
    const struct tf_def_node *list = node_behind(graph, restore->inputs[1]);
    if (!list || strcmp(list->op, "Const") != 0 ||
        tf_def_tensor(list, "value", reader->arena, &names, &ignored) < 0 ||
        names.dtype != DTYPE_STRING || index >= shape_count(&names.shape))
        return NULL;
    const struct text_view *name = (const struct text_view *)names.data + index;
    return name->count < 4096 ? arena_format(reader->arena, "%.*s", (int)name->count, name->bytes)
                              : NULL;
}

/* In a function the variable is an argument: the call in the main graph has its handle. */
static bool argument_is(const struct reader *reader, const struct tf_def_function *function,
                        const char *argument, const struct tf_def_node *variable)
{
    for (int i = 0; i < reader->parsed.graph.count; i++) {
        const struct tf_def_node *node = &reader->parsed.graph.nodes[i];
        const char *name = tf_def_function_name(node, "f", reader->arena);
        if (!name || strcmp(name, function->name) != 0)
            continue;
        for (int k = 0; k < function->argument_count && k < node->input_count; k++)
            if (!strcmp(function->arguments[k], argument) &&
                !strcmp(node->inputs[k], variable->name))
                return true;
    }
    return false;
}

static const char *saved_name(struct reader *reader, const struct tf_def_graph *graph,
                              const struct tf_def_function *function,
                              const struct tf_def_node *variable)
{
    for (int i = 0; i < graph->count; i++) {
        const struct tf_def_node *node = &graph->nodes[i];
        if (strcmp(node->op, "AssignVariableOp") != 0 || node->input_count < 2)
            continue;
        bool same = function ? argument_is(reader, function, node->inputs[0], variable)
                             : !strcmp(node->inputs[0], variable->name);
        const char *name = same ? name_in_list(reader, graph, node) : NULL;
        if (name)
            return name;
    }
    return NULL;
}

static const char *find_saved_name(struct reader *reader, const struct tf_def_node *variable)
{
    const char *name = saved_name(reader, &reader->parsed.graph, NULL, variable);
    for (int i = 0; !name && i < reader->parsed.function_count; i++)
        name = saved_name(reader, &reader->parsed.functions[i].body, &reader->parsed.functions[i],
                          variable);
    return name;
}

/* At the first variable: a graph of constants has no such files. */
static int open_bundle(struct reader *reader, struct error *err)
{
    char prefix[PATH_MAX];
    if (reader->bundle)
        return 0;
    int length = snprintf(prefix, sizeof prefix, "%s/variables/variables", reader->directory);
    if (length < 0 || length >= PATH_MAX)
        return error_set(err, ERROR_IO, "%s: the path is too long", reader->directory);
    return bundle_open(prefix, &reader->bundle, err);
}

/* Where column k of [out, in] stands among theirs: rows were flattened height, width, channels. */
static int64_t their_column(const struct import_load *load, int64_t column)
{
    int64_t cells = load->flat[0] * load->flat[1], channels = load->flat[2];
    return channels ? column % cells * channels + column / cells : column;
}

static void turn(const struct import_load *load, const struct shape *ours, const float *in,
                 float *out)
{
    if (load->turn == TURN_CONVOLUTION) {
        tf_variable_turn_back(ours, in, out);
        return;
    }
    int64_t rows = ours->dim[0], columns = ours->dim[1];
    bool transposed = load->turn == TURN_MATRIX_TRANSPOSED;
    for (int64_t o = 0; o < rows; o++)
        for (int64_t k = 0; k < columns; k++) {
            int64_t from = their_column(load, k);
            out[o * columns + k] = in[transposed ? o * columns + from : from * rows + o];
        }
}

static int read_variable(struct reader *reader, const struct tf_def_node *variable, int64_t count,
                         float *out, struct error *err)
{
    const char *name = find_saved_name(reader, variable);
    if (open_bundle(reader, err) < 0)
        return -1;
    int entry = name ? bundle_find(reader->bundle, name) : -1;
    if (entry < 0)
        return error_set(err, ERROR_FORMAT, "%s: the variable %s was not saved", reader->path,
                         variable->name);
    const struct bundle_entry *stored = bundle_entry(reader->bundle, entry);
    if (stored->unreadable || stored->dtype != DTYPE_F32 || shape_count(&stored->shape) != count)
        return error_set(err, ERROR_FORMAT, "%s: the variable %s was saved with another shape",
                         reader->path, variable->name);
    struct tensor tensor = {DTYPE_F32, stored->shape, out};
    return bundle_read(reader->bundle, entry, &tensor, err);
}

static float add_up(enum import_sum sum, float a, float b)
{
    switch (sum) {
    case SUM_ADD:
        return a + b;
    case SUM_SUBTRACT:
        return a - b;
    case SUM_MULTIPLY:
        return a * b;
    case SUM_INVERSE_ROOT:
        return 1 / sqrtf(a);
    case SUM_SAME:
        break;
    }
    return a;
}

static int read_numbers(struct reader *reader, const struct import_value *source, int64_t count,
                        float *out, struct error *err);

/* One side of a sum: [count], of which a single number is repeated. */
static int read_side(struct reader *reader, const struct import_value *side, int64_t count,
                     float *out, struct error *err)
{
    struct shape shape;
    if (!import_weights_shape(side, &shape))
        return error_set(err, ERROR_FORMAT, "%s: weights without a shape", reader->path);
    int64_t own = shape_count(&shape);
    if (read_numbers(reader, side, own, out, err) < 0)
        return -1;
    for (int64_t i = own; i < count; i++)
        out[i] = out[0];
    return 0;
}

static int read_sum(struct reader *reader, const struct import_numbers *numbers, float *out,
                    struct error *err)
{
    float *other = memory_allocate((size_t)numbers->count * sizeof *other);
    int status = other ? 0 : error_set(err, ERROR_MEMORY, "no memory for weights");
    if (status == 0)
        status = read_side(reader, &numbers->a, numbers->count, out, err);
    if (status == 0)
        status = read_side(reader, &numbers->b, numbers->count, other, err);
    for (int64_t i = 0; status == 0 && i < numbers->count; i++)
        out[i] = add_up(numbers->sum, out[i], other[i]);
    memory_free(other);
    return status;
}

static int read_numbers(struct reader *reader, const struct import_value *source, int64_t count,
                        float *out, struct error *err)
{
    if (source->kind == IMPORT_WEIGHTS && source->numbers)
        return source->numbers->count == count
                   ? read_sum(reader, source->numbers, out, err)
                   : error_set(err, ERROR_FORMAT, "%s: weights of another shape", reader->path);
    if (source->kind == IMPORT_WEIGHTS)
        return read_variable(reader, source->variable, count, out, err);
    if (shape_count(&source->constant.shape) != count)
        return error_set(err, ERROR_FORMAT, "%s: a constant has another shape", reader->path);
    memcpy(out, source->constant.data, (size_t)count * sizeof *out);
    return 0;
}

static int load_one(struct reader *reader, const struct import_load *load, struct error *err)
{
    const struct value *value = graph_value(reader->model->graph, load->param);
    int64_t count = shape_count(&value->shape);
    struct slab room = {0};
    int index = params_find(reader->model->params, value->name);
    if (slab_create((size_t)count * 2 * sizeof(float), "weights in plain order", &room, err) < 0)
        return -1;
    float *theirs = room.data, *ours = theirs + count;
    int status = read_numbers(reader, &load->source, count, theirs, err);
    if (status == 0 && load->turn != TURN_NONE)
        turn(load, &value->shape, theirs, ours);
    struct tensor plain = {DTYPE_F32, value->shape, load->turn == TURN_NONE ? theirs : ours};
    if (status == 0)
        status = params_write(reader->model->params, index, &plain, err);
    slab_release(&room);
    return status;
}

/* ---- the whole ---- */

static int read_graph(struct reader *reader, const void *bytes, size_t count, struct error *err)
{
    if (tf_parse(reader->path, bytes, count, reader->arena, &reader->parsed, err) < 0)
        return -1;
    reader->signature = choose_signature(&reader->parsed);
    if (!reader->signature || reader->signature->output_count < 1)
        return error_set(err, ERROR_FORMAT, "%s: no signature in it takes and gives something",
                         reader->path);
    reader->model->graph = graph_create();
    if (!reader->model->graph)
        return error_set(err, ERROR_MEMORY, "no memory for the network");
    reader->import = (struct import){.model = &reader->parsed,
                                     .arena = reader->arena,
                                     .graph = reader->model->graph,
                                     .err = err};
    return walk(reader, err) < 0 ? -1 : list_ports(reader, err);
}

static int read_all(struct reader *reader, const void *bytes, size_t count, struct error *err)
{
    if (read_graph(reader, bytes, count, err) < 0 || imported_fix_layouts(reader->model, err) < 0)
        return -1;
    int status = 0;
    for (int i = 0; status == 0 && i < reader->import.load_count; i++)
        status = load_one(reader, &reader->import.loads[i], err);
    bundle_close(reader->bundle);
    return status;
}

int savedmodel_read_graph(const char *name, const void *bytes, size_t count, struct imported *model,
                          struct error *err)
{
    struct reader reader = {.path = name, .model = model, .arena = model->memory->arena};
    return read_graph(&reader, bytes, count, err);
}

int savedmodel_read(const char *directory, struct imported *model, struct error *err)
{
    char path[PATH_MAX];
    char *bytes;
    size_t count;
    struct reader reader = {
        .directory = directory, .path = path, .model = model, .arena = model->memory->arena};
    int length = snprintf(path, sizeof path, "%s/saved_model.pb", directory);
    if (length < 0 || length >= PATH_MAX)
        return error_set(err, ERROR_IO, "%s: the path is too long", directory);
    if (file_map(path, &bytes, &count, err) < 0)
        return -1;
    int status = read_all(&reader, bytes, count, err);
    if (file_map_check(path, bytes, err) < 0)
        status = -1;
    file_unmap(bytes, count);
    return status;
}
