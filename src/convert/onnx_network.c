#include "convert/onnx_network.h"

#include "base/arena.h"
#include "base/error.h"
#include "convert/onnx_network_parts.h"
#include "convert/unsupported.h"
#include "exec/known_ops.h"
#include "exec/params.h"
#include "ops/conv_attributes.h"
#include "ops/pool.h"

const char *onnx_join(struct onnx_network *network, const char *stem, const char *rest)
{
    const char *name = arena_format(network->arena, "%s/%s", stem, rest);
    network->failed |= !name;
    return name ? name : "";
}

const char *onnx_name_of(const struct onnx_network *network, const struct node *node, int input)
{
    return network->names[node->inputs[input]];
}

const char *onnx_begin_like(struct onnx_network *network, const struct node *node, const char *op)
{
    const char *name = onnx_join(network, node->name, op);
    onnx_begin(&network->nodes, op, name);
    for (int i = 0; i < node->input_count; i++)
        onnx_input(&network->nodes, onnx_name_of(network, node, i));
    onnx_output(&network->nodes, name);
    return name;
}

const char *onnx_write_simple(struct onnx_network *network, const struct node *node, const char *op)
{
    const char *name = onnx_begin_like(network, node, op);
    onnx_end(&network->nodes);
    return name;
}

/* ---- windows ---- */

/* With the padding as it comes out for this picture. */
static int attr_window(struct onnx_network *network, const struct shape *x, struct window rows,
                       struct window columns, struct error *err)
{
    int64_t ignored;
    struct onnx_nodes *nodes = &network->nodes;
    if (window_resolve(&rows, x->dim[2], &ignored, err) < 0 ||
        window_resolve(&columns, x->dim[3], &ignored, err) < 0)
        return -1;
    onnx_attr_ints(nodes, "kernel_shape", (int64_t[]){rows.kernel, columns.kernel}, 2);
    onnx_attr_ints(nodes, "strides", (int64_t[]){rows.stride, columns.stride}, 2);
    onnx_attr_ints(
        nodes, "pads",
        (int64_t[]){rows.pad_before, columns.pad_before, rows.pad_after, columns.pad_after}, 4);
    return 0;
}

static const struct shape *shape_of(const struct onnx_network *network, const struct node *node,
                                    int input)
{
    return &graph_value(network->graph, node->inputs[input])->shape;
}

static const char *write_conv2d(struct onnx_network *network, const struct node *node,
                                struct error *err)
{
    const struct conv_attributes *a = node->attributes;
    const char *name = onnx_begin_like(network, node, "Conv");
    if (attr_window(network, shape_of(network, node, CONV_X), a->rows, a->columns, err) < 0)
        return NULL;
    onnx_attr_ints(&network->nodes, "dilations", (int64_t[]){a->rows.dilation, a->columns.dilation},
                   2);
    onnx_attr_int(&network->nodes, "group", a->groups);
    onnx_end(&network->nodes);
    return name;
}

static const char *write_pool(struct onnx_network *network, const struct node *node,
                              struct error *err)
{
    const struct pool_attributes *a = node->attributes;
    const char *name = onnx_begin_like(network, node, a->max ? "MaxPool" : "AveragePool");
    if (attr_window(network, shape_of(network, node, 0), a->rows, a->columns, err) < 0)
        return NULL;
    if (a->count_padding && !a->max)
        onnx_attr_int(&network->nodes, "count_include_pad", 1);
    onnx_end(&network->nodes);
    return name;
}

static const char *write_global_pool(struct onnx_network *network, const struct node *node,
                                     struct error *err)
{
    (void)err;
    return onnx_write_simple(network, node, "GlobalAveragePool");
}

/* ---- plain ones ---- */

static const char *write_dense(struct onnx_network *network, const struct node *node,
                               struct error *err)
{
    (void)err;
    const char *name = onnx_begin_like(network, node, "Gemm");
    onnx_attr_int(&network->nodes, "transB", 1);
    onnx_end(&network->nodes);
    return name;
}

static const char *write_batch_norm(struct onnx_network *network, const struct node *node,
                                    struct error *err)
{
    (void)err;
    const struct batch_norm_attributes *a = node->attributes;
    const char *name = onnx_begin_like(network, node, "BatchNormalization");
    onnx_attr_float(&network->nodes, "epsilon", a->epsilon);
    onnx_attr_float(&network->nodes, "momentum", a->momentum);
    onnx_end(&network->nodes);
    return name;
}

static const char *write_flatten(struct onnx_network *network, const struct node *node,
                                 struct error *err)
{
    (void)err;
    const char *name = onnx_begin_like(network, node, "Flatten");
    onnx_attr_int(&network->nodes, "axis", 1);
    onnx_end(&network->nodes);
    return name;
}

