#include "convert/imported.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "convert/face.h"
#include "convert/imported_parts.h"
#include "convert/onnx_read.h"
#include "convert/savedmodel_read.h"
#include "convert/signatures.h"
#include "convert/tf_network.h"
#include "data/pictures.h"
#include "exec/params.h"
#include "exec/plan.h"
#include "graph/graph.h"
#include "models/registry.h"
#include "store/bundle.h"

enum { MOST_FACE_BYTES = 1 << 20, MOST_LABEL_BYTES = 64 << 20 };

static int join(char path[PATH_MAX], const char *directory, const char *name, struct error *err)
{
    int length = snprintf(path, PATH_MAX, "%s/%s", directory, name);
    if (length < 0 || length >= PATH_MAX)
        return error_set(err, ERROR_IO, "%s/%s: the path is too long", directory, name);
    return 0;
}

/* ---- what it says about itself ---- */

static int read_labels(const char *directory, struct arena *arena, struct face *face,
                       struct error *err)
{
    char path[PATH_MAX];
    char *text;
    size_t bytes;
    if (join(path, directory, "assets/labels.txt", err) < 0)
        return -1;
    if (access(path, F_OK) < 0)
        return 0;
    if (file_read(path, MOST_LABEL_BYTES, &text, &bytes, err) < 0)
        return -1;
    int status =
        face_parse_labels(path, text, bytes, arena, &face->labels, &face->label_count, err);
    memory_free(text);
    return status;
}

/* *ours tells whether there was anything. */
static int read_face(const char *directory, struct arena *arena, struct face *face, bool *ours,
                     struct error *err)
{
    char path[PATH_MAX];
    char *text;
    size_t bytes;
    if (join(path, directory, "assets.extra/lockstep.json", err) < 0)
        return -1;
    *ours = access(path, F_OK) == 0;
    if (!*ours)
        return 0;
    if (file_read(path, MOST_FACE_BYTES, &text, &bytes, err) < 0)
        return -1;
    int status = face_parse(path, text, bytes, arena, face, err);
    memory_free(text);
    if (status < 0 || export_files_check(directory, &face->files, err) < 0)
        return -1;
    return read_labels(directory, arena, face, err);
}

/* ---- one of our own networks ---- */

static int build(struct imported *model, const struct model *known, struct error *err)
{
    const struct imported_memory *memory = model->memory;
    model->graph = graph_create();
    if (!model->graph)
        return error_set(err, ERROR_MEMORY, "no memory for the network");
    known->build(model->graph, known == memory->onnx ? &known->defaults : &memory->face.args);
    return graph_finish(model->graph, err) == 0 ? 0 : error_wrap(err, "model %s", known->name);
}

int imported_fix_layouts(struct imported *model, struct error *err)
{
    struct plan *plan;
    /* An evaluation has the same layouts, and makes no copies of weights that are not there yet. */
    bool judged = graph_loss_value(model->graph) >= 0;
    struct plan_options options = {.mode = judged ? PLAN_EVALUATE : PLAN_SERVE, .batch = 1};
    if (params_create(model->graph, 0, NULL, &model->params, err) < 0 ||
        plan_create(model->graph, model->params, &options, &plan, err) < 0)
        return -1;
    plan_destroy(plan);
    return 0;
}

/* Room for the largest parameter, twice: as stored there, and in our order. */
static int make_room(const struct graph *graph, struct slab *out, size_t *half, struct error *err)
{
    *half = 0;
    for (value_id id = 0; id < graph_value_count(graph); id++) {
        const struct value *value = graph_value(graph, id);
        size_t count = value->kind == VALUE_PARAM ? (size_t)shape_count(&value->shape) : 0;
        *half = count > *half ? count : *half;
    }
    return slab_create(2 * *half * sizeof(float) + 64, "weights in plain order", out, err);
}

static bool has_variable(const struct bundle *bundle, const struct imported *model, value_id id)
{
    struct tf_variable variable = tf_variable_of(model->graph, id, model->memory->arena);
    return variable.name && bundle_find(bundle, variable.name) >= 0;
}

