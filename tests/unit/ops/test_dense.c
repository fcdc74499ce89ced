/* Dense layers as they are served: exact against double precision, the same bits with any number of
 * threads. */
#include <math.h>

#include "ops/dense_rows.h"
#include "support/subject.h"
#include "support/test.h"

struct layer {
    int in, out, batch;
    bool relu;
};

/* Rows that are one pass over the weights and rows that are several, every rest of six; inputs below, at
 * and above what is kept in a cache. */
static const struct layer layers[] = {
    {64, 16, 1, false}, {845, 48, 1, true},   {300, 32, 2, true},  {256, 64, 3, false},
    {257, 16, 4, true}, {100, 80, 5, true},   {845, 32, 6, false}, {64, 16, 7, true},
    {513, 48, 8, true}, {255, 16, 15, false}, {845, 64, 32, true},
};
enum { LAYERS = sizeof layers / sizeof *layers };

static struct subject open_layer(const struct layer *layer, int threads)
{
    char text[256];
    snprintf(text, sizeof text, "input x f32 %d\ndense y x units=%d\n%soutput y %s\n", layer->in,
             layer->out, layer->relu ? "relu z y\n" : "", layer->relu ? "z" : "y");
    struct plan_options options = {.mode = PLAN_SERVE, .batch = layer->batch, .threads = threads};
    return subject_open(text, options, 7);
}

TEST(dense, is_as_exact_as_single_precision_allows)
{
    subject_need_processor("own:rows");
    for (int i = 0; i < LAYERS; i++) {
        const struct layer *layer = &layers[i];
        struct subject subject = open_layer(layer, 1);
        subject_need_kernel(&subject, "own:rows");
        plan_forward(subject.plan, subject.inputs, subject.outputs);
        struct tensor weights =
            subject_read(&subject, params_find(subject.params, "dense/weights"));
        struct tensor bias = subject_read(&subject, params_find(subject.params, "dense/bias"));
        const float *x = subject.inputs[0].data, *y = subject.outputs[0].data, *w = weights.data;
        double error = 0, size = 0;
        for (int n = 0; n < layer->batch; n++)
            for (int o = 0; o < layer->out; o++) {
                double wanted = ((const float *)bias.data)[o];
                for (int k = 0; k < layer->in; k++)
                    wanted += (double)x[n * layer->in + k] * w[o * layer->in + k];
                if (layer->relu && wanted < 0)
                    wanted = 0;
                double got = y[n * layer->out + o];
                error += (got - wanted) * (got - wanted);
                size += wanted * wanted;
            }
        if (sqrt(error / size) > 1e-6)
            fail_msg("%d inputs, %d outputs, %d rows: %g", layer->in, layer->out, layer->batch,
                     sqrt(error / size));
        subject_close(&subject);
    }
}

TEST(dense, serves_the_same_bits_with_any_number_of_threads)
{
    subject_need_processor("own:rows");
    /* Enough operations that a plan takes as many threads as it is given. */
    static const struct layer large = {4096, 8192, 11, true};
    struct subject one = open_layer(&large, 1);
    subject_need_kernel(&one, "own:rows");
    plan_forward(one.plan, one.inputs, one.outputs);
    for (int threads = 2; threads <= 5; threads += 3) {
        struct subject more = open_layer(&large, threads);
        assert_int_equal(plan_threads(more.plan), threads);
        plan_forward(more.plan, more.inputs, more.outputs);
        ASSERT_BYTES(one.outputs[0].data, more.outputs[0].data, tensor_bytes(&one.outputs[0]));
        subject_close(&more);
    }
    subject_close(&one);
}

enum { MOST_ROWS = 40, MOST_INPUTS = 301, MOST_OUTPUTS = DENSE_PANELS * DENSE_PANEL };

/* A piece of drawn numbers, from the second half of the inputs on added to the first. */
static void check_product(const struct dense_product *product, int rows, int depth, int outputs,
                          float least)
{
    static float x[MOST_ROWS * MOST_INPUTS], w[MOST_OUTPUTS * MOST_INPUTS],
        y[MOST_ROWS * MOST_OUTPUTS], bias[MOST_OUTPUTS];
    uint32_t state = 1;
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = (float)((state = state * 1664525u + 1013904223u) >> 8) / (1 << 23) - 1;
    for (size_t i = 0; i < sizeof w / sizeof *w; i++)
        w[i] = (float)((state = state * 1664525u + 1013904223u) >> 8) / (1 << 23) - 1;
    for (int o = 0; o < MOST_OUTPUTS; o++)
        bias[o] = (float)o / 7;
    int half = depth / 2;
    struct dense_piece piece = {.x = x,
                                .weights = w,
                                .y = y,
                                .in = depth,
                                .out = MOST_OUTPUTS,
                                .depth = half,
                                .outputs = outputs,
                                .bias = bias,
                                .least = -INFINITY};
    product->multiply(&piece, rows);
    piece.x += half;
    piece.weights += half * DENSE_PANEL;
    piece.depth = depth - half;
    piece.add = true;
    piece.least = least;
    product->multiply(&piece, rows);
    for (int r = 0; r < rows; r++)
        for (int o = 0; o < outputs; o++) {
            const float *panel = w + o / DENSE_PANEL * depth * DENSE_PANEL + o % DENSE_PANEL;
            double wanted = bias[o];
            for (int k = 0; k < depth; k++)
                wanted += (double)x[r * depth + k] * panel[k * DENSE_PANEL];
            ASSERT_NEAR(y[r * MOST_OUTPUTS + o], fmax(wanted, least), 1e-5, 1);
        }
}

static void check_products(const struct dense_product *product)
{
    if (!product->multiply || !product->is_here())
        test_skip("this processor cannot run %s", product->name);
    for (int rows = 1; rows <= MOST_ROWS; rows++)
        for (int outputs = DENSE_PANEL; outputs <= product->outputs; outputs += DENSE_PANEL)
            check_product(product, rows, rows % 3 ? MOST_INPUTS : 66, outputs,
                          rows % 2 ? 0 : -INFINITY);
}

TEST(dense, multiplies_in_registers_of_8)
{
    check_products(&dense_product_eights);
}

TEST(dense, multiplies_in_registers_of_16)
{
    check_products(&dense_product_sixteens);
}
