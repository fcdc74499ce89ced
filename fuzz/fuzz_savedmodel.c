/* A SavedModel's message: whatever the bytes, nodes, functions and signatures whose names can be
 * found again, constants that fit their shapes, a graph that is finished; or an error. */
#include <assert.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "convert/imported_parts.h"
#include "convert/savedmodel_read.h"
#include "convert/tf_parse.h"
#include "graph/graph.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void look(const struct tf_def_graph *graph, struct arena *arena)
{
    for (int i = 0; i < graph->count; i++) {
        const struct tf_def_node *node = &graph->nodes[i];
        int64_t list[8];
        struct shape shape;
        struct tensor tensor;
        struct error err = {0};
        assert(node->index == i && tf_find_node(graph, node->name, strlen(node->name)) == node);
        for (int k = 0; k < node->input_count; k++)
            assert(node->inputs[k][0] != '^');
        assert(tf_def_ints(node, "strides", list, 8) <= 8);
        tf_def_bool(node, "transpose_b", false);
        tf_def_float(node, "epsilon", 0);
        tf_def_text_is(node, "padding", "SAME", true);
        tf_def_function_name(node, "f", arena);
        if (tf_def_shape(node, "shape", &shape))
            assert(shape.ndim >= 0 && shape.ndim <= TENSOR_MAX_DIMS);
        if (!strcmp(node->op, "Const") && tf_def_tensor(node, "value", arena, &tensor, &err) == 0)
            assert(shape_count(&tensor.shape) >= 0);
    }
}

static void build(const uint8_t *bytes, size_t count)
{
    struct imported_memory memory = {.arena = arena_create()};
    struct imported model = {.memory = &memory};
    struct error err = {0};
    if (savedmodel_read_graph("input", bytes, count, &model, &err) < 0)
        assert(err.code == ERROR_FORMAT && err.message[0]);
    else
        assert(model.signature_count == 1 && model.input_count > 0 && model.output_count > 0);
    graph_destroy(model.graph);
    arena_destroy(memory.arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct arena *arena = arena_create();
    struct tf_def_model model;
    struct error err = {0};
    if (tf_parse("input", bytes, count, arena, &model, &err) < 0) {
        assert(err.code == ERROR_FORMAT && err.message[0]);
    } else {
        look(&model.graph, arena);
        for (int i = 0; i < model.function_count; i++)
            look(&model.functions[i].body, arena);
    }
    arena_destroy(arena);
    build(bytes, count);
    return 0;
}
