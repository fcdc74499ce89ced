/* A 3x3 convolution of pictures with one channel (MNIST's first), with the ReLU and the 2x2 max
 * pool behind it in the same pass, on AVX2.
 *
 * Ours because oneDNN's weight gradient for one channel takes half of an MNIST step, and because
 * with the pool inside, the full picture (four times the pooled one) is never written or read,
 * neither forward nor backward. A tile is 2x2 outputs of 8 channels: 36 products from a 4x4 patch
 * of the input, with all 9 weights in registers.
 *
 * x [N, H, W]; weights, row-major [O, 9]; y in blocks of 8 channels, [N, O/8, rows, columns, 8].
 * Gradients are summed per example and then over the examples in order: the same bits for any
 * number of threads. */
#include "base/arena.h"
#include "base/error.h"
#include "exec/known_ops.h"
#include "ops/conv_attributes.h"
#include "ops/pool.h"

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#include "ops/avx2.h"

enum { KERNEL = 3, TAPS = 9, LANES = 8, SUMS = TAPS + 1 };

struct state {
    int64_t batch, height, width; /* of x */
    int64_t blocks;               /* of 8 output channels */
    int64_t rows, columns;        /* of y */
    bool bias, relu, pool, training;
};

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
    return window->kernel == KERNEL && window->stride == 1 && window->dilation == 1 &&
           (window->padding == PADDING_VALID ||
            (window->padding == PADDING_EXPLICIT && !window->pad_before && !window->pad_after));
}

static bool fits(const struct plan_builder *builder, const struct plan_node *node)
{
    const struct conv_attributes *a = node->node->attributes;
    const struct value *x = graph_value(builder_graph(builder), node->inputs[CONV_X]);
    struct layout layout;
    struct layout_form form;
    return x->kind == VALUE_INPUT && x->shape.dim[1] == 1 &&
           !builder_wants_gradient(builder, node->inputs[CONV_X]) && a->channels % LANES == 0 &&
           is_plain_window(&a->rows) && is_plain_window(&a->columns) &&
           __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           ask_layout(builder, node, &layout, NULL) == 0 && layout_form(&layout, &form) &&
           form.inner == LANES && form.spatial > 1;
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
    struct state *state = ARENA_NEW(builder_arena(builder), struct state);
    struct layout layout;
    struct layout_form form;
    if (!state)
        return error_set(err, ERROR_MEMORY, "no memory for a convolution");
    if (ask_layout(builder, node, &layout, err) < 0)
        return -1;
    if (!layout_form(&layout, &form) || form.inner != LANES)
        return error_set(err, ERROR_KERNEL, "this convolution's layout is not in blocks of 8");
    struct shape x = builder_shape(builder, node->inputs[CONV_X]);
    struct shape y = builder_shape(builder, node->output);
    *state = (struct state){.batch = x.dim[0],
                            .height = x.dim[2],
                            .width = x.dim[3],
                            .blocks = y.dim[1] / LANES,
                            .rows = y.dim[2],
                            .columns = y.dim[3],
                            .bias = node->input_count > CONV_BIAS,
                            .relu = node->relu,
                            .pool = node->pool != NULL,
                            .training = builder_is_training(builder)};
    node->state = state;
    builder_kernel_name(builder, node, "own:thin:avx2");
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
    if (state->pool) { /* two bytes a tile: the row and the column of each lane's largest */
        size_t tiles = (size_t)(state->batch * state->blocks * state->rows * state->columns);
        builder_use(builder, node, PASS_FORWARD, ROLE_WORKSPACE, NULL);
        builder_use(builder, node, PASS_BACKWARD_WEIGHTS, ROLE_WORKSPACE, NULL);
        builder_buffer(builder, node, ROLE_WORKSPACE, 2 * tiles);
    }
    builder_use(builder, node, PASS_BACKWARD_WEIGHTS, ROLE_SCRATCH, NULL);
    builder_buffer(builder, node, ROLE_SCRATCH,
                   (size_t)(state->batch * state->blocks) * SUMS * LANES * sizeof(float));
    return 0;
}

/* --- Forward --- */

/* weights [8, 9] to one register a tap. */
INLINE void load_weights(const float *weights, __m256 *taps)
{
#pragma GCC unroll 16
    for (int t = 0; t < TAPS; t++)
        taps[t] = _mm256_set_ps(weights[7 * TAPS + t], weights[6 * TAPS + t], weights[5 * TAPS + t],
                                weights[4 * TAPS + t], weights[3 * TAPS + t], weights[2 * TAPS + t],
                                weights[TAPS + t], weights[t]);
}

/* The 2x2 outputs whose upper left input is x; each of the 16 inputs is read once. */
INLINE void tile(const float *x, int64_t width, const __m256 *taps, __m256 out[2][2])
{
    out[0][0] = out[0][1] = out[1][0] = out[1][1] = _mm256_setzero_ps();
#pragma GCC unroll 16
    for (int i = 0; i < KERNEL + 1; i++)
#pragma GCC unroll 16
        for (int j = 0; j < KERNEL + 1; j++) {
            __m256 value = _mm256_broadcast_ss(x + i * width + j);
#pragma GCC unroll 16
            for (int r = 0; r < 2; r++)
#pragma GCC unroll 16
                for (int c = 0; c < 2; c++)
                    if (i >= r && i - r < KERNEL && j >= c && j - c < KERNEL)
                        out[r][c] =
                            _mm256_fmadd_ps(value, taps[(i - r) * KERNEL + j - c], out[r][c]);
        }
}

