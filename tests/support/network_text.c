#include "support/network_text.h"

#include <lockstep/model.h>
#include <math.h>

#include "base/error.h"
#include "graph/graph.h"
#include "models/registry.h"

enum { MAX_VALUES = 64, MAX_WORDS = 32, MAX_NAME = 32 };

struct scope {
    struct graph *graph;
    int count;
    struct {
        char name[MAX_NAME];
        value_id value;
    } values[MAX_VALUES];
};

/* One line taken apart: plain words, and options as "key=value". */
struct line {
    const char *words[MAX_WORDS];
    int count;
};

static const char *option(const struct line *line, const char *key)
{
    size_t bytes = strlen(key);
    for (int i = 1; i < line->count; i++) {
        if (strncmp(line->words[i], key, bytes) == 0 && line->words[i][bytes] == '=')
            return line->words[i] + bytes + 1;
    }
    return NULL;
}

static int integer(const struct line *line, const char *key, int missing)
{
    const char *text = option(line, key);
    return text ? (int)strtol(text, NULL, 10) : missing;
}

static float number(const struct line *line, const char *key, float missing)
{
    const char *text = option(line, key);
    return text ? strtof(text, NULL) : missing;
}

static enum padding padding(const struct line *line)
{
    const char *text = option(line, "padding");
    if (!text || strcmp(text, "valid") == 0)
        return PADDING_VALID;
    return strcmp(text, "same") == 0 ? PADDING_SAME : PADDING_EXPLICIT;
}

static value_id find(const struct scope *scope, const struct line *line, int word)
{
    for (int i = 0; word < line->count && i < scope->count; i++) {
        if (strcmp(scope->values[i].name, line->words[word]) == 0)
            return scope->values[i].value;
    }
    return graph_fail(scope->graph, "%s: no value named '%s'", line->words[0],
                      word < line->count ? line->words[word] : "");
}

static value_id build_input(struct scope *scope, const struct line *line)
{
    struct shape shape = {.ndim = line->count - 2, .dim = {SHAPE_BATCH}};
    for (int i = 3; i < line->count && i - 2 < TENSOR_MAX_DIMS; i++)
        shape.dim[i - 2] = strtol(line->words[i], NULL, 10);
    enum dtype dtype = strcmp(line->words[2], "i32") == 0   ? DTYPE_I32
                       : strcmp(line->words[2], "i64") == 0 ? DTYPE_I64
                                                            : DTYPE_F32;
    return lockstep_input(scope->graph, line->words[1], dtype, shape);
}

static value_id build_image(struct scope *scope, const struct line *line)
{
    return lockstep_image_input(scope->graph, (int)strtol(line->words[2], NULL, 10),
                                (int)strtol(line->words[3], NULL, 10),
                                (int)strtol(line->words[4], NULL, 10));
}

static value_id build_conv2d(struct scope *scope, const struct line *line)
{
    return conv2d(
        scope->graph, find(scope, line, 2), integer(line, "channels", 1),
        .kernel = integer(line, "kernel", 0), .kernel_height = integer(line, "kernel_height", 0),
        .kernel_width = integer(line, "kernel_width", 0), .stride = integer(line, "stride", 0),
        .dilation = integer(line, "dilation", 0), .groups = integer(line, "groups", 0),
        .padding = padding(line), .pad_before = integer(line, "before", 0),
        .pad_after = integer(line, "after", 0), .no_bias = !integer(line, "bias", 1),
        .stride_height = integer(line, "stride_height", 0),
        .stride_width = integer(line, "stride_width", 0),
        .dilation_height = integer(line, "dilation_height", 0),
        .dilation_width = integer(line, "dilation_width", 0),
        .pad_rows = {integer(line, "top", 0), integer(line, "bottom", 0)},
        .pad_columns = {integer(line, "left", 0), integer(line, "right", 0)});
}

static struct pool_options pool_options(const struct line *line)
{
    return (struct pool_options){
        .kernel = integer(line, "kernel", 0),
        .stride = integer(line, "stride", 0),
        .padding = padding(line),
        .pad_before = integer(line, "before", 0),
        .pad_after = integer(line, "after", 0),
        .kernel_height = integer(line, "kernel_height", 0),
        .kernel_width = integer(line, "kernel_width", 0),
        .stride_height = integer(line, "stride_height", 0),
        .stride_width = integer(line, "stride_width", 0),
        .pad_rows = {integer(line, "top", 0), integer(line, "bottom", 0)},
        .pad_columns = {integer(line, "left", 0), integer(line, "right", 0)},
        .count_padding = integer(line, "count_padding", 0)};
}

static value_id build_max_pool(struct scope *scope, const struct line *line)
{
    return lockstep_max_pool(scope->graph, find(scope, line, 2), pool_options(line));
}

