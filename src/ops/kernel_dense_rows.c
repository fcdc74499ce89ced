/* Dense layers of a plan for serving: few rows, many weights.
 *
 *     weights [out / 16][in][16]        x [rows][in]
 *               |                          |
 *               v                          v
 *     16 outputs x 6 rows of y  +=  16 weights by 6 broadcasts, input by input
 *
 * Up to six rows are one pass over the weights, which take as long to read as for one row. With more, some
 * inputs at a time, whose weights for 16 outputs stay in the first-level cache while all rows pass by.
 *
 * Ours because the library's product packs its operands anew in every call: two rows of Wide & Deep took
 * it nearly twice as long as one, and 32 rows ran at half of the processor's peak. Results are the same
 * for any number of threads: no sum is divided among them. */
#include <math.h>

#include "base/arena.h"
#include "base/error.h"
#include "exec/known_ops.h"
#include "ops/dense.h"
#include "ops/product.h"
#include "ops/weighted.h"

#if F32X8

enum {
    LANES = 8,
    WIDE = 16,          /* outputs at a time */
    ROWS = 6,           /* at a time */
    UNROLLED = 4,       /* inputs */
    DEPTH = 256,        /* inputs whose weights are used again and again */
    FEWEST_INPUTS = 64, /* below, there is nothing to gain */
};

struct state {
    int64_t rows, in, out;
    int64_t depth; /* inputs at a time */
    bool bias, relu;
};

static bool fits(const struct plan_builder *builder, const struct plan_node *node)
{
    struct shape x = builder_shape(builder, node->inputs[WEIGHTED_X]);
    struct shape y = builder_shape(builder, node->output);
    return builder_is_serving(builder) && x.ndim == 2 && x.dim[1] >= FEWEST_INPUTS &&
           y.dim[1] % WIDE == 0 && f32x8_is_here();
}

static int prepare(struct plan_builder *builder, struct plan_node *node, struct error *err)
{
    struct state *state = ARENA_NEW(builder_arena(builder), struct state);
    struct shape x = builder_shape(builder, node->inputs[WEIGHTED_X]);
    struct shape y = builder_shape(builder, node->output);
    struct shape weights = builder_shape(builder, node->inputs[WEIGHTED_WEIGHTS]);
    struct layout plain = layout_plain(&y), sixteens = layout_outputs_in_sixteens(&weights);
    if (!state)
        return error_set(err, ERROR_MEMORY, "no memory for a dense layer");
    *state = (struct state){.rows = x.dim[0],
                            .in = x.dim[1],
                            .out = y.dim[1],
                            .depth = x.dim[0] <= ROWS ? x.dim[1] : DEPTH,
                            .bias = node->input_count > WEIGHTED_BIAS,
                            .relu = node->relu};
    node->state = state;
    builder_kernel_name(builder, node, "own:rows:" F32X8_NAME);
    builder_output(builder, node, &plain);
    builder_use_plain(builder, node, PASS_FORWARD, ROLE_INPUT, WEIGHTED_X);
    builder_use(builder, node, PASS_FORWARD, ROLE_INPUT + WEIGHTED_WEIGHTS, &sixteens);
    if (state->bias)
        builder_use_plain(builder, node, PASS_FORWARD, ROLE_INPUT, WEIGHTED_BIAS);
    return 0;
}

F32X8_BEGIN

_Static_assert((int)ROWS == (int)PRODUCT_ROWS, "rows are those of a product");

/* 16 outputs of all rows, from some inputs. */
struct piece {
    const float *x, *weights;
    float *y;
    int64_t in, out;   /* from row to row of x and of y */
    int64_t depth;     /* inputs */
    const float *bias; /* [16] */
    bool add;          /* to what is there */
    float least;       /* 0: ReLU */
};

static const float no_bias[WIDE];

/* Ends the sums of 16 outputs of one row. */
INLINE void put(const struct piece *piece, f32x8 low, f32x8 high, float *y)
{
    const float *to_add = piece->add ? y : piece->bias;
    f32x8 least = f32x8_all(piece->least);
    low = f32x8_add(low, f32x8_load(to_add));
    high = f32x8_add(high, f32x8_load(to_add + LANES));
    f32x8_store(y, f32x8_at_least(least, low));
    f32x8_store(y + LANES, f32x8_at_least(least, high));
}

