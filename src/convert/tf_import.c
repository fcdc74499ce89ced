#include "convert/tf_import.h"

#include "base/arena.h"
#include "base/error.h"

enum { MOST_DEPTH = 1000, MOST_VISITS = 1 << 20 };
enum state { UNSEEN, OPEN, DONE };

/* A graph that is walked through: the main one, or a function's body for one call of it. */
struct import_frame {
    const struct tf_def_graph *graph;
    const struct tf_def_function *function; /* NULL: the main graph */
    struct import_value *arguments;
    struct import_value **outputs; /* of each node, by its index */
    unsigned char *states;
    int depth; /* of nodes under each other, through all frames */
};

static struct import_value nothing(void)
{
    return (struct import_value){.kind = IMPORT_NOTHING};
}

static struct import_value fail(struct import *import, enum error_code code, const char *what,
                                const char *where)
{
    if (!import->failed)
        error_set(import->err, code, "%s: %s", where, what);
    import->failed = true;
    return nothing();
}

struct import_value import_refuse(struct import *import, const struct tf_def_node *node)
{
    unsupported_add(&import->unsupported, node->op, node->name);
    return nothing();
}

/* ---- frames ---- */

static struct import_frame *make_frame(struct import *import, const struct tf_def_graph *graph,
                                       const struct tf_def_function *function, int depth)
{
    struct import_frame *frame = ARENA_NEW(import->arena, struct import_frame);
    if (!frame)
        return NULL;
    *frame = (struct import_frame){.graph = graph, .function = function, .depth = depth};
    frame->outputs = ARENA_ARRAY(import->arena, struct import_value *, graph->count + 1);
    frame->states = ARENA_ARRAY(import->arena, unsigned char, graph->count + 1);
    return frame->outputs && frame->states ? frame : NULL;
}

struct import_frame *import_main_frame(struct import *import)
{
    return make_frame(import, &import->model->graph, NULL, 0);
}

/* ---- names of tensors ---- */

/* "node", "node:2" in a graph; "argument", "node:output:2" in a function. */
struct reference {
    const struct tf_def_node *node; /* NULL: */
    int argument;                   /* of the function, or -1 */
    int output;
};

static int number_behind(const char *colon)
{
    char *end;
    long number = colon ? strtol(colon + 1, &end, 10) : 0;
    return number >= 0 && number < 1 << 16 ? (int)number : 0;
}

static struct reference refer(const struct import_frame *frame, const char *tensor)
{
    const char *colon = strchr(tensor, ':');
    size_t length = colon ? (size_t)(colon - tensor) : strlen(tensor);
    struct reference reference = {.argument = -1};
    if (!frame->function) {
        reference.node = tf_find_node(frame->graph, tensor, length);
        reference.output = number_behind(colon);
        return reference;
    }
    for (int i = 0; i < frame->function->argument_count; i++) {
        const char *name = frame->function->arguments[i];
        if (strlen(name) == length && !strncmp(name, tensor, length))
            reference.argument = i;
    }
    if (reference.argument < 0)
        reference.node = tf_find_node(frame->graph, tensor, length);
    reference.output = number_behind(colon ? strchr(colon + 1, ':') : NULL);
    return reference;
}

/* ---- calls ---- */

static bool is_call(const struct tf_def_node *node)
{
    return !strcmp(node->op, "StatefulPartitionedCall") || !strcmp(node->op, "PartitionedCall");
}

static struct import_value *call(struct import *import, struct import_frame *outer,
                                 const struct tf_def_node *node, int *count)
{
    const char *name = tf_def_function_name(node, "f", import->arena);
    const struct tf_def_function *function = name ? tf_find_function(import->model, name) : NULL;
    if (!function || node->input_count != function->argument_count) {
        fail(import, ERROR_FORMAT, "calls a function that is not there, or with other arguments",
             node->name);
        return NULL;
    }
    struct import_frame *frame = make_frame(import, &function->body, function, outer->depth + 1);
    struct import_value *results =
        ARENA_ARRAY(import->arena, struct import_value, function->output_count + 1);
    if (frame)
        frame->arguments =
            ARENA_ARRAY(import->arena, struct import_value, function->argument_count + 1);
    if (!frame || !results || !frame->arguments) {
        fail(import, ERROR_MEMORY, "no memory for a call", node->name);
        return NULL;
    }
    for (int i = 0; i < node->input_count; i++)
        frame->arguments[i] = import_input(import, outer, node, i);
    frame->depth = outer->depth + 1;
    for (int i = 0; i < function->output_count; i++)
        results[i] =
            function->results[i] ? import_tensor(import, frame, function->results[i]) : nothing();
    *count = function->output_count;
    return results;
}