static const char *write_concat(struct onnx_network *network, const struct node *node,
                                struct error *err)
{
    (void)err;
    const char *name = onnx_begin_like(network, node, "Concat");
    onnx_attr_int(&network->nodes, "axis", 1);
    onnx_end(&network->nodes);
    return name;
}

static const char *write_relu(struct onnx_network *network, const struct node *node,
                              struct error *err)
{
    (void)err;
    return onnx_write_simple(network, node, "Relu");
}

static const char *write_sigmoid(struct onnx_network *network, const struct node *node,
                                 struct error *err)
{
    (void)err;
    return onnx_write_simple(network, node, "Sigmoid");
}

static const char *write_add(struct onnx_network *network, const struct node *node,
                             struct error *err)
{
    (void)err;
    return onnx_write_simple(network, node, "Add");
}

static const char *write_dropout(struct onnx_network *network, const struct node *node,
                                 struct error *err)
{
    (void)err;
    return onnx_write_simple(network, node, "Identity");
}

/* ---- columns ---- */

/* A column without a range gives 0: divided by 1 and multiplied by 0. */
static const char *write_normalize(struct onnx_network *network, const struct node *node,
                                   struct error *err)
{
    const struct value *range = graph_value(network->graph, node->inputs[NORMALIZE_RANGE]);
    int64_t count = shape_count(&range->shape);
    float *divisor = ARENA_ARRAY(network->arena, float, count);
    float *factor = ARENA_ARRAY(network->arena, float, count);
    if (!divisor || !factor) {
        error_set(err, ERROR_MEMORY, "no memory for %s", range->name);
        return NULL;
    }
    struct tensor ranges = {DTYPE_F32, range->shape, divisor};
    if (params_read(network->params, params_find(network->params, range->name), &ranges, err) < 0)
        return NULL;
    for (int64_t i = 0; i < count; i++) {
        factor[i] = divisor[i] != 0;
        divisor[i] = divisor[i] != 0 ? divisor[i] : 1;
    }
    const char *by = onnx_join(network, node->name, "divisor"),
               *kept = onnx_join(network, node->name, "kept");
    const char *centred = onnx_join(network, node->name, "Sub"),
               *scaled = onnx_join(network, node->name, "Div");
    const char *name = onnx_join(network, node->name, "Mul");
    struct onnx_nodes *nodes = &network->nodes;
    network->names[node->inputs[NORMALIZE_RANGE]] = NULL; /* these stand for it */
    onnx_const(nodes, by, &ranges);
    onnx_const(nodes, kept, &(struct tensor){DTYPE_F32, range->shape, factor});
    onnx_node(nodes, "Sub", centred,
              ONNX_INPUTS(onnx_name_of(network, node, NORMALIZE_X),
                          onnx_name_of(network, node, NORMALIZE_MINIMUM)));
    onnx_node(nodes, "Div", scaled, ONNX_INPUTS(centred, by));
    onnx_node(nodes, "Mul", name, ONNX_INPUTS(scaled, kept));
    return name;
}

/* [N, columns, 1]: 1 where there is a bucket, 0 where the value is missing (-1). */
static const char *write_presence(struct onnx_network *network, const char *stem, const char *x)
{
    struct onnx_nodes *nodes = &network->nodes;
    const char *missing = onnx_join(network, stem, "missing"),
               *there = onnx_join(network, stem, "Greater");
    const char *number = onnx_join(network, stem, "Cast"),
               *last = onnx_join(network, stem, "last_axis");
    const char *name = onnx_join(network, stem, "Unsqueeze");
    onnx_const_int(nodes, missing, -1);
    onnx_node(nodes, "Greater", there, ONNX_INPUTS(x, missing));
    onnx_begin(nodes, "Cast", number);
    onnx_input(nodes, there);
    onnx_output(nodes, number);
    onnx_attr_int(nodes, "to", ONNX_FLOAT);
    onnx_end(nodes);
    onnx_const_int(nodes, last, 2);
    onnx_node(nodes, "Unsqueeze", name, ONNX_INPUTS(number, last));
    return name;
}

/* Rows of the table, [N, columns]. */
static const char *write_rows(struct onnx_network *network, const struct embedding_attributes *a,
                              const char *stem, const char *x)
{
    struct onnx_nodes *nodes = &network->nodes;
    const char *zero = onnx_join(network, stem, "zero"),
               *bucket = onnx_join(network, stem, "bucket");
    const char *first = onnx_join(network, stem, "first_row"),
               *name = onnx_join(network, stem, "row");
    int64_t *rows = ARENA_ARRAY(network->arena, int64_t, a->columns);
    network->failed |= !rows;
    for (int i = 1; rows && i < a->columns; i++)
        rows[i] = rows[i - 1] + a->buckets[i - 1];
    if (!rows)
        return "";
    onnx_const_int(nodes, zero, 0);
    onnx_node(nodes, "Max", bucket, ONNX_INPUTS(x, zero));
    onnx_const(nodes, first, &(struct tensor){DTYPE_I64, SHAPE(a->columns), rows});
    onnx_node(nodes, "Add", name, ONNX_INPUTS(bucket, first));
    return name;
}

