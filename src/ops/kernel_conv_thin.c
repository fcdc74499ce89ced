/* A 3x3 convolution of pictures with one channel (MNIST's first), with the ReLU and the 2x2 max
 * pool behind it in the same pass, on AVX2 and AVX-512.
 *
 * Ours because oneDNN's weight gradient for one channel takes half of an MNIST step on AVX2, and because
 * with the pool inside, the full picture (four times the pooled one) is never written or read,
 * neither forward nor backward. A tile is 2x2 outputs of a register of channels: 36 products from a 4x4
 * patch of the input, with all 9 weights in registers.
 *
 * x [N, H, W]; weights, row-major [O, 9]; y in blocks of as many channels as a register has lanes, which
 * are oneDNN's, [N, O/lanes, rows, columns, lanes]. Gradients are summed per example and then over the
 * examples in order: the same bits for any number of threads. */
#include "base/arena.h"
#include "base/error.h"
#include "exec/known_ops.h"
#include "ops/conv_attributes.h"
#include "ops/pool.h"
#include "ops/thin.h"

/* --- Which convolutions --- */

/* The layout that the library's kernels would give the result, so that neighbours need not
 * reorder it. */
static int ask_layout(const struct plan_builder *builder, const struct plan_node *node,
                      struct layout *out, struct error *err)
{
    struct dnn_primitive *conv = NULL, *pool = NULL;
    struct dnn_conv description = conv_describe(builder, node);
    description.relu = description.sum = false;
    if (node->pool) /* the node's output is the pool's; the convolution's own lies before it */
        description.dst = builder_shape(builder, node->node->output);
    if (dnn_conv_forward(&description, builder_is_training(builder), &conv, err) < 0)
        return -1;
    *out = dnn_layout(conv, DNN_DST);
    dnn_primitive_destroy(conv);
    if (!node->pool)
        return 0;
    struct dnn_pool two_by_two = {.src = out,
                                  .dst = builder_shape(builder, node->output),
                                  .max = true,
                                  .kernel = {2, 2},
                                  .stride = {2, 2}};
    if (dnn_pool_forward(&two_by_two, false, &pool, err) < 0)
        return -1;
    struct layout pooled = dnn_layout(pool, DNN_DST);
    dnn_primitive_destroy(pool);
    *out = pooled;
    return 0;
}

static bool is_plain_window(const struct window *window)
{
    return window->kernel == THIN_KERNEL && window->stride == 1 && window->dilation == 1 &&
           (window->padding == PADDING_VALID ||
            (window->padding == PADDING_EXPLICIT && !window->pad_before && !window->pad_after));
}

static const struct thin_kernels *choose(int64_t lanes)
{
    static const struct thin_kernels *const all[] = {&thin_kernels_avx512, &thin_kernels_avx2};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->lanes == lanes && all[i]->is_here())
            return all[i];
    return NULL;
}

static bool fits(const struct plan_builder *builder, const struct plan_node *node)
{
    const struct conv_attributes *a = node->node->attributes;
    const struct value *x = graph_value(builder_graph(builder), node->inputs[CONV_X]);
    struct layout layout;
    struct layout_form form;
    return x->kind == VALUE_INPUT && x->shape.dim[1] == 1 &&
           !builder_wants_gradient(builder, node->inputs[CONV_X]) && is_plain_window(&a->rows) &&
           is_plain_window(&a->columns) && ask_layout(builder, node, &layout, NULL) == 0 &&
           layout_form(&layout, &form) && choose(form.inner) && a->channels % form.inner == 0 &&
           form.spatial > 1;
}

/* Two by two, without padding or overlap. */
static bool halves(const struct window *window)
{
    bool padded = window->padding == PADDING_SAME || (window->padding == PADDING_EXPLICIT &&
                                                      (window->pad_before || window->pad_after));
    return window->kernel == 2 && window->stride == 2 && !padded;
}

static bool pools(const struct graph *graph, const struct plan_node *node, const struct node *pool)
{
    const struct pool_attributes *a = pool->attributes;
    (void)graph;
    (void)node;
    return !a->global && halves(&a->rows) && halves(&a->columns);
}

/* Row-major, said aloud: a plan with another kernel may have stored them otherwise. */
static void use_weights(struct plan_builder *builder, struct plan_node *node, enum op_pass pass,
                        int role)
{
    for (int i = CONV_WEIGHTS; i < node->input_count; i++)
        builder_use_plain(builder, node, pass, role, i);
}

