/* ONNX operators with weights or windows: Conv, Gemm, MatMul, BatchNormalization and the pools. */
#include <inttypes.h>

#include "base/error.h"
#include "convert/onnx_reading.h"

/* Kernels, strides, paddings: larger ones are no network's. */
enum { LARGEST_WINDOW = 1 << 20, PLANE = 2 };

static const struct shape *shape_of(const struct reading *reading, value_id value)
{
    return &graph_value(reading->graph, value)->shape;
}

/* --- Windows --- */

/* One axis of a convolution or pool, as the file says it. */
struct axis {
    int kernel, stride, dilation, pad[2];
};

static bool take_list(struct reading *reading, const struct onnx_node *node, const char *name,
                      int count, int least, int out[])
{
    const struct onnx_attribute *attribute = onnx_attribute(node, name);
    if (!attribute)
        return true;
    if (attribute->integer_count != count) {
        reading_refuse(reading, node, "%s has %d numbers; pictures need %d", name,
                       attribute->integer_count, count);
        return false;
    }
    for (int i = 0; i < count; i++) {
        if (attribute->integers[i] < least || attribute->integers[i] > LARGEST_WINDOW) {
            reading_refuse(reading, node, "%s of %" PRId64, name, attribute->integers[i]);
            return false;
        }
        out[i] = (int)attribute->integers[i];
    }
    return true;
}

/* SAME: as much padding as keeps ceil(size / stride), the odd cell behind or in front. */
static void pad_same(struct axis *axis, int64_t size, bool upper)
{
    int64_t extent = (int64_t)(axis->kernel - 1) * axis->dilation + 1;
    int64_t positions = (size + axis->stride - 1) / axis->stride;
    int64_t needed = (positions - 1) * axis->stride + extent - size;
    int total = needed > 0 ? (int)needed : 0;
    axis->pad[upper ? 0 : 1] = total / 2;
    axis->pad[upper ? 1 : 0] = total - total / 2;
}

static bool pad_by_rule(struct reading *reading, const struct onnx_node *node,
                        const struct shape *x, struct axis axes[PLANE])
{
    const char *rule = onnx_text(node, "auto_pad", "NOTSET");
    int pads[2 * PLANE] = {0};
    if (!strcmp(rule, "NOTSET")) {
        if (!take_list(reading, node, "pads", 2 * PLANE, 0, pads))
            return false;
        for (int i = 0; i < PLANE; i++) {
            axes[i].pad[0] = pads[i];
            axes[i].pad[1] = pads[PLANE + i];
        }
        return true;
    }
    bool upper = !strcmp(rule, "SAME_UPPER");
    for (int i = 0; i < PLANE && (upper || !strcmp(rule, "SAME_LOWER")); i++)
        pad_same(&axes[i], x->dim[2 + i], upper);
    if (upper || !strcmp(rule, "SAME_LOWER") || !strcmp(rule, "VALID"))
        return true;
    reading_refuse(reading, node, "auto_pad=%s", rule);
    return false;
}

/* `axes` comes with the kernel's size where it is known from the weights. `border` is what a Pad in
 * front of it adds. */
static bool take_windows(struct reading *reading, const struct onnx_node *node,
                         const struct shape *x, const int border[2 * PLANE],
                         struct axis axes[PLANE])
{
    int kernel[PLANE] = {axes[0].kernel, axes[1].kernel}, stride[PLANE] = {1, 1};
    int dilation[PLANE] = {1, 1};
    if (x->ndim != 4) {
        reading_refuse(reading, node, "it takes pictures, [N, C, H, W], not %d dimensions",
                       x->ndim);
        return false;
    }
    if (!take_list(reading, node, "kernel_shape", PLANE, 1, kernel) ||
        !take_list(reading, node, "strides", PLANE, 1, stride) ||
        !take_list(reading, node, "dilations", PLANE, 1, dilation))
        return false;
    for (int i = 0; i < PLANE; i++) {
        if (axes[i].kernel && axes[i].kernel != kernel[i]) {
            reading_refuse(reading, node, "kernel_shape is %d where the weights have %d", kernel[i],
                           axes[i].kernel);
            return false;
        }
        axes[i] = (struct axis){kernel[i], stride[i], dilation[i], {0}};
    }
    struct shape bordered = *x;
    for (int i = 0; i < PLANE; i++)
        bordered.dim[2 + i] += border[i] + border[PLANE + i];
    if (!pad_by_rule(reading, node, &bordered, axes))
        return false;
    for (int i = 0; i < PLANE; i++) {
        axes[i].pad[0] += border[i];
        axes[i].pad[1] += border[PLANE + i];
    }
    return true;
}

