/* 3x3 convolutions with many channels, by Winograd's method (ops/winograd.h): with stride 1 a third of
 * the time of oneDNN's direct ones, over the three passes, on AVX2, and about as little on AVX-512. Ours
 * because oneDNN 2.6 has Winograd for AVX-512 and stride 1 only, and chooses its direct kernels there, too.
 *
 * Forward and the gradient of x: a thread takes some tiles at a time through all steps, with patches and
 * results of its own, small enough for the caches. Where tiles are few, as when one picture is served, the
 * weights are what is much: all threads transform the patches, then each takes some outputs, whose weights
 * it transforms piece by piece in its caches. Stored transformed they would be four times as many bytes,
 * which take longer to read than the transform takes.
 *
 * The gradient of the weights: all threads transform channels of some tiles, then multiply planes. Results
 * are the same for any number of threads: no sum is divided among them, and the tiles of a block, over
 * which gradients are summed, are a fixed number. */
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "exec/known_ops.h"
#include "ops/conv_attributes.h"
#include "ops/f32x16.h"
#include "ops/winograd.h"

#if F32X8

enum {
    KERNEL = 3,
    FEWEST_CHANNELS = 64, /* below, the transforms weigh more than the products */
    FEWEST_TILES = 64,    /* below, those of the weights do */
    WIDEST = 32,          /* outputs of a product, in registers of 16 lanes */
    MANY_TILES = 96,      /* below, threads divide outputs rather than tiles */
};

/* A forward pass, or one that goes back to x: the same with turned weights. */
struct pass {
    const struct winograd_steps *steps;
    const struct winograd_way *way;
    struct winograd_product products[WINOGRAD_MOST_PRODUCTS];
    int product_count;
    int64_t in, out;              /* channels */
    struct winograd_picture x, y; /* without data */
    int64_t tiles, tiles_at_once;
    size_t weight_plane, patch_plane, result_plane; /* floats */
    struct winograd_weights weights;                /* without data */
    bool bias, relu, add;
    bool few; /* tiles: planes of weights are of a piece, patches are everybody's */
};

struct gradient {
    int64_t tiles_at_once;
    size_t patch_plane, tile_plane, sum_plane;
    size_t tiles_at, sums_at, bias_at; /* in the scratch memory */
};

struct state {
    struct pass forward, back;
    struct gradient gradient;
};

/* --- Which convolutions --- */

static bool is_small_window(const struct window *window)
{
    int most_before = KERNEL - window->stride; /* lest tiles of x begin inside of it */
    return window->kernel == KERNEL && (window->stride == 1 || window->stride == 2) &&
           window->dilation == 1 && window->pad_before >= 0 && window->pad_before <= most_before &&
           window->pad_after >= 0 && window->pad_after < KERNEL;
}

static bool are_many(int64_t channels)
{
    return channels >= FEWEST_CHANNELS;
}

/* Blocks of as many channels as the steps have lanes; or channels last, which backward does not know. */
static bool suits(const struct winograd_steps *steps, const struct layout *layout, bool training)
{
    struct layout_form form;
    if (!layout_form(layout, &form) || form.channels % steps->wide)
        return false;
    return form.blocks > 1 ? form.inner == steps->lanes : steps->channels_last && !training;
}

/* The steps for this convolution's stride and these layouts that the processor has, or NULL. */
static const struct winograd_steps *steps_for(const struct plan_builder *builder,
                                              const struct plan_node *node, const struct layout *x,
                                              const struct layout *y)
{
    const struct conv_attributes *a = node->node->attributes;
    static const struct winograd_steps *const all[] = {
        &winograd_eights,
        &winograd_strided_eights,
#if F32X16
        &winograd_sixteens,
#endif
    };
    bool training = builder_is_training(builder);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->stride == a->rows.stride && all[i]->is_here() && suits(all[i], x, training) &&
            suits(all[i], y, training))
            return all[i];
    return NULL;
}

