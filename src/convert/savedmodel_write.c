#include "convert/savedmodel_write.h"

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "convert/face.h"
#include "convert/signatures.h"
#include "convert/tf_ends.h"
#include "convert/tf_messages.h"
#include "exec/params.h"
#include "store/bundle.h"
#include "wire/proto.h"

/* What this TensorFlow would write; older readers that know the operations take it, too. */
static const char tensorflow_version[] = "2.12.0";
enum { GRAPH_PRODUCER = 1286, GRAPH_OLDEST_READER = 12 };

struct writer {
    const struct graph *graph;
    const struct params *params;
    const struct face *face;
    const char *directory;
    struct arena *arena;
    struct signatures signatures;
    struct tf_network network;
    struct tf_nodes nodes;
    struct strbuf library, message;
    value_id *variables; /* parameters that the outputs need */
    int variable_count;
};

/* ---- saving and restoring, as TensorFlow's Saver does ---- */

static const char *variable_part(struct writer *writer, int index, const char *rest)
{
    struct tf_variable variable =
        tf_variable_of(writer->graph, writer->variables[index], writer->arena);
    const char *name =
        variable.name ? arena_format(writer->arena, "%s%s", variable.name, rest) : NULL;
    writer->network.failed |= !name;
    return name ? name : "";
}

static void write_file_name(struct tf_nodes *nodes)
{
    struct text_view text = {"model", 5};
    tf_const(nodes, "save/filename/input", &(struct tensor){DTYPE_STRING, {0}, &text});
    for (int i = 0; i < 2; i++) {
        tf_begin(nodes, "PlaceholderWithDefault", i ? "save/Const" : "save/filename");
        tf_input(nodes, i ? "save/filename" : "save/filename/input");
        tf_attr_type(nodes, "dtype", TF_STRING);
        tf_attr_shape(nodes, "shape", &(struct shape){0});
        tf_end(nodes);
    }
}

/* The names of all variables, and as many times "all of it". */
static bool write_names(struct writer *writer, int **types)
{
    int count = writer->variable_count;
    const char **names = ARENA_ARRAY(writer->arena, const char *, count + 1);
    const char **slices = ARENA_ARRAY(writer->arena, const char *, count + 1);
    *types = ARENA_ARRAY(writer->arena, int, count + 1);
    if (!names || !slices || !*types)
        return false;
    for (int i = 0; i < count; i++) {
        names[i] = variable_part(writer, i, "");
        slices[i] = "";
        (*types)[i] = TF_FLOAT;
    }
    tf_const_texts(&writer->nodes, "save/names", names, count);
    tf_const_texts(&writer->nodes, "save/slices", slices, count);
    return true;
}

static void write_save(struct writer *writer, const int *types)
{
    struct tf_nodes *nodes = &writer->nodes;
    tf_begin(nodes, "SaveV2", "save/SaveV2");
    tf_input(nodes, "save/Const");
    tf_input(nodes, "save/names");
    tf_input(nodes, "save/slices");
    for (int i = 0; i < writer->variable_count; i++)
        tf_input(nodes, variable_part(writer, i, "/Read/ReadVariableOp"));
    tf_attr_types(nodes, "dtypes", types, writer->variable_count);
    tf_end(nodes);
    tf_begin(nodes, "Identity", "save/control_dependency");
    tf_input(nodes, "save/Const");
    tf_input(nodes, "^save/SaveV2");
    tf_attr_type(nodes, "T", TF_STRING);
    tf_end(nodes);
}

static void write_restore(struct writer *writer, const int *types)
{
    struct tf_nodes *nodes = &writer->nodes;
    tf_begin(nodes, "RestoreV2", "save/RestoreV2");
    tf_input(nodes, "save/Const");
    tf_input(nodes, "save/names");
    tf_input(nodes, "save/slices");
    tf_attr_types(nodes, "dtypes", types, writer->variable_count);
    tf_end(nodes);
    for (int i = 0; i < writer->variable_count; i++) {
        char name[64], value[64];
        snprintf(name, sizeof name, "save/AssignVariableOp_%d", i);
        snprintf(value, sizeof value, "save/RestoreV2:%d", i);
        tf_begin(nodes, "AssignVariableOp", name);
        tf_input(nodes, variable_part(writer, i, ""));
        tf_input(nodes, value);
        tf_attr_type(nodes, "dtype", TF_FLOAT);
        tf_end(nodes);
    }
    tf_begin(nodes, "NoOp", "save/restore_all");
    for (int i = 0; i < writer->variable_count; i++) {
        char name[64];
        snprintf(name, sizeof name, "^save/AssignVariableOp_%d", i);
        tf_input(nodes, name);
    }
    tf_end(nodes);
}