INLINE __m256 one_output(const float *x, int64_t width, const __m256 *taps)
{
    __m256 sum = _mm256_setzero_ps();
#pragma GCC unroll 16
    for (int i = 0; i < KERNEL; i++)
#pragma GCC unroll 16
        for (int j = 0; j < KERNEL; j++)
            sum =
                _mm256_fmadd_ps(_mm256_broadcast_ss(x + i * width + j), taps[i * KERNEL + j], sum);
    return sum;
}

INLINE __m256 finish(__m256 value, __m256 bias, bool relu)
{
    value = _mm256_add_ps(value, bias);
    /* The second operand of max is what a NaN gives: keep the NaN. */
    return relu ? _mm256_max_ps(_mm256_setzero_ps(), value) : value;
}

/* Ties go to the first, in rows from the left, as everywhere. */
INLINE __m256 largest(__m256 t[2][2], uint8_t *choice)
{
    __m256 right0 = _mm256_cmp_ps(t[0][1], t[0][0], _CMP_GT_OQ);
    __m256 right1 = _mm256_cmp_ps(t[1][1], t[1][0], _CMP_GT_OQ);
    __m256 upper = _mm256_blendv_ps(t[0][0], t[0][1], right0);
    __m256 lower = _mm256_blendv_ps(t[1][0], t[1][1], right1);
    __m256 below = _mm256_cmp_ps(lower, upper, _CMP_GT_OQ);
    if (choice) {
        choice[0] = (uint8_t)_mm256_movemask_ps(below);
        choice[1] = (uint8_t)_mm256_movemask_ps(_mm256_blendv_ps(right0, right1, below));
    }
    return _mm256_blendv_ps(upper, lower, below);
}

INLINE void forward_pooled(const struct state *state, const float *x, const __m256 *taps,
                           __m256 bias, float *y, uint8_t *choices)
{
    for (int64_t r = 0; r < state->rows; r++)
        for (int64_t c = 0; c < state->columns; c++) {
            __m256 outputs[2][2];
            int64_t at = r * state->columns + c;
            tile(x + 2 * r * state->width + 2 * c, state->width, taps, outputs);
            __m256 value = largest(outputs, choices ? choices + 2 * at : NULL);
            _mm256_storeu_ps(y + at * LANES, finish(value, bias, state->relu));
        }
}

INLINE void forward_full(const struct state *state, const float *x, const __m256 *taps, __m256 bias,
                         float *y)
{
    int64_t r = 0;
    for (; r + 2 <= state->rows; r += 2) {
        float *upper = y + r * state->columns * LANES, *lower = upper + state->columns * LANES;
        const float *row = x + r * state->width;
        int64_t c = 0;
        for (; c + 2 <= state->columns; c += 2) {
            __m256 outputs[2][2];
            tile(row + c, state->width, taps, outputs);
            for (int k = 0; k < 2; k++) {
                _mm256_storeu_ps(upper + (c + k) * LANES, finish(outputs[0][k], bias, state->relu));
                _mm256_storeu_ps(lower + (c + k) * LANES, finish(outputs[1][k], bias, state->relu));
            }
        }
        for (; c < state->columns; c++) {
            _mm256_storeu_ps(upper + c * LANES,
                             finish(one_output(row + c, state->width, taps), bias, state->relu));
            _mm256_storeu_ps(
                lower + c * LANES,
                finish(one_output(row + state->width + c, state->width, taps), bias, state->relu));
        }
    }
    for (; r < state->rows; r++)
        for (int64_t c = 0; c < state->columns; c++)
            _mm256_storeu_ps(y + (r * state->columns + c) * LANES,
                             finish(one_output(x + r * state->width + c, state->width, taps), bias,
                                    state->relu));
}

static void forward_block(const struct op_run *run, int64_t index)
{
    const struct state *state = run->state;
    int64_t n = index / state->blocks, block = index % state->blocks;
    const float *x = run->inputs[CONV_X] + n * state->height * state->width;
    float *y = run->output + index * state->rows * state->columns * LANES;
    __m256 taps[TAPS];
    load_weights(run->inputs[CONV_WEIGHTS] + block * LANES * TAPS, taps);
    __m256 bias =
        state->bias ? _mm256_loadu_ps(run->inputs[CONV_BIAS] + block * LANES) : _mm256_setzero_ps();
    if (!state->pool)
        forward_full(state, x, taps, bias, y);
    else
        forward_pooled(state, x, taps, bias, y,
                       state->training
                           ? (uint8_t *)run->workspace + 2 * index * state->rows * state->columns
                           : NULL);
}

/* --- Weight gradients --- */

