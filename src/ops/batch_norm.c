/* Batch normalisation over N, H and W of x [N, C, H, W], or over N of x [N, C]; with the ReLU
 * behind it and a residual added before that, when the planner fused them.
 *
 * Training uses the batch's mean and variance; running averages of both (the variance with N-1 in
 * the denominator, as TensorFlow and PyTorch have it) move at the end of a finished step. Sums
 * are taken per example and added in a fixed order, so bits do not depend on the threads. */
#include <math.h>

#include "base/arena.h"
#include "base/error.h"
#include "exec/known_ops.h"
#include "exec/op.h"
#include "ops/norm.h"

/* Results of STREAM_BYTES leave the caches before anybody reads them; a block of channels of APART_BYTES stays
 * in those of one core until it is read again. */
enum { STREAM_BYTES = 24 * 1024 * 1024, APART_BYTES = 2 * 1024 * 1024 };

_Static_assert((int)NORM_MAX_GRADIENTS == (int)OP_MAX_GRADIENTS, "the kernels take what we get");

static int infer(const struct graph *graph, const struct node *node, struct value *out,
                 struct error *err)
{
    const struct shape *x = &graph_value(graph, node->inputs[BATCH_NORM_X])->shape;
    if (x->ndim != 2 && x->ndim != 4)
        return error_set(err, ERROR_FORMAT,
                         "batch norm takes [N, C] or [N, C, H, W], not %d dimensions", x->ndim);
    out->shape = *x;
    return 0;
}

struct state {
    struct layout_form form;
    const struct norm_kernels *kernels;
    struct norm_segment segment;
    float epsilon, momentum;
    bool training, masked;
    bool apart; /* each block of channels by one thread, from its first pass to its last */
};

/* What forward leaves for backward and commit: [channels, padded] each. */
struct kept {
    float *mean, *inverse, *variance;
};

static int64_t padded_channels(const struct state *state)
{
    return state->form.blocks * state->form.inner;
}

static int64_t segment_count(const struct state *state)
{
    return state->form.outer * state->form.blocks;
}

/* Of one segment. */
static size_t mask_bytes(const struct state *state)
{
    return ((size_t)(state->form.spatial * state->form.inner) + 7) / 8;
}

static struct kept kept_of(const struct op_run *run)
{
    int64_t channels = padded_channels(run->state);
    float *first = run->kept;
    return (struct kept){first, first + channels, first + 2 * channels};
}

/* The scratch: sums of each example, [outer, channels], and four rows of [channels]. */
struct room {
    double *sums, *products;
    float *rows[4];
};

static size_t room_bytes(const struct state *state)
{
    size_t channels = (size_t)padded_channels(state);
    return (size_t)state->form.outer * channels * 2 * sizeof(double) + 4 * channels * sizeof(float);
}

static struct room room_of(const struct op_run *run)
{
    const struct state *state = run->state;
    int64_t channels = padded_channels(state), sums = state->form.outer * channels;
    struct room room = {run->scratch, (double *)run->scratch + sums, {NULL}};
    for (int i = 0; i < 4; i++)
        room.rows[i] = (float *)(room.products + sums) + i * channels;
    return room;
}

static const struct norm_kernels *choose(int lanes)
{
    if (norm_kernels_avx512.fits(lanes))
        return &norm_kernels_avx512;
    return norm_kernels_avx2.fits(lanes) ? &norm_kernels_avx2 : &norm_kernels_portable;
}

static bool go_apart(const struct plan_builder *builder, const struct state *state)
{
    const struct layout_form *form = &state->form;
    int64_t bytes = form->outer * form->spatial * form->inner * (int64_t)sizeof(float);
    int64_t threads = builder_threads(builder);
    return bytes <= APART_BYTES && form->blocks % threads == 0;
}

/* N, C, H, W in memory has its lanes apart (inner 1): ask for channels last instead, unless the
 * picture is a single cell. */
static struct layout wanted_layout(const struct plan_builder *builder, value_id x)
{
    const struct layout *layout = builder_layout(builder, x);
    struct shape shape = builder_shape(builder, x);
    struct layout_form form;
    bool usable = layout_form(layout, &form) && (form.inner > 1 || form.channels == 1);
    if (usable)
        return *layout;
    return shape.ndim == 4 ? layout_channels_last(&shape) : layout_plain(&shape);
}