static int write_saver(struct writer *writer, struct error *err)
{
    int *types;
    write_file_name(&writer->nodes);
    if (!write_names(writer, &types))
        return error_set(err, ERROR_MEMORY, "no memory for the names of the variables");
    write_save(writer, types);
    write_restore(writer, types);
    return 0;
}

/* ---- the graph ---- */

static int list_variables(struct writer *writer, struct error *err)
{
    const struct graph *graph = writer->graph;
    writer->variables = ARENA_ARRAY(writer->arena, value_id, graph_value_count(graph) + 1);
    if (!writer->variables)
        return error_set(err, ERROR_MEMORY, "no memory for the variables");
    for (value_id value = 0; value < graph_value_count(graph); value++)
        if (writer->network.needed[value] && graph_value(graph, value)->kind == VALUE_PARAM)
            writer->variables[writer->variable_count++] = value;
    return 0;
}

/* An asset is known by a tensor that holds its path, whoever reads it. */
static void write_asset_node(struct writer *writer)
{
    struct text_view path = {"assets/labels.txt", strlen("assets/labels.txt")};
    if (writer->face->labels)
        tf_const(&writer->nodes, "labels_path", &(struct tensor){DTYPE_STRING, {0}, &path});
}

static int write_graph(struct writer *writer, struct error *err)
{
    struct tf_network *network = &writer->network;
    *network = (struct tf_network){.graph = writer->graph,
                                   .arena = writer->arena,
                                   .nodes = &writer->nodes,
                                   .needed = signatures_needed(writer->graph, writer->arena)};
    network->tensors =
        ARENA_ARRAY(writer->arena, const char *, graph_value_count(writer->graph) + 1);
    if (!network->needed || !network->tensors)
        return error_set(err, ERROR_MEMORY, "no memory for the SavedModel's graph");
    if (list_variables(writer, err) < 0 ||
        tf_write_questions(network, &writer->signatures, writer->face, &writer->library, err) < 0 ||
        tf_network_write(network, err) < 0 ||
        tf_write_answers(network, &writer->signatures, writer->face, err) < 0 ||
        write_saver(writer, err) < 0)
        return -1;
    write_asset_node(writer);
    return 0;
}

/* ---- the message ---- */

static void put_graph(struct writer *writer)
{
    struct strbuf *out = &writer->message;
    size_t graph = proto_begin(out, META_GRAPH);
    strbuf_add_bytes(out, writer->nodes.bytes.text, writer->nodes.bytes.length);
    size_t library = proto_begin(out, GRAPH_LIBRARY);
    strbuf_add_bytes(out, writer->library.text, writer->library.length);
    proto_end(out, library);
    size_t versions = proto_begin(out, GRAPH_VERSIONS);
    proto_add_varint(out, VERSIONS_PRODUCER, GRAPH_PRODUCER);
    proto_add_varint(out, VERSIONS_OLDEST_READER, GRAPH_OLDEST_READER);
    proto_end(out, versions);
    proto_end(out, graph);
}

static void put_info(struct strbuf *out)
{
    size_t info = proto_begin(out, META_INFO);
    proto_add_text(out, INFO_TAG, "serve");
    proto_add_text(out, INFO_MAKER, "lockstep " LOCKSTEP_VERSION);
    proto_add_text(out, INFO_VERSION, tensorflow_version);
    proto_end(out, info);
}

static void put_saver(struct strbuf *out)
{
    size_t saver = proto_begin(out, META_SAVER);
    proto_add_text(out, SAVER_FILE, "save/Const:0");
    proto_add_text(out, SAVER_SAVE, "save/control_dependency:0");
    proto_add_text(out, SAVER_RESTORE, "save/restore_all");
    proto_add_varint(out, SAVER_KEEP, 1);
    proto_add_varint(out, SAVER_FORMAT, 2);
    proto_end(out, saver);
}

static void put_variable(struct writer *writer, int index)
{
    struct strbuf *out = &writer->message;
    unsigned flags = graph_value(writer->graph, writer->variables[index])->flags;
    size_t variable = proto_begin(out, 1);
    proto_add_text(out, VARIABLE_NAME, variable_part(writer, index, ":0"));
    proto_add_text(out, VARIABLE_INITIALIZER, variable_part(writer, index, "/Assign"));
    proto_add_text(out, VARIABLE_SNAPSHOT, variable_part(writer, index, "/Read/ReadVariableOp:0"));
    proto_add_varint(out, VARIABLE_IS_RESOURCE, 1);
    proto_add_text(out, VARIABLE_INITIAL, variable_part(writer, index, "/Initializer/zeros:0"));
    proto_add_varint(out, VARIABLE_TRAINABLE, (flags & PARAM_TRAINABLE) != 0);
    proto_end(out, variable);
}

