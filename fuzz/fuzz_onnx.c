/* ONNX files: whatever the bytes, a graph that can be walked, or an error. */
#include <assert.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "convert/onnx_build.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void look_at(const struct onnx_file *file)
{
    static volatile float sum; /* read, so that nothing is left out */
    for (int i = 0; i < file->tensor_count; i++)
        for (int64_t k = 0; k < file->tensors[i].count; k++)
            sum = sum + (file->tensors[i].floats ? file->tensors[i].floats[k]
                                                 : (float)file->tensors[i].integers[k]);
}

static void build(const struct onnx_file *file, struct arena *arena, bool plain)
{
    struct onnx_build_options options = {.plain = plain, .classes = plain ? 0 : 7};
    struct onnx_facts facts;
    struct error err = {0};
    struct graph *graph = graph_create();
    if (onnx_build(file, &options, arena, graph, &facts, &err) < 0)
        assert(err.code && err.message[0]);
    else if (graph_finish(graph, &err) == 0)
        assert(graph_parameter_elements(graph) >= 0);
    graph_destroy(graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct arena *arena = arena_create();
    struct onnx_file file;
    struct error err = {0};
    if (onnx_parse(bytes, count, arena, &file, &err) < 0) {
        assert(err.code && err.message[0]);
    } else {
        look_at(&file);
        build(&file, arena, false);
        build(&file, arena, true);
    }
    arena_destroy(arena);
    return 0;
}
