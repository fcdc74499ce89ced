/* Convolutions of small pictures in a plan for serving: few pixels, many weights.
 *
 *     weights [out / 16][in][taps][16]      x [in / 8][pixels][8]   (a copy for each tap, where there are
 *               |                             |                      several or pixels are left out)
 *               v                             v
 *     16 outputs x 6 pixels of y  +=  16 weights by 6 broadcasts, input by input
 *
 * Some inputs at a time, whose weights for 16 outputs, a panel, stay in the first-level cache while all
 * pixels pass by; meanwhile those of the next panel are fetched. Threads divide panels, so that each reads
 * its share of the weights once a picture.
 *
 * Ours because on pictures of 7 pixels a side, or of 14 where a 3x3 leaves pixels out, the library's kernels
 * reach two thirds of the speed that they have on larger ones, and Winograd's method transforms too many
 * weights for too few tiles (docs/performance.md). Results are the same for any number of threads: no sum is
 * divided among them. */
#include <math.h>

#include "base/arena.h"
#include "base/error.h"
#include "exec/known_ops.h"
#include "ops/conv_attributes.h"
#include "ops/product.h"
#include "ops/taps.h"
#include "ops/winograd.h"

#if F32X8

enum {
    LANES = 8,
    WIDE = 16,            /* outputs of a panel */
    PIXELS = 6,           /* at a time */
    DEPTH = 288,          /* inputs times taps whose weights are used again and again: 18 kB */
    MOST_PIXELS = 64,     /* of a picture of y; beyond, the library is as fast... */
    MOST_STRIDED = 196,   /* ...and here where a 3x3 leaves pixels out */
    FEWEST_CHANNELS = 64, /* below, there is nothing to gain */
    FEWEST_TILES =
        12, /* from here on Winograd's method pays where it fits and no pixels are left out */
};

struct state {
    struct dnn_conv conv;
    int64_t in, out, pixels, taps; /* of one picture of y */
    int64_t depth;                 /* inputs at a time */
    bool copies;                   /* x is copied tap by tap */
};

/* --- Which convolutions --- */

static int64_t pixels_of(const struct shape *shape)
{
    return shape->dim[2] * shape->dim[3];
}

static bool is_strided(const struct dnn_conv *conv)
{
    return conv->stride[0] > 1 && conv->stride[1] > 1;
}

static int64_t most_pixels(const struct dnn_conv *conv)
{
    return is_strided(conv) && pixels_of(&conv->weights) > 1 ? MOST_STRIDED : MOST_PIXELS;
}

static bool fits(const struct plan_builder *builder, const struct plan_node *node)
{
    struct dnn_conv conv = conv_describe(builder, node);
    int64_t taps = pixels_of(&conv.weights);
    return builder_is_serving(builder) && conv.groups == 1 && (taps == 1 || taps == 9) &&
           pixels_of(&conv.dst) <= most_pixels(&conv) && conv.src.dim[1] >= FEWEST_CHANNELS &&
           conv.src.dim[1] % LANES == 0 && conv.dst.dim[1] >= FEWEST_CHANNELS &&
           conv.dst.dim[1] % WIDE == 0 && f32x8_is_here() && conv_block(builder, node) == LANES;
}

/* Winograd's method needs fewer products for 3x3, but transforms weights: with few tiles that is more. */
static bool pays(const struct plan_builder *builder, const struct plan_node *node)
{
    struct dnn_conv conv = conv_describe(builder, node);
    const struct shape *y = &conv.dst;
    int64_t tiles = y->dim[0] * winograd_tiles_along(y->dim[2]) * winograd_tiles_along(y->dim[3]);
    return !conv_kernel_winograd.fits(builder, node) ||
           tiles < (is_strided(&conv) ? WINOGRAD_FEWEST_STRIDED : FEWEST_TILES);
}

/* --- What it takes --- */

static int64_t floats_of_copies(const struct state *state)
{
    return state->copies ? state->depth * state->taps * state->pixels : 0;
}

static struct state describe(const struct plan_builder *builder, const struct plan_node *node)
{
    struct state state = {.conv = conv_describe(builder, node)};
    const struct dnn_conv *conv = &state.conv;
    state.in = conv->src.dim[1];
    state.out = conv->dst.dim[1];
    state.pixels = pixels_of(&conv->dst);
    state.taps = pixels_of(&conv->weights);
    state.depth = DEPTH / state.taps / LANES * LANES;
    state.copies = state.taps > 1 || conv->stride[0] > 1 || conv->stride[1] > 1 ||
                   conv->pad_before[0] || conv->pad_before[1] || conv->pad_after[0] ||
                   conv->pad_after[1];
    return state;
}

