/* Max pooling over blocked layouts on AVX2, with the ReLU before or behind it.
 *
 * Ours because oneDNN's takes longer in both directions (docs/performance.md). Here each input
 * cell gathers from the windows that chose it, so the gradient is written once. A byte per output
 * remembers which cell of the window was the largest; ties go to the first, in rows from the left.
 *
 * x [N, C/8, H, W, 8], y [N, C/8, rows, columns, 8]; blocks of 16 lanes are two of 8. */
#include "base/arena.h"
#include "base/error.h"
#include "ops/pool.h"

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#include <immintrin.h>

enum { LANES = 8, MOST_CELLS = 128 };

struct axis {
    int64_t in, out;
    int kernel, stride, before;
};

struct state {
    struct axis rows, columns;
    int64_t segments; /* examples times blocks */
    int64_t lanes;    /* of a block: a multiple of 8 */
    bool relu, training;
};

/* --- One segment: [in rows, in columns, lanes] --- */

static inline int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The low byte of each of eight numbers. */
static inline void store_bytes(uint8_t *out, __m256i numbers)
{
    __m256i words = _mm256_packus_epi32(numbers, numbers);
    __m256i bytes = _mm256_packus_epi16(words, words);
    int32_t low = _mm256_extract_epi32(bytes, 0), high = _mm256_extract_epi32(bytes, 4);
    memcpy(out, &low, sizeof low);
    memcpy(out + 4, &high, sizeof high);
}

static inline __m256i load_bytes(const uint8_t *in)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)in));
}

/* The largest cell of the window whose first cell (which may lie in the padding) is (row, column),
 * and its number within the window. */
static inline __m256 largest(const struct state *state, const float *x, int64_t row, int64_t column,
                             __m256i *choice)
{
    const struct axis *rows = &state->rows, *columns = &state->columns;
    int64_t first_row = larger(row, 0), end_row = smaller(row + rows->kernel, rows->in);
    int64_t first = larger(column, 0), end = smaller(column + columns->kernel, columns->in);
    __m256 best = _mm256_set1_ps(-__builtin_inff());
    __m256i chosen = _mm256_set1_epi32((int)((first_row - row) * columns->kernel + first - column));
    for (int64_t r = first_row; r < end_row; r++)
        for (int64_t c = first; c < end; c++) {
            __m256 value = _mm256_loadu_ps(x + (r * columns->in + c) * state->lanes);
            __m256 more = _mm256_cmp_ps(value, best, _CMP_NLE_UQ); /* a NaN wins */
            best = _mm256_blendv_ps(best, value, more);
            __m256i number = _mm256_set1_epi32((int)((r - row) * columns->kernel + c - column));
            chosen = _mm256_blendv_epi8(chosen, number, _mm256_castps_si256(more));
        }
    *choice = chosen;
    return best;
}

static void forward_segment(const struct state *state, const float *x, float *y, uint8_t *choices)
{
    const struct axis *rows = &state->rows, *columns = &state->columns;
    for (int64_t r = 0; r < rows->out; r++)
        for (int64_t c = 0; c < columns->out; c++)
            for (int64_t lane = 0; lane < state->lanes; lane += LANES) {
                int64_t at = (r * columns->out + c) * state->lanes + lane;
                __m256i choice;
                __m256 value = largest(state, x + lane, r * rows->stride - rows->before,
                                       c * columns->stride - columns->before, &choice);
                if (state->relu) /* the second operand is what a NaN gives */
                    value = _mm256_max_ps(_mm256_setzero_ps(), value);
                _mm256_storeu_ps(y + at, value);
                if (choices)
                    store_bytes(choices + at, choice);
            }
}

/* The first and the last window that has cell `at` in it; none: last < first. */
static inline void windows_of(const struct axis *axis, int64_t at, int64_t *first, int64_t *last)
{
    int64_t behind = at + axis->before - axis->kernel + axis->stride;
    *first = behind > 0 ? behind / axis->stride : 0;
    *last = smaller((at + axis->before) / axis->stride, axis->out - 1);
}

