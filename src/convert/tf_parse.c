#include "convert/tf_parse.h"

#include "base/arena.h"
#include "base/error.h"
#include "convert/tf_messages.h"
#include "wire/proto.h"

enum { MOST_NODES = 1 << 20, MOST_NAME = 4096 };
enum { NODE_NAME = 1, NODE_OP, NODE_INPUT };
enum { FUNCTION_SIGNATURE = 1, FUNCTION_NODE = 3, FUNCTION_RESULT = 4 };
enum { OP_NAME = 1, OP_INPUT, OP_OUTPUT };

struct parse {
    const char *name;
    struct arena *arena;
    struct error *err;
};

static int no_memory(struct parse *parse)
{
    return error_set(parse->err, ERROR_MEMORY, "%s: no memory for its graph", parse->name);
}

static int wrong(struct parse *parse, const struct proto_reader *at, const char *what)
{
    return error_set(parse->err, ERROR_FORMAT, "%s: %s, near offset %zu", parse->name, what,
                     proto_offset(at));
}

/* ---- texts and counts ---- */

static int take_text(struct parse *parse, const struct proto_reader *reader,
                     const struct proto_field *field, const char **out)
{
    if (proto_expect(reader, field, PROTO_BYTES, parse->err) < 0)
        return -1;
    if (field->count > MOST_NAME || memchr(field->bytes, '\0', field->count))
        return wrong(parse, reader, "a name that is too long, or not a text");
    *out = arena_format(parse->arena, "%.*s", (int)field->count, (const char *)field->bytes);
    return *out ? 0 : no_memory(parse);
}

/* How many fields of this number the message has. */
static int count_fields(struct parse *parse, struct proto_reader reader, uint32_t number, int *out)
{
    struct proto_field field;
    int status;
    *out = 0;
    while ((status = proto_next(&reader, &field, parse->err)) > 0)
        *out += field.number == number;
    if (status == 0 && *out > MOST_NODES)
        return wrong(parse, &reader, "more parts than this program reads");
    return status;
}

/* ---- nodes ---- */

static int take_inputs(struct parse *parse, struct proto_reader reader, struct tf_def_node *out)
{
    struct proto_field field;
    int status, count;
    if (count_fields(parse, reader, NODE_INPUT, &count) < 0)
        return -1;
    const char **inputs = ARENA_ARRAY(parse->arena, const char *, count + 1);
    if (!inputs)
        return no_memory(parse);
    while ((status = proto_next(&reader, &field, parse->err)) > 0) {
        const char *input;
        if (field.number != NODE_INPUT)
            continue;
        if (take_text(parse, &reader, &field, &input) < 0)
            return -1;
        if (*input != '^')
            inputs[out->input_count++] = input;
    }
    out->inputs = inputs;
    return status;
}

static int take_node(struct parse *parse, const struct proto_reader *outer,
                     const struct proto_field *message, struct tf_def_node *out)
{
    struct proto_reader reader, again;
    struct proto_field field;
    int status;
    *out = (struct tf_def_node){.name = "", .op = "", .index = out->index};
    if (proto_enter(outer, message, &reader, parse->err) < 0)
        return -1;
    out->bytes = message->bytes;
    out->byte_count = message->count;
    again = reader;
    while ((status = proto_next(&reader, &field, parse->err)) > 0) {
        bool named = field.number == NODE_NAME || field.number == NODE_OP;
        if (named && take_text(parse, &reader, &field,
                               field.number == NODE_NAME ? &out->name : &out->op) < 0)
            return -1;
    }
    return status < 0 ? -1 : take_inputs(parse, again, out);
}