static bool fits(const struct plan_builder *builder, const struct plan_node *node)
{
    const struct conv_attributes *a = node->node->attributes;
    struct shape x = builder_shape(builder, node->inputs[CONV_X]);
    struct shape y = builder_shape(builder, node->output);
    struct window rows = a->rows, columns = a->columns;
    int64_t ignored;
    if (builder_is_direct(builder) || a->groups != 1 || !are_many(x.dim[1]) || !are_many(y.dim[1]))
        return false;
    window_resolve(&rows, x.dim[2], &ignored, NULL);
    window_resolve(&columns, x.dim[3], &ignored, NULL);
    if (!is_small_window(&rows) || !is_small_window(&columns) || rows.stride != columns.stride)
        return false;
    struct layout from, to;
    return conv_layouts(builder, node, &from, &to, NULL) == 0 &&
           steps_for(builder, node, &from, &to);
}

/* When serving, few will do: plans for all batch sizes can share one copy of the weights, which lie as panels
 * want them, too. */
static bool pays(const struct plan_builder *builder, const struct plan_node *node)
{
    struct shape y = builder_shape(builder, node->output);
    int64_t tiles = y.dim[0] * winograd_tiles_along(y.dim[2]) * winograd_tiles_along(y.dim[3]);
    struct layout from, to;
    if (!builder_is_serving(builder))
        return tiles >= FEWEST_TILES;
    return conv_layouts(builder, node, &from, &to, NULL) == 0 &&
           tiles >= steps_for(builder, node, &from, &to)->sizes.fewest_served;
}

/* --- What it takes --- */

/* An odd number of cache lines, lest all planes fall into the same sets of a cache. */
static size_t plane_of(int64_t floats)
{
    enum { LINE = 16 };
    return ((size_t)(floats + LINE - 1) / LINE | 1) * LINE;
}

static int64_t round_up(int64_t value, int64_t step)
{
    return (value + step - 1) / step * step;
}

/* So that all threads have as many blocks, or nearly. */
static int64_t choose_tiles(const struct winograd_steps *steps, int64_t tiles, int threads)
{
    int64_t most = steps->sizes.tiles, blocks = round_up((tiles + most - 1) / most, threads);
    return round_up((tiles + blocks - 1) / blocks, steps->rows);
}

/* So much lies before a picture's first tile. */
struct corner {
    int64_t top, left;
};

static struct winograd_picture picture_of(const struct layout *layout, int lanes, int64_t step,
                                          struct corner corner)
{
    struct shape shape = layout_shape(layout);
    struct layout_form form;
    layout_form(layout, &form);
    return (struct winograd_picture){.height = shape.dim[2],
                                     .width = shape.dim[3],
                                     .image = form.blocks * form.spatial * form.inner,
                                     .block = form.blocks > 1 ? form.spatial * form.inner : lanes,
                                     .pixel = form.inner,
                                     .step = step,
                                     .top = corner.top,
                                     .left = corner.left};
}

static int64_t at_most(int64_t value, int64_t limit)
{
    return value < limit ? value : limit;
}

static void choose_planes(struct pass *pass, int threads)
{
    const struct winograd_steps *steps = pass->steps;
    int64_t outputs = pass->few ? steps->wide : pass->way->outputs;
    pass->tiles_at_once = pass->few ? pass->tiles : choose_tiles(steps, pass->tiles, threads);
    pass->weight_plane =
        plane_of(pass->few ? steps->sizes.piece * steps->wide : pass->in * pass->out);
    pass->patch_plane = plane_of(pass->in * pass->tiles_at_once);
    pass->result_plane = plane_of(at_most(pass->out, outputs) * pass->tiles_at_once);
}

static struct pass make_pass(const struct winograd_steps *steps, const struct winograd_way *way,
                             const struct layout *x, struct corner patches, const struct layout *y,
                             struct corner results)
{
    struct shape result = layout_shape(y);
    struct pass pass = {.steps = steps,
                        .way = way,
                        .in = layout_shape(x).dim[1],
                        .out = result.dim[1],
                        .x = picture_of(x, steps->lanes, way->patch_step, patches),
                        .y = picture_of(y, steps->lanes, way->result_step, results)};
    int64_t step = way->result_step;
    pass.x.tile_rows = pass.y.tile_rows = round_up(result.dim[2] + results.top, step) / step;
    pass.x.tile_columns = pass.y.tile_columns = round_up(result.dim[3] + results.left, step) / step;
    pass.tiles = result.dim[0] * pass.y.tile_rows * pass.y.tile_columns;
    pass.product_count = steps->list_products(pass.products);
    return pass;
}