static const char *write_sum(struct onnx_network *network, const struct node *node, const char *x)
{
    struct onnx_nodes *nodes = &network->nodes;
    const char *axis = onnx_join(network, node->name, "columns"),
               *sum = onnx_join(network, node->name, "sum");
    const char *name = onnx_join(network, node->name, "Add");
    onnx_const_int(nodes, axis, 1);
    onnx_begin(nodes, "ReduceSum", sum);
    onnx_input(nodes, x);
    onnx_input(nodes, axis);
    onnx_output(nodes, sum);
    onnx_attr_int(nodes, "keepdims", 0);
    onnx_end(nodes);
    if (node->input_count <= EMBEDDING_EXTRA)
        return sum;
    onnx_node(nodes, "Add", name, ONNX_INPUTS(sum, onnx_name_of(network, node, EMBEDDING_EXTRA)));
    return name;
}

static const char *write_side_by_side(struct onnx_network *network, const struct node *node,
                                      const char *x)
{
    const struct embedding_attributes *a = node->attributes;
    struct onnx_nodes *nodes = &network->nodes;
    const char *shape = onnx_join(network, node->name, "flat"),
               *flat = onnx_join(network, node->name, "Reshape");
    const char *name = onnx_join(network, node->name, "Concat");
    int64_t dims[] = {-1, (int64_t)a->columns * a->dim};
    onnx_const(nodes, shape, &(struct tensor){DTYPE_I64, SHAPE(2), dims});
    onnx_node(nodes, "Reshape", flat, ONNX_INPUTS(x, shape));
    if (node->input_count <= EMBEDDING_EXTRA)
        return flat;
    onnx_begin(nodes, "Concat", name);
    onnx_input(nodes, flat);
    onnx_input(nodes, onnx_name_of(network, node, EMBEDDING_EXTRA));
    onnx_output(nodes, name);
    onnx_attr_int(nodes, "axis", 1);
    onnx_end(nodes);
    return name;
}

static const char *write_embedding(struct onnx_network *network, const struct node *node,
                                   struct error *err)
{
    (void)err;
    const struct embedding_attributes *a = node->attributes;
    const char *x = onnx_name_of(network, node, EMBEDDING_X);
    const char *rows = write_rows(network, a, node->name, x);
    const char *found = onnx_join(network, node->name, "Gather"),
               *kept = onnx_join(network, node->name, "Mul");
    onnx_node(&network->nodes, "Gather", found,
              ONNX_INPUTS(onnx_name_of(network, node, EMBEDDING_TABLE), rows));
    onnx_node(&network->nodes, "Mul", kept,
              ONNX_INPUTS(found, write_presence(network, node->name, x)));
    return a->sum ? write_sum(network, node, kept) : write_side_by_side(network, node, kept);
}

/* ---- the whole ---- */

static const struct writer {
    const char *op;
    onnx_write_fn *write;
} writers[] = {
    {"add", write_add},          {"arithmetic", onnx_write_arithmetic},
    {"avg_pool", write_pool},    {"batch_norm", write_batch_norm},
    {"clip", onnx_write_clip},   {"concat", write_concat},
    {"conv2d", write_conv2d},    {"dense", write_dense},
    {"dropout", write_dropout},  {"embedding", write_embedding},
    {"flatten", write_flatten},  {"global_avg_pool", write_global_pool},
    {"max_pool", write_pool},    {"normalize", write_normalize},
    {"relu", write_relu},        {"reshape", onnx_write_reshape},
    {"sigmoid", write_sigmoid},  {"softmax", onnx_write_softmax},
    {"unary", onnx_write_unary},
};

static const struct writer *find_writer(const struct node *node)
{
    return spelling_find(writers, sizeof writers / sizeof *writers, sizeof *writers,
                         node->op->name);
}

static bool can_write(const struct node *node)
{
    return find_writer(node);
}

int onnx_network_write(struct onnx_network *network, struct error *err)
{
    const struct graph *graph = network->graph;
    if (spelling_check(graph, network->needed, can_write,
                       "this program cannot say in ONNX's words:", err) < 0)
        return -1;
    for (value_id id = 0; id < graph_value_count(graph); id++)
        if (graph_value(graph, id)->kind == VALUE_PARAM)
            network->names[id] = graph_value(graph, id)->name;
    for (int i = 0; i < graph_node_count(graph); i++) {
        const struct node *node = graph_node_at(graph, i);
        if (!network->needed[node->output])
            continue;
        const char *name = find_writer(node)->write(network, node, err);
        if (!name)
            return error_wrap(err, "%s", node->name);
        network->names[node->output] = name;
    }
    return 0;
}
