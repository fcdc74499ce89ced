/* 1x1 convolutions in training, and those of 3x3 that leave pixels out: forward and the gradient of x are the
 * library's, that of the weights is ours, by the products that Winograd's gradients have, with channels in
 * blocks of as many as a register has lanes, L: 8 on AVX2, 16 on AVX-512.
 *
 *     dy [out / L][pixels][L]          x [in / L][pixels][L]   (those that meet a tap, copied where they are
 *          |                              |                     not simply all)
 *          v                              v
 *     3L outputs by L/2 inputs  +=  3 loads by L/2 broadcasts, pixel by pixel
 *
 * The sums lie as the library's forward wants the weights, [out / L][in / L][taps][L][L], so they go
 * straight into the gradients. Some pixels at a time, of one picture or of several small ones, which stay
 * in the first-level cache while the inputs pass by. Ours because the library's kernels are slower than
 * its other passes, and than this (docs/performance.md). Threads divide outputs, and no sum: the same bits
 * for any number of them. */
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "exec/known_ops.h"
#include "ops/conv_attributes.h"
#include "ops/taps.h"
#include "ops/weighted.h"
#include "ops/winograd.h"

/* The library's forward pass has blocks of channels on x86-64 only. */
#if defined(__x86_64__)

enum {
    PIXELS = 196,        /* at a time, about: 3 blocks of dy are 19 kB with 8 lanes */
    FEWEST_PIXELS = 100, /* at a time; below, the sums are read and written too often */
};

struct state {
    struct dnn_conv conv;
    const struct winograd_steps *steps;
    int lanes;
    int64_t images, in, out, pixels, taps;
    bool copies; /* of x, tap by tap */
    /* At a time: rows of one picture, or several pictures. */
    int64_t rows, pictures;
};

/* --- Which convolutions --- */

static bool is_unpadded(const struct dnn_conv *conv)
{
    return !conv->pad_before[0] && !conv->pad_before[1] && !conv->pad_after[0] &&
           !conv->pad_after[1];
}

static bool is_point(const struct dnn_conv *conv)
{
    return conv->weights.dim[2] == 1 && conv->weights.dim[3] == 1 && conv->stride[0] == 1 &&
           conv->stride[1] == 1 && is_unpadded(conv);
}

static bool leaves_out(const struct dnn_conv *conv)
{
    int64_t size = conv->weights.dim[2];
    return (size == 1 || size == 3) && conv->weights.dim[3] == size && conv->stride[0] > 1 &&
           conv->stride[1] > 1;
}

/* The registers that fill a block of channels; NULL: none. */
static const struct winograd_steps *steps_for(const struct plan_builder *builder,
                                              const struct plan_node *node)
{
    static const struct winograd_steps *const all[] = {&winograd_eights, &winograd_sixteens};
    int block = conv_block(builder, node);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->lanes == block && all[i]->is_here())
            return all[i];
    return NULL;
}

static bool weights_are_in_blocks(const struct plan_builder *builder, const struct dnn_conv *conv,
                                  int lanes)
{
    struct dnn_primitive *forward = NULL;
    if (conv->src.dim[1] % lanes || conv->dst.dim[1] % lanes ||
        dnn_conv_forward(conv, builder_is_training(builder), &forward, NULL) < 0)
        return false;
    struct layout theirs = dnn_layout(forward, DNN_WEIGHTS);
    struct layout ours = layout_both_in_blocks(&conv->weights, lanes);
    dnn_primitive_destroy(forward);
    return layout_equal(&theirs, &ours);
}

static bool fits(const struct plan_builder *builder, const struct plan_node *node)
{
    struct dnn_conv conv = conv_describe(builder, node);
    if (!builder_is_training(builder) || conv.groups != 1 || conv.bias ||
        !(is_point(&conv) || leaves_out(&conv)))
        return false;
    const struct winograd_steps *steps = steps_for(builder, node);
    return steps && weights_are_in_blocks(builder, &conv, steps->lanes);
}

static struct state describe(const struct plan_builder *builder, const struct plan_node *node)
{
    struct state state = {.conv = conv_describe(builder, node), .steps = steps_for(builder, node)};
    const struct shape *y = &state.conv.dst;
    int64_t height = y->dim[2], width = y->dim[3];
    state.lanes = state.steps->lanes;
    state.images = y->dim[0];
    state.in = state.conv.src.dim[1];
    state.out = y->dim[1];
    state.pixels = height * width;
    state.taps = state.conv.weights.dim[2] * state.conv.weights.dim[3];
    state.copies = !is_point(&state.conv);
    state.rows = PIXELS / width < 1 ? 1 : PIXELS / width < height ? PIXELS / width : height;
    state.pictures = 1;
    if (state.copies && state.pixels < PIXELS)
        state.pictures =
            PIXELS / state.pixels < state.images ? PIXELS / state.pixels : state.images;
    return state;
}

