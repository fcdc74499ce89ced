#include "graph/graph.h"

#include <stdarg.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/memory.h"
#include "graph/op.h"

struct output {
    const char *name;
    value_id value;
};

struct graph {
    struct arena *arena; /* names, attributes, input lists */
    struct value *values;
    struct node *nodes;
    struct output *outputs;
    value_id *inputs;
    int value_count, node_count, output_count, input_count;
    int value_capacity, node_capacity, output_capacity, input_capacity;
    value_id loss;
    struct error first_failure;
};

enum { VALUE_FAILED = -1 };

/* Room for one more element; the arrays move, which is why values are named by index. */
static bool grow(void *array, int count, int *capacity, size_t element_bytes)
{
    void **place = array;
    if (count < *capacity)
        return true;
    int wanted = *capacity ? *capacity * 2 : 64;
    void *larger = memory_resize(*place, (size_t)wanted * element_bytes);
    if (!larger)
        return false;
    *place = larger;
    *capacity = wanted;
    return true;
}

struct graph *graph_create(void)
{
    struct graph *graph = memory_allocate(sizeof *graph);
    if (!graph)
        return NULL;
    graph->loss = VALUE_FAILED;
    graph->arena = arena_create();
    if (!graph->arena) {
        memory_free(graph);
        return NULL;
    }
    return graph;
}

void graph_destroy(struct graph *graph)
{
    if (!graph)
        return;
    memory_free(graph->values);
    memory_free(graph->nodes);
    memory_free(graph->outputs);
    memory_free(graph->inputs);
    arena_destroy(graph->arena);
    memory_free(graph);
}