static int load_one(const struct bundle *bundle, const char *path, struct imported *model,
                    value_id id, float *room, size_t half, struct error *err)
{
    const struct value *value = graph_value(model->graph, id);
    struct tf_variable variable = tf_variable_of(model->graph, id, model->memory->arena);
    int entry = variable.name ? bundle_find(bundle, variable.name) : -1;
    int index = params_find(model->params, value->name);
    struct tensor stored = {DTYPE_F32, variable.shape, room};
    struct tensor ours = {DTYPE_F32, value->shape, room};
    if (entry < 0)
        return error_set(err, ERROR_FORMAT, "%s: lacks the variable '%s'", path, value->name);
    if (bundle_read(bundle, entry, &stored, err) < 0)
        return -1;
    if (variable.convolution) {
        tf_variable_turn_back(&value->shape, room, room + half);
        ours.data = room + half;
    }
    return params_write(model->params, index, &ours, err);
}

/* The variables that the graph has; *count says how many those were. */
static int load_known(const struct bundle *bundle, const char *path, struct imported *model,
                      int *count, struct error *err)
{
    struct slab room = {0};
    size_t half;
    bool *needed = signatures_needed(model->graph, model->memory->arena);
    if (!needed)
        return error_set(err, ERROR_MEMORY, "no memory for the weights");
    int status = make_room(model->graph, &room, &half, err);
    *count = 0;
    for (value_id id = 0; status == 0 && id < graph_value_count(model->graph); id++) {
        const struct value *value = graph_value(model->graph, id);
        bool written = !model->memory->onnx || has_variable(bundle, model, id);
        if (!needed[id] || value->kind != VALUE_PARAM || !written)
            continue;
        status = load_one(bundle, path, model, id, room.data, half, err);
        (*count)++;
    }
    slab_release(&room);
    return status;
}

static int load_weights(const char *directory, struct imported *model, struct error *err)
{
    char prefix[PATH_MAX];
    struct bundle *bundle;
    int count = 0;
    if (join(prefix, directory, "variables/variables", err) < 0 ||
        bundle_open(prefix, &bundle, err) < 0)
        return -1;
    int status = load_known(bundle, prefix, model, &count, err);
    if (status == 0 && model->memory->onnx && count < bundle_count(bundle))
        status = error_set(err, ERROR_FORMAT, "%s: %d variables, of which model.onnx has %d",
                           prefix, bundle_count(bundle), count);
    bundle_close(bundle);
    return status;
}

/* `known` builds the network; its weights are in the directory's variables. NULL: it brings them. */
static int read_own(const char *directory, struct imported *model, const struct model *known,
                    struct error *err)
{
    struct imported_memory *memory = model->memory;
    struct signatures signatures;
    if (build(model, known, err) < 0 ||
        face_complete(&memory->face, model->graph, memory->arena, err) < 0 ||
        signatures_make(model->graph, &memory->face, memory->arena, &signatures, err) < 0 ||
        imported_fix_layouts(model, err) < 0 ||
        (known == memory->onnx && params_initialize(model->params, 0, err) < 0) ||
        (directory && load_weights(directory, model, err) < 0))
        return -1;
    if (known == memory->onnx)
        onnx_model_rest(known);
    model->inputs = signatures.inputs;
    model->input_count = signatures.input_count;
    model->outputs = signatures.outputs;
    model->output_count = signatures.output_count;
    model->signatures = signatures.list;
    model->signature_count = signatures.count;
    model->labels = memory->face.labels;
    model->label_count = memory->face.label_count;
    return 0;
}

/* ---- one that is told by an ONNX file ---- */

static void forget_network(struct imported *model)
{
    params_destroy(model->params);
    graph_destroy(model->graph);
    onnx_model_close(model->memory->onnx);
    model->params = NULL;
    model->graph = NULL;
    model->memory->onnx = NULL;
}

/* Of a user's own network the ONNX file says more than TensorFlow's graph, whose operations are
 * smaller; the weights are those of the variables, which have checksums. Columns of tables it does
 * not have: *read is false, and the graph is to be followed. A file that cannot be read to its end is
 * a failure of its own, which what the graph lacks would hide. */
static int read_beside(const char *directory, struct imported *model, bool *read, struct error *err)
{
    char path[PATH_MAX];
    *read = false;
    if (join(path, directory, "model.onnx", err) < 0)
        return -1;
    if (access(path, F_OK) < 0)
        return 0;
    *read = onnx_model_open(path, &model->memory->onnx, err) == 0 &&
            read_own(directory, model, model->memory->onnx, err) == 0;
    if (*read)
        return 0;
    forget_network(model);
    return err && err->code == ERROR_IO ? -1 : 0;
}