/* ---- the walk ---- */

static struct import_value visit(struct import *import, struct import_frame *frame,
                                 const struct tf_def_node *node, int output)
{
    int count = 1;
    int index = node->index;
    if (frame->states[index] == OPEN)
        return fail(import, ERROR_FORMAT, "its graph has a cycle", node->name);
    if (frame->states[index] == UNSEEN) {
        if (frame->depth > MOST_DEPTH || ++import->visits > MOST_VISITS)
            return fail(import, ERROR_FORMAT,
                        "its graph is deeper or larger than this program "
                        "follows",
                        node->name);
        frame->states[index] = OPEN;
        frame->depth++;
        struct import_value *outputs;
        if (is_call(node)) {
            outputs = call(import, frame, node, &count);
        } else {
            outputs = ARENA_NEW(import->arena, struct import_value);
            if (outputs)
                *outputs = import_node(import, frame, node);
        }
        frame->depth--;
        frame->states[index] = DONE;
        frame->outputs[index] = outputs;
        if (!outputs)
            return import->failed ? nothing()
                                  : fail(import, ERROR_MEMORY, "no memory for a node", node->name);
    }
    if (is_call(node)) {
        const char *name = tf_def_function_name(node, "f", import->arena);
        const struct tf_def_function *function =
            name ? tf_find_function(import->model, name) : NULL;
        count = function ? function->output_count : 0;
    }
    if (!frame->outputs[index] || output >= count)
        return nothing();
    return frame->outputs[index][output];
}

struct import_value import_tensor(struct import *import, struct import_frame *frame,
                                  const char *tensor)
{
    struct reference reference = refer(frame, tensor);
    if (import->failed)
        return nothing();
    if (reference.argument >= 0)
        return frame->arguments[reference.argument];
    if (!reference.node)
        return fail(import, ERROR_FORMAT, "its graph has no such node", tensor);
    return visit(import, frame, reference.node, reference.output);
}

struct import_value import_input(struct import *import, struct import_frame *frame,
                                 const struct tf_def_node *node, int input)
{
    if (input >= node->input_count)
        return fail(import, ERROR_FORMAT, "it has too few inputs", node->name);
    return import_tensor(import, frame, node->inputs[input]);
}

void import_set(struct import *import, struct import_frame *frame, const char *tensor,
                struct import_value value)
{
    struct reference reference = refer(frame, tensor);
    struct import_value *output = ARENA_NEW(import->arena, struct import_value);
    if (!reference.node || !output) {
        fail(import, ERROR_FORMAT, "its graph has no such node", tensor);
        return;
    }
    *output = value;
    frame->outputs[reference.node->index] = output;
    frame->states[reference.node->index] = DONE;
}

bool import_add_load(struct import *import, value_id param, const struct import_value *source,
                     enum import_turn turn, const int64_t flat[3])
{
    if (import->load_count == import->load_room) {
        int room = import->load_room ? 2 * import->load_room : 64;
        struct import_load *more = ARENA_ARRAY(import->arena, struct import_load, room);
        if (!more)
            return false;
        if (import->load_count)
            memcpy(more, import->loads, (size_t)import->load_count * sizeof *more);
        import->loads = more;
        import->load_room = room;
    }
    struct import_load *load = &import->loads[import->load_count++];
    *load = (struct import_load){.param = param, .turn = turn, .source = *source};
    for (int i = 0; flat && i < 3; i++)
        load->flat[i] = flat[i];
    return true;
}