static void declare_backward(struct plan_builder *builder, struct plan_node *node,
                             const struct state *state, const struct layout *layout)
{
    builder_use(builder, node, PASS_BACKWARD, ROLE_INPUT + BATCH_NORM_X, layout);
    builder_use(builder, node, PASS_BACKWARD, ROLE_INPUT + BATCH_NORM_SCALE, NULL);
    builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT, layout);
    builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT_OF_INPUT + BATCH_NORM_X, layout);
    builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT_OF_INPUT + BATCH_NORM_SCALE, NULL);
    builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT_OF_INPUT + BATCH_NORM_SHIFT, NULL);
    if (node->residual >= 0)
        builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT_OF_INPUT + node->input_count,
                    layout);
    else
        builder_gradient_in_place(builder, node);
    if (state->masked)
        builder_use(builder, node, PASS_BACKWARD, ROLE_WORKSPACE, NULL);
    builder_use(builder, node, PASS_BACKWARD, ROLE_KEPT, NULL);
    builder_use(builder, node, PASS_BACKWARD, ROLE_SCRATCH, NULL);
    builder_buffer(builder, node, ROLE_SCRATCH, room_bytes(state));
}

/* The statistics are there. */
static void declare_recompute(struct plan_builder *builder, struct plan_node *node,
                              const struct layout *layout)
{
    builder_use(builder, node, PASS_RECOMPUTE, ROLE_INPUT + BATCH_NORM_X, layout);
    builder_use(builder, node, PASS_RECOMPUTE, ROLE_INPUT + BATCH_NORM_SCALE, NULL);
    builder_use(builder, node, PASS_RECOMPUTE, ROLE_INPUT + BATCH_NORM_SHIFT, NULL);
    if (node->residual >= 0)
        builder_use(builder, node, PASS_RECOMPUTE, ROLE_INPUT + node->input_count, layout);
    builder_use(builder, node, PASS_RECOMPUTE, ROLE_KEPT, NULL);
    builder_use(builder, node, PASS_RECOMPUTE, ROLE_SCRATCH, NULL);
}

static int prepare(struct plan_builder *builder, struct plan_node *node, struct error *err)
{
    const struct batch_norm_attributes *a = node->node->attributes;
    struct state *state = ARENA_NEW(builder_arena(builder), struct state);
    if (!state)
        return error_set(err, ERROR_MEMORY, "no memory for a batch norm");
    node->state = state;
    struct layout layout = wanted_layout(builder, node->inputs[BATCH_NORM_X]);
    if (!layout_form(&layout, &state->form))
        return error_set(err, ERROR_KERNEL, "batch norm cannot walk this layout");
    int lanes = (int)state->form.inner;
    state->kernels = choose(lanes);
    state->segment = (struct norm_segment){.spatial = (size_t)state->form.spatial,
                                           .lanes = lanes,
                                           .stream = layout_bytes(&layout) >= STREAM_BYTES};
    state->apart = go_apart(builder, state);
    state->epsilon = a->epsilon;
    state->momentum = a->momentum;
    state->training = builder_is_training(builder);
    builder_kernel_name(builder, node, "%s", state->kernels->name);

    for (int i = BATCH_NORM_X; i <= BATCH_NORM_VARIANCE; i++)
        builder_use(builder, node, PASS_FORWARD, ROLE_INPUT + i,
                    i == BATCH_NORM_X ? &layout : NULL);
    if (node->residual >= 0)
        builder_use(builder, node, PASS_FORWARD, ROLE_INPUT + node->input_count, &layout);
    builder_use(builder, node, PASS_FORWARD, ROLE_SCRATCH, NULL);
    builder_buffer(builder, node, ROLE_SCRATCH, room_bytes(state));
    builder_use(builder, node, PASS_FORWARD, ROLE_KEPT, NULL);
    builder_buffer(builder, node, ROLE_KEPT, 3 * (size_t)padded_channels(state) * sizeof(float));
    builder_output(builder, node, &layout);
    /* Batch norm's backward reads its input, so a training plan may not overwrite it; outside
     * training nothing reads it again. */
    if (!state->training) {
        builder_allow_overwrite(builder, node, BATCH_NORM_X);
        return 0;
    }
    state->masked = node->relu;
    if (state->masked) {
        builder_use(builder, node, PASS_FORWARD, ROLE_WORKSPACE, NULL);
        builder_buffer(builder, node, ROLE_WORKSPACE,
                       (size_t)segment_count(state) * mask_bytes(state));
    }
    declare_backward(builder, node, state, &layout);
    declare_recompute(builder, node, &layout);
    return 0;
}

/* --- One segment after the other --- */

struct segment_place {
    size_t element; /* of x, y and gradients */
    size_t mask;    /* byte of the mask */
    size_t channel;
    size_t partial; /* of the per-example sums */
};