static int read_file(const char *path, struct imported *model, struct error *err)
{
    struct imported_memory *memory = model->memory;
    if (onnx_model_open(path, &memory->onnx, err) < 0)
        return -1;
    model->model = memory->onnx->name;
    memory->face = (struct face){.model = memory->onnx->name, .missing_category = ""};
    return read_own(NULL, model, memory->onnx, err) < 0 ? error_wrap(err, "%s", path) : 0;
}

/* ---- the whole ---- */

/* The names of classes, once: answers point to them. */
static int name_classes(struct imported *model, struct error *err)
{
    struct imported_memory *memory = model->memory;
    int most = memory->face.label_count > 2 ? memory->face.label_count : 2;
    memory->names = ARENA_ARRAY(memory->arena, struct text_view, most);
    for (int i = 0; memory->names && i < most; i++) {
        const char *name = signatures_label(&memory->face, i, memory->arena);
        memory->names[i] = (struct text_view){name, name ? strlen(name) : 0};
        memory->name_count = i + 1;
        memory->names = name ? memory->names : NULL;
    }
    return memory->names ? 0 : error_set(err, ERROR_MEMORY, "no memory for the names of classes");
}

static int read_directory(const char *directory, struct imported *model, struct error *err)
{
    struct imported_memory *memory = model->memory;
    bool ours;
    if (read_face(directory, memory->arena, &memory->face, &ours, err) < 0)
        return -1;
    model->model = ours ? memory->face.model : "";
    model->built_in = ours && memory->face.built_in;
    const struct model *known = model->built_in ? model_find(model->model) : NULL;
    if (model->built_in && !known)
        return error_set(err, ERROR_FORMAT, "it is a network this version lacks: %s",
                         memory->face.model);
    if (known)
        return read_own(directory, model, known, err);
    bool read = false;
    if (ours && read_beside(directory, model, &read, err) < 0)
        return -1;
    return read ? 0 : savedmodel_read(directory, model, err);
}

static int fill(const char *path, struct imported *model, struct error *err)
{
    struct imported_memory *memory = model->memory;
    memory->arena = arena_create();
    if (!memory->arena)
        return error_set(err, ERROR_MEMORY, "no memory for the model");
    if (pictures_create(&memory->pictures, err) < 0)
        return -1;
    int status =
        imported_is_file(path) ? read_file(path, model, err) : read_directory(path, model, err);
    return status == 0 ? name_classes(model, err) : -1;
}

bool imported_is_file(const char *path)
{
    struct stat info;
    return onnx_is_file(path) && stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

int imported_read(const char *directory, struct imported **out, struct error *err)
{
    struct imported *model = memory_allocate(sizeof *model);
    if (!model)
        return error_set(err, ERROR_MEMORY, "no memory for the model");
    model->memory = memory_allocate(sizeof *model->memory);
    int status = model->memory ? fill(directory, model, err)
                               : error_set(err, ERROR_MEMORY, "no memory for the model");
    if (status < 0) {
        imported_destroy(model);
        return imported_is_file(directory) ? -1 : error_wrap(err, "%s", directory);
    }
    *out = model;
    return 0;
}

void imported_destroy(struct imported *model)
{
    if (!model)
        return;
    params_destroy(model->params);
    graph_destroy(model->graph);
    if (model->memory) {
        pictures_destroy(model->memory->pictures);
        onnx_model_close(model->memory->onnx);
        arena_destroy(model->memory->arena);
    }
    memory_free(model->memory);
    memory_free(model);
}

const struct signature *imported_signature(const struct imported *model, const char *name)
{
    if (!name || !*name)
        name = "serving_default";
    for (int i = 0; i < model->signature_count; i++)
        if (!strcmp(model->signatures[i].name, name))
            return &model->signatures[i];
    return NULL;
}

int imported_classes(const struct imported *model)
{
    for (int i = 0; i < model->output_count; i++) {
        const struct imported_port *port = &model->outputs[i];
        if (!strcmp(port->name, "logits") && port->shape.ndim == 2 && port->shape.dim[1] > 1)
            return (int)port->shape.dim[1];
    }
    return 0;
}