static void turn_products(struct pass *pass)
{
    for (int i = 0; i < pass->product_count; i++) {
        struct winograd_product *product = &pass->products[i];
        *product = (struct winograd_product){product->weights, product->result, product->patch};
    }
}

static size_t weight_floats(const struct pass *pass)
{
    return (size_t)pass->steps->weight_planes * pass->weight_plane;
}

static size_t patch_floats(const struct pass *pass)
{
    return (size_t)pass->way->patch_planes * pass->patch_plane;
}

static size_t floats_of_all(const struct pass *pass)
{
    return pass->few ? patch_floats(pass) : weight_floats(pass);
}

static size_t floats_of_thread(const struct pass *pass)
{
    return (pass->few ? weight_floats(pass) : patch_floats(pass)) +
           (size_t)pass->way->result_planes * pass->result_plane;
}

static size_t pass_bytes(const struct pass *pass, int threads)
{
    return (floats_of_all(pass) + (size_t)threads * floats_of_thread(pass)) * sizeof(float);
}

/* All planes of patches, then those of tiles, then those of sums. */
static struct gradient make_gradient(const struct pass *forward)
{
    int64_t tiles = forward->steps->sizes.gradient_tiles;
    struct gradient gradient = {.tiles_at_once = tiles,
                                .patch_plane = plane_of(forward->in * tiles),
                                .tile_plane = plane_of(forward->out * tiles),
                                .sum_plane = plane_of(forward->in * forward->out)};
    gradient.tiles_at = (size_t)forward->way->patch_planes * gradient.patch_plane;
    gradient.sums_at =
        gradient.tiles_at + (size_t)forward->way->result_planes * gradient.tile_plane;
    gradient.bias_at =
        gradient.sums_at + (size_t)forward->steps->weight_planes * gradient.sum_plane;
    return gradient;
}

static size_t gradient_bytes(const struct state *state)
{
    return (state->gradient.bias_at + (size_t)state->forward.out) * sizeof(float);
}

/* In serving plans, whose weights are copies of their own, as many outputs as a product has lie next to each
 * other. With 32 of them it is the order of the library's kernels for few tiles, so that plans for other
 * numbers of rows need no copy of their own. */
static struct winograd_weights weights_of(const struct plan_builder *builder,
                                          const struct winograd_steps *steps, int64_t in)
{
    enum { TAPS = KERNEL * KERNEL };
    struct winograd_weights weights = {.in = in, .block = steps->wide, .out_stride = in * TAPS};
    if (!builder_is_serving(builder)) {
        weights.lane_stride = in * TAPS;
        weights.in_stride = TAPS;
        weights.tap_stride = 1;
    } else if (steps->wide == WIDEST) {
        weights.lane_stride = 1;
        weights.in_stride = WIDEST;
        weights.tap_stride = in * WIDEST;
    } else {
        weights.lane_stride = 1;
        weights.in_stride = (int64_t)TAPS * steps->wide;
        weights.tap_stride = steps->wide;
    }
    return weights;
}

static struct winograd_weights turn(const struct winograd_weights *weights, int64_t out)
{
    struct winograd_weights turned = *weights;
    turned.in = out;
    turned.out_stride = turned.lane_stride = weights->in_stride;
    turned.in_stride = weights->out_stride;
    turned.turned = true;
    return turned;
}