/* --- Conv --- */

static void read_conv(struct reading *reading, const struct onnx_node *node)
{
    const struct onnx_tensor *weights = reading_constant(reading, node, 1);
    const int *border;
    value_id x = reading_bordered(reading, node, 0, &border);
    if (x < 0)
        return;
    if (!weights || weights->ndim != 4 || weights->count < 1) {
        reading_refuse(reading, node, "its weights must be [O, C, H, W] in the file");
        return;
    }
    const struct shape *shape = shape_of(reading, x);
    int64_t groups = onnx_integer(node, "group", 1);
    struct axis axes[PLANE] = {{.kernel = (int)weights->dim[2]}, {.kernel = (int)weights->dim[3]}};
    if (!take_windows(reading, node, shape, border, axes))
        return;
    if (groups < 1 || groups > weights->dim[0] || shape->dim[1] != weights->dim[1] * groups ||
        weights->dim[0] % groups) {
        reading_refuse(reading, node,
                       "%" PRId64 " channels meet weights for %" PRId64 " times %" PRId64 " groups",
                       shape->dim[1], weights->dim[1], groups);
        return;
    }
    int channels = (int)weights->dim[0];
    struct conv2d_options options = {
        .kernel_height = axes[0].kernel,
        .kernel_width = axes[1].kernel,
        .stride_height = axes[0].stride,
        .stride_width = axes[1].stride,
        .dilation_height = axes[0].dilation,
        .dilation_width = axes[1].dilation,
        .groups = (int)groups,
        .padding = PADDING_EXPLICIT,
        .pad_rows = {axes[0].pad[0], axes[0].pad[1]},
        .pad_columns = {axes[1].pad[0], axes[1].pad[1]},
        .no_bias = !reading_input(reading, node, 2),
        .name = reading_name(reading, node),
    };
    if (!reading_parameter(reading, node, 1, NULL, weights->count, &options.weights_init) ||
        (!options.no_bias &&
         !reading_parameter(reading, node, 2, NULL, channels, &options.bias_init)))
        return;
    reading_give(reading, node, lockstep_conv2d(reading->graph, x, channels, options));
}

/* --- Gemm and MatMul --- */

/* A fully connected layer as the file has it: weights [K, O], or [O, K] when transposed. */
struct product {
    const struct onnx_node *node;
    const char *output; /* of the layer: behind its bias, where that is a node of its own */
    const struct onnx_node *bias_node;
    int bias_input; /* of that node; -1: none */
    bool transposed;
    float alpha, beta;
};

/* Weights [O, K], as a dense layer has them. NULL: they lie so in the file already. */
static const float *arrange_weights(struct reading *reading, const struct onnx_tensor *weights,
                                    const struct product *product)
{
    int64_t inputs = weights->dim[product->transposed ? 1 : 0];
    int64_t units = weights->dim[product->transposed ? 0 : 1];
    if (product->transposed && product->alpha == 1)
        return NULL;
    float *out = reading_floats(reading, weights->count);
    for (int64_t o = 0; out && o < units; o++)
        for (int64_t k = 0; k < inputs; k++)
            out[o * inputs + k] =
                product->alpha *
                weights->floats[product->transposed ? o * inputs + k : k * units + o];
    return out;
}