static struct segment_place place_of(const struct state *state, int64_t example, int64_t block)
{
    size_t elements = (size_t)(state->form.spatial * state->form.inner);
    size_t index = (size_t)(example * state->form.blocks + block);
    return (struct segment_place){
        .element = index * elements,
        .mask = index * mask_bytes(state),
        .channel = (size_t)(block * state->form.inner),
        .partial = index * (size_t)state->form.inner,
    };
}

/* Blocks of channels that take their way through a pass together. */
struct blocks {
    int64_t first, count;
};

/* A block's channels have nothing to do with those of others. Where a block fits into the caches, threads take
 * one after the other, and read again from there what they just summed; else all blocks go together, and
 * threads divide their segments. Either way the same bits. */
static void for_blocks(const struct op_run *run,
                       void (*work)(const struct op_run *run, struct blocks blocks))
{
    const struct state *state = run->state;
    if (!state->apart) { /* not from within a region, where threads would be made anew each time */
        work(run, (struct blocks){0, state->form.blocks});
        return;
    }
#pragma omp parallel for schedule(static)
    for (int64_t block = 0; block < state->form.blocks; block++)
        work(run, (struct blocks){block, 1});
}

static int64_t segments_of(const struct state *state, struct blocks blocks)
{
    return state->form.outer * blocks.count;
}

static struct segment_place segment_of(const struct state *state, struct blocks blocks, int64_t i)
{
    return place_of(state, i / blocks.count, blocks.first + i % blocks.count);
}

static void clear_sums(const struct state *state, const struct room *room, size_t partial)
{
    memset(room->sums + partial, 0, (size_t)state->form.inner * sizeof(double));
    memset(room->products + partial, 0, (size_t)state->form.inner * sizeof(double));
}

/* Adds them up in the order of the examples. */
static double total(const double *sums, const struct state *state, int64_t channel)
{
    double sum = 0;
    for (int64_t n = 0; n < state->form.outer; n++)
        sum += sums[n * padded_channels(state) + channel];
    return sum;
}

static void batch_statistics(const struct op_run *run, struct blocks blocks)
{
    const struct state *state = run->state;
    const float *x = run->inputs[BATCH_NORM_X];
    struct room room = room_of(run);
    float *pivot = room.rows[0];
    int64_t inner = state->form.inner, first = blocks.first * inner;
    int64_t end = first + blocks.count * inner;
    /* The first example's first element of each channel: near enough to the mean for the
     * difference of squares not to cancel. */
    for (int64_t block = blocks.first; block < blocks.first + blocks.count; block++)
        memcpy(pivot + block * inner, x + block * state->form.spatial * inner,
               (size_t)inner * sizeof(float));
#pragma omp parallel for schedule(static) if (!state->apart)
    for (int64_t i = 0; i < segments_of(state, blocks); i++) {
        struct segment_place at = segment_of(state, blocks, i);
        clear_sums(state, &room, at.partial);
        state->kernels->sum(&state->segment, x + at.element, pivot + at.channel,
                            room.sums + at.partial, room.products + at.partial);
    }
    struct kept kept = kept_of(run);
    double count = (double)(state->form.outer * state->form.spatial);
#pragma omp parallel for schedule(static) if (end - first >= 256)
    for (int64_t c = first; c < end; c++) {
        double shift = total(room.sums, state, c) / count;
        double variance = total(room.products, state, c) / count - shift * shift;
        variance = variance > 0 ? variance : variance < 0 ? 0 : variance; /* NaN stays */
        kept.mean[c] = (float)((double)pivot[c] + shift);
        kept.variance[c] = (float)variance;
        kept.inverse[c] = (float)(1 / sqrt(variance + (double)state->epsilon));
    }
}

static void running_statistics(const struct op_run *run)
{
    const struct state *state = run->state;
    struct kept kept = kept_of(run);
    for (int64_t c = 0; c < state->form.channels; c++) {
        kept.mean[c] = run->inputs[BATCH_NORM_MEAN][c];
        kept.inverse[c] =
            (float)(1 / sqrt((double)run->inputs[BATCH_NORM_VARIANCE][c] + (double)state->epsilon));
    }
}