static bool pays(const struct plan_builder *builder, const struct plan_node *node)
{
    struct state state = describe(builder, node);
    /* With AVX-512 the library's gradients of 1x1 are as fast as its other passes. */
    if (state.lanes > 8 && state.taps == 1)
        return false;
    return state.pictures * state.pixels >= FEWEST_PIXELS;
}

static int64_t pixels_at_once(const struct state *state)
{
    return state->pictures * state->rows * state->conv.dst.dim[3];
}

/* Of one thread: the pixels of x that meet a tap, and those of dy where they are of several pictures. */
static size_t floats_of_copies(const struct state *state)
{
    int64_t channels = state->copies ? state->in + (state->pictures > 1 ? state->out : 0) : 0;
    return (size_t)(channels * pixels_at_once(state));
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
    *state = describe(builder, node);
    struct layout weights = layout_both_in_blocks(&state->conv.weights, state->lanes);
    if (conv_layout_block(&x) != state->lanes || conv_layout_block(&y) != state->lanes)
        return error_set(err, ERROR_KERNEL, "this convolution's layout is not in blocks of %d",
                         state->lanes);
    if (state->copies) {
        builder_use(builder, node, PASS_BACKWARD_WEIGHTS, ROLE_SCRATCH, NULL);
        builder_buffer(builder, node, ROLE_SCRATCH,
                       (size_t)builder_threads(builder) * floats_of_copies(state) * sizeof(float));
    }
    builder_use(builder, node, PASS_BACKWARD_WEIGHTS, ROLE_INPUT + CONV_X, &x);
    builder_use(builder, node, PASS_BACKWARD_WEIGHTS, ROLE_GRADIENT, &y);
    builder_use(builder, node, PASS_BACKWARD_WEIGHTS, ROLE_GRADIENT_OF_INPUT + CONV_WEIGHTS,
                &weights);
    builder_kernel_name(builder, node, "%s, w own:points:%s, d %s", dnn_kernel(forward),
                        state->lanes == 16 ? "avx512" : "avx2", back ? dnn_kernel(back) : "-");
    return 0;
}

/* --- The gradient of the weights --- */

F32X8_BEGIN

/* Some pictures, or rows of one. */
struct chunk {
    int64_t picture, pictures;
    struct tap_rows rows;
};

/* The pixels of x that meet a tap, [in / L][pixels of the chunk][L]; the lanes are a constant to the
 * compiler. */
INLINE void copy_tap(const struct state *state, const struct chunk *chunk, int lanes,
                     const float *x, int64_t tap, float *to)
{
    const struct dnn_conv *conv = &state->conv;
    int64_t block_floats = conv->src.dim[2] * conv->src.dim[3] * lanes;
    int64_t row_floats = conv->dst.dim[3] * lanes, columns = conv->weights.dim[3];
    for (int64_t block = 0; block < state->in / lanes; block++)
        for (int64_t p = 0; p < chunk->pictures; p++) {
            int64_t picture = chunk->picture + p;
            const float *from = x + (picture * state->in / lanes + block) * block_floats;
            tap_copy(conv, from, tap / columns, tap % columns, chunk->rows, lanes, to);
            to += chunk->rows.count * row_floats;
        }
}

static void copy_tap_in_eights(const struct state *state, const struct chunk *chunk, const float *x,
                               int64_t tap, float *to)
{
    copy_tap(state, chunk, 8, x, tap, to);
}

static void copy_tap_in_sixteens(const struct state *state, const struct chunk *chunk,
                                 const float *x, int64_t tap, float *to)
{
    copy_tap(state, chunk, 16, x, tap, to);
}

F32X8_END

struct share {
    const struct state *state;
    const float *x, *gradients;
    float *sums;
    int64_t first, last; /* blocks of outputs */
    float *copies;
};