static value_id build_avg_pool(struct scope *scope, const struct line *line)
{
    return lockstep_avg_pool(scope->graph, find(scope, line, 2), pool_options(line));
}

static value_id build_global_avg_pool(struct scope *scope, const struct line *line)
{
    return global_avg_pool(scope->graph, find(scope, line, 2));
}

static value_id build_batch_norm(struct scope *scope, const struct line *line)
{
    return batch_norm(scope->graph, find(scope, line, 2), .momentum = number(line, "momentum", 0),
                      .epsilon = number(line, "epsilon", 0));
}

static value_id build_dense(struct scope *scope, const struct line *line)
{
    return dense(scope->graph, find(scope, line, 2), integer(line, "units", 1),
                 .no_bias = !integer(line, "bias", 1));
}

static value_id build_relu(struct scope *scope, const struct line *line)
{
    return relu(scope->graph, find(scope, line, 2));
}

static value_id build_sigmoid(struct scope *scope, const struct line *line)
{
    return sigmoid(scope->graph, find(scope, line, 2));
}

static value_id build_add(struct scope *scope, const struct line *line)
{
    return add(scope->graph, find(scope, line, 2), find(scope, line, 3));
}

/* Which word of a list an option is; 0 where it is none of them. */
static int choice(const struct line *line, const char *key, const char *const *words)
{
    const char *text = option(line, key);
    for (int i = 0; text && words[i]; i++)
        if (strcmp(text, words[i]) == 0)
            return i;
    return 0;
}

static value_id build_arithmetic(struct scope *scope, const struct line *line)
{
    static const char *const kinds[] = {"add", "subtract", "multiply", "divide", NULL};
    return lockstep_arithmetic(scope->graph, find(scope, line, 2), find(scope, line, 3),
                               (enum arithmetic)choice(line, "kind", kinds));
}

/* In the order of enum unary. */
static value_id build_unary(struct scope *scope, const struct line *line)
{
    static const char *const kinds[] = {
        "tanh",       "leaky_relu", "elu",    "softplus",   "softsign", "hard_sigmoid",
        "hard_swish", "silu",       "gelu",   "erf",        "exp",      "log",
        "sqrt",       "abs",        "negate", "reciprocal", "power",    NULL};
    return lockstep_unary(scope->graph, find(scope, line, 2),
                          (enum unary)choice(line, "kind", kinds), number(line, "alpha", 0),
                          number(line, "beta", 0));
}

static value_id build_clip(struct scope *scope, const struct line *line)
{
    return lockstep_clip(scope->graph, find(scope, line, 2), number(line, "low", -INFINITY),
                         number(line, "high", INFINITY));
}

static value_id build_softmax(struct scope *scope, const struct line *line)
{
    value_id x = find(scope, line, 2);
    int axis = integer(line, "axis", 1);
    return integer(line, "log", 0) ? lockstep_log_softmax(scope->graph, x, axis)
                                   : lockstep_softmax(scope->graph, x, axis);
}

/* reshape NAME X shape=3x2x20, without the batch */
static value_id build_reshape(struct scope *scope, const struct line *line)
{
    struct shape shape = {.ndim = 1, .dim = {SHAPE_BATCH}};
    const char *at = option(line, "shape");
    for (char *end; at && *at && shape.ndim < TENSOR_MAX_DIMS; at = *end ? end + 1 : end)
        shape.dim[shape.ndim++] = strtol(at, &end, 10);
    return lockstep_reshape(scope->graph, find(scope, line, 2), shape);
}

/* parameter NAME 3 1 5 */
static value_id build_parameter(struct scope *scope, const struct line *line)
{
    struct shape shape = {0};
    for (int i = 2; i < line->count && shape.ndim < TENSOR_MAX_DIMS; i++)
        shape.dim[shape.ndim++] = strtol(line->words[i], NULL, 10);
    return graph_param(scope->graph, line->words[1], shape,
                       (struct initializer){INIT_NORMAL, .value = 1}, PARAM_TRAINABLE);
}

static value_id build_concat(struct scope *scope, const struct line *line)
{
    value_id values[MAX_WORDS];
    int count = 0;
    for (int i = 2; i < line->count; i++)
        values[count++] = find(scope, line, i);
    return lockstep_concat(scope->graph, values, count);
}

static value_id build_flatten(struct scope *scope, const struct line *line)
{
    return flatten(scope->graph, find(scope, line, 2));
}

static value_id build_dropout(struct scope *scope, const struct line *line)
{
    return dropout(scope->graph, find(scope, line, 2), number(line, "rate", 0.5f));
}

static value_id build_softmax_cross_entropy(struct scope *scope, const struct line *line)
{
    struct loss_options options = {.label_smoothing = number(line, "smoothing", 0)};
    return lockstep_softmax_cross_entropy(scope->graph, find(scope, line, 2), find(scope, line, 3),
                                          options);
}