static int prepare(struct plan_builder *builder, struct plan_node *node, struct error *err)
{
    struct state *state = ARENA_NEW(builder_arena(builder), struct state);
    struct layout x, y;
    if (!state)
        return error_set(err, ERROR_MEMORY, "no memory for a convolution");
    if (conv_layouts(builder, node, &x, &y, err) < 0)
        return -1;
    *state = describe(builder, node);
    struct layout sixteens = layout_outputs_in_sixteens(&state->conv.weights);
    node->state = state;
    builder_kernel_name(builder, node, "own:panels:" F32X8_NAME);
    builder_output(builder, node, &y);
    if (state->conv.sum)
        builder_accumulate(builder, node);
    builder_use(builder, node, PASS_FORWARD, ROLE_INPUT + CONV_X, &x);
    builder_use(builder, node, PASS_FORWARD, ROLE_INPUT + CONV_WEIGHTS, &sixteens);
    if (state->conv.bias)
        builder_use_plain(builder, node, PASS_FORWARD, ROLE_INPUT, CONV_BIAS);
    if (state->copies) {
        builder_use(builder, node, PASS_FORWARD, ROLE_SCRATCH, NULL);
        builder_buffer(builder, node, ROLE_SCRATCH,
                       (size_t)(builder_threads(builder) * floats_of_copies(state)) *
                           sizeof(float));
    }
    return 0;
}

/* --- The product --- */

F32X8_BEGIN

_Static_assert((int)PIXELS == (int)PRODUCT_ROWS, "pixels are the rows of a product");

/* 16 outputs of all pixels of a picture, from some inputs. */
struct piece {
    const float *x;              /* [blocks of inputs][taps][pixels][8] */
    const float *weights, *next; /* of this panel, and what will be wanted after it */
    float *y;                    /* [2][pixels][8] */
    int64_t pixels;
    int64_t blocks;    /* of 8 inputs */
    const float *bias; /* [16]; NULL: nothing joins the sums */
    bool add;          /* to what is there */
    float least;       /* 0: ReLU */
};

INLINE void put(const struct piece *piece, f32x8 sum, float *y, int high)
{
    if (piece->bias)
        sum = f32x8_add(sum, f32x8_load(piece->bias + high * LANES));
    if (piece->add)
        sum = f32x8_add(sum, f32x8_load(y));
    f32x8_store(y, f32x8_at_least(f32x8_all(piece->least), sum));
}

/* `count` pixels from `first` on. The taps and the count are constants to the compiler. Each block of
 * inputs and taps asks for one cache line of `next`, so that eight calls ask for all of it. */
INLINE void multiply(const struct piece *piece, int64_t first, int taps, int count,
                     const float *next)
{
    const float *x = piece->x + first * LANES, *weights = piece->weights;
    float *y = piece->y + first * LANES;
    f32x8 sums[PIXELS][2];
    product_begin(sums, count);
    for (int64_t block = 0; block < piece->blocks; block++) {
        for (int tap = 0; tap < taps; tap++) {
            __builtin_prefetch(next, 0, 2);
            next += WIDE;
            product_add(sums, count, LANES, x, LANES, weights + tap * WIDE, taps * WIDE);
            x += piece->pixels * LANES;
        }
        weights += (int64_t)LANES * taps * WIDE;
    }
#pragma GCC unroll 6
    for (int p = 0; p < count; p++) {
        put(piece, sums[p][0], y + p * LANES, 0);
        put(piece, sums[p][1], y + (piece->pixels + p) * LANES, 1);
    }
}

/* Pixels by sixes and fives where there are many. */
INLINE void multiply_all(const struct piece *piece, int taps)
{
    int64_t groups = (piece->pixels + PIXELS - 1) / PIXELS, first = 0;
    int64_t lines = piece->blocks * taps;
    for (int64_t g = 0; g < groups; g++) {
        int64_t count = (piece->pixels - first) / (groups - g);
        const float *next = piece->next + (g < LANES ? g * lines * WIDE : 0);
#define MULTIPLY(rows) multiply(piece, first, taps, rows, next)
        PRODUCT_DISPATCH(count, MULTIPLY)
#undef MULTIPLY
        first += count;
    }
}