static void backward_segment(const struct state *state, const float *gradient, const float *y,
                             const uint8_t *choices, float *out)
{
    const struct axis *rows = &state->rows, *columns = &state->columns;
    const __m256 zero = _mm256_setzero_ps();
    for (int64_t r = 0; r < rows->in; r++) {
        int64_t first_row, last_row, first, last;
        windows_of(rows, r, &first_row, &last_row);
        for (int64_t c = 0; c < columns->in; c++) {
            windows_of(columns, c, &first, &last);
            for (int64_t lane = 0; lane < state->lanes; lane += LANES) {
                __m256 sum = zero;
                for (int64_t i = first_row; i <= last_row; i++)
                    for (int64_t j = first; j <= last; j++) {
                        int64_t at = (i * columns->out + j) * state->lanes + lane;
                        int64_t row = r - i * rows->stride + rows->before;
                        int64_t column = c - j * columns->stride + columns->before;
                        __m256i number = _mm256_set1_epi32((int)(row * columns->kernel + column));
                        __m256 mine = _mm256_castsi256_ps(
                            _mm256_cmpeq_epi32(load_bytes(choices + at), number));
                        if (y)
                            mine = _mm256_and_ps(
                                mine, _mm256_cmp_ps(_mm256_loadu_ps(y + at), zero, _CMP_GT_OQ));
                        sum =
                            _mm256_add_ps(sum, _mm256_and_ps(mine, _mm256_loadu_ps(gradient + at)));
                    }
                _mm256_storeu_ps(out + (r * columns->in + c) * state->lanes + lane, sum);
            }
        }
    }
}

#pragma GCC pop_options

static void forward(const struct op_run *run)
{
    const struct state *state = run->state;
    int64_t in = state->rows.in * state->columns.in * state->lanes;
    int64_t out = state->rows.out * state->columns.out * state->lanes;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < state->segments; i++)
        forward_segment(state, run->inputs[0] + i * in, run->output + i * out,
                        state->training ? (uint8_t *)run->workspace + i * out : NULL);
}

static void backward(const struct op_run *run)
{
    const struct state *state = run->state;
    int64_t in = state->rows.in * state->columns.in * state->lanes;
    int64_t out = state->rows.out * state->columns.out * state->lanes;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < state->segments; i++)
        backward_segment(
            state, run->gradients[0] + i * out, state->relu ? run->output + i * out : NULL,
            (const uint8_t *)run->workspace + i * out, run->input_gradients[0] + i * in);
}

/* --- Which pools --- */

static bool fits(const struct plan_builder *builder, const struct plan_node *node)
{
    const struct pool_attributes *a = node->node->attributes;
    (void)builder;
    return a->max && !a->global && a->rows.kernel * a->columns.kernel <= MOST_CELLS &&
           __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static struct axis make_axis(const struct dnn_pool *pool, int index, int64_t in)
{
    return (struct axis){.in = in,
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
    if (!layout_form(pool.src, &form) || form.inner % LANES) {
        node->kernel = &pool_kernel_dnn;
        return node->kernel->prepare(builder, node, err);
    }
    struct state *state = ARENA_NEW(builder_arena(builder), struct state);
    if (!state)
        return error_set(err, ERROR_MEMORY, "no memory for a pooling layer");
    *state = (struct state){.rows = make_axis(&pool, 0, x.dim[2]),
                            .columns = make_axis(&pool, 1, x.dim[3]),
                            .segments = form.outer * form.blocks,
                            .lanes = form.inner,
                            .relu = node->relu,
                            .training = builder_is_training(builder)};
    node->state = state;
    if (dnn_pool_forward(&pool, false, &like, err) < 0)
        return -1;
    struct layout layout = dnn_layout(like, DNN_DST);
    dnn_primitive_destroy(like);
    if (!layout_form(&layout, &form) || form.inner != state->lanes)
        return error_set(err, ERROR_KERNEL, "the pooled picture lies in other blocks");
    builder_kernel_name(builder, node, "own:avx2");
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