/* With the statistics that were kept; `mask` may be NULL. */
static void normalise(const struct op_run *run, struct blocks blocks, uint8_t *mask)
{
    const struct state *state = run->state;
    struct kept kept = kept_of(run);
    struct room room = room_of(run);
    float *factor = room.rows[1], *shift = room.rows[2], *mean = room.rows[3];
    int64_t first = blocks.first * state->form.inner;
    for (int64_t c = first; c < first + blocks.count * state->form.inner; c++) {
        bool real = c < state->form.channels; /* padding stays zero */
        mean[c] = real ? kept.mean[c] : 0;
        factor[c] = real ? run->inputs[BATCH_NORM_SCALE][c] * kept.inverse[c] : 0;
        shift[c] = real ? run->inputs[BATCH_NORM_SHIFT][c] : 0;
    }
    const float *residual = run->node->residual >= 0 ? run->inputs[run->node->input_count] : NULL;
#pragma omp parallel for schedule(static) if (!state->apart)
    for (int64_t i = 0; i < segments_of(state, blocks); i++) {
        struct segment_place at = segment_of(state, blocks, i);
        state->kernels->apply(&state->segment, run->inputs[BATCH_NORM_X] + at.element,
                              residual ? residual + at.element : NULL, mean + at.channel,
                              factor + at.channel, shift + at.channel, run->node->relu,
                              run->output + at.element, mask ? mask + at.mask : NULL);
    }
}

static void forward_blocks(const struct op_run *run, struct blocks blocks)
{
    const struct state *state = run->state;
    if (state->training)
        batch_statistics(run, blocks);
    normalise(run, blocks, state->masked ? run->workspace : NULL);
}

static void forward(const struct op_run *run)
{
    const struct state *state = run->state;
    if (!state->training)
        running_statistics(run);
    for_blocks(run, forward_blocks);
}

/* The mask is there, too. */
static void recompute_blocks(const struct op_run *run, struct blocks blocks)
{
    normalise(run, blocks, NULL);
}

static void recompute(const struct op_run *run)
{
    for_blocks(run, recompute_blocks);
}

/* --- Backward --- */

struct gradient_pieces {
    float *pointers[NORM_MAX_GRADIENTS];
    int count;
    const uint8_t *mask; /* NULL: already applied, or no ReLU */
};

static struct gradient_pieces pieces_at(const struct gradient_pieces *all, size_t element,
                                        size_t mask)
{
    struct gradient_pieces here = {.count = all->count,
                                   .mask = all->mask ? all->mask + mask : NULL};
    for (int i = 0; i < all->count; i++)
        here.pointers[i] = all->pointers[i] + element;
    return here;
}

/* With g the gradient behind the ReLU: the shift's is sum(g), the scale's sum(g * xhat). For x,
 * dx = scale * inverse * (g - mean(g) - xhat * mean(g * xhat)), as g * a + (x - mean) * b + c. */
static void finish_gradients(const struct op_run *run, struct blocks blocks,
                             const struct room *room)
{
    const struct state *state = run->state;
    struct kept kept = kept_of(run);
    float *a = room->rows[0], *b = room->rows[1], *c = room->rows[2];
    float *shift = run->input_gradients[BATCH_NORM_SHIFT];
    float *scale = run->input_gradients[BATCH_NORM_SCALE];
    double count = (double)(state->form.outer * state->form.spatial);
    int64_t first = blocks.first * state->form.inner;
    for (int64_t k = first; k < first + blocks.count * state->form.inner; k++) {
        a[k] = b[k] = c[k] = 0; /* padding stays zero */
        if (k >= state->form.channels)
            continue;
        double inverse = (double)kept.inverse[k];
        double factor = (double)run->inputs[BATCH_NORM_SCALE][k] * inverse;
        double sum = total(room->sums, state, k), product = total(room->products, state, k);
        a[k] = (float)factor;
        b[k] = (float)(-factor * inverse * inverse * product / count);
        c[k] = (float)(-factor * sum / count);
        if (shift)
            shift[k] = (float)sum;
        if (scale)
            scale[k] = (float)(product * inverse);
    }
}

