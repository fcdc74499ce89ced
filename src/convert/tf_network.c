#include "convert/tf_network.h"

#include <ctype.h>
#include <float.h>

#include "base/arena.h"
#include "base/error.h"
#include "convert/tf_network_parts.h"
#include "convert/unsupported.h"
#include "exec/known_ops.h"
#include "ops/conv_attributes.h"
#include "ops/pool.h"

/* ---- names ---- */

/* [A-Za-z0-9.][A-Za-z0-9_.\\-/]*; a name that had to be changed gets a mark of what it was, so that
 * two names stay two. */
const char *tf_name(const char *name, struct arena *arena)
{
    char *copy = arena_copy_text(arena, name);
    bool changed = false;
    unsigned hash = 5381;
    for (char *at = copy; at && *at; at++) {
        hash = hash * 33 + (unsigned char)*at;
        bool fine = (*at > 0 && isalnum(*at)) || *at == '.' ||
                    (at > copy && (*at == '_' || *at == '-' || *at == '/'));
        changed |= !fine;
        *at = fine ? *at : at == copy ? 'x' : '_';
    }
    return copy && changed ? arena_format(arena, "%s_%08x", copy, hash) : copy;
}

const char *tf_join(struct tf_network *network, const char *stem, const char *rest)
{
    const char *name = arena_format(network->arena, "%s/%s", stem, rest);
    network->failed |= !name;
    return name ? name : "";
}

const char *tf_stem(struct tf_network *network, const struct node *node)
{
    const char *name = tf_name(node->name, network->arena);
    network->failed |= !name;
    return name ? name : "";
}

const char *tf_tensor(const struct tf_network *network, const struct node *node, int input)
{
    return network->tensors[node->inputs[input]];
}

const struct shape *tf_shape_of(const struct tf_network *network, const struct node *node,
                                int input)
{
    return &graph_value(network->graph, node->inputs[input])->shape;
}

/* ---- variables ---- */

static const struct node *convolution_of(const struct graph *graph, value_id param)
{
    for (int i = 0; i < graph_node_count(graph); i++) {
        const struct node *node = graph_node_at(graph, i);
        if (node->op == &op_conv2d && node->inputs[CONV_WEIGHTS] == param)
            return node;
    }
    return NULL;
}

/* What TensorFlow has an operation of its own for; it takes no unlike strides and no gaps. */
static bool is_depthwise(const struct graph *graph, const struct node *node)
{
    const struct conv_attributes *a = node->attributes;
    return a->groups > 1 && graph_value(graph, node->inputs[CONV_X])->shape.dim[1] == a->groups &&
           a->rows.stride == a->columns.stride && a->rows.dilation == 1 && a->columns.dilation == 1;
}

struct tf_variable tf_variable_of(const struct graph *graph, value_id param, struct arena *arena)
{
    const struct value *value = graph_value(graph, param);
    const struct node *node = convolution_of(graph, param);
    struct tf_variable variable = {
        .name = tf_name(value->name, arena), .shape = value->shape, .convolution = node};
    const int64_t *dim = value->shape.dim;
    if (node && is_depthwise(graph, node)) {
        int64_t in = graph_value(graph, node->inputs[CONV_X])->shape.dim[1];
        variable.shape = SHAPE(dim[2], dim[3], in, dim[0] / in); /* the same order in memory */
    } else if (node) {
        variable.shape = SHAPE(dim[2], dim[3], dim[1], dim[0]);
    }
    return variable;
}

/* Some of the output channels at a time: a cache line of one order, as many streams of the other. */
enum { TURNED_TOGETHER = 16 };

/* [out, in, height, width] to [height, width, in, out]. */
void tf_variable_turn(const struct shape *ours, const float *in, float *out)
{
    int64_t outs = ours->dim[0], ins = ours->dim[1], cells = ours->dim[2] * ours->dim[3];
    for (int64_t first = 0; first < outs; first += TURNED_TOGETHER) {
        int64_t end = first + TURNED_TOGETHER < outs ? first + TURNED_TOGETHER : outs;
        for (int64_t i = 0; i < ins; i++)
            for (int64_t cell = 0; cell < cells; cell++)
                for (int64_t o = first; o < end; o++)
                    out[(cell * ins + i) * outs + o] = in[(o * ins + i) * cells + cell];
    }
}