/* A bias [O], or one number for all units. NULL: it lies so already. */
static const float *arrange_bias(struct reading *reading, const struct onnx_tensor *bias,
                                 int64_t units, float beta)
{
    if (bias->count == units && beta == 1)
        return NULL;
    float *out = reading_floats(reading, units);
    for (int64_t o = 0; out && o < units; o++)
        out[o] = beta * bias->floats[bias->count == 1 ? 0 : o];
    return out;
}

/* Is it one row, as wide as the layer, or one number? */
static bool is_bias(const struct onnx_tensor *tensor, int64_t units)
{
    if (!tensor || !tensor->floats || tensor->ndim > 2)
        return false;
    return tensor->count == 1 || (tensor->count == units && tensor->dim[tensor->ndim - 1] == units);
}

/* Weights of another shape, for --classes, begin as a new network's do. */
static struct initializer fresh(const struct initializer *known)
{
    return (struct initializer){.name = known->name};
}

static void read_product(struct reading *reading, const struct product *product)
{
    const struct onnx_node *node = product->node;
    const struct onnx_tensor *weights = reading_constant(reading, node, 1);
    value_id x = reading_value(reading, node, 0);
    if (x < 0)
        return;
    const struct shape *shape = shape_of(reading, x);
    if (!weights || !weights->floats || weights->ndim != 2 || weights->count < 1 ||
        shape->ndim != 2) {
        reading_refuse(reading, node, "it must multiply [N, K] by weights [K, O] of the file");
        return;
    }
    int64_t inputs = weights->dim[product->transposed ? 1 : 0];
    int64_t units = weights->dim[product->transposed ? 0 : 1];
    if (inputs != shape->dim[1]) {
        reading_refuse(reading, node,
                       "weights for %" PRId64 " numbers meet %" PRId64 "; is --image-size right?",
                       inputs, shape->dim[1]);
        return;
    }
    const struct onnx_tensor *bias =
        product->bias_input < 0
            ? NULL
            : reading_constant(reading, product->bias_node, product->bias_input);
    struct dense_options options = {.no_bias = product->bias_input < 0,
                                    .name = reading_name(reading, node)};
    if (!reading_parameter(reading, node, 1, arrange_weights(reading, weights, product),
                           weights->count, &options.weights_init) ||
        (bias && !reading_parameter(reading, product->bias_node, product->bias_input,
                                    arrange_bias(reading, bias, units, product->beta), units,
                                    &options.bias_init)))
        return;
    int classes = reading->options->classes;
    if (classes && classes != units && !strcmp(product->output, reading->head)) {
        units = classes;
        options.weights_init = fresh(&options.weights_init);
        options.bias_init = fresh(&options.bias_init);
    }
    value_id value = lockstep_dense(reading->graph, x, (int)units, options);
    reading_give(reading, product->bias_node ? product->bias_node : node, value);
}

static void read_gemm(struct reading *reading, const struct onnx_node *node)
{
    struct product product = {.node = node,
                              .output = node->output_count ? node->outputs[0] : "",
                              .bias_input = -1,
                              .transposed = onnx_integer(node, "transB", 0) != 0,
                              .alpha = onnx_number(node, "alpha", 1),
                              .beta = onnx_number(node, "beta", 1)};
    const struct onnx_tensor *weights = reading_constant(reading, node, 1);
    if (onnx_integer(node, "transA", 0)) {
        reading_refuse(reading, node, "transA=1 turns the batch on its side");
        return;
    }
    if (reading_input(reading, node, 2)) {
        int64_t units =
            weights && weights->ndim == 2 ? weights->dim[product.transposed ? 0 : 1] : 0;
        if (!is_bias(reading_constant(reading, node, 2), units)) {
            reading_refuse(reading, node, "its third input must be a bias [O] of the file");
            return;
        }
        product.bias_input = 2;
        product.bias_node = node;
    }
    read_product(reading, &product);
}

