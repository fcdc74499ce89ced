#include "convert/imported.h"

#include <limits.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "convert/face.h"
#include "convert/imported_parts.h"
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
    return status == 0 ? read_labels(directory, arena, face, err) : -1;
}

/* ---- one of our own networks ---- */

static int build(struct imported *model, const struct model *known, struct error *err)
{
    model->graph = graph_create();
    if (!model->graph)
        return error_set(err, ERROR_MEMORY, "no memory for the network");
    known->build(model->graph, &model->memory->face.args);
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

static int load_weights(const char *directory, struct imported *model, struct error *err)
{
    char prefix[PATH_MAX];
    struct bundle *bundle;
    struct slab room = {0};
    size_t half;
    bool *needed = signatures_needed(model->graph, model->memory->arena);
    if (!needed)
        return error_set(err, ERROR_MEMORY, "no memory for the weights");
    if (join(prefix, directory, "variables/variables", err) < 0 ||
        bundle_open(prefix, &bundle, err) < 0)
        return -1;
    int status = make_room(model->graph, &room, &half, err);
    for (value_id id = 0; status == 0 && id < graph_value_count(model->graph); id++)
        if (needed[id] && graph_value(model->graph, id)->kind == VALUE_PARAM)
            status = load_one(bundle, prefix, model, id, room.data, half, err);
    slab_release(&room);
    bundle_close(bundle);
    return status;
}

static int read_own(const char *directory, struct imported *model, const struct model *known,
                    struct error *err)
{
    struct imported_memory *memory = model->memory;
    struct signatures signatures;
    if (build(model, known, err) < 0 ||
        face_complete(&memory->face, model->graph, memory->arena, err) < 0 ||
        signatures_make(model->graph, &memory->face, memory->arena, &signatures, err) < 0 ||
        imported_fix_layouts(model, err) < 0 || load_weights(directory, model, err) < 0)
        return -1;
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

static int fill(const char *directory, struct imported *model, struct error *err)
{
    struct imported_memory *memory = model->memory;
    bool ours;
    memory->arena = arena_create();
    if (!memory->arena)
        return error_set(err, ERROR_MEMORY, "no memory for the model");
    if (read_face(directory, memory->arena, &memory->face, &ours, err) < 0 ||
        pictures_create(&memory->pictures, err) < 0)
        return -1;
    model->model = ours ? memory->face.model : "";
    model->built_in = ours && memory->face.built_in;
    const struct model *known = model->built_in ? model_find(model->model) : NULL;
    if (model->built_in && !known)
        return error_set(err, ERROR_FORMAT, "it is a network this version lacks: %s",
                         memory->face.model);
    int status =
        known ? read_own(directory, model, known, err) : savedmodel_read(directory, model, err);
    return status == 0 ? name_classes(model, err) : -1;
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
        return error_wrap(err, "%s", directory);
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
