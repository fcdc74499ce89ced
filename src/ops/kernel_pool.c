#include "base/arena.h"
#include "base/error.h"
#include "exec/elementwise.h"
#include "ops/pool.h"

int pool_infer(const struct graph *graph, const struct node *node, struct value *out,
               struct error *err)
{
    const struct pool_attributes *a = node->attributes;
    const struct shape *x = &graph_value(graph, node->inputs[0])->shape;
    if (x->ndim != 4)
        return error_set(err, ERROR_FORMAT, "pooling takes [N, C, H, W], not %d dimensions",
                         x->ndim);
    struct window rows = a->rows, columns = a->columns;
    int64_t height = 1, width = 1;
    if (!a->global && (window_resolve(&rows, x->dim[2], &height, err) < 0 ||
                       window_resolve(&columns, x->dim[3], &width, err) < 0))
        return -1;
    out->shape = SHAPE(x->dim[0], x->dim[1], height, width);
    return 0;
}

struct state {
    struct dnn_call *forward, *backward;
    size_t output_count;
};

struct dnn_pool pool_describe(const struct plan_builder *builder, const struct plan_node *node)
{
    const struct pool_attributes *a = node->node->attributes;
    struct shape x = builder_shape(builder, node->inputs[0]);
    struct window rows = a->rows, columns = a->columns;
    int64_t ignored;
    if (a->global) {
        rows = (struct window){.kernel = (int)x.dim[2], .stride = 1, .dilation = 1};
        columns = (struct window){.kernel = (int)x.dim[3], .stride = 1, .dilation = 1};
    }
    window_resolve(&rows, x.dim[2], &ignored, NULL);
    window_resolve(&columns, x.dim[3], &ignored, NULL);
    return (struct dnn_pool){
        .src = builder_layout(builder, node->inputs[0]),
        .dst = builder_shape(builder, node->output),
        .max = a->max,
        .count_padding = a->count_padding,
        .kernel = {rows.kernel, columns.kernel},
        .stride = {rows.stride, columns.stride},
        .pad_before = {rows.pad_before, columns.pad_before},
        .pad_after = {rows.pad_after, columns.pad_after},
    };
}

static int prepare(struct plan_builder *builder, struct plan_node *node, struct error *err)
{
    struct state *state = ARENA_NEW(builder_arena(builder), struct state);
    if (!state)
        return error_set(err, ERROR_MEMORY, "no memory for a pooling layer");
    node->state = state;
    struct dnn_pool pool = pool_describe(builder, node);
    struct dnn_primitive *forward = NULL, *backward = NULL;
    bool training = builder_is_training(builder);
    if (dnn_pool_forward(&pool, training, &forward, err) < 0)
        return -1;
    builder_own(builder, forward);
    builder_kernel_name(builder, node, "%s", dnn_kernel(forward));
    struct layout output = dnn_layout(forward, DNN_DST);
    state->output_count = layout_bytes(&output) / sizeof(float);
    builder_output(builder, node, &output);
    /* The largest element's place is remembered in the workspace; averages need none. */
    int workspace = training && pool.max ? ROLE_WORKSPACE : -1;
    static const enum dnn_argument arguments[] = {DNN_SRC, DNN_DST, DNN_WORKSPACE};
    const int roles[] = {ROLE_INPUT, ROLE_OUTPUT, workspace};
    state->forward = builder_call(builder, node, PASS_FORWARD, forward, 3, arguments, roles, err);
    if (!state->forward)
        return -1;
    if (!training || !builder_wants_gradient(builder, node->inputs[0]))
        return 0;
    static const enum dnn_argument back_arguments[] = {DNN_DIFF_DST, DNN_DIFF_SRC, DNN_WORKSPACE};
    const int back_roles[] = {ROLE_GRADIENT, ROLE_GRADIENT_OF_INPUT, workspace};
    if (dnn_pool_backward(&pool, forward, &backward, err) < 0)
        return -1;
    builder_own(builder, backward);
    state->backward =
        builder_call(builder, node, PASS_BACKWARD, backward, 3, back_arguments, back_roles, err);
    return state->backward ? 0 : -1;
}

static void forward(const struct op_run *run)
{
    const struct state *state = run->state;
    dnn_call_run(state->forward);
    if (run->node->relu)
        elementwise_relu(run->output, run->output, state->output_count);
}

static void backward(const struct op_run *run)
{
    dnn_call_run(((const struct state *)run->state)->backward);
}

const struct op_kernel pool_kernel_dnn = {
    .name = "onednn",
    .prepare = prepare,
    .pass = {forward, NULL, backward},
    .relu_forward = true,
};

const struct op_kernel *const pool_kernels[] = {&pool_kernel_max, &pool_kernel_dnn, NULL};

static struct window axis(const struct pool_options *options, int own_kernel, int own_stride,
                          const int pad[2])
{
    int kernel = own_kernel ? own_kernel : options->kernel;
    int stride = own_stride ? own_stride : options->stride;
    return (struct window){.kernel = kernel,
                           .stride = stride ? stride : kernel,
                           .dilation = 1,
                           .padding = options->padding,
                           .pad_before = options->pad_before + pad[0],
                           .pad_after = options->pad_after + pad[1]};
}

/* A window that saw nothing but padding would have neither a largest element nor a mean. */
static bool may_be_empty(const struct window *window)
{
    return window->padding == PADDING_EXPLICIT &&
           (window->pad_before >= window->kernel || window->pad_after >= window->kernel);
}

value_id pool_build(struct graph *graph, const struct op *op, value_id x,
                    const struct pool_options *options, bool max)
{
    if (!graph_holds(graph, x, op->name))
        return -1;
    const char *name = options->name ? options->name : graph_make_name(graph, op->name);
    struct pool_attributes attributes = {
        .rows = axis(options, options->kernel_height, options->stride_height, options->pad_rows),
        .columns =
            axis(options, options->kernel_width, options->stride_width, options->pad_columns),
        .max = max,
        .count_padding = options->count_padding != 0};
    for (int i = 0; i < 2; i++) {
        const struct window *window = i ? &attributes.columns : &attributes.rows;
        if (may_be_empty(window))
            return graph_fail(graph, "%s: padding of %d and %d would leave a window of %d empty",
                              name, window->pad_before, window->pad_after, window->kernel);
    }
    return graph_node(graph, op, name, &attributes, &x, 1);
}