/* The Add behind a MatMul that is the bias of the layer; -1: there is none. */
static int find_bias(struct reading *reading, const struct onnx_node *node, int64_t units,
                     int *input)
{
    const struct term *term = reading_term(reading, node->outputs[0]);
    if (term->readers != 1 || term->last_reader < 0)
        return -1;
    const struct onnx_node *next = &reading->file->nodes[term->last_reader];
    if (strcmp(next->op, "Add") != 0 || next->input_count != 2)
        return -1;
    *input = strcmp(next->inputs[0], node->outputs[0]) ? 0 : 1;
    return is_bias(reading_constant(reading, next, *input), units) ? term->last_reader : -1;
}

static void read_matmul(struct reading *reading, const struct onnx_node *node)
{
    struct product product = {.node = node, .bias_input = -1, .alpha = 1, .beta = 1};
    const struct onnx_tensor *weights = reading_constant(reading, node, 1);
    if (!node->output_count)
        return;
    product.output = node->outputs[0];
    int input, behind = -1;
    if (weights && weights->ndim == 2)
        behind = find_bias(reading, node, weights->dim[1], &input);
    if (behind >= 0) {
        product.bias_node = &reading->file->nodes[behind];
        product.bias_input = input;
        product.output = product.bias_node->outputs[0];
        reading->done[behind] = true;
    }
    read_product(reading, &product);
}

/* --- Batch normalisation --- */

static void read_batch_norm(struct reading *reading, const struct onnx_node *node)
{
    value_id x = reading_value(reading, node, 0);
    if (x < 0)
        return;
    const struct shape *shape = shape_of(reading, x);
    int64_t channels = shape->ndim > 1 ? shape->dim[1] : 0;
    if (onnx_integer(node, "spatial", 1) != 1) {
        reading_refuse(reading, node, "spatial=0");
        return;
    }
    for (int i = 1; i < node->output_count; i++) {
        const struct term *term = reading_term(reading, node->outputs[i]);
        if (term->last_reader >= 0) {
            reading_refuse(reading, node, "its statistics are used by another node");
            return;
        }
    }
    struct batch_norm_options options = {.momentum = onnx_number(node, "momentum", 0.9f),
                                         .epsilon = onnx_number(node, "epsilon", 1e-5f),
                                         .name = reading_name(reading, node)};
    if (options.momentum == 0)
        options.momentum = 1e-30f; /* 0 is the building call's word for its own default */
    if (!reading_parameter(reading, node, 1, NULL, channels, &options.scale_init) ||
        !reading_parameter(reading, node, 2, NULL, channels, &options.shift_init) ||
        !reading_parameter(reading, node, 3, NULL, channels, &options.mean_init) ||
        !reading_parameter(reading, node, 4, NULL, channels, &options.variance_init))
        return;
    reading_give(reading, node, lockstep_batch_norm(reading->graph, x, options));
}

/* --- Pools --- */

/* With ceil_mode the last window may hang over the end, as long as it begins before it: more
 * padding says the same, for pools that do not count it. */
static void let_hang_over(struct axis *axis, int64_t size)
{
    int64_t padded = size + axis->pad[0] + axis->pad[1];
    int64_t positions = (padded - axis->kernel + axis->stride - 1) / axis->stride + 1;
    if ((positions - 1) * axis->stride >= size + axis->pad[0])
        positions--;
    int64_t needed = (positions - 1) * axis->stride + axis->kernel - padded;
    if (needed > 0)
        axis->pad[1] += (int)needed;
}