/* The same way back, through a tile: rows of `out` are often a power of two apart, where lines of a
 * few of them would push each other out of the cache. */
void tf_variable_turn_back(const struct shape *ours, const float *in, float *out)
{
    enum { RUN = 64 };
    float tile[TURNED_TOGETHER][RUN];
    int64_t outs = ours->dim[0], ins = ours->dim[1], cells = ours->dim[2] * ours->dim[3];
    int64_t row = ins * cells;
    for (int64_t first = 0; first < outs; first += TURNED_TOGETHER) {
        int64_t together = first + TURNED_TOGETHER < outs ? TURNED_TOGETHER : outs - first;
        for (int64_t start = 0; start < row; start += RUN) {
            int64_t run = start + RUN < row ? RUN : row - start;
            for (int64_t k = 0; k < run; k++) {
                int64_t i = (start + k) / cells, cell = (start + k) % cells;
                const float *from = in + (cell * ins + i) * outs + first;
                for (int64_t o = 0; o < together; o++)
                    tile[o][k] = from[o];
            }
            for (int64_t o = 0; o < together; o++)
                memcpy(out + (first + o) * row + start, tile[o], (size_t)run * sizeof *out);
        }
    }
}

/* Nobody runs the initialiser, but TensorFlow's loader wants to know one. */
static void write_initializer(struct tf_network *network, const struct tf_variable *variable)
{
    struct tf_nodes *nodes = network->nodes;
    const char *zeros = tf_join(network, variable->name, "Initializer/zeros");
    const char *shape = tf_join(network, zeros, "shape_as_tensor"),
               *zero = tf_join(network, zeros, "Const");
    int32_t dims[TENSOR_MAX_DIMS];
    for (int i = 0; i < variable->shape.ndim; i++)
        dims[i] = (int32_t)variable->shape.dim[i];
    tf_const_ints(nodes, shape, dims, variable->shape.ndim);
    tf_const_float(nodes, zero, 0);
    tf_begin(nodes, "Fill", zeros);
    tf_input(nodes, shape);
    tf_input(nodes, zero);
    tf_attr_type(nodes, "T", TF_FLOAT);
    tf_attr_type(nodes, "index_type", TF_INT32);
    tf_end(nodes);
    tf_begin(nodes, "AssignVariableOp", tf_join(network, variable->name, "Assign"));
    tf_input(nodes, variable->name);
    tf_input(nodes, zeros);
    tf_attr_type(nodes, "dtype", TF_FLOAT);
    tf_end(nodes);
}

static void write_variable(struct tf_network *network, value_id param)
{
    struct tf_nodes *nodes = network->nodes;
    struct tf_variable variable = tf_variable_of(network->graph, param, network->arena);
    network->failed |= !variable.name;
    if (network->failed)
        return;
    tf_begin(nodes, "VarHandleOp", variable.name);
    tf_attr_type(nodes, "dtype", TF_FLOAT);
    tf_attr_shape(nodes, "shape", &variable.shape);
    tf_attr_text(nodes, "shared_name", variable.name);
    tf_attr_text(nodes, "container", "");
    tf_end(nodes);
    write_initializer(network, &variable);
    network->tensors[param] = tf_join(network, variable.name, "Read/ReadVariableOp");
    tf_begin(nodes, "ReadVariableOp", network->tensors[param]);
    tf_input(nodes, variable.name);
    tf_attr_type(nodes, "dtype", TF_FLOAT);
    tf_end(nodes);
}

/* ---- operations ---- */

const char *tf_write_bias(struct tf_network *network, const struct node *node, const char *x,
                          int input)
{
    const char *name = tf_join(network, tf_stem(network, node), "BiasAdd");
    if (node->input_count <= input)
        return x;
    tf_node(network->nodes, "BiasAdd", name, TF_FLOAT,
            TF_INPUTS(x, tf_tensor(network, node, input)));
    return name;
}