static void describe(struct plan_builder *builder, const struct plan_node *node,
                     const struct layout *x, const struct layout *y, struct state *state)
{
    const struct winograd_steps *steps = steps_for(builder, node, x, y);
    struct dnn_conv conv = conv_describe(builder, node);
    struct pass *forward = &state->forward, *back = &state->back;
    int threads = builder_threads(builder);
    struct corner before = {conv.pad_before[0], conv.pad_before[1]};
    *forward = make_pass(steps, &steps->forward, x, before, y, (struct corner){0, 0});
    forward->weights = weights_of(builder, steps, forward->in);
    forward->bias = conv.bias;
    forward->relu = conv.relu;
    forward->add = conv.sum;
    forward->few = builder_is_serving(builder) && forward->tiles < MANY_TILES;
    choose_planes(forward, threads);
    /* With stride 2 a tile of x begins with a pixel that one tap alone meets: the first, or the one before. */
    int64_t most = KERNEL - steps->stride;
    struct corner back_before = {most - before.top, most - before.left};
    *back = make_pass(steps, &steps->back, y, back_before, x,
                      steps->stride == 2 ? back_before : (struct corner){0, 0});
    turn_products(back);
    back->weights = turn(&forward->weights, forward->out);
    choose_planes(back, threads);
    state->gradient = make_gradient(forward);
}

static void use_weights(struct plan_builder *builder, struct plan_node *node, int wide)
{
    struct shape shape = builder_shape(builder, node->inputs[CONV_WEIGHTS]);
    struct layout own = !builder_is_serving(builder) ? layout_plain(&shape)
                        : wide == WIDEST             ? layout_outputs_behind_inputs(&shape)
                                                     : layout_outputs_in_sixteens(&shape);
    builder_use(builder, node, PASS_FORWARD, ROLE_INPUT + CONV_WEIGHTS, &own);
}

static void use_in_training(struct plan_builder *builder, struct plan_node *node,
                            const struct state *state, const struct layout *x,
                            const struct layout *y)
{
    size_t scratch = gradient_bytes(state),
           back = pass_bytes(&state->back, builder_threads(builder));
    builder_use(builder, node, PASS_BACKWARD_WEIGHTS, ROLE_INPUT + CONV_X, x);
    builder_use(builder, node, PASS_BACKWARD_WEIGHTS, ROLE_GRADIENT, y);
    builder_use(builder, node, PASS_BACKWARD_WEIGHTS, ROLE_SCRATCH, NULL);
    for (int i = CONV_WEIGHTS; i < node->input_count; i++)
        builder_use_plain(builder, node, PASS_BACKWARD_WEIGHTS, ROLE_GRADIENT_OF_INPUT, i);
    if (builder_wants_gradient(builder, node->inputs[CONV_X])) {
        builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT, y);
        builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT_OF_INPUT + CONV_X, x);
        builder_use(builder, node, PASS_BACKWARD, ROLE_SCRATCH, NULL);
        builder_use_plain(builder, node, PASS_BACKWARD, ROLE_INPUT, CONV_WEIGHTS);
        scratch = scratch > back ? scratch : back;
    }
    size_t forward = pass_bytes(&state->forward, builder_threads(builder));
    builder_buffer(builder, node, ROLE_SCRATCH, scratch > forward ? scratch : forward);
}

static int prepare(struct plan_builder *builder, struct plan_node *node, struct error *err)
{
    struct state *state = ARENA_NEW(builder_arena(builder), struct state);
    struct layout x, y;
    if (!state)
        return error_set(err, ERROR_MEMORY, "no memory for a convolution");
    if (conv_layouts(builder, node, &x, &y, err) < 0)
        return -1;
    describe(builder, node, &x, &y, state);
    node->state = state;
    builder_kernel_name(builder, node, "%s", state->forward.steps->name);
    builder_output(builder, node, &y);
    if (state->forward.add)
        builder_accumulate(builder, node);
    builder_use(builder, node, PASS_FORWARD, ROLE_INPUT + CONV_X, &x);
    use_weights(builder, node, state->forward.steps->wide);
    if (state->forward.bias)
        builder_use_plain(builder, node, PASS_FORWARD, ROLE_INPUT, CONV_BIAS);
    builder_use(builder, node, PASS_FORWARD, ROLE_SCRATCH, NULL);
    if (builder_is_training(builder))
        use_in_training(builder, node, state, &x, &y);
    else
        builder_buffer(builder, node, ROLE_SCRATCH,
                       pass_bytes(&state->forward, builder_threads(builder)));
    return 0;
}