/* Whole pictures of some blocks of dy, [blocks][pictures][pixels][L]. */
static void copy_gradients(const struct share *share, const struct chunk *chunk, float *to)
{
    const struct state *state = share->state;
    size_t picture_floats = (size_t)(state->pixels * state->lanes);
    for (int64_t block = share->first; block < share->last; block++)
        for (int64_t p = 0; p < chunk->pictures; p++, to += picture_floats) {
            int64_t picture = chunk->picture + p;
            const float *from = share->gradients + (picture * state->out / state->lanes + block) *
                                                       state->pixels * state->lanes;
            memcpy(to, from, picture_floats * sizeof *to);
        }
}

/* Blocks of outputs by threes and twos; `product` has what is the same for all of them, with the gradients
 * and the sums of the first. */
static void add_tap(const struct share *share, struct winograd_gradients product)
{
    int64_t groups = (share->last - share->first + WINOGRAD_BLOCKS - 1) / WINOGRAD_BLOCKS;
    for (int64_t g = 0, block = share->first; g < groups; g++) {
        int64_t left = share->last - block;
        product.blocks = (int)((left + groups - g - 1) / (groups - g));
        share->state->steps->multiply_gradients(&product);
        product.gradients += product.blocks * product.gradient_stride * share->state->lanes;
        product.sums += product.blocks * product.out_step;
        block += product.blocks;
    }
}

static void add_chunk(const struct share *share, const struct chunk *chunk)
{
    const struct state *state = share->state;
    int64_t width = state->conv.dst.dim[3], first_pixel = chunk->rows.first * width;
    int64_t pixels = chunk->pictures * chunk->rows.count * width;
    struct winograd_gradients product = {
        .patches = share->copies,
        .patch_stride = pixels,
        .gradients = share->gradients +
                     (chunk->picture * state->out + share->first * state->lanes) * state->pixels +
                     first_pixel * state->lanes,
        .gradient_stride = state->pixels,
        .sums = share->sums + share->first * state->in * state->taps * state->lanes,
        .out_step = state->in * state->taps * state->lanes,
        .in_step = state->taps * state->lanes * state->lanes,
        .in = state->in,
        .tiles = pixels,
        .add = chunk->picture > 0 || chunk->rows.first > 0,
    };
    if (!state->copies) {
        product.patches =
            share->x + chunk->picture * state->in * state->pixels + first_pixel * state->lanes;
        product.patch_stride = state->pixels;
    }
    if (chunk->pictures > 1) {
        float *behind = share->copies + state->in * pixels_at_once(state);
        copy_gradients(share, chunk, behind);
        product.gradients = behind;
        product.gradient_stride = pixels;
    }
    for (int64_t tap = 0; tap < state->taps; tap++, product.sums += state->lanes * state->lanes) {
        if (state->copies && state->lanes == 16)
            copy_tap_in_sixteens(state, chunk, share->x, tap, share->copies);
        else if (state->copies)
            copy_tap_in_eights(state, chunk, share->x, tap, share->copies);
        add_tap(share, product);
    }
}

static void run_share(const struct share *share)
{
    const struct state *state = share->state;
    int64_t height = state->conv.dst.dim[2];
    if (share->first == share->last)
        return;
    for (int64_t picture = 0; picture < state->images; picture += state->pictures) {
        struct chunk chunk = {.picture = picture, .pictures = state->images - picture};
        if (chunk.pictures > state->pictures)
            chunk.pictures = state->pictures;
        for (int64_t row = 0; row < height; row += state->rows) {
            int64_t left = height - row;
            chunk.rows = (struct tap_rows){row, left < state->rows ? left : state->rows};
            add_chunk(share, &chunk);
        }
    }
}

static void backward_weights(const struct op_run *run)
{
    const struct state *state = weighted_own(run);
    int64_t blocks = state->out / state->lanes, threads = run->threads;
#pragma omp parallel for schedule(static) if (threads > 1)
    for (int64_t t = 0; t < threads; t++)
        run_share(&(struct share){
            .state = state,
            .x = run->inputs[CONV_X],
            .gradients = run->gradients[0],
            .sums = run->input_gradients[CONV_WEIGHTS],
            .first = blocks * t / threads,
            .last = blocks * (t + 1) / threads,
            .copies =
                state->copies ? (float *)run->scratch + (size_t)t * floats_of_copies(state) : NULL,
        });
}

const struct op_kernel conv_kernel_points = {
    .name = "points",
    .fits = fits,
    .pays = pays,
    .prepare = prepare,
    .pass = {weighted_forward, backward_weights, weighted_backward},
    .relu_forward = true,
};

#else

const struct op_kernel conv_kernel_points = {.name = "points", .fits = op_fits_never};

#endif