static bool check_pool(struct reading *reading, const struct onnx_node *node,
                       const struct axis axes[PLANE])
{
    for (int i = 1; i < node->output_count; i++)
        if (*node->outputs[i] && reading_term(reading, node->outputs[i])->readers) {
            reading_refuse(reading, node, "the places of the largest elements are not given");
            return false;
        }
    for (int i = 0; i < PLANE; i++) {
        if (axes[i].dilation != 1) {
            reading_refuse(reading, node, "dilations of %d", axes[i].dilation);
            return false;
        }
        if (axes[i].kernel < 1 || axes[i].pad[0] >= axes[i].kernel ||
            axes[i].pad[1] >= axes[i].kernel) {
            reading_refuse(reading, node, "a window of %d padded by %d and %d", axes[i].kernel,
                           axes[i].pad[0], axes[i].pad[1]);
            return false;
        }
    }
    return true;
}

/* Zeros that a Pad put around count as elements; those of the pool's own padding as it says. Both at
 * once would have to be told apart. */
static bool join_border(struct reading *reading, const struct onnx_node *node,
                        const int border[2 * PLANE], const struct axis axes[PLANE],
                        bool *count_padding)
{
    bool bordered = false, padded = false;
    for (int i = 0; i < PLANE; i++) {
        bordered = bordered || border[i] || border[PLANE + i];
        padded = padded || axes[i].pad[0] > border[i] || axes[i].pad[1] > border[PLANE + i];
    }
    if (bordered && padded && !*count_padding) {
        reading_refuse(reading, node, "a Pad before it and padding of its own");
        return false;
    }
    *count_padding |= bordered;
    return true;
}

static void read_pool(struct reading *reading, const struct onnx_node *node, bool max)
{
    static const int none[2 * PLANE] = {0};
    const int *border = none;
    value_id x =
        max ? reading_value(reading, node, 0) : reading_bordered(reading, node, 0, &border);
    if (x < 0)
        return;
    const struct shape *shape = shape_of(reading, x);
    struct axis axes[PLANE] = {0};
    bool count_padding = !max && onnx_integer(node, "count_include_pad", 0) != 0;
    if (!take_windows(reading, node, shape, border, axes) ||
        !join_border(reading, node, border, axes, &count_padding))
        return;
    int behind[PLANE] = {axes[0].pad[1], axes[1].pad[1]};
    for (int i = 0; onnx_integer(node, "ceil_mode", 0) && i < PLANE; i++)
        let_hang_over(&axes[i], shape->dim[2 + i]);
    if (count_padding && (axes[0].pad[1] != behind[0] || axes[1].pad[1] != behind[1])) {
        reading_refuse(reading, node, "ceil_mode=1 together with padding that counts");
        return;
    }
    if (!check_pool(reading, node, axes))
        return;
    struct pool_options options = {.kernel_height = axes[0].kernel,
                                   .kernel_width = axes[1].kernel,
                                   .stride_height = axes[0].stride,
                                   .stride_width = axes[1].stride,
                                   .padding = PADDING_EXPLICIT,
                                   .pad_rows = {axes[0].pad[0], axes[0].pad[1]},
                                   .pad_columns = {axes[1].pad[0], axes[1].pad[1]},
                                   .count_padding = count_padding,
                                   .name = reading_name(reading, node)};
    reading_give(reading, node,
                 max ? lockstep_max_pool(reading->graph, x, options)
                     : lockstep_avg_pool(reading->graph, x, options));
}

static void read_max_pool(struct reading *reading, const struct onnx_node *node)
{
    read_pool(reading, node, true);
}

static void read_average_pool(struct reading *reading, const struct onnx_node *node)
{
    read_pool(reading, node, false);
}

static bool takes_picture(struct reading *reading, const struct onnx_node *node, value_id x)
{
    if (x >= 0 && shape_of(reading, x)->ndim != 4)
        reading_refuse(reading, node, "it takes pictures, [N, C, H, W], not %d dimensions",
                       shape_of(reading, x)->ndim);
    return x >= 0 && shape_of(reading, x)->ndim == 4;
}

static void read_global_average(struct reading *reading, const struct onnx_node *node)
{
    value_id x = reading_value(reading, node, 0);
    if (takes_picture(reading, node, x))
        reading_give(reading, node, lockstep_global_avg_pool(reading->graph, x));
}