static bool has_border(const struct window *rows, const struct window *columns)
{
    return rows->padding == PADDING_EXPLICIT &&
           (rows->pad_before || rows->pad_after || columns->pad_before || columns->pad_after);
}

/* Cells around a picture, with this number in them. */
static const char *write_border(struct tf_network *network, const struct node *node,
                                const struct window *rows, const struct window *columns, float fill)
{
    struct tf_nodes *nodes = network->nodes;
    const char *stem = tf_stem(network, node), *value = tf_join(network, stem, "fill");
    const char *paddings = tf_join(network, stem, "paddings");
    const char *op = fill == 0 ? "Pad" : "PadV2", *name = tf_join(network, stem, op);
    int32_t cells[4][2] = {{0, 0},
                           {rows->pad_before, rows->pad_after},
                           {columns->pad_before, columns->pad_after},
                           {0, 0}};
    tf_const(nodes, paddings, &(struct tensor){DTYPE_I32, SHAPE(4, 2), cells});
    if (fill != 0)
        tf_const_float(nodes, value, fill);
    tf_begin(nodes, op, name);
    tf_input(nodes, tf_tensor(network, node, 0));
    tf_input(nodes, paddings);
    if (fill != 0)
        tf_input(nodes, value);
    tf_attr_type(nodes, "T", TF_FLOAT);
    tf_attr_type(nodes, "Tpaddings", TF_INT32);
    tf_end(nodes);
    return name;
}

static void attr_padding(struct tf_network *network, const struct window *rows,
                         const struct window *columns)
{
    static const char *const names[] = {
        [PADDING_VALID] = "VALID", [PADDING_SAME] = "SAME", [PADDING_EXPLICIT] = "EXPLICIT"};
    tf_attr_text(network->nodes, "padding", names[rows->padding]);
    if (rows->padding == PADDING_EXPLICIT)
        tf_attr_ints(network->nodes, "explicit_paddings",
                     (int64_t[]){0, 0, rows->pad_before, rows->pad_after, columns->pad_before,
                                 columns->pad_after, 0, 0},
                     8);
}

static const char *write_conv2d(struct tf_network *network, const struct node *node)
{
    const struct conv_attributes *a = node->attributes;
    const char *op = is_depthwise(network->graph, node) ? "DepthwiseConv2dNative" : "Conv2D";
    const char *name = tf_join(network, tf_stem(network, node), op);
    const char *x = tf_tensor(network, node, CONV_X);
    struct tf_nodes *nodes = network->nodes;
    /* Where TensorFlow 2.21 fuses such a convolution with its bias, it loses the paddings and dies of it. */
    bool apart = is_depthwise(network->graph, node) && has_border(&a->rows, &a->columns);
    if (apart)
        x = write_border(network, node, &a->rows, &a->columns, 0);
    tf_begin(nodes, op, name);
    tf_input(nodes, x);
    tf_input(nodes, tf_tensor(network, node, CONV_WEIGHTS));
    tf_attr_type(nodes, "T", TF_FLOAT);
    tf_attr_ints(nodes, "strides", (int64_t[]){1, a->rows.stride, a->columns.stride, 1}, 4);
    tf_attr_ints(nodes, "dilations", (int64_t[]){1, a->rows.dilation, a->columns.dilation, 1}, 4);
    tf_attr_text(nodes, "data_format", "NHWC");
    if (apart)
        tf_attr_text(nodes, "padding", "VALID");
    else
        attr_padding(network, &a->rows, &a->columns);
    tf_end(nodes);
    return tf_write_bias(network, node, name, CONV_BIAS);
}

/* Weights are [out, in], as they lie in memory: a transposed copy of VGG16's would be 400 MB. */
static const char *write_dense(struct tf_network *network, const struct node *node)
{
    const char *name = tf_join(network, tf_stem(network, node), "MatMul");
    struct tf_nodes *nodes = network->nodes;
    tf_begin(nodes, "MatMul", name);
    tf_input(nodes, tf_tensor(network, node, 0));
    tf_input(nodes, tf_tensor(network, node, 1));
    tf_attr_type(nodes, "T", TF_FLOAT);
    tf_attr_bool(nodes, "transpose_b", true);
    tf_end(nodes);
    return tf_write_bias(network, node, name, 2);
}