static int prepare(struct plan_builder *builder, struct plan_node *node, struct error *err)
{
    struct thin_state *state = ARENA_NEW(builder_arena(builder), struct thin_state);
    struct layout layout;
    struct layout_form form;
    if (!state)
        return error_set(err, ERROR_MEMORY, "no memory for a convolution");
    if (ask_layout(builder, node, &layout, err) < 0)
        return -1;
    if (!layout_form(&layout, &form) || !choose(form.inner))
        return error_set(err, ERROR_KERNEL, "this convolution's layout has other blocks");
    struct shape x = builder_shape(builder, node->inputs[CONV_X]);
    struct shape y = builder_shape(builder, node->output);
    *state = (struct thin_state){.kernels = choose(form.inner),
                                 .batch = x.dim[0],
                                 .height = x.dim[2],
                                 .width = x.dim[3],
                                 .blocks = y.dim[1] / form.inner,
                                 .rows = y.dim[2],
                                 .columns = y.dim[3],
                                 .bias = node->input_count > CONV_BIAS,
                                 .relu = node->relu,
                                 .pool = node->pool != NULL,
                                 .training = builder_is_training(builder)};
    node->state = state;
    builder_kernel_name(builder, node, "own:thin:%s", state->kernels->name);
    builder_output(builder, node, &layout);
    builder_use(builder, node, PASS_FORWARD, ROLE_INPUT + CONV_X, NULL);
    use_weights(builder, node, PASS_FORWARD, ROLE_INPUT);
    if (!state->training)
        return 0;
    builder_use(builder, node, PASS_BACKWARD_WEIGHTS, ROLE_INPUT + CONV_X, NULL);
    builder_use(builder, node, PASS_BACKWARD_WEIGHTS, ROLE_GRADIENT, &layout);
    use_weights(builder, node, PASS_BACKWARD_WEIGHTS, ROLE_GRADIENT_OF_INPUT);
    if (state->relu)
        builder_use(builder, node, PASS_BACKWARD_WEIGHTS, ROLE_OUTPUT, NULL);
    if (state->pool) { /* two bits a lane: the row and the column of the largest */
        size_t outputs = (size_t)(state->batch * state->rows * state->columns * y.dim[1]);
        builder_use(builder, node, PASS_FORWARD, ROLE_WORKSPACE, NULL);
        builder_use(builder, node, PASS_BACKWARD_WEIGHTS, ROLE_WORKSPACE, NULL);
        builder_buffer(builder, node, ROLE_WORKSPACE, outputs / 4);
    }
    builder_use(builder, node, PASS_BACKWARD_WEIGHTS, ROLE_SCRATCH, NULL);
    builder_buffer(builder, node, ROLE_SCRATCH,
                   (size_t)(state->batch * y.dim[1]) * THIN_SUMS * sizeof(float));
    return 0;
}

/* --- Run --- */

static void sum_examples(const struct op_run *run, const float *partial)
{
    const struct thin_state *state = run->state;
    float *weights = run->input_gradients[CONV_WEIGHTS];
    float *bias = state->bias ? run->input_gradients[CONV_BIAS] : NULL;
    int64_t lanes = state->kernels->lanes;
    for (int64_t o = 0; o < state->blocks * lanes; o++)
        for (int t = 0; t < THIN_SUMS; t++) {
            double sum = 0;
            for (int64_t n = 0; n < state->batch; n++)
                sum += (double)
                    partial[((n * state->blocks + o / lanes) * THIN_SUMS + t) * lanes + o % lanes];
            if (t < THIN_TAPS)
                weights[o * THIN_TAPS + t] = (float)sum;
            else if (bias)
                bias[o] = (float)sum;
        }
}

static void forward(const struct op_run *run)
{
    const struct thin_state *state = run->state;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < state->batch * state->blocks; i++)
        state->kernels->forward(run, i);
}

static void backward_weights(const struct op_run *run)
{
    const struct thin_state *state = run->state;
    float *partial = run->scratch;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < state->batch * state->blocks; i++)
        state->kernels->gradient(run, i, partial);
    sum_examples(run, partial);
}

const struct op_kernel conv_kernel_thin = {
    .name = "own:thin",
    .fits = fits,
    .prepare = prepare,
    .pass = {forward, backward_weights, NULL},
    .relu = true,
    .pools = pools,
};