/* --- Forward, and back to x --- */

/* What a thread works with in the scratch memory. */
struct room {
    float *weights, *patches, *results;
};

static struct winograd_range range_of(int64_t tiles, int64_t at_once, int64_t block)
{
    int64_t first = block * at_once, left = tiles - first;
    return (struct winograd_range){first, left < at_once ? left : at_once};
}

static void put_outputs(const struct pass *pass, const struct room *room, int64_t out,
                        int64_t outputs, struct winograd_range tiles, const float *bias)
{
    const struct winograd_steps *steps = pass->steps;
    for (int64_t k = 0; k < outputs; k += steps->lanes) {
        struct winograd_finish finish = {
            .bias = bias ? bias + out + k : NULL, .add = pass->add, .relu = pass->relu};
        pass->way->put_results(room->results + k * pass->tiles_at_once, pass->result_plane,
                               &pass->y, (out + k) / steps->lanes, tiles, finish);
    }
}

/* Whether the product before this one began the same results. */
static bool is_met(const struct pass *pass, int product)
{
    return product && pass->products[product].result == pass->products[product - 1].result;
}

static void run_tiles(const struct pass *pass, const struct room *room, struct winograd_range tiles,
                      const float *bias)
{
    const struct winograd_steps *steps = pass->steps;
    for (int64_t c = 0; c < pass->in; c += steps->lanes)
        pass->way->take_patches(&pass->x, c / steps->lanes, tiles,
                                room->patches + c * pass->tiles_at_once, pass->patch_plane);
    for (int64_t out = 0; out < pass->out; out += pass->way->outputs) {
        int64_t outputs = at_most(pass->out - out, pass->way->outputs);
        for (int i = 0; i < pass->product_count; i++) {
            struct winograd_product p = pass->products[i];
            steps->multiply(room->weights + (size_t)p.weights * pass->weight_plane + out * pass->in,
                            room->patches + (size_t)p.patch * pass->patch_plane,
                            room->results + (size_t)p.result * pass->result_plane, pass->in,
                            outputs, tiles.count, pass->tiles_at_once, is_met(pass, i));
        }
        put_outputs(pass, room, out, outputs, tiles, bias);
    }
}

static void run_many(const struct pass *pass, const float *bias, int threads, float *scratch)
{
    int64_t blocks = (pass->tiles + pass->tiles_at_once - 1) / pass->tiles_at_once;
    float *shares = scratch + floats_of_all(pass);
    const struct winograd_steps *steps = pass->steps;
#pragma omp parallel for schedule(static)
    for (int64_t out = 0; out < pass->out; out += steps->wide)
        steps->take_weights(&pass->weights, out, scratch + out * pass->in, pass->weight_plane);
#pragma omp parallel for schedule(static)
    for (int t = 0; t < threads; t++) {
        float *share = shares + (size_t)t * floats_of_thread(pass);
        struct room room = {scratch, share, share + patch_floats(pass)};
        for (int64_t block = t; block < blocks; block += threads)
            run_tiles(pass, &room, range_of(pass->tiles, pass->tiles_at_once, block), bias);
    }
}

/* --- The same with few tiles --- */

/* Asks for a part of the weights of a piece, which lie in one run or in one for each tap; there are as many
 * parts as products. */
static void fetch_part(const struct pass *pass, int64_t out, int64_t in, int64_t part)
{
    enum { LINE = 16 };
    const struct winograd_weights *weights = &pass->weights;
    int64_t lines = at_most(pass->in - in, pass->steps->sizes.piece) * weights->in_stride / LINE;
    int64_t runs = weights->tap_stride > weights->in_stride ? KERNEL * KERNEL : 1;
    int64_t parts = pass->product_count / runs, run = part / parts, of_run = part % parts;
    const float *from = weights->data + out * weights->out_stride + run * weights->tap_stride +
                        in * weights->in_stride;
    for (int64_t line = of_run * lines / parts; line < (of_run + 1) * lines / parts; line++)
        __builtin_prefetch(from + line * LINE, 0, 2);
}