static const char *write_norm_of_rows(struct tf_network *network, const struct node *node)
{
    const struct batch_norm_attributes *a = node->attributes;
    struct tf_nodes *nodes = network->nodes;
    const char *stem = tf_stem(network, node);
    const char *epsilon = tf_join(network, stem, "epsilon"), *sum = tf_join(network, stem, "add");
    const char *root = tf_join(network, stem, "Rsqrt"), *factor = tf_join(network, stem, "factor");
    const char *centred = tf_join(network, stem, "Sub"), *scaled = tf_join(network, stem, "Mul");
    const char *result = tf_join(network, stem, "AddV2");
    tf_const_float(nodes, epsilon, a->epsilon);
    tf_node(nodes, "AddV2", sum, TF_FLOAT,
            TF_INPUTS(tf_tensor(network, node, BATCH_NORM_VARIANCE), epsilon));
    tf_node(nodes, "Rsqrt", root, TF_FLOAT, TF_INPUTS(sum));
    tf_node(nodes, "Mul", factor, TF_FLOAT,
            TF_INPUTS(root, tf_tensor(network, node, BATCH_NORM_SCALE)));
    tf_node(nodes, "Sub", centred, TF_FLOAT,
            TF_INPUTS(tf_tensor(network, node, BATCH_NORM_X),
                      tf_tensor(network, node, BATCH_NORM_MEAN)));
    tf_node(nodes, "Mul", scaled, TF_FLOAT, TF_INPUTS(centred, factor));
    tf_node(nodes, "AddV2", result, TF_FLOAT,
            TF_INPUTS(scaled, tf_tensor(network, node, BATCH_NORM_SHIFT)));
    return result;
}

static const char *write_batch_norm(struct tf_network *network, const struct node *node)
{
    const struct batch_norm_attributes *a = node->attributes;
    const char *name = tf_join(network, tf_stem(network, node), "FusedBatchNormV3");
    struct tf_nodes *nodes = network->nodes;
    if (tf_shape_of(network, node, BATCH_NORM_X)->ndim == 2)
        return write_norm_of_rows(network, node);
    tf_begin(nodes, "FusedBatchNormV3", name);
    for (int i = 0; i < node->input_count; i++)
        tf_input(nodes, tf_tensor(network, node, i));
    tf_attr_type(nodes, "T", TF_FLOAT);
    tf_attr_type(nodes, "U", TF_FLOAT);
    tf_attr_float(nodes, "epsilon", a->epsilon);
    tf_attr_text(nodes, "data_format", "NHWC");
    tf_attr_bool(nodes, "is_training", false);
    tf_end(nodes);
    return name;
}

static const char *write_pool(struct tf_network *network, const struct node *node)
{
    const struct pool_attributes *a = node->attributes;
    const char *op = a->max ? "MaxPool" : "AvgPool", *x = tf_tensor(network, node, 0);
    const char *name = tf_join(network, tf_stem(network, node), op);
    struct tf_nodes *nodes = network->nodes;
    if (has_border(&a->rows, &a->columns)) /* never the greatest, or zeros that count in a mean */
        x = write_border(network, node, &a->rows, &a->columns, a->max ? -FLT_MAX : 0);
    tf_begin(nodes, op, name);
    tf_input(nodes, x);
    tf_attr_type(nodes, "T", TF_FLOAT);
    tf_attr_ints(nodes, "ksize", (int64_t[]){1, a->rows.kernel, a->columns.kernel, 1}, 4);
    tf_attr_ints(nodes, "strides", (int64_t[]){1, a->rows.stride, a->columns.stride, 1}, 4);
    tf_attr_text(nodes, "padding", a->rows.padding == PADDING_SAME ? "SAME" : "VALID");
    tf_attr_text(nodes, "data_format", "NHWC");
    tf_end(nodes);
    return name;
}