static int by_name(const void *a, const void *b)
{
    const struct tf_def_node *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static int sort_nodes(struct parse *parse, struct tf_def_graph *graph)
{
    graph->sorted = ARENA_ARRAY(parse->arena, const struct tf_def_node *, graph->count + 1);
    if (!graph->sorted)
        return no_memory(parse);
    for (int i = 0; i < graph->count; i++)
        graph->sorted[i] = &graph->nodes[i];
    qsort(graph->sorted, (size_t)graph->count, sizeof *graph->sorted, by_name);
    for (int i = 1; i < graph->count; i++)
        if (!strcmp(graph->sorted[i]->name, graph->sorted[i - 1]->name))
            return error_set(parse->err, ERROR_FORMAT, "%s: two nodes are called %s", parse->name,
                             graph->sorted[i]->name);
    return 0;
}

/* All fields of this number are nodes. */
static int take_nodes(struct parse *parse, struct proto_reader reader, uint32_t number,
                      struct tf_def_graph *out)
{
    struct proto_field field;
    int status, count;
    if (count_fields(parse, reader, number, &count) < 0)
        return -1;
    out->nodes = ARENA_ARRAY(parse->arena, struct tf_def_node, count + 1);
    if (!out->nodes)
        return no_memory(parse);
    while ((status = proto_next(&reader, &field, parse->err)) > 0) {
        if (field.number != number)
            continue;
        out->nodes[out->count].index = out->count;
        if (take_node(parse, &reader, &field, &out->nodes[out->count]) < 0)
            return -1;
        out->count++;
    }
    return status < 0 ? -1 : sort_nodes(parse, out);
}

const struct tf_def_node *tf_find_node(const struct tf_def_graph *graph, const char *name,
                                       size_t length)
{
    int low = 0, high = graph->count - 1;
    while (low <= high) {
        int middle = low + (high - low) / 2;
        const char *candidate = graph->sorted[middle]->name;
        int order = strncmp(candidate, name, length);
        if (order == 0)
            order = candidate[length] != '\0';
        if (order == 0)
            return graph->sorted[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle - 1;
    }
    return NULL;
}

/* ---- functions ---- */

static int take_argument(struct parse *parse, const struct proto_reader *outer,
                         const struct proto_field *message, const char **out)
{
    struct proto_reader reader;
    struct proto_field field;
    int status;
    *out = "";
    if (proto_enter(outer, message, &reader, parse->err) < 0)
        return -1;
    while ((status = proto_next(&reader, &field, parse->err)) > 0)
        if (field.number == 1 && take_text(parse, &reader, &field, out) < 0)
            return -1;
    return status;
}

static int take_op_signature(struct parse *parse, struct proto_reader reader,
                             struct tf_def_function *out)
{
    struct proto_field field;
    int status, arguments, outputs;
    if (count_fields(parse, reader, OP_INPUT, &arguments) < 0 ||
        count_fields(parse, reader, OP_OUTPUT, &outputs) < 0)
        return -1;
    out->arguments = ARENA_ARRAY(parse->arena, const char *, arguments + 1);
    out->outputs = ARENA_ARRAY(parse->arena, const char *, outputs + 1);
    out->results = ARENA_ARRAY(parse->arena, const char *, outputs + 1);
    if (!out->arguments || !out->outputs || !out->results)
        return no_memory(parse);
    while ((status = proto_next(&reader, &field, parse->err)) > 0) {
        int bad = 0;
        if (field.number == OP_NAME)
            bad = take_text(parse, &reader, &field, &out->name);
        if (field.number == OP_INPUT)
            bad = take_argument(parse, &reader, &field, &out->arguments[out->argument_count++]);
        if (field.number == OP_OUTPUT)
            bad = take_argument(parse, &reader, &field, &out->outputs[out->output_count++]);
        if (bad < 0)
            return -1;
    }
    return status;
}

/* An entry of a map from texts to texts. */
static int take_pair(struct parse *parse, const struct proto_reader *outer,
                     const struct proto_field *message, const char **key, const char **value)
{
    struct proto_reader reader;
    struct proto_field field;
    int status;
    *key = *value = "";
    if (proto_enter(outer, message, &reader, parse->err) < 0)
        return -1;
    while ((status = proto_next(&reader, &field, parse->err)) > 0)
        if ((field.number == MAP_KEY || field.number == MAP_VALUE) &&
            take_text(parse, &reader, &field, field.number == MAP_KEY ? key : value) < 0)
            return -1;
    return status;
}

static int take_results(struct parse *parse, struct proto_reader reader,
                        struct tf_def_function *out)
{
    struct proto_field field;
    int status;
    while ((status = proto_next(&reader, &field, parse->err)) > 0) {
        const char *key, *value;
        if (field.number != FUNCTION_RESULT)
            continue;
        if (take_pair(parse, &reader, &field, &key, &value) < 0)
            return -1;
        for (int i = 0; i < out->output_count; i++)
            if (!strcmp(out->outputs[i], key))
                out->results[i] = value;
    }
    return status;
}

static int take_function(struct parse *parse, const struct proto_reader *outer,
                         const struct proto_field *message, struct tf_def_function *out)
{
    struct proto_reader reader, whole, signature;
    struct proto_field field;
    int status;
    out->name = "";
    if (proto_enter(outer, message, &reader, parse->err) < 0)
        return -1;
    whole = reader;
    while ((status = proto_next(&reader, &field, parse->err)) > 0)
        if (field.number == FUNCTION_SIGNATURE && !out->arguments &&
            (proto_enter(&reader, &field, &signature, parse->err) < 0 ||
             take_op_signature(parse, signature, out) < 0))
            return -1;
    if (status < 0 || take_results(parse, whole, out) < 0)
        return -1;
    return take_nodes(parse, whole, FUNCTION_NODE, &out->body);
}

static int take_library(struct parse *parse, struct proto_reader reader, struct tf_def_model *out)
{
    struct proto_field field;
    int status, count;
    if (count_fields(parse, reader, 1, &count) < 0)
        return -1;
    out->functions = ARENA_ARRAY(parse->arena, struct tf_def_function, count + 1);
    if (!out->functions)
        return no_memory(parse);
    while ((status = proto_next(&reader, &field, parse->err)) > 0)
        if (field.number == 1 &&
            take_function(parse, &reader, &field, &out->functions[out->function_count++]) < 0)
            return -1;
    return status;
}

const struct tf_def_function *tf_find_function(const struct tf_def_model *model, const char *name)
{
    for (int i = 0; i < model->function_count; i++)
        if (!strcmp(model->functions[i].name, name))
            return &model->functions[i];
    return NULL;
}

static int take_graph(struct parse *parse, struct proto_reader reader, struct tf_def_model *out)
{
    struct proto_reader whole = reader, library;
    struct proto_field field;
    int status;
    while ((status = proto_next(&reader, &field, parse->err)) > 0)
        if (field.number == GRAPH_LIBRARY && !out->functions &&
            (proto_enter(&reader, &field, &library, parse->err) < 0 ||
             take_library(parse, library, out) < 0))
            return -1;
    return status < 0 ? -1 : take_nodes(parse, whole, GRAPH_NODE, &out->graph);
}

/* ---- signatures ---- */

static int take_port(struct parse *parse, const struct proto_reader *outer,
                     const struct proto_field *entry, struct tf_def_port *out)
{
    struct proto_reader reader, info, shape;
    struct proto_field field, part;
    int status, inner = 0;
    *out = (struct tf_def_port){.key = "", .tensor = ""};
    if (proto_enter(outer, entry, &reader, parse->err) < 0)
        return -1;
    while ((status = proto_next(&reader, &field, parse->err)) > 0) {
        if (field.number == MAP_KEY && take_text(parse, &reader, &field, &out->key) < 0)
            return -1;
        if (field.number != MAP_VALUE)
            continue;
        if (proto_enter(&reader, &field, &info, parse->err) < 0)
            return -1;
        while ((inner = proto_next(&info, &part, parse->err)) > 0) {
            if (part.number == TENSOR_INFO_NAME && take_text(parse, &info, &part, &out->tensor) < 0)
                return -1;
            if (part.number == TENSOR_INFO_TYPE)
                out->type = (int)part.value;
            if (part.number == TENSOR_INFO_SHAPE)
                out->known_shape = proto_enter(&info, &part, &shape, parse->err) == 0 &&
                                   tf_read_shape(shape, &out->shape);
        }
        if (inner < 0)
            return -1;
    }
    return status;
}

static int take_ports(struct parse *parse, struct proto_reader reader, uint32_t number,
                      struct tf_def_port **out, int *count)
{
    struct proto_field field;
    int status, used = 0;
    if (count_fields(parse, reader, number, count) < 0)
        return -1;
    *out = ARENA_ARRAY(parse->arena, struct tf_def_port, *count + 1);
    if (!*out)
        return no_memory(parse);
    while ((status = proto_next(&reader, &field, parse->err)) > 0)
        if (field.number == number && take_port(parse, &reader, &field, &(*out)[used++]) < 0)
            return -1;
    return status;
}

static int take_signature(struct parse *parse, const struct proto_reader *outer,
                          const struct proto_field *entry, struct tf_def_signature *out)
{
    struct proto_reader reader, value, again;
    struct proto_field field, part;
    int status, inner;
    out->name = out->method = "";
    if (proto_enter(outer, entry, &reader, parse->err) < 0)
        return -1;
    while ((status = proto_next(&reader, &field, parse->err)) > 0) {
        if (field.number == MAP_KEY && take_text(parse, &reader, &field, &out->name) < 0)
            return -1;
        if (field.number != MAP_VALUE)
            continue;
        if (proto_enter(&reader, &field, &value, parse->err) < 0)
            return -1;
        again = value;
        while ((inner = proto_next(&value, &part, parse->err)) > 0)
            if (part.number == SIGNATURE_METHOD &&
                take_text(parse, &value, &part, &out->method) < 0)
                return -1;
        if (inner < 0 ||
            take_ports(parse, again, SIGNATURE_INPUTS, &out->inputs, &out->input_count) < 0 ||
            take_ports(parse, again, SIGNATURE_OUTPUTS, &out->outputs, &out->output_count) < 0)
            return -1;
    }
    return status;
}

static int take_signatures(struct parse *parse, struct proto_reader reader,
                           struct tf_def_model *out)
{
    struct proto_field field;
    int status, count;
    if (count_fields(parse, reader, META_SIGNATURE, &count) < 0)
        return -1;
    out->signatures = ARENA_ARRAY(parse->arena, struct tf_def_signature, count + 1);
    if (!out->signatures)
        return no_memory(parse);
    while ((status = proto_next(&reader, &field, parse->err)) > 0)
        if (field.number == META_SIGNATURE &&
            take_signature(parse, &reader, &field, &out->signatures[out->signature_count++]) < 0)
            return -1;
    return status;
}

/* ---- the whole ---- */

/* Of a graph's info. */
static int has_tag(struct parse *parse, struct proto_reader reader, bool *out)
{
    struct proto_field field;
    int status;
    while ((status = proto_next(&reader, &field, parse->err)) > 0)
        if (field.number == INFO_TAG && field.wire == PROTO_BYTES && field.count == 5 &&
            !memcmp(field.bytes, "serve", 5))
            *out = true;
    return status;
}

static int is_for_serving(struct parse *parse, struct proto_reader reader, bool *out)
{
    struct proto_field field;
    struct proto_reader info;
    int status;
    *out = false;
    while ((status = proto_next(&reader, &field, parse->err)) > 0)
        if (field.number == META_INFO &&
            (proto_enter(&reader, &field, &info, parse->err) < 0 || has_tag(parse, info, out) < 0))
            return -1;
    return status;
}

static int take_meta(struct parse *parse, struct proto_reader reader, struct tf_def_model *out)
{
    struct proto_reader whole = reader, graph;
    struct proto_field field;
    int status;
    while ((status = proto_next(&reader, &field, parse->err)) > 0)
        if (field.number == META_GRAPH && !out->graph.nodes &&
            (proto_enter(&reader, &field, &graph, parse->err) < 0 ||
             take_graph(parse, graph, out) < 0))
            return -1;
    return status < 0 ? -1 : take_signatures(parse, whole, out);
}

static int take_model(struct parse *parse, struct proto_reader *reader, struct tf_def_model *out)
{
    struct proto_field field;
    struct proto_reader meta;
    bool found = false;
    int status;
    while ((status = proto_next(reader, &field, parse->err)) > 0) {
        if (field.number != SAVED_MODEL_META || found)
            continue;
        if (proto_enter(reader, &field, &meta, parse->err) < 0 ||
            is_for_serving(parse, meta, &found) < 0 || (found && take_meta(parse, meta, out) < 0))
            return -1;
    }
    if (status == 0 && !found)
        return error_set(parse->err, ERROR_FORMAT, "%s: no graph in it has the tag \"serve\"",
                         parse->name);
    return status;
}

int tf_parse(const char *name, const void *bytes, size_t count, struct arena *arena,
             struct tf_def_model *out, struct error *err)
{
    struct parse parse = {name, arena, err};
    struct proto_reader reader;
    struct error inner = {0};
    *out = (struct tf_def_model){0};
    parse.err = &inner;
    proto_open(&reader, bytes, count);
    if (take_model(&parse, &reader, out) == 0)
        return 0;
    bool told = !strncmp(inner.message, name, strlen(name));
    return told ? error_set(err, inner.code, "%s", inner.message)
                : error_set(err, inner.code, "%s: %s", name, inner.message);
}
