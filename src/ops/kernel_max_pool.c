/* Max pooling over blocked layouts on AVX2 and AVX-512, with the ReLU before or behind it.
 *
 * Ours because oneDNN's takes longer in both directions (docs/performance.md). Each input cell is written
 * once in the gradient. A byte per output remembers which cell of the window was the largest; ties go to
 * the first, in rows from the left.
 *
 * x [N, C/lanes, H, W, lanes], y [N, C/lanes, rows, columns, lanes]. */
#include "base/arena.h"
#include "base/error.h"
#include "ops/max_pool.h"
#include "ops/pool.h"

#if defined(__x86_64__)

enum { MOST_CELLS = 128, STREAM_BYTES = 24 * 1024 * 1024 };

static void forward(const struct op_run *run)
{
    const struct max_pool_state *state = run->state;
    int64_t in = state->rows.in * state->columns.in * state->lanes;
    int64_t out = state->rows.out * state->columns.out * state->lanes;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < state->segments; i++)
        state->kernels->forward(state, run->inputs[0] + i * in, run->output + i * out,
                                state->training ? (uint8_t *)run->workspace + i * out : NULL);
}

static void backward(const struct op_run *run)
{
    const struct max_pool_state *state = run->state;
    int64_t in = state->rows.in * state->columns.in * state->lanes;
    int64_t out = state->rows.out * state->columns.out * state->lanes;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < state->segments; i++)
        state->kernels->backward(
            state, run->gradients[0] + i * out, state->relu ? run->output + i * out : NULL,
            (const uint8_t *)run->workspace + i * out, run->input_gradients[0] + i * in);
}

/* --- Which pools --- */

static bool fits(const struct plan_builder *builder, const struct plan_node *node)
{
    const struct pool_attributes *a = node->node->attributes;
    (void)builder;
    return a->max && !a->global && a->rows.kernel * a->columns.kernel <= MOST_CELLS &&
           max_pool_kernels_avx2.fits(8);
}

static const struct max_pool_kernels *choose(int64_t lanes)
{
    if (max_pool_kernels_avx512.fits(lanes))
        return &max_pool_kernels_avx512;
    return max_pool_kernels_avx2.fits(lanes) ? &max_pool_kernels_avx2 : NULL;
}

static struct max_pool_axis make_axis(const struct dnn_pool *pool, int index, int64_t in)
{
    return (struct max_pool_axis){.in = in,
                                  .out = pool->dst.dim[2 + index],
                                  .kernel = pool->kernel[index],
                                  .stride = pool->stride[index],
                                  .before = pool->pad_before[index]};
}

/* Only here is the input's layout known: without whole registers of lanes the library takes over. */
static int prepare(struct plan_builder *builder, struct plan_node *node, struct error *err)
{
    struct dnn_pool pool = pool_describe(builder, node);
    struct shape x = builder_shape(builder, node->inputs[0]);
    struct layout_form form;
    struct dnn_primitive *like = NULL;
    if (!layout_form(pool.src, &form) || !choose(form.inner)) {
        node->kernel = &pool_kernel_dnn;
        return node->kernel->prepare(builder, node, err);
    }
    struct max_pool_state *state = ARENA_NEW(builder_arena(builder), struct max_pool_state);
    if (!state)
        return error_set(err, ERROR_MEMORY, "no memory for a pooling layer");
    *state = (struct max_pool_state){.kernels = choose(form.inner),
                                     .rows = make_axis(&pool, 0, x.dim[2]),
                                     .columns = make_axis(&pool, 1, x.dim[3]),
                                     .segments = form.outer * form.blocks,
                                     .lanes = form.inner,
                                     .relu = node->relu,
                                     .training = builder_is_training(builder),
                                     .stream = layout_bytes(pool.src) >= STREAM_BYTES};
    node->state = state;
    if (dnn_pool_forward(&pool, false, &like, err) < 0)
        return -1;
    struct layout layout = dnn_layout(like, DNN_DST);
    dnn_primitive_destroy(like);
    if (!layout_form(&layout, &form) || form.inner != state->lanes)
        return error_set(err, ERROR_KERNEL, "the pooled picture lies in other blocks");
    builder_kernel_name(builder, node, "own:%s", state->kernels->name);
    builder_output(builder, node, &layout);
    builder_use(builder, node, PASS_FORWARD, ROLE_INPUT, pool.src);
    if (!state->training)
        return 0;
    builder_use(builder, node, PASS_FORWARD, ROLE_WORKSPACE, NULL);
    builder_buffer(builder, node, ROLE_WORKSPACE, layout_bytes(&layout) / sizeof(float));
    builder_use(builder, node, PASS_BACKWARD, ROLE_WORKSPACE, NULL);
    builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT, &layout);
    if (state->relu)
        builder_use(builder, node, PASS_BACKWARD, ROLE_OUTPUT, NULL);
    builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT_OF_INPUT, pool.src);
    return 0;
}

const struct op_kernel pool_kernel_max = {
    .name = "own",
    .fits = fits,
    .prepare = prepare,
    .pass = {forward, NULL, backward},
    .relu = true,
};

#else

const struct op_kernel pool_kernel_max = {.name = "own", .fits = op_fits_never};

#endif