static const char *write_global_pool(struct tf_network *network, const struct node *node)
{
    const char *stem = tf_stem(network, node);
    const char *axes = tf_join(network, stem, "axes"), *name = tf_join(network, stem, "Mean");
    tf_const_ints(network->nodes, axes, (int32_t[]){1, 2}, 2);
    tf_begin(network->nodes, "Mean", name);
    tf_input(network->nodes, tf_tensor(network, node, 0));
    tf_input(network->nodes, axes);
    tf_attr_type(network->nodes, "T", TF_FLOAT);
    tf_attr_type(network->nodes, "Tidx", TF_INT32);
    tf_attr_bool(network->nodes, "keep_dims", true);
    tf_end(network->nodes);
    return name;
}

const char *tf_write_transpose(struct tf_network *network, const char *stem, const char *x,
                               const int32_t *order, int count)
{
    const char *name = tf_join(network, stem, "transpose"), *perm = tf_join(network, name, "perm");
    tf_const_ints(network->nodes, perm, order, count);
    tf_begin(network->nodes, "Transpose", name);
    tf_input(network->nodes, x);
    tf_input(network->nodes, perm);
    tf_attr_type(network->nodes, "T", TF_FLOAT);
    tf_attr_type(network->nodes, "Tperm", TF_INT32);
    tf_end(network->nodes);
    return name;
}

const char *tf_write_reshape(struct tf_network *network, const char *stem, const char *x,
                             const int32_t *dims, int count)
{
    const char *name = tf_join(network, stem, "Reshape"), *shape = tf_join(network, name, "shape");
    tf_const_ints(network->nodes, shape, dims, count);
    tf_begin(network->nodes, "Reshape", name);
    tf_input(network->nodes, x);
    tf_input(network->nodes, shape);
    tf_attr_type(network->nodes, "T", TF_FLOAT);
    tf_attr_type(network->nodes, "Tshape", TF_INT32);
    tf_end(network->nodes);
    return name;
}

/* In our order of channels first: the weights behind it count on it. */
static const char *write_flatten(struct tf_network *network, const struct node *node)
{
    const char *stem = tf_stem(network, node), *x = tf_tensor(network, node, 0);
    const struct shape *shape = tf_shape_of(network, node, 0);
    int64_t width = graph_value(network->graph, node->output)->shape.dim[1];
    if (shape->ndim == 4 && shape->dim[1] != width && shape->dim[1] > 1)
        x = tf_write_transpose(network, stem, x, (int32_t[]){0, 3, 1, 2}, 4);
    return tf_write_reshape(network, stem, x, (int32_t[]){-1, (int32_t)width}, 2);
}

const char *tf_write_simple(struct tf_network *network, const struct node *node, const char *op)
{
    const char *name = tf_join(network, tf_stem(network, node), op);
    tf_begin(network->nodes, op, name);
    for (int i = 0; i < node->input_count; i++)
        tf_input(network->nodes, tf_tensor(network, node, i));
    tf_attr_type(network->nodes, "T", TF_FLOAT);
    tf_end(network->nodes);
    return name;
}

static const char *write_relu(struct tf_network *network, const struct node *node)
{
    return tf_write_simple(network, node, "Relu");
}

static const char *write_sigmoid(struct tf_network *network, const struct node *node)
{
    return tf_write_simple(network, node, "Sigmoid");
}

static const char *write_add(struct tf_network *network, const struct node *node)
{
    return tf_write_simple(network, node, "AddV2");
}

/* Outside training it passes on what it gets. */
static const char *write_dropout(struct tf_network *network, const struct node *node)
{
    return tf_write_simple(network, node, "Identity");
}

const char *tf_write_concat(struct tf_network *network, const char *stem, const char *const *parts,
                            int count, int axis)
{
    const char *name = tf_join(network, stem, "concat"), *along = tf_join(network, name, "axis");
    tf_const_int(network->nodes, along, axis);
    tf_begin(network->nodes, "ConcatV2", name);
    for (int i = 0; i < count; i++)
        tf_input(network->nodes, parts[i]);
    tf_input(network->nodes, along);
    tf_attr_type(network->nodes, "T", TF_FLOAT);
    tf_attr_type(network->nodes, "Tidx", TF_INT32);
    tf_attr_int(network->nodes, "N", count);
    tf_end(network->nodes);
    return name;
}