/* `count` rows from `first` on; the count is a constant to the compiler. */
INLINE void multiply(const struct piece *piece, int64_t first, int count)
{
    const float *x = piece->x + first * piece->in, *weights = piece->weights;
    float *y = piece->y + first * piece->out;
    f32x8 sums[ROWS][2];
    int64_t i = 0;
    product_begin(sums, count);
    for (; i + UNROLLED <= piece->depth; i += UNROLLED)
        product_add(sums, count, UNROLLED, x + i, piece->in, weights + i * WIDE, WIDE);
    for (; i < piece->depth; i++)
        product_add(sums, count, 1, x + i, piece->in, weights + i * WIDE, WIDE);
#pragma GCC unroll 6
    for (int r = 0; r < count; r++)
        put(piece, sums[r][0], sums[r][1], y + r * piece->out);
}

/* One row: with sums of their own for every fourth input, lest each product waits for the one before. */
static void multiply_one(const struct piece *piece, int64_t row)
{
    enum { CHAINS = 4 };
    const float *x = piece->x + row * piece->in, *weights = piece->weights;
    f32x8 sums[CHAINS][2];
#pragma GCC unroll 4
    for (int c = 0; c < CHAINS; c++)
        sums[c][0] = sums[c][1] = f32x8_zero();
    int64_t i = 0;
    for (; i + CHAINS <= piece->depth; i += CHAINS)
#pragma GCC unroll 4
        for (int c = 0; c < CHAINS; c++) {
            f32x8 value = f32x8_all_at(x + i + c);
            const float *at = weights + (i + c) * WIDE;
            sums[c][0] = f32x8_fma(value, f32x8_load(at), sums[c][0]);
            sums[c][1] = f32x8_fma(value, f32x8_load(at + LANES), sums[c][1]);
        }
    for (; i < piece->depth; i++) {
        f32x8 value = f32x8_all_at(x + i);
        sums[0][0] = f32x8_fma(value, f32x8_load(weights + i * WIDE), sums[0][0]);
        sums[0][1] = f32x8_fma(value, f32x8_load(weights + i * WIDE + LANES), sums[0][1]);
    }
    put(piece, f32x8_add(f32x8_add(sums[0][0], sums[1][0]), f32x8_add(sums[2][0], sums[3][0])),
        f32x8_add(f32x8_add(sums[0][1], sums[1][1]), f32x8_add(sums[2][1], sums[3][1])),
        piece->y + row * piece->out);
}

static void multiply_rows(const struct piece *piece, int64_t rows)
{
    int64_t first = 0;
    for (; rows - first >= ROWS; first += ROWS)
        multiply(piece, first, ROWS);
    if (rows - first == 1)
        multiply_one(piece, first);
    else if (rows > first) {
#define MULTIPLY(count) multiply(piece, first, count)
        PRODUCT_DISPATCH(rows - first, MULTIPLY)
#undef MULTIPLY
    }
}

F32X8_END

/* Outputs from `out` up to `last`. The bias joins the first inputs, the ReLU follows the last. */
static void run_outputs(const struct state *state, const struct op_run *run, int64_t out,
                        int64_t last)
{
    const float *bias = state->bias ? run->inputs[WEIGHTED_BIAS] : NULL;
    for (int64_t in = 0; in < state->in; in += state->depth) {
        int64_t left = state->in - in;
        bool ends = left <= state->depth;
        for (int64_t o = out; o < last; o += WIDE) {
            struct piece piece = {
                .x = run->inputs[WEIGHTED_X] + in,
                .weights = run->inputs[WEIGHTED_WEIGHTS] + o * state->in + in * WIDE,
                .y = run->output + o,
                .in = state->in,
                .out = state->out,
                .depth = ends ? left : state->depth,
                .bias = bias ? bias + o : no_bias,
                .add = in > 0,
                .least = ends && state->relu ? 0 : -INFINITY,
            };
            multiply_rows(&piece, state->rows);
        }
    }
}

static void forward(const struct op_run *run)
{
    const struct state *state = run->state;
    int64_t panels = state->out / WIDE, threads = run->threads;
#pragma omp parallel for schedule(static) if (threads > 1)
    for (int64_t t = 0; t < threads; t++)
        run_outputs(state, run, t * panels / threads * WIDE, (t + 1) * panels / threads * WIDE);
}

const struct op_kernel dense_kernel_rows = {
    .name = "rows",
    .fits = fits,
    .prepare = prepare,
    .pass = {forward, NULL, NULL},
    .relu_forward = true,
};

#else

const struct op_kernel dense_kernel_rows = {.name = "rows", .fits = op_fits_never};

#endif