/* The collections by which TensorFlow finds a graph's variables. */
static void put_collection(struct writer *writer, const char *name, bool trainable)
{
    struct strbuf *out = &writer->message;
    size_t entry = proto_begin(out, META_COLLECTION);
    proto_add_text(out, MAP_KEY, name);
    size_t value = proto_begin(out, MAP_VALUE), list = proto_begin(out, COLLECTION_BYTES);
    for (int i = 0; i < writer->variable_count; i++) {
        unsigned flags = graph_value(writer->graph, writer->variables[i])->flags;
        if (!trainable || flags & PARAM_TRAINABLE)
            put_variable(writer, i);
    }
    proto_end(out, list);
    proto_end(out, value);
    proto_end(out, entry);
}

static void put_tensors(struct strbuf *out, uint32_t field, const struct signature_tensor *tensors,
                        int count)
{
    for (int i = 0; i < count; i++) {
        size_t entry = proto_begin(out, field);
        proto_add_text(out, MAP_KEY, tensors[i].key);
        size_t info = proto_begin(out, MAP_VALUE);
        proto_add_text(out, TENSOR_INFO_NAME, tensors[i].tensor);
        proto_add_varint(out, TENSOR_INFO_TYPE, (uint64_t)tf_type_of(tensors[i].dtype));
        tf_put_shape(out, TENSOR_INFO_SHAPE, &tensors[i].shape);
        proto_end(out, info);
        proto_end(out, entry);
    }
}

static void put_signature(struct strbuf *out, const struct signature *signature)
{
    size_t entry = proto_begin(out, META_SIGNATURE);
    proto_add_text(out, MAP_KEY, signature->name);
    size_t value = proto_begin(out, MAP_VALUE);
    put_tensors(out, SIGNATURE_INPUTS, signature->inputs, signature->input_count);
    put_tensors(out, SIGNATURE_OUTPUTS, signature->outputs, signature->output_count);
    proto_add_text(out, SIGNATURE_METHOD, signature->method);
    proto_end(out, value);
    proto_end(out, entry);
}

static void put_asset(struct strbuf *out)
{
    size_t asset = proto_begin(out, META_ASSET);
    size_t info = proto_begin(out, ASSET_TENSOR);
    proto_add_text(out, TENSOR_INFO_NAME, "labels_path:0");
    proto_end(out, info);
    proto_add_text(out, ASSET_FILE, "labels.txt");
    proto_end(out, asset);
}

static int compose(struct writer *writer, struct error *err)
{
    struct strbuf *out = &writer->message;
    proto_add_varint(out, SAVED_MODEL_SCHEMA, 1);
    size_t meta = proto_begin(out, SAVED_MODEL_META);
    put_info(out);
    put_graph(writer);
    put_saver(out);
    put_collection(writer, "variables", false);
    put_collection(writer, "trainable_variables", true);
    for (int i = 0; i < writer->signatures.count; i++)
        put_signature(out, &writer->signatures.list[i]);
    if (writer->face->labels)
        put_asset(out);
    proto_end(out, meta);
    bool short_of_memory = out->failed || writer->nodes.bytes.failed || writer->library.failed ||
                           writer->network.failed;
    return short_of_memory ? error_set(err, ERROR_MEMORY, "no memory for the SavedModel") : 0;
}

/* ---- files ---- */

static int make_path(const struct writer *writer, const char *name, char path[PATH_MAX],
                     struct error *err)
{
    int length = snprintf(path, PATH_MAX, "%s/%s", writer->directory, name);
    return length < PATH_MAX
               ? 0
               : error_set(err, ERROR_IO, "%s/%s: the path is too long", writer->directory, name);
}

static int make_folder(const struct writer *writer, const char *name, char path[PATH_MAX],
                       struct error *err)
{
    if (make_path(writer, name, path, err) < 0)
        return -1;
    return mkdir(path, 0777) == 0 ? 0 : error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
}

/* Room for the largest parameter, twice: as it is read and, for a convolution, turned. */
static size_t largest(const struct writer *writer)
{
    int64_t most = 0;
    for (int i = 0; i < writer->variable_count; i++) {
        int64_t count = shape_count(&graph_value(writer->graph, writer->variables[i])->shape);
        int index =
            params_find(writer->params, graph_value(writer->graph, writer->variables[i])->name);
        if (count > most && !params_plain(writer->params, index))
            most = count;
    }
    return (size_t)most;
}