/* As many outputs as a product has. While one piece is multiplied, the weights of the next one come from memory. */
static void run_outputs(const struct pass *pass, const struct room *room, int64_t out,
                        int64_t next_out, const float *bias)
{
    const struct winograd_steps *steps = pass->steps;
    int64_t most = steps->sizes.piece;
    for (int64_t in = 0; in < pass->in; in += most) {
        struct winograd_weights piece = pass->weights;
        bool last = in + most >= pass->in;
        piece.data += in * piece.in_stride;
        piece.in = at_most(pass->in - in, most);
        steps->take_weights(&piece, out, room->weights, pass->weight_plane);
        for (int i = 0; i < pass->product_count; i++) {
            struct winograd_product p = pass->products[i];
            fetch_part(pass, last ? next_out : out, last ? 0 : in + most, i);
            steps->multiply(
                room->weights + (size_t)p.weights * pass->weight_plane,
                room->patches + (size_t)p.patch * pass->patch_plane + in * pass->tiles_at_once,
                room->results + (size_t)p.result * pass->result_plane, piece.in, steps->wide,
                pass->tiles, pass->tiles_at_once, in > 0 || is_met(pass, i));
        }
    }
    put_outputs(pass, room, out, steps->wide, (struct winograd_range){0, pass->tiles}, bias);
}

static void run_few(const struct pass *pass, const float *bias, int threads, float *scratch)
{
    float *shares = scratch + floats_of_all(pass);
    const struct winograd_steps *steps = pass->steps;
#pragma omp parallel for schedule(static)
    for (int64_t c = 0; c < pass->in; c += steps->lanes)
        pass->way->take_patches(&pass->x, c / steps->lanes, (struct winograd_range){0, pass->tiles},
                                scratch + c * pass->tiles_at_once, pass->patch_plane);
#pragma omp parallel for schedule(static)
    for (int t = 0; t < threads; t++) {
        float *share = shares + (size_t)t * floats_of_thread(pass);
        struct room room = {share, scratch, share + weight_floats(pass)};
        for (int64_t out = (int64_t)t * steps->wide, next; out < pass->out; out = next) {
            next = out + (int64_t)threads * steps->wide;
            run_outputs(pass, &room, out, next < pass->out ? next : out, bias);
        }
    }
}

static void run_pass(const struct pass *pass, const float *bias, const struct op_run *run)
{
    if (pass->few)
        run_few(pass, bias, run->threads, run->scratch);
    else
        run_many(pass, bias, run->threads, run->scratch);
}

static void forward(const struct op_run *run)
{
    struct pass pass = ((const struct state *)run->state)->forward;
    pass.x.data = run->inputs[CONV_X];
    pass.y.data = run->output;
    pass.weights.data = run->inputs[CONV_WEIGHTS];
    run_pass(&pass, pass.bias ? run->inputs[CONV_BIAS] : NULL, run);
}

static void backward(const struct op_run *run)
{
    struct pass pass = ((const struct state *)run->state)->back;
    pass.x.data = run->gradients[0];
    pass.y.data = run->input_gradients[CONV_X];
    pass.weights.data = run->inputs[CONV_WEIGHTS];
    run_pass(&pass, NULL, run);
}

/* --- The gradient of the weights --- */

struct sums {
    const struct pass *pass;
    const struct gradient *gradient;
    struct winograd_picture x, y_gradient;
    float *patches, *tiles, *weights, *bias;
};

/* Channels of x and of y's gradient are alike to the threads. */
static void take_tiles(const struct sums *sums, struct winograd_range tiles)
{
    const struct pass *pass = sums->pass;
    const struct winograd_steps *steps = pass->steps;
    int64_t stride = sums->gradient->tiles_at_once;
#pragma omp parallel for schedule(static)
    for (int64_t c = 0; c < pass->in + pass->out; c += steps->lanes) {
        int64_t out = c - pass->in;
        if (out < 0)
            pass->way->take_patches(&sums->x, c / steps->lanes, tiles, sums->patches + c * stride,
                                    sums->gradient->patch_plane);
        else
            steps->take_gradients(&sums->y_gradient, out / steps->lanes, tiles,
                                  sums->tiles + out * stride, sums->gradient->tile_plane,
                                  sums->bias + out);
    }
}