INLINE void add_tile(const float *x, int64_t width, __m256 gradients[2][2], __m256 *sums)
{
#pragma GCC unroll 16
    for (int i = 0; i < KERNEL + 1; i++)
#pragma GCC unroll 16
        for (int j = 0; j < KERNEL + 1; j++) {
            __m256 value = _mm256_broadcast_ss(x + i * width + j);
#pragma GCC unroll 16
            for (int r = 0; r < 2; r++)
#pragma GCC unroll 16
                for (int c = 0; c < 2; c++)
                    if (i >= r && i - r < KERNEL && j >= c && j - c < KERNEL) {
                        int tap = (i - r) * KERNEL + j - c;
                        sums[tap] = _mm256_fmadd_ps(value, gradients[r][c], sums[tap]);
                    }
        }
}

INLINE __m256 load_gradient(const float *gradient, const float *y, int64_t at, bool relu)
{
    __m256 g = _mm256_loadu_ps(gradient + at * LANES);
    if (!relu)
        return g;
    __m256 on = _mm256_cmp_ps(_mm256_loadu_ps(y + at * LANES), _mm256_setzero_ps(), _CMP_GT_OQ);
    return _mm256_and_ps(g, on);
}

INLINE void gradient_pooled(const struct state *state, const float *x, const float *gradient,
                            const float *y, const uint8_t *choices, __m256 *sums)
{
    for (int64_t r = 0; r < state->rows; r++)
        for (int64_t c = 0; c < state->columns; c++) {
            int64_t at = r * state->columns + c;
            __m256 g = load_gradient(gradient, y, at, state->relu);
            __m256 below = expand_bits(choices[2 * at]), right = expand_bits(choices[2 * at + 1]);
            __m256 upper = _mm256_andnot_ps(below, g), lower = _mm256_and_ps(below, g);
            __m256 parts[2][2] = {{_mm256_andnot_ps(right, upper), _mm256_and_ps(right, upper)},
                                  {_mm256_andnot_ps(right, lower), _mm256_and_ps(right, lower)}};
            add_tile(x + 2 * r * state->width + 2 * c, state->width, parts, sums);
            sums[TAPS] = _mm256_add_ps(sums[TAPS], g);
        }
}

INLINE void gradient_full(const struct state *state, const float *x, const float *gradient,
                          const float *y, __m256 *sums)
{
    for (int64_t r = 0; r < state->rows; r++)
        for (int64_t c = 0; c < state->columns; c++) {
            __m256 g = load_gradient(gradient, y, r * state->columns + c, state->relu);
            const float *patch = x + r * state->width + c;
#pragma GCC unroll 16
            for (int i = 0; i < KERNEL; i++)
#pragma GCC unroll 16
                for (int j = 0; j < KERNEL; j++)
                    sums[i * KERNEL + j] = _mm256_fmadd_ps(
                        _mm256_broadcast_ss(patch + i * state->width + j), g, sums[i * KERNEL + j]);
            sums[TAPS] = _mm256_add_ps(sums[TAPS], g);
        }
}

/* partial: [batch, blocks, taps and bias, 8] */
static void gradient_block(const struct op_run *run, int64_t index, float *partial)
{
    const struct state *state = run->state;
    int64_t n = index / state->blocks, pixels = state->rows * state->columns;
    const float *x = run->inputs[CONV_X] + n * state->height * state->width;
    const float *gradient = run->gradients[0] + index * pixels * LANES;
    const float *y = state->relu ? run->output + index * pixels * LANES : NULL;
    __m256 sums[SUMS];
    for (int t = 0; t < SUMS; t++)
        sums[t] = _mm256_setzero_ps();
    if (state->pool)
        gradient_pooled(state, x, gradient, y, (const uint8_t *)run->workspace + 2 * index * pixels,
                        sums);
    else
        gradient_full(state, x, gradient, y, sums);
    for (int t = 0; t < SUMS; t++)
        _mm256_storeu_ps(partial + (index * SUMS + t) * LANES, sums[t]);
}

static void sum_examples(const struct op_run *run, const float *partial)
{
    const struct state *state = run->state;
    float *weights = run->input_gradients[CONV_WEIGHTS];
    float *bias = state->bias ? run->input_gradients[CONV_BIAS] : NULL;
    for (int64_t o = 0; o < state->blocks * LANES; o++)
        for (int t = 0; t < SUMS; t++) {
            double sum = 0;
            for (int64_t n = 0; n < state->batch; n++)
                sum += (double)
                    partial[((n * state->blocks + o / LANES) * SUMS + t) * LANES + o % LANES];
            if (t < TAPS)
                weights[o * TAPS + t] = (float)sum;
            else if (bias)
                bias[o] = (float)sum;
        }
}

#pragma GCC pop_options

static void forward(const struct op_run *run)
{
    const struct state *state = run->state;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < state->batch * state->blocks; i++)
        forward_block(run, i);
}

static void backward_weights(const struct op_run *run)
{
    const struct state *state = run->state;
    float *partial = run->scratch;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < state->batch * state->blocks; i++)
        gradient_block(run, i, partial);
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

#else

const struct op_kernel conv_kernel_thin = {.name = "own:thin", .fits = op_fits_never};

#endif
