/* Dense layers of a plan for serving: few rows, many weights.
 *
 *     weights [out / 16][in][16]        x [rows][in]
 *               |                          |
 *               v                          v
 *     outputs x some rows of y  +=  weights by broadcasts, input by input
 *
 * Few rows are one pass over the weights, which take as long to read as for one row. With more, some
 * inputs at a time, whose weights stay in the first-level cache while all rows pass by.
 *
 * Ours because the library's product packs its operands anew in every call: two rows of Wide & Deep took
 * it nearly twice as long as one, and 32 rows ran at half of the processor's peak. Results are the same
 * for any number of threads: no sum is divided among them. */
#include <math.h>

#include "base/arena.h"
#include "base/error.h"
#include "exec/known_ops.h"
#include "ops/dense.h"
#include "ops/dense_rows.h"
#include "ops/weighted.h"

enum {
    DEPTH = 256,        /* inputs whose weights are used again and again */
    FEWEST_INPUTS = 64, /* below, there is nothing to gain */
};

struct state {
    int64_t rows, in, out;
    int64_t depth; /* inputs at a time */
    bool bias, relu;
    const struct dense_product *product;
};

static const struct dense_product *find_product(void)
{
    if (dense_product_sixteens.multiply && dense_product_sixteens.is_here())
        return &dense_product_sixteens;
    if (dense_product_eights.multiply && dense_product_eights.is_here())
        return &dense_product_eights;
    return NULL;
}

static bool fits(const struct plan_builder *builder, const struct plan_node *node)
{
    struct shape x = builder_shape(builder, node->inputs[WEIGHTED_X]);
    struct shape y = builder_shape(builder, node->output);
    return builder_is_serving(builder) && x.ndim == 2 && x.dim[1] >= FEWEST_INPUTS &&
           y.dim[1] % DENSE_PANEL == 0 && find_product();
}

static int prepare(struct plan_builder *builder, struct plan_node *node, struct error *err)
{
    const struct dense_product *product = find_product();
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
                            .depth = x.dim[0] <= product->rows ? x.dim[1] : DEPTH,
                            .bias = node->input_count > WEIGHTED_BIAS,
                            .relu = node->relu,
                            .product = product};
    node->state = state;
    builder_kernel_name(builder, node, "%s", product->name);
    builder_output(builder, node, &plain);
    builder_use_plain(builder, node, PASS_FORWARD, ROLE_INPUT, WEIGHTED_X);
    builder_use(builder, node, PASS_FORWARD, ROLE_INPUT + WEIGHTED_WEIGHTS, &sixteens);
    if (state->bias)
        builder_use_plain(builder, node, PASS_FORWARD, ROLE_INPUT, WEIGHTED_BIAS);
    return 0;
}

static const float no_bias[DENSE_PANELS * DENSE_PANEL];

/* Outputs from `out` up to `last`. The bias joins the first inputs, the ReLU follows the last. */
static void run_outputs(const struct state *state, const struct op_run *run, int64_t out,
                        int64_t last)
{
    const float *bias = state->bias ? run->inputs[WEIGHTED_BIAS] : NULL;
    for (int64_t in = 0; in < state->in; in += state->depth) {
        int64_t left = state->in - in, step;
        bool ends = left <= state->depth;
        for (int64_t o = out; o < last; o += step) {
            step = last - o < state->product->outputs ? DENSE_PANEL : state->product->outputs;
            struct dense_piece piece = {
                .x = run->inputs[WEIGHTED_X] + in,
                .weights = run->inputs[WEIGHTED_WEIGHTS] + o * state->in + in * DENSE_PANEL,
                .y = run->output + o,
                .in = state->in,
                .out = state->out,
                .depth = ends ? left : state->depth,
                .outputs = (int)step,
                .bias = bias ? bias + o : no_bias,
                .add = in > 0,
                .least = ends && state->relu ? 0 : -INFINITY,
            };
            state->product->multiply(&piece, state->rows);
        }
    }
}

static void forward(const struct op_run *run)
{
    const struct state *state = run->state;
    int64_t panels = state->out / DENSE_PANEL, threads = run->threads;
#pragma omp parallel for schedule(static) if (threads > 1)
    for (int64_t t = 0; t < threads; t++)
        run_outputs(state, run, t * panels / threads * DENSE_PANEL,
                    (t + 1) * panels / threads * DENSE_PANEL);
}

const struct op_kernel dense_kernel_rows = {
    .name = "rows",
    .fits = fits,
    .prepare = prepare,
    .pass = {forward, NULL, NULL},
    .relu_forward = true,
};