/* One product's share of a plane of weights, for some blocks of outputs. */
static void multiply_blocks(const struct sums *sums, const struct winograd_product *product,
                            int64_t block, int64_t blocks, int64_t tiles, bool add)
{
    const struct winograd_steps *steps = sums->pass->steps;
    const struct gradient *gradient = sums->gradient;
    int64_t lanes = steps->lanes, stride = gradient->tiles_at_once, in = sums->pass->in;
    steps->multiply_gradients(&(struct winograd_gradients){
        .patches = sums->patches + (size_t)product->patch * gradient->patch_plane,
        .gradients =
            sums->tiles + (size_t)product->result * gradient->tile_plane + block * lanes * stride,
        .patch_stride = stride,
        .gradient_stride = stride,
        .sums = sums->weights + (size_t)product->weights * gradient->sum_plane + block * lanes * in,
        .out_step = in * lanes,
        .in_step = lanes * lanes,
        .in = in,
        .tiles = tiles,
        .blocks = (int)blocks,
        .add = add,
    });
}

/* A plane of weights has one product, or, with stride 2, those of all points where its weights are the same. Planes
 * with many products are the last ones; they come first, lest other threads wait for them. */
static void multiply_planes(const struct sums *sums, struct winograd_range tiles)
{
    const struct pass *pass = sums->pass;
    int64_t blocks = pass->out / pass->steps->lanes;
    int64_t groups = (blocks + WINOGRAD_BLOCKS - 1) / WINOGRAD_BLOCKS;
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 0; i < pass->steps->weight_planes * groups; i++) {
        int64_t plane = pass->steps->weight_planes - 1 - i / groups;
        int64_t block = i % groups * blocks / groups, next = (i % groups + 1) * blocks / groups;
        bool add = tiles.first > 0;
        for (int k = 0; k < pass->product_count; k++) {
            if (pass->products[k].weights != plane)
                continue;
            multiply_blocks(sums, &pass->products[k], block, next - block, tiles.count, add);
            add = true;
        }
    }
}

static void backward_weights(const struct op_run *run)
{
    const struct state *state = run->state;
    const struct pass *pass = &state->forward;
    const struct gradient *gradient = &state->gradient;
    float *scratch = run->scratch;
    struct sums sums = {pass,
                        gradient,
                        pass->x,
                        pass->y,
                        scratch,
                        scratch + gradient->tiles_at,
                        scratch + gradient->sums_at,
                        scratch + gradient->bias_at};
    sums.x.data = run->inputs[CONV_X];
    sums.y_gradient.data = run->gradients[0];
    memset(sums.bias, 0, (size_t)pass->out * sizeof *sums.bias);
    for (int64_t block = 0; block * gradient->tiles_at_once < pass->tiles; block++) {
        struct winograd_range range = range_of(pass->tiles, gradient->tiles_at_once, block);
        take_tiles(&sums, range);
        multiply_planes(&sums, range);
    }
    struct winograd_weights to = pass->weights;
    to.data = run->input_gradients[CONV_WEIGHTS];
#pragma omp parallel for schedule(static)
    for (int64_t out = 0; out < pass->out; out += pass->steps->lanes)
        pass->steps->put_weights(sums.weights + out * pass->in, gradient->sum_plane, &to, out);
    if (pass->bias)
        memcpy(run->input_gradients[CONV_BIAS], sums.bias, (size_t)pass->out * sizeof *sums.bias);
}

const struct op_kernel conv_kernel_winograd = {
    .name = "winograd",
    .fits = fits,
    .pays = pays,
    .prepare = prepare,
    .pass = {forward, backward_weights, backward},
    .relu_forward = true,
    .residual_serving = true,
};

#else

const struct op_kernel conv_kernel_winograd = {.name = "winograd", .fits = op_fits_never};

#endif