static void backward_blocks(const struct op_run *run, struct blocks blocks)
{
    const struct state *state = run->state;
    struct kept kept = kept_of(run);
    const float *x = run->inputs[BATCH_NORM_X];
    struct room room = room_of(run);
    struct gradient_pieces pieces = {.count = run->gradient_count,
                                     .mask = state->masked ? run->workspace : NULL};
    memcpy(pieces.pointers, run->gradients, sizeof pieces.pointers);
    /* The residual's gradient is g itself: written here, it need not be made a second time. */
    float *g = run->node->residual >= 0 ? run->input_gradients[run->node->input_count] : NULL;
    struct norm_segment segment = state->segment;
    segment.stream &= !state->apart; /* g is read again at once */
#pragma omp parallel for schedule(static) if (!state->apart)
    for (int64_t i = 0; i < segments_of(state, blocks); i++) {
        struct segment_place at = segment_of(state, blocks, i);
        struct gradient_pieces here = pieces_at(&pieces, at.element, at.mask);
        clear_sums(state, &room, at.partial);
        state->kernels->reduce(&segment, here.pointers, here.count, here.mask, x + at.element,
                               kept.mean + at.channel, g ? g + at.element : NULL,
                               room.sums + at.partial, room.products + at.partial);
    }
    finish_gradients(run, blocks, &room);
    float *dx = run->input_gradients[BATCH_NORM_X];
    if (!dx)
        return;
    if (g)
        pieces = (struct gradient_pieces){.pointers = {g}, .count = 1};
#pragma omp parallel for schedule(static) if (!state->apart)
    for (int64_t i = 0; i < segments_of(state, blocks); i++) {
        struct segment_place at = segment_of(state, blocks, i);
        struct gradient_pieces here = pieces_at(&pieces, at.element, at.mask);
        state->kernels->propagate(&state->segment, here.pointers, here.count, here.mask,
                                  x + at.element, kept.mean + at.channel, room.rows[0] + at.channel,
                                  room.rows[1] + at.channel, room.rows[2] + at.channel,
                                  dx + at.element);
    }
}

static void backward(const struct op_run *run)
{
    for_blocks(run, backward_blocks);
}

static void commit(const struct op_run *run)
{
    const struct state *state = run->state;
    if (!state->training)
        return;
    struct kept kept = kept_of(run);
    double count = (double)(state->form.outer * state->form.spatial);
    double unbiased = count > 1 ? count / (count - 1) : 1;
    float *mean = run->inputs[BATCH_NORM_MEAN], *variance = run->inputs[BATCH_NORM_VARIANCE];
    float keep = state->momentum;
    for (int64_t c = 0; c < state->form.channels; c++) {
        mean[c] = keep * mean[c] + (1 - keep) * kept.mean[c];
        variance[c] =
            keep * variance[c] + (1 - keep) * (float)((double)kept.variance[c] * unbiased);
    }
}

static const struct op_kernel kernel_own = {
    .name = "own",
    .prepare = prepare,
    .pass = {forward, NULL, backward, recompute},
    .commit = commit,
    .sums_gradients = true,
    .residual = true,
    .relu = true,
};

static const struct op_kernel *const kernels[] = {&kernel_own, NULL};

/* --- Building --- */

value_id lockstep_batch_norm(struct graph *graph, value_id x, struct batch_norm_options options)
{
    if (!graph_holds(graph, x, "batch_norm"))
        return -1;
    const char *name = options.name ? options.name : graph_make_name(graph, "batch_norm");
    const struct shape *shape = &graph_value(graph, x)->shape;
    if (shape->ndim < 2)
        return graph_fail(graph, "%s: no channels to normalise", name);
    int64_t channels = shape->dim[1];
    struct batch_norm_attributes attributes = {
        .momentum = options.momentum ? options.momentum : 0.9f,
        .epsilon = options.epsilon ? options.epsilon : 1e-5f,
    };
    const struct {
        const char *suffix;
        struct initializer init;
        enum init_kind usual;
        unsigned flags;
    } rows[] = {{"scale", options.scale_init, INIT_ONES, PARAM_TRAINABLE},
                {"shift", options.shift_init, INIT_ZEROS, PARAM_TRAINABLE},
                {"mean", options.mean_init, INIT_ZEROS, PARAM_STATISTIC},
                {"variance", options.variance_init, INIT_ONES, PARAM_STATISTIC}};
    value_id inputs[5] = {x};
    for (int i = 0; i < 4; i++) {
        struct initializer init = rows[i].init;
        if (init.kind == INIT_DEFAULT)
            init.kind = rows[i].usual;
        inputs[1 + i] = graph_param(graph, graph_join_name(graph, name, rows[i].suffix),
                                    SHAPE(channels), init, rows[i].flags);
    }
    return graph_node(graph, &op_batch_norm, name, &attributes, inputs, 5);
}

static value_id example(struct graph *graph, int variant)
{
    static const struct shape shapes[] = {
        {4, {SHAPE_BATCH, 3, 4, 5}}, {2, {SHAPE_BATCH, 6}}, {4, {SHAPE_BATCH, 16, 3, 3}}};
    if (variant >= (int)(sizeof shapes / sizeof shapes[0]))
        return -1;
    value_id x = lockstep_input(graph, "x", DTYPE_F32, shapes[variant]);
    return lockstep_batch_norm(graph, x, (struct batch_norm_options){0});
}

const struct op op_batch_norm = {
    .name = "batch_norm",
    .attributes_size = sizeof(struct batch_norm_attributes),
    .infer = infer,
    .kernels = kernels,
    .example = example,
};