static void multiply_1x1(const struct piece *piece)
{
    multiply_all(piece, 1);
}

static void multiply_3x3(const struct piece *piece)
{
    multiply_all(piece, 9);
}

/* --- The copies --- */

static void copy_blocks(const struct state *state, const float *x, int64_t blocks, float *to)
{
    const struct dnn_conv *conv = &state->conv;
    struct tap_rows all = {0, conv->dst.dim[2]};
    for (int64_t block = 0; block < blocks; block++, x += pixels_of(&conv->src) * LANES)
        for (int64_t r = 0; r < conv->weights.dim[2]; r++)
            for (int64_t c = 0; c < conv->weights.dim[3]; c++, to += state->pixels * LANES)
                tap_copy(conv, x, r, c, all, LANES, to);
}

F32X8_END

/* --- A picture --- */

struct share {
    const struct state *state;
    const float *x, *weights, *bias; /* of a picture, all, or NULL */
    float *y;
    int64_t first, last; /* panels */
    float *copies;
};

/* The bias joins the first inputs, the ReLU follows the last. */
static void run_inputs(const struct share *share, const float *x, int64_t in, int64_t depth)
{
    const struct state *state = share->state;
    bool begins = in == 0, ends = in + depth == state->in;
    int64_t panel_floats = state->in * state->taps * WIDE;
    const float *weights = share->weights + in * state->taps * WIDE;
    /* After the last panel the first one's next inputs, or its first for the next picture. */
    const float *after = share->weights + share->first * panel_floats +
                         (ends ? 0 : (in + depth) * state->taps * WIDE);
    for (int64_t panel = share->first; panel < share->last; panel++) {
        const float *own = weights + panel * panel_floats;
        struct piece piece = {
            .x = x,
            .weights = own,
            .next = panel + 1 < share->last ? own + panel_floats : after,
            .y = share->y + panel * WIDE * state->pixels,
            .pixels = state->pixels,
            .blocks = depth / LANES,
            .bias = begins && share->bias ? share->bias + panel * WIDE : NULL,
            .add = !begins || state->conv.sum,
            .least = ends && state->conv.relu ? 0 : -INFINITY,
        };
        if (state->taps == 1)
            multiply_1x1(&piece);
        else
            multiply_3x3(&piece);
    }
}

static void run_share(const struct share *share)
{
    const struct state *state = share->state;
    int64_t block_floats = pixels_of(&state->conv.src) * LANES;
    for (int64_t in = 0; in < state->in; in += state->depth) {
        int64_t depth = state->in - in < state->depth ? state->in - in : state->depth;
        const float *x = share->x + in / LANES * block_floats;
        if (state->copies)
            copy_blocks(state, x, depth / LANES, share->copies);
        run_inputs(share, state->copies ? share->copies : x, in, depth);
    }
}

/* What thread `thread` of `threads` does: of `parts` groups of panels for each picture, group by group. */
static void run_thread(const struct op_run *run, int64_t thread, int64_t threads)
{
    const struct state *state = run->state;
    int64_t panels = state->out / WIDE, parts = threads < panels ? threads : panels;
    int64_t pictures = state->conv.src.dim[0], items = parts * pictures;
    for (int64_t i = thread * items / threads; i < (thread + 1) * items / threads; i++) {
        int64_t part = i / pictures, picture = i % pictures;
        struct share share = {
            .state = state,
            .x = run->inputs[CONV_X] + picture * state->in * pixels_of(&state->conv.src),
            .weights = run->inputs[CONV_WEIGHTS],
            .bias = state->conv.bias ? run->inputs[CONV_BIAS] : NULL,
            .y = run->output + picture * state->out * state->pixels,
            .first = part * panels / parts,
            .last = (part + 1) * panels / parts,
            .copies = (float *)run->scratch + thread * floats_of_copies(state),
        };
        run_share(&share);
    }
}

static void forward(const struct op_run *run)
{
    int64_t threads = run->threads;
#pragma omp parallel for schedule(static) if (threads > 1)
    for (int64_t t = 0; t < threads; t++)
        run_thread(run, t, threads);
}

const struct op_kernel conv_kernel_panels = {
    .name = "panels",
    .fits = fits,
    .pays = pays,
    .prepare = prepare,
    .pass = {forward, NULL, NULL},
    .relu_forward = true,
    .residual_serving = true,
};

#else

const struct op_kernel conv_kernel_panels = {.name = "panels", .fits = op_fits_never};

#endif