static int write_variable(struct writer *writer, struct bundle_writer *bundle, int number,
                          float *room, size_t room_count, struct error *err)
{
    value_id param = writer->variables[number];
    const struct value *value = graph_value(writer->graph, param);
    struct tf_variable variable = tf_variable_of(writer->graph, param, writer->arena);
    int index = params_find(writer->params, value->name);
    const float *plain = params_plain(writer->params, index);
    struct tensor tensor = {DTYPE_F32, value->shape, room};
    if (!plain && params_read(writer->params, index, &tensor, err) < 0)
        return -1;
    const float *numbers = plain ? plain : room;
    if (variable.convolution) {
        tf_variable_turn(&value->shape, numbers, room + room_count);
        numbers = room + room_count;
    }
    tensor = (struct tensor){DTYPE_F32, variable.shape, (void *)(uintptr_t)numbers};
    return bundle_write_tensor(bundle, variable.name, &tensor, err);
}

/* Of the parameters that are turned. */
static size_t largest_turned(const struct writer *writer)
{
    int64_t most = 0;
    for (int i = 0; i < writer->variable_count; i++) {
        struct tf_variable variable =
            tf_variable_of(writer->graph, writer->variables[i], writer->arena);
        int64_t count = shape_count(&variable.shape);
        if (variable.convolution && count > most)
            most = count;
    }
    return (size_t)most;
}

static int write_bundle(struct writer *writer, const char *prefix, struct error *err)
{
    struct bundle_writer *bundle;
    struct slab room = {0};
    size_t first = largest(writer), bytes = (first + largest_turned(writer)) * sizeof(float);
    if (bundle_write_begin(prefix, &bundle, err) < 0)
        return -1;
    int status = bytes ? slab_create(bytes, "weights in plain order", &room, err) : 0;
    for (int i = 0; status == 0 && i < writer->variable_count; i++)
        status = write_variable(writer, bundle, i, room.data, first, err);
    slab_release(&room);
    if (status < 0) {
        bundle_write_drop(bundle);
        return -1;
    }
    return bundle_write_finish(bundle, err);
}

static int write_variables(struct writer *writer, struct error *err)
{
    char folder[PATH_MAX], prefix[PATH_MAX];
    if (make_folder(writer, "variables", folder, err) < 0 ||
        make_path(writer, "variables/variables", prefix, err) < 0 ||
        write_bundle(writer, prefix, err) < 0)
        return -1;
    return directory_flush(folder, err);
}

static int write_labels(struct writer *writer, struct error *err)
{
    char folder[PATH_MAX], path[PATH_MAX];
    struct strbuf text;
    if (!writer->face->labels)
        return 0;
    if (make_folder(writer, "assets", folder, err) < 0 ||
        make_path(writer, "assets/labels.txt", path, err) < 0)
        return -1;
    strbuf_init(&text);
    for (int i = 0; i < writer->face->label_count; i++)
        strbuf_addf(&text, "%s\n", writer->face->labels[i]);
    int status = text.failed ? error_set(err, ERROR_MEMORY, "no memory for the labels")
                             : file_write_atomic(path, text.text, text.length, err);
    strbuf_release(&text);
    return status < 0 ? -1 : directory_flush(folder, err);
}

static int write_message(struct writer *writer, struct error *err)
{
    char path[PATH_MAX];
    if (make_path(writer, "saved_model.pb", path, err) < 0)
        return -1;
    return file_write_atomic(path, writer->message.text, writer->message.length, err);
}

static int write_all(struct writer *writer, struct error *err)
{
    if (signatures_make(writer->graph, writer->face, writer->arena, &writer->signatures, err) < 0 ||
        write_graph(writer, err) < 0 || compose(writer, err) < 0 ||
        write_variables(writer, err) < 0 || write_labels(writer, err) < 0)
        return -1;
    return write_message(writer, err);
}

int savedmodel_write(const char *directory, const struct graph *graph, const struct params *params,
                     const struct face *face, struct error *err)
{
    struct writer writer = {.graph = graph,
                            .params = params,
                            .face = face,
                            .directory = directory,
                            .arena = arena_create()};
    if (!writer.arena)
        return error_set(err, ERROR_MEMORY, "no memory for the SavedModel");
    tf_nodes_init(&writer.nodes, TF_GRAPH_NODE);
    strbuf_init(&writer.library);
    strbuf_init(&writer.message);
    int status = write_all(&writer, err);
    strbuf_release(&writer.message);
    strbuf_release(&writer.library);
    tf_nodes_release(&writer.nodes);
    arena_destroy(writer.arena);
    return status;
}