static value_id build_sigmoid_cross_entropy(struct scope *scope, const struct line *line)
{
    struct loss_options options = {.label_smoothing = number(line, "smoothing", 0)};
    return lockstep_sigmoid_cross_entropy(scope->graph, find(scope, line, 2), find(scope, line, 3),
                                          options);
}

static value_id build_output(struct scope *scope, const struct line *line)
{
    value_id value = find(scope, line, 2);
    lockstep_output(scope->graph, line->words[1], value);
    return value;
}

static value_id build_loss(struct scope *scope, const struct line *line)
{
    value_id value = find(scope, line, 1);
    lockstep_loss(scope->graph, value);
    return value;
}

static value_id build_model(struct scope *scope, const struct line *line)
{
    const struct model *model = model_find(line->words[1]);
    if (!model)
        return graph_fail(scope->graph, "no model named '%s'", line->words[1]);
    struct model_args args = model->defaults;
    args.classes = integer(line, "classes", args.classes);
    args.image_size = integer(line, "image_size", args.image_size);
    args.label_smoothing = number(line, "smoothing", args.label_smoothing);
    args.embedding_rows = integer(line, "embedding_rows", args.embedding_rows);
    args.embedding_dim = integer(line, "embedding_dim", args.embedding_dim);
    args.numerics = integer(line, "numerics", args.numerics);
    args.categoricals = integer(line, "categoricals", args.categoricals);
    if (option(line, "hidden")) /* one layer is enough for a test */
        memset(args.hidden, 0, sizeof args.hidden);
    args.hidden[0] = integer(line, "hidden", args.hidden[0]);
    model->build(scope->graph, &args);
    return 0;
}

static const struct {
    const char *name;
    int words; /* at least, the operation's own included */
    value_id (*build)(struct scope *scope, const struct line *line);
} operations[] = {
    {"input", 3, build_input},
    {"image", 5, build_image},
    {"conv2d", 3, build_conv2d},
    {"max_pool", 3, build_max_pool},
    {"avg_pool", 3, build_avg_pool},
    {"global_avg_pool", 3, build_global_avg_pool},
    {"batch_norm", 3, build_batch_norm},
    {"dense", 3, build_dense},
    {"relu", 3, build_relu},
    {"sigmoid", 3, build_sigmoid},
    {"add", 4, build_add},
    {"concat", 3, build_concat},
    {"arithmetic", 4, build_arithmetic},
    {"unary", 3, build_unary},
    {"clip", 3, build_clip},
    {"softmax", 3, build_softmax},
    {"reshape", 3, build_reshape},
    {"parameter", 3, build_parameter},
    {"flatten", 3, build_flatten},
    {"dropout", 3, build_dropout},
    {"softmax_cross_entropy", 4, build_softmax_cross_entropy},
    {"sigmoid_cross_entropy", 4, build_sigmoid_cross_entropy},
    {"output", 3, build_output},
    {"loss", 2, build_loss},
    {"model", 2, build_model},
};

static void build_line(struct scope *scope, const struct line *line)
{
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        if (strcmp(operations[i].name, line->words[0]) != 0)
            continue;
        if (line->count < operations[i].words || scope->count == MAX_VALUES) {
            graph_fail(scope->graph, "%s: too few words, or too many values", line->words[0]);
            return;
        }
        value_id value = operations[i].build(scope, line);
        snprintf(scope->values[scope->count].name, MAX_NAME, "%s", line->words[1]);
        scope->values[scope->count++].value = value;
        return;
    }
    graph_fail(scope->graph, "no operation named '%s'", line->words[0]);
}

static void build_lines(struct scope *scope, char *text)
{
    char *line_state, *word_state;
    for (char *at = strtok_r(text, "\n", &line_state); at; at = strtok_r(NULL, "\n", &line_state)) {
        struct line line = {0};
        for (char *word = strtok_r(at, " ", &word_state); word && line.count < MAX_WORDS;
             word = strtok_r(NULL, " ", &word_state))
            line.words[line.count++] = word;
        if (line.count > 0)
            build_line(scope, &line);
    }
}

int network_from_text(const char *text, struct graph **out, struct error *err)
{
    struct scope scope = {.graph = graph_create()};
    char *copy = strdup(text);
    if (!scope.graph || !copy) {
        free(copy);
        graph_destroy(scope.graph);
        return error_set(err, ERROR_MEMORY, "no memory for a graph");
    }
    build_lines(&scope, copy);
    free(copy);
    if (graph_finish(scope.graph, err) < 0) {
        graph_destroy(scope.graph);
        return -1;
    }
    *out = scope.graph;
    return 0;
}
