/* 1x1 convolutions in training on AVX2: forward and the gradient of x are the library's, that of the weights
 * is ours, by the products that Winograd's gradients have:
 *
 *     dy [out / 8][pixels][8]          x [in / 8][pixels][8]
 *          |                              |
 *          v                              v
 *     24 outputs by 4 inputs  +=  3 loads by 4 broadcasts, pixel by pixel
 *
 * The sums lie as the library's forward wants the weights, [out / 8][in][8], so they go straight into the
 * gradients. Some pixels of a picture at a time, which stay in the first-level cache while the inputs pass
 * by. Ours because the library's kernel is slower than its other passes, and than this
 * (docs/performance.md). Threads divide outputs, and no sum: the same bits for any number of them. */
#include "base/arena.h"
#include "base/error.h"
#include "exec/known_ops.h"
#include "ops/conv_attributes.h"
#include "ops/weighted.h"
#include "ops/winograd.h"

#if defined(__x86_64__)

enum {
    LANES = WINOGRAD_LANES,
    PIXELS = 192,        /* at a time: 3 blocks of dy are 18 kB */
    FEWEST_PIXELS = 100, /* of a picture; below, the sums are read and written too often */
};

struct state {
    int64_t images, in, out, pixels;
};

/* --- Which convolutions --- */

static bool is_point(const struct dnn_conv *conv)
{
    return conv->weights.dim[2] == 1 && conv->weights.dim[3] == 1 && conv->stride[0] == 1 &&
           conv->stride[1] == 1 && !conv->pad_before[0] && !conv->pad_before[1] &&
           !conv->pad_after[0] && !conv->pad_after[1];
}

static bool weights_are_in_eights(const struct plan_builder *builder, const struct dnn_conv *conv)
{
    struct dnn_primitive *forward = NULL;
    if (dnn_conv_forward(conv, builder_is_training(builder), &forward, NULL) < 0)
        return false;
    struct layout theirs = dnn_layout(forward, DNN_WEIGHTS);
    struct layout ours = layout_both_in_eights(&conv->weights);
    dnn_primitive_destroy(forward);
    return layout_equal(&theirs, &ours);
}

static bool fits(const struct plan_builder *builder, const struct plan_node *node)
{
    struct dnn_conv conv = conv_describe(builder, node);
    return builder_is_training(builder) && conv.groups == 1 && !conv.bias && is_point(&conv) &&
           conv.src.dim[1] % LANES == 0 && conv.dst.dim[1] % LANES == 0 &&
           __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           conv_is_in_eights(builder, node) && weights_are_in_eights(builder, &conv);
}

static bool pays(const struct plan_builder *builder, const struct plan_node *node)
{
    struct shape y = builder_shape(builder, node->output);
    return y.dim[2] * y.dim[3] >= FEWEST_PIXELS;
}

static int prepare(struct plan_builder *builder, struct plan_node *node, struct error *err)
{
    struct state *state = ARENA_NEW(builder_arena(builder), struct state);
    struct weighted made = {.own = state};
    if (!state)
        return error_set(err, ERROR_MEMORY, "no memory for a convolution");
    if (conv_make_passes(builder, node, false, &made, err) < 0 ||
        weighted_bind(builder, node, &made, err) < 0)
        return -1;
    const struct dnn_primitive *forward = made.passes[PASS_FORWARD];
    const struct dnn_primitive *back = made.passes[PASS_BACKWARD];
    struct layout x = dnn_layout(forward, DNN_SRC), y = dnn_layout(forward, DNN_DST);
    struct layout weights = dnn_layout(forward, DNN_WEIGHTS);
    struct shape in = builder_shape(builder, node->inputs[CONV_X]);
    *state = (struct state){.images = in.dim[0],
                            .in = in.dim[1],
                            .out = builder_shape(builder, node->output).dim[1],
                            .pixels = in.dim[2] * in.dim[3]};
    builder_use(builder, node, PASS_BACKWARD_WEIGHTS, ROLE_INPUT + CONV_X, &x);
    builder_use(builder, node, PASS_BACKWARD_WEIGHTS, ROLE_GRADIENT, &y);
    builder_use(builder, node, PASS_BACKWARD_WEIGHTS, ROLE_GRADIENT_OF_INPUT + CONV_WEIGHTS,
                &weights);
    builder_kernel_name(builder, node, "%s, w own:points:avx2, d %s", dnn_kernel(forward),
                        back ? dnn_kernel(back) : "-");
    return 0;
}

/* --- The gradient of the weights --- */

struct share {
    const struct state *state;
    const float *x, *gradients;
    float *sums;
    int64_t first, last; /* blocks of 8 outputs */
};

/* Blocks by threes and twos. */
static void add_pixels(const struct share *share, int64_t image, int64_t pixel, int64_t count)
{
    const struct state *state = share->state;
    const float *x = share->x + (image * state->in * state->pixels) + pixel * LANES;
    const float *gradients = share->gradients + image * state->out * state->pixels + pixel * LANES;
    int64_t groups = (share->last - share->first + WINOGRAD_BLOCKS - 1) / WINOGRAD_BLOCKS;
    for (int64_t g = 0, block = share->first; g < groups; g++) {
        int64_t left = share->last - block, blocks = (left + groups - g - 1) / (groups - g);
        winograd_multiply_gradients(x, gradients + block * state->pixels * LANES,
                                    share->sums + block * state->in * LANES, state->in, (int)blocks,
                                    count, state->pixels, image > 0 || pixel > 0);
        block += blocks;
    }
}

static void backward_weights(const struct op_run *run)
{
    const struct state *state = weighted_own(run);
    int64_t blocks = state->out / LANES, threads = run->threads;
#pragma omp parallel for schedule(static) if (threads > 1)
    for (int64_t t = 0; t < threads; t++) {
        struct share share = {state,
                              run->inputs[CONV_X],
                              run->gradients[0],
                              run->input_gradients[CONV_WEIGHTS],
                              blocks * t / threads,
                              blocks * (t + 1) / threads};
        for (int64_t image = 0; image < state->images; image++)
            for (int64_t pixel = 0; pixel < state->pixels; pixel += PIXELS) {
                int64_t left = state->pixels - pixel;
                add_pixels(&share, image, pixel, left < PIXELS ? left : PIXELS);
            }
    }
}

#else

#define fits op_fits_never
#define pays NULL
#define prepare NULL
#define backward_weights NULL

#endif

const struct op_kernel conv_kernel_points = {
    .name = "points",
    .fits = fits,
    .pays = pays,
    .prepare = prepare,
    .pass = {weighted_forward, backward_weights, weighted_backward},
    .relu_forward = true,
};
