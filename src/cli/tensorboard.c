#include "cli/tensorboard.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/memory.h"
#include "exec/params.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "watch/events.h"

struct tensorboard {
    struct params *params;
    float *scratch; /* [elements of the largest parameter that is not stored plainly] */
    struct events *events;
};

/* --- the graph ------------------------------------------------------------------------------ */

static enum event_dtype dtype_of(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_F32:
        break;
    case DTYPE_U8:
        return EVENT_UINT8;
    case DTYPE_I32:
        return EVENT_INT32;
    case DTYPE_I64:
        return EVENT_INT64;
    case DTYPE_STRING:
        return EVENT_STRING;
    }
    return EVENT_FLOAT;
}

static const char **names_of_inputs(const struct graph *graph, const struct node *node,
                                    struct arena *arena)
{
    const char **names = ARENA_ARRAY(arena, const char *, node->input_count + 1);
    for (int i = 0; names && i < node->input_count; i++)
        names[i] = graph_value(graph, node->inputs[i])->name;
    return names;
}

/* Inputs and parameters are called as TensorFlow calls them: TensorBoard draws them in their own
 * way. */
static bool describe_value(const struct graph *graph, const struct value *value,
                           struct arena *arena, struct event_node *out)
{
    *out = (struct event_node){.name = value->name,
                               .op = value->kind == VALUE_INPUT ? "Placeholder" : "VariableV2",
                               .dtype = dtype_of(value->dtype),
                               .dims = value->shape.dim,
                               .dim_count = value->shape.ndim};
    if (value->kind != VALUE_RESULT)
        return true;
    const struct node *node = graph_node_at(graph, value->producer);
    out->op = node->op->name;
    out->inputs = names_of_inputs(graph, node, arena);
    out->input_count = node->input_count;
    return out->inputs;
}

static struct event_node *describe_graph(const struct graph *graph, struct arena *arena)
{
    int count = graph_value_count(graph);
    struct event_node *nodes = ARENA_ARRAY(arena, struct event_node, count + 1);
    for (int i = 0; nodes && i < count; i++)
        if (!describe_value(graph, graph_value(graph, i), arena, &nodes[i]))
            return NULL;
    return nodes;
}

/* --- the weights ---------------------------------------------------------------------------- */

static bool read_weights(void *context, int index, struct events_weights *out)
{
    struct tensorboard *tensorboard = context;
    const struct params *params = tensorboard->params;
    if (index >= params_count(params))
        return false;
    struct param_range range = params_range(params, index);
    struct tensor plain = {.dtype = DTYPE_F32, .shape = range.shape, .data = tensorboard->scratch};
    const float *values = params_plain(params, index);
    if (!values && params_read(params, index, &plain, NULL) == 0)
        values = tensorboard->scratch;
    *out = (struct events_weights){
        .name = range.name,
        .values = values,
        .count = values ? (size_t)shape_count(&range.shape) : 0,
    };
    return true;
}

static int make_scratch(struct tensorboard *tensorboard, struct error *err)
{
    int64_t largest = 1;
    for (int i = 0; i < params_count(tensorboard->params); i++) {
        struct param_range range = params_range(tensorboard->params, i);
        if (!params_plain(tensorboard->params, i) && shape_count(&range.shape) > largest)
            largest = shape_count(&range.shape);
    }
    tensorboard->scratch = memory_allocate((size_t)largest * sizeof *tensorboard->scratch);
    return tensorboard->scratch ? 0 : error_set(err, ERROR_MEMORY, "no memory for histograms");
}

/* --- both ----------------------------------------------------------------------------------- */

static int make_events(struct tensorboard *tensorboard, const struct tensorboard_options *options,
                       struct arena *arena, struct error *err)
{
    struct events_options events = {.directory = options->directory,
                                    .spool = options->spool,
                                    .nodes = arena ? describe_graph(options->graph, arena) : NULL,
                                    .node_count = graph_value_count(options->graph),
                                    .histogram_every = options->histogram_every,
                                    .ranks = options->ranks,
                                    .weights = read_weights,
                                    .context = tensorboard};
    if (!events.nodes)
        return error_set(err, ERROR_MEMORY, "no memory for the graph of the network");
    return events_create(&events, &tensorboard->events, err);
}

int tensorboard_create(const struct tensorboard_options *options, struct tensorboard **out,
                       struct error *err)
{
    struct tensorboard *tensorboard = memory_allocate(sizeof *tensorboard);
    if (!tensorboard)
        return error_set(err, ERROR_MEMORY, "no memory for TensorBoard's events");
    tensorboard->params = options->params;
    struct arena *arena = arena_create();
    int status = options->histogram_every ? make_scratch(tensorboard, err) : 0;
    if (status == 0)
        status = make_events(tensorboard, options, arena, err);
    arena_destroy(arena);
    if (status < 0) {
        tensorboard_destroy(tensorboard);
        return -1;
    }
    *out = tensorboard;
    return 0;
}

void tensorboard_destroy(struct tensorboard *tensorboard)
{
    if (!tensorboard)
        return;
    events_destroy(tensorboard->events);
    memory_free(tensorboard->scratch);
    memory_free(tensorboard);
}

struct events *tensorboard_events(struct tensorboard *tensorboard)
{
    return tensorboard->events;
}
