/* Convolution over pictures: x [N, C, H, W] by weights [O, C/groups, kh, kw], optional bias [O]. */
#include "base/error.h"
#include "exec/known_ops.h"
#include "ops/conv_attributes.h"

static int infer(const struct graph *graph, const struct node *node, struct value *out,
                 struct error *err)
{
    const struct conv_attributes *a = node->attributes;
    const struct shape *x = &graph_value(graph, node->inputs[CONV_X])->shape;
    struct window rows = a->rows, columns = a->columns;
    int64_t height, width;
    if (window_resolve(&rows, x->dim[2], &height, err) < 0 ||
        window_resolve(&columns, x->dim[3], &width, err) < 0)
        return -1;
    out->shape = SHAPE(x->dim[0], a->channels, height, width);
    return 0;
}

static double flops(const struct graph *graph, const struct node *node)
{
    const struct shape *weights = &graph_value(graph, node->inputs[CONV_WEIGHTS])->shape;
    const struct shape *y = &graph_value(graph, node->output)->shape;
    return 2.0 * (double)shape_count(weights) * (double)(y->dim[2] * y->dim[3]);
}

static void describe(const struct graph *graph, const struct node *node, int batch, char *text,
                     size_t bytes)
{
    const struct conv_attributes *a = node->attributes;
    struct shape x = shape_with_batch(graph_value(graph, node->inputs[CONV_X])->shape, batch);
    const struct shape *w = &graph_value(graph, node->inputs[CONV_WEIGHTS])->shape;
    struct window rows = a->rows, columns = a->columns;
    int64_t ignored;
    window_resolve(&rows, x.dim[2], &ignored, NULL);
    window_resolve(&columns, x.dim[3], &ignored, NULL);
    snprintf(text, bytes,
             "%lldx%lldx%lldx%lld %lldx%lldx%lldx%lld stride=%dx%d dilation=%dx%d pad=%d,%d,%d,%d "
             "groups=%d",
             (long long)x.dim[0], (long long)x.dim[1], (long long)x.dim[2], (long long)x.dim[3],
             (long long)w->dim[0], (long long)w->dim[1], (long long)w->dim[2], (long long)w->dim[3],
             rows.stride, columns.stride, rows.dilation, columns.dilation, rows.pad_before,
             rows.pad_after, columns.pad_before, columns.pad_after, a->groups);
}

static const struct op_kernel *const kernels[] = {&conv_kernel_thin, &conv_kernel_panels,
                                                  &conv_kernel_winograd, &conv_kernel_points,
                                                  &conv_kernel_dnn, NULL};

/* --- Building --- */

/* The first that is given, or 1. */
static int choose(int own, int common)
{
    return own ? own : common ? common : 1;
}

static struct window axis(const struct conv2d_options *options, int kernel, int stride,
                          int dilation, const int pad[2])
{
    return (struct window){.kernel = kernel ? kernel : options->kernel,
                           .stride = choose(stride, options->stride),
                           .dilation = choose(dilation, options->dilation),
                           .padding = options->padding,
                           .pad_before = options->pad_before + pad[0],
                           .pad_after = options->pad_after + pad[1]};
}

value_id lockstep_conv2d(struct graph *graph, value_id x, int channels,
                         struct conv2d_options options)
{
    if (!graph_holds(graph, x, "conv2d"))
        return -1;
    const char *name = options.name ? options.name : graph_make_name(graph, "conv2d");
    const struct shape *shape = &graph_value(graph, x)->shape;
    struct conv_attributes attributes = {
        .channels = channels,
        .groups = options.groups ? options.groups : 1,
        .rows = axis(&options, options.kernel_height, options.stride_height,
                     options.dilation_height, options.pad_rows),
        .columns = axis(&options, options.kernel_width, options.stride_width,
                        options.dilation_width, options.pad_columns)};
    if (shape->ndim != 4)
        return graph_fail(graph, "%s: a convolution takes [N, C, H, W], not %d dimensions", name,
                          shape->ndim);
    if (channels < 1 || attributes.groups < 1 || shape->dim[1] % attributes.groups ||
        channels % attributes.groups)
        return graph_fail(graph, "%s: %lld channels to %d do not divide into %d groups", name,
                          (long long)shape->dim[1], channels, attributes.groups);
    if (attributes.rows.kernel < 1 || attributes.columns.kernel < 1)
        return graph_fail(graph, "%s: no kernel size given", name);
    if (options.weights_init.kind == INIT_DEFAULT)
        options.weights_init.kind = INIT_GLOROT_UNIFORM;
    if (options.bias_init.kind == INIT_DEFAULT)
        options.bias_init.kind = INIT_ZEROS;
    struct shape weights = SHAPE(channels, shape->dim[1] / attributes.groups,
                                 attributes.rows.kernel, attributes.columns.kernel);
    value_id inputs[3] = {x};
    inputs[1] = graph_param(graph, graph_join_name(graph, name, "weights"), weights,
                            options.weights_init, PARAM_TRAINABLE | PARAM_DECAY);
    if (!options.no_bias)
        inputs[2] = graph_param(graph, graph_join_name(graph, name, "bias"), SHAPE(channels),
                                options.bias_init, PARAM_TRAINABLE | PARAM_DECAY);
    return graph_node(graph, &op_conv2d, name, &attributes, inputs, options.no_bias ? 2 : 3);
}

static value_id example(struct graph *graph, int variant)
{
    static const struct conv2d_options variants[] = {
        {.kernel = 3, .padding = PADDING_SAME},
        {.kernel = 3, .stride = 2, .padding = PADDING_EXPLICIT, .pad_before = 1, .no_bias = 1},
        {.kernel = 1},
        {.kernel = 2, .groups = 4, .dilation = 2},
        {.kernel_height = 3,
         .kernel_width = 2,
         .stride_height = 2,
         .dilation_width = 2,
         .padding = PADDING_EXPLICIT,
         .pad_rows = {1, 0},
         .pad_columns = {0, 2}},
    };
    if (variant >= (int)(sizeof variants / sizeof variants[0]))
        return -1;
    value_id x = lockstep_input(graph, "x", DTYPE_F32, SHAPE(SHAPE_BATCH, 4, 7, 6));
    return lockstep_conv2d(graph, x, 8, variants[variant]);
}

const struct op op_conv2d = {
    .name = "conv2d",
    .attributes_size = sizeof(struct conv_attributes),
    .infer = infer,
    .kernels = kernels,
    .flops = flops,
    .describe = describe,
    .example = example,
};