value_id graph_fail(struct graph *graph, const char *format, ...)
{
    if (graph->first_failure.code != ERROR_NONE)
        return VALUE_FAILED;
    char message[sizeof graph->first_failure.message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    error_set(&graph->first_failure, ERROR_FORMAT, "%s", message);
    return VALUE_FAILED;
}

bool graph_holds(struct graph *graph, value_id value, const char *who)
{
    if (value >= 0 && value < graph->value_count)
        return true;
    graph_fail(graph, "%s: %d is no value of this graph", who, value);
    return false;
}

static value_id add_value(struct graph *graph, struct value value)
{
    if (!grow(&graph->values, graph->value_count, &graph->value_capacity, sizeof value))
        return graph_fail(graph, "%s: out of memory", value.name);
    value.name = arena_copy_text(graph->arena, value.name);
    if (!value.name)
        return graph_fail(graph, "out of memory");
    graph->values[graph->value_count] = value;
    return graph->value_count++;
}

static bool name_is_taken(const struct graph *graph, const char *name)
{
    for (int i = 0; i < graph->value_count; i++)
        if (strcmp(graph->values[i].name, name) == 0)
            return true;
    return false;
}

/* A node's name is also the stem of its parameters' names: "conv2d/weights". */
static bool stem_is_taken(const struct graph *graph, const char *stem)
{
    size_t length = strlen(stem);
    for (int i = 0; i < graph->value_count; i++) {
        const char *name = graph->values[i].name;
        if (strncmp(name, stem, length) == 0 && (name[length] == 0 || name[length] == '/'))
            return true;
    }
    return false;
}

value_id graph_input(struct graph *graph, const char *name, enum dtype dtype, struct shape shape)
{
    if (graph->first_failure.code != ERROR_NONE)
        return VALUE_FAILED;
    if (name_is_taken(graph, name))
        return graph_fail(graph, "input \"%s\" is declared twice", name);
    if (shape.ndim < 1 || shape.ndim > TENSOR_MAX_DIMS || shape.dim[0] != SHAPE_BATCH)
        return graph_fail(graph, "input \"%s\": its first dimension must be SHAPE_BATCH", name);
    for (int i = 1; i < shape.ndim; i++)
        if (shape.dim[i] < 1)
            return graph_fail(graph, "input \"%s\": dimension %d is %lld", name, i,
                              (long long)shape.dim[i]);
    value_id value = add_value(
        graph,
        (struct value){
            .kind = VALUE_INPUT, .name = name, .dtype = dtype, .shape = shape, .producer = -1});
    if (value < 0)
        return value;
    if (!grow(&graph->inputs, graph->input_count, &graph->input_capacity, sizeof(value_id)))
        return graph_fail(graph, "%s: out of memory", name);
    graph->inputs[graph->input_count++] = value;
    return value;
}

void graph_mark_channels_last(struct graph *graph, value_id input)
{
    if (input >= 0)
        graph->values[input].channels_last = true;
}

value_id graph_param(struct graph *graph, const char *name, struct shape shape,
                     struct initializer init, unsigned flags)
{
    if (graph->first_failure.code != ERROR_NONE)
        return VALUE_FAILED;
    if (init.name)
        name = init.name;
    init.name = NULL; /* the value has it, in memory of the graph's own */
    if (name_is_taken(graph, name))
        return graph_fail(graph, "parameter \"%s\" is declared twice", name);
    if (shape_count(&shape) < 1)
        return graph_fail(graph, "parameter \"%s\" has no elements", name);
    return add_value(graph, (struct value){.kind = VALUE_PARAM,
                                           .name = name,
                                           .dtype = DTYPE_F32,
                                           .shape = shape,
                                           .producer = -1,
                                           .flags = flags,
                                           .init = init});
}

int op_infer_same(const struct graph *graph, const struct node *node, struct value *out,
                  struct error *err)
{
    (void)err;
    out->shape = graph_value(graph, node->inputs[0])->shape;
    return 0;
}

value_id graph_node(struct graph *graph, const struct op *op, const char *name,
                    const void *attributes, const value_id *inputs, int input_count)
{
    if (graph->first_failure.code != ERROR_NONE)
        return VALUE_FAILED;
    for (int i = 0; i < input_count; i++) {
        if (!graph_holds(graph, inputs[i], name))
            return VALUE_FAILED;
        const struct value *input = &graph->values[inputs[i]];
        if (input->dtype != DTYPE_F32 && i != op->label_input - 1)
            return graph_fail(graph, "%s (%s): %s is %s; only float32 can be computed with", name,
                              op->name, input->name, dtype_name(input->dtype));
    }
    if (name_is_taken(graph, name))
        return graph_fail(graph, "two nodes are named \"%s\"", name);

    value_id *input_copy = ARENA_ARRAY(graph->arena, value_id, input_count);
    void *attribute_copy = arena_take(graph->arena, op->attributes_size);
    const char *name_copy = arena_copy_text(graph->arena, name);
    if (!input_copy || !attribute_copy || !name_copy ||
        !grow(&graph->nodes, graph->node_count, &graph->node_capacity, sizeof(struct node)))
        return graph_fail(graph, "%s: out of memory", name);
    memcpy(input_copy, inputs, sizeof *inputs * (size_t)input_count);
    if (op->attributes_size)
        memcpy(attribute_copy, attributes, op->attributes_size);

    struct node node = {.op = op,
                        .attributes = attribute_copy,
                        .name = name_copy,
                        .index = graph->node_count,
                        .input_count = input_count,
                        .inputs = input_copy};
    struct value result = {
        .kind = VALUE_RESULT, .name = name, .dtype = DTYPE_F32, .producer = node.index};
    struct error err = {0};
    if (op->infer(graph, &node, &result, &err) < 0)
        return graph_fail(graph, "%s (%s): %s", name, op->name, err.message);
    node.output = add_value(graph, result);
    graph->nodes[graph->node_count++] = node;
    return node.output;
}

/* The stem itself for the first, then stem_1, stem_2, ...: whatever is still free. */
const char *graph_make_name(struct graph *graph, const char *stem)
{
    const char *name = arena_copy_text(graph->arena, stem);
    for (int i = 1; name && stem_is_taken(graph, name); i++)
        name = arena_format(graph->arena, "%s_%d", stem, i);
    return name ? name : "";
}

const char *graph_join_name(struct graph *graph, const char *stem, const char *suffix)
{
    const char *name = arena_format(graph->arena, "%s/%s", stem, suffix);
    return name ? name : "";
}

void lockstep_output(struct graph *graph, const char *name, value_id value)
{
    if (graph->first_failure.code != ERROR_NONE)
        return;
    if (!graph_holds(graph, value, name))
        return;
    if (strcmp(name, "loss") == 0) {
        graph_fail(graph, "no output may be named \"loss\": that is what lockstep_loss is for");
        return;
    }
    const char *copy = arena_copy_text(graph->arena, name);
    if (!copy ||
        !grow(&graph->outputs, graph->output_count, &graph->output_capacity, sizeof(struct output)))
        graph_fail(graph, "output \"%s\": out of memory", name);
    else
        graph->outputs[graph->output_count++] = (struct output){copy, value};
}

void lockstep_loss(struct graph *graph, value_id value)
{
    if (graph->first_failure.code != ERROR_NONE)
        return;
    if (!graph_holds(graph, value, "loss"))
        return;
    const struct value *loss = &graph->values[value];
    if (graph->loss >= 0)
        graph_fail(graph, "the graph has two losses; add them");
    else if (loss->dtype != DTYPE_F32 || loss->shape.ndim != 1 || loss->shape.dim[0] != SHAPE_BATCH)
        graph_fail(graph, "loss %s: one number per example wanted, [N]", loss->name);
    else
        graph->loss = value;
}

int graph_finish(struct graph *graph, struct error *err)
{
    if (graph->first_failure.code != ERROR_NONE)
        return error_set(err, graph->first_failure.code, "%s", graph->first_failure.message);
    if (graph->output_count == 0 && graph->loss < 0)
        return error_set(err, ERROR_FORMAT,
                         "the graph has neither an output nor a loss: nothing to compute");
    return 0;
}

int graph_value_count(const struct graph *graph)
{
    return graph->value_count;
}

const struct value *graph_value(const struct graph *graph, value_id value)
{
    return &graph->values[value];
}

int graph_node_count(const struct graph *graph)
{
    return graph->node_count;
}

const struct node *graph_node_at(const struct graph *graph, int index)
{
    return &graph->nodes[index];
}

int graph_output_count(const struct graph *graph)
{
    return graph->output_count;
}

const char *graph_output_name(const struct graph *graph, int index)
{
    return graph->outputs[index].name;
}

value_id graph_output_value(const struct graph *graph, int index)
{
    return graph->outputs[index].value;
}

value_id graph_find_input(const struct graph *graph, const char *name)
{
    for (int i = 0; i < graph->input_count; i++)
        if (strcmp(graph->values[graph->inputs[i]].name, name) == 0)
            return graph->inputs[i];
    return VALUE_FAILED;
}

value_id graph_loss_value(const struct graph *graph)
{
    return graph->loss;
}

int graph_input_count(const struct graph *graph)
{
    return graph->input_count;
}

value_id graph_input_value(const struct graph *graph, int index)
{
    return graph->inputs[index];
}

int64_t graph_parameter_elements(const struct graph *graph)
{
    int64_t elements = 0;
    for (int i = 0; i < graph->value_count; i++)
        if (graph->values[i].kind == VALUE_PARAM && (graph->values[i].flags & PARAM_TRAINABLE))
            elements += shape_count(&graph->values[i].shape);
    return elements;
}