static void read_global_max(struct reading *reading, const struct onnx_node *node)
{
    value_id x = reading_value(reading, node, 0);
    if (!takes_picture(reading, node, x))
        return;
    const struct shape *shape = shape_of(reading, x);
    struct pool_options options = {.kernel_height = (int)shape->dim[2],
                                   .kernel_width = (int)shape->dim[3],
                                   .name = reading_name(reading, node)};
    reading_give(reading, node, lockstep_max_pool(reading->graph, x, options));
}

/* Over height and width, which is what networks do before their last layer. */
static void read_reduce_mean(struct reading *reading, const struct onnx_node *node)
{
    value_id x = reading_value(reading, node, 0);
    int axes[ONNX_MAX_DIMS];
    if (!takes_picture(reading, node, x))
        return;
    int count = onnx_axes(reading, node, 1, 4, axes);
    bool plane = count == 2 && axes[0] + axes[1] == 5 && (axes[0] == 2 || axes[0] == 3);
    if (!plane) {
        reading_refuse(reading, node, "only means over height and width are taken");
        return;
    }
    value_id mean = lockstep_global_avg_pool(reading->graph, x);
    if (!onnx_integer(node, "keepdims", 1))
        mean = lockstep_flatten(reading->graph, mean);
    reading_give(reading, node, mean);
}

/* --- Pad --- */

/* The amounts: an attribute once, input 1 now; NULL: not known, or not for [N, C, H, W]. */
static const int64_t *pad_amounts(struct reading *reading, const struct onnx_node *node)
{
    const struct onnx_attribute *attribute = onnx_attribute(node, "pads");
    const struct onnx_tensor *tensor = reading_constant(reading, node, 1);
    int64_t count = attribute ? attribute->integer_count : tensor ? tensor->count : 0;
    if (count != 8 || reading_input(reading, node, 3))
        return NULL;
    return attribute ? attribute->integers : tensor->integers;
}

static bool pads_with_zeros(struct reading *reading, const struct onnx_node *node)
{
    const struct onnx_tensor *value = reading_constant(reading, node, 2);
    float filling = value && value->floats && value->count == 1 ? value->floats[0]
                                                                : onnx_number(node, "value", 0);
    bool known = value || !reading_input(reading, node, 2);
    return known && filling == 0 && !strcmp(onnx_text(node, "mode", "constant"), "constant");
}

/* Nothing is computed here: the window behind it has padding. */
static void read_pad(struct reading *reading, const struct onnx_node *node)
{
    value_id x = reading_value(reading, node, 0);
    const int64_t *pads = pad_amounts(reading, node);
    struct term *out = node->output_count ? reading_term(reading, node->outputs[0]) : NULL;
    if (x < 0 || !out)
        return;
    bool fits = pads && shape_of(reading, x)->ndim == 4 && pads_with_zeros(reading, node);
    for (int i = 0; fits && i < 8; i++)
        fits = pads[i] >= 0 && pads[i] <= LARGEST_WINDOW && (i % 4 >= 2 || pads[i] == 0);
    if (!fits) {
        reading_refuse(reading, node, "only zeros around height and width are put there");
        return;
    }
    reading_give(reading, node, x);
    for (int i = 0; i < PLANE; i++) {
        out->border[i] = (int)pads[2 + i];
        out->border[PLANE + i] = (int)pads[6 + i];
    }
}

const struct onnx_operator onnx_layers[] = {
    {"Conv", read_conv},
    {"Gemm", read_gemm},
    {"MatMul", read_matmul},
    {"BatchNormalization", read_batch_norm},
    {"MaxPool", read_max_pool},
    {"AveragePool", read_average_pool},
    {"GlobalAveragePool", read_global_average},
    {"GlobalMaxPool", read_global_max},
    {"ReduceMean", read_reduce_mean},
    {"Pad", read_pad},
    {NULL, NULL},
};