static const char *write_concat(struct tf_network *network, const struct node *node)
{
    const char **parts = ARENA_ARRAY(network->arena, const char *, node->input_count);
    network->failed |= !parts;
    for (int i = 0; parts && i < node->input_count; i++)
        parts[i] = tf_tensor(network, node, i);
    bool picture = tf_shape_of(network, node, 0)->ndim == 4;
    return parts ? tf_write_concat(network, tf_stem(network, node), parts, node->input_count,
                                   picture ? 3 : 1)
                 : "";
}

/* A column without a range gives 0, which DivNoNan does. */
static const char *write_normalize(struct tf_network *network, const struct node *node)
{
    const char *stem = tf_stem(network, node);
    const char *centred = tf_join(network, stem, "Sub"), *name = tf_join(network, stem, "DivNoNan");
    tf_node(network->nodes, "Sub", centred, TF_FLOAT,
            TF_INPUTS(tf_tensor(network, node, NORMALIZE_X),
                      tf_tensor(network, node, NORMALIZE_MINIMUM)));
    tf_node(network->nodes, "DivNoNan", name, TF_FLOAT,
            TF_INPUTS(centred, tf_tensor(network, node, NORMALIZE_RANGE)));
    return name;
}

/* ---- the whole ---- */

static const struct writer {
    const char *op;
    tf_write_fn *write;
} writers[] = {
    {"add", write_add},         {"arithmetic", tf_write_arithmetic},
    {"avg_pool", write_pool},   {"batch_norm", write_batch_norm},
    {"clip", tf_write_clip},    {"concat", write_concat},
    {"conv2d", write_conv2d},   {"dense", write_dense},
    {"dropout", write_dropout}, {"embedding", tf_write_embedding},
    {"flatten", write_flatten}, {"global_avg_pool", write_global_pool},
    {"max_pool", write_pool},   {"normalize", write_normalize},
    {"relu", write_relu},       {"reshape", tf_write_new_shape},
    {"sigmoid", write_sigmoid}, {"softmax", tf_write_softmax},
    {"unary", tf_write_unary},
};

static const struct writer *find_writer(const struct node *node)
{
    return spelling_find(writers, sizeof writers / sizeof *writers, sizeof *writers,
                         node->op->name);
}

/* TensorFlow's means of windows leave padding out where it chooses it, and know no other. */
static bool can_write(const struct node *node)
{
    if (!find_writer(node))
        return false;
    if (strcmp(node->op->name, "avg_pool") != 0)
        return true;
    const struct pool_attributes *a = node->attributes;
    return a->rows.padding == PADDING_SAME ? !a->count_padding
                                           : a->count_padding || !has_border(&a->rows, &a->columns);
}

/* Pictures that come with their channels first. */
static void turn_inputs(struct tf_network *network)
{
    for (int i = 0; i < graph_input_count(network->graph); i++) {
        value_id input = graph_input_value(network->graph, i);
        const struct value *value = graph_value(network->graph, input);
        if (network->needed[input] && value->shape.ndim == 4 && !value->channels_last)
            network->tensors[input] =
                tf_write_transpose(network, tf_join(network, "inputs", value->name),
                                   network->tensors[input], (int32_t[]){0, 2, 3, 1}, 4);
    }
}

int tf_network_write(struct tf_network *network, struct error *err)
{
    const struct graph *graph = network->graph;
    if (spelling_check(graph, network->needed, can_write, "a SavedModel has no words for", err) < 0)
        return -1;
    turn_inputs(network);
    for (value_id value = 0; value < graph_value_count(graph); value++)
        if (network->needed[value] && graph_value(graph, value)->kind == VALUE_PARAM)
            write_variable(network, value);
    for (int i = 0; i < graph_node_count(graph) && !network->failed; i++) {
        const struct node *node = graph_node_at(graph, i);
        if (network->needed[node->output])
            network->tensors[node->output] = find_writer(node)->write(network, node);
    }
    return network->failed || network->nodes->bytes.failed
               ? error_set(err, ERROR_MEMORY, "no memory for the SavedModel's graph")
               : 0;
}
