#include "convert/onnx_read.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/file_map.h"
#include "base/files.h"
#include "base/memory.h"
#include "convert/onnx_build.h"

/* protobuf's own limit of a message. */
#define MOST_BYTES ((size_t)INT32_MAX)

struct onnx_model {
    struct model model;
    const char *path;
    struct arena *arena; /* of all below, and of itself */
    char *bytes;         /* the file, mapped */
    size_t count;
    struct onnx_file file;
    struct onnx_facts facts;
};

bool onnx_is_file(const char *path)
{
    return file_name_ends(path, ".onnx");
}

/* A number that is the file's own asks for no change. */
static int wanted(int given, int own)
{
    return given == own ? 0 : given;
}

static void build(struct graph *graph, const struct model_args *args)
{
    const struct onnx_model *model = args->file;
    struct error err = {0};
    struct onnx_facts facts;
    struct onnx_build_options options = {.classes = wanted(args->classes, model->facts.classes),
                                         .image_size =
                                             wanted(args->image_size, model->facts.image_size),
                                         .label_smoothing = args->label_smoothing};
    if (onnx_build(&model->file, &options, model->arena, graph, &facts, &err) < 0)
        graph_fail(graph, "%s", err.message);
    else if (file_map_check(model->path, model->bytes, &err) < 0)
        graph_fail(graph, "%s", err.message);
    else if (options.classes && facts.classes != options.classes)
        graph_fail(graph,
                   "it tells %d classes apart, and %d cannot be had: its last layer is no Gemm or "
                   "MatMul with weights",
                   facts.classes, options.classes);
}

/* Everything that is wrong with it is found now, not when a graph is wanted. */
static int try_build(struct onnx_model *model, struct error *err)
{
    static const struct onnx_build_options as_it_is = {0};
    struct graph *graph = graph_create();
    if (!graph)
        return error_set(err, ERROR_MEMORY, "no memory for the network");
    int status = onnx_build(&model->file, &as_it_is, model->arena, graph, &model->facts, err);
    if (status == 0)
        status = graph_finish(graph, err);
    graph_destroy(graph);
    return status;
}

/* "models/resnet18.onnx" is "resnet18". */
static const char *name_of(struct arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *name = arena_copy_text(arena, slash ? slash + 1 : path);
    if (name)
        name[strlen(name) - strlen(".onnx")] = 0;
    return name && *name ? name : "onnx";
}

static int describe(struct onnx_model *model, struct error *err)
{
    const struct onnx_facts *facts = &model->facts;
    bool digits = facts->channels == 1 && facts->image_size == 28;
    model->model = (struct model){
        .size = sizeof(struct model),
        .name = name_of(model->arena, model->path),
        .summary = arena_format(model->arena, "read from %s: %d nodes, operators of version %lld",
                                model->path, model->file.node_count, (long long)model->file.opset),
        .dataset = digits ? "digits" : "synthetic",
        .recipe = facts->channels == 3
                      ? "--optimizer=momentum --momentum=0.9 --lr=0.01 --pixels=torch"
                      : "--optimizer=momentum --momentum=0.9 --lr=0.01",
        .build = build,
        .defaults = {.classes = facts->classes, .image_size = facts->image_size, .file = model},
    };
    return model->model.summary ? 0 : error_set(err, ERROR_MEMORY, "no memory for the network");
}

static int read_model(struct onnx_model *model, struct error *err)
{
    if (file_map(model->path, &model->bytes, &model->count, err) < 0)
        return -1;
    if (model->count > MOST_BYTES)
        return error_set(err, ERROR_FORMAT, "%s has %zu bytes; ONNX files have at most %zu",
                         model->path, model->count, MOST_BYTES);
    int status = onnx_parse(model->bytes, model->count, model->arena, &model->file, err);
    if (status == 0)
        status = try_build(model, err);
    if (file_map_check(model->path, model->bytes, err) < 0)
        return -1;
    if (status < 0)
        return error_wrap(err, "%s", model->path);
    return describe(model, err);
}

int onnx_model_open(const char *path, const struct model **out, struct error *err)
{
    struct arena *arena = arena_create();
    struct onnx_model *model = arena ? ARENA_NEW(arena, struct onnx_model) : NULL;
    if (!model) {
        arena_destroy(arena);
        return error_set(err, ERROR_MEMORY, "no memory for %s", path);
    }
    model->arena = arena;
    model->path = arena_copy_text(arena, path);
    model->model.build = build;
    if (!model->path || read_model(model, err) < 0) {
        onnx_model_close(&model->model);
        return -1;
    }
    *out = &model->model;
    return 0;
}

void onnx_model_rest(const struct model *resting)
{
    const struct onnx_model *model = (const struct onnx_model *)resting; /* its first member */
    file_map_rest(model->bytes, model->count);
}

void onnx_model_close(const struct model *closed)
{
    if (!closed || closed->build != build)
        return;
    struct onnx_model *model = (struct onnx_model *)(uintptr_t)closed; /* its first member */
    file_unmap(model->bytes, model->count);
    arena_destroy(model->arena);
}
