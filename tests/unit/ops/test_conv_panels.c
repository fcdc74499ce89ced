/* Convolutions of small pictures as they are served, against the same sums in double precision. */
#include <math.h>

#include "support/as_avx2.h"
#include "support/subject.h"
#include "support/test.h"

struct layer {
    int in, out, height, width, kernel, stride, before, after, batch;
};

/* What follows the convolution: nothing; a ReLU; what came in is added; both. */
enum { ENDINGS = 4 };

/* `add` wants as many channels, and pixels, as came in. */
static bool can_add(const struct layer *layer)
{
    return layer->in == layer->out && layer->stride == 1 &&
           layer->before + layer->after == layer->kernel - 1;
}

static struct subject open_layer(const struct layer *layer, int threads, int ending)
{
    static const char *const endings[ENDINGS] = {"output o y\n", "relu z y\noutput o z\n",
                                                 "add z y x\noutput o z\n",
                                                 "add s y x\nrelu z s\noutput o z\n"};
    char text[512];
    snprintf(text, sizeof text,
             "input x f32 %d %d %d\n"
             "conv2d y x channels=%d kernel=%d stride=%d padding=explicit before=%d after=%d\n%s",
             layer->in, layer->height, layer->width, layer->out, layer->kernel, layer->stride,
             layer->before, layer->after, endings[ending]);
    struct plan_options options = {.mode = PLAN_SERVE, .batch = layer->batch, .threads = threads};
    return subject_open(text, options, 7);
}

static double direct(const struct layer *layer, const float *x, const float *w, int row, int column)
{
    double sum = 0;
    int taps = layer->kernel * layer->kernel;
    for (int c = 0; c < layer->in; c++)
        for (int tap = 0; tap < taps; tap++) {
            int r = row * layer->stride + tap / layer->kernel - layer->before;
            int k = column * layer->stride + tap % layer->kernel - layer->before;
            if (r >= 0 && r < layer->height && k >= 0 && k < layer->width)
                sum += (double)x[(c * layer->height + r) * layer->width + k] * w[c * taps + tap];
        }
    return sum;
}

static int size_after(const struct layer *layer, int size)
{
    return (size + layer->before + layer->after - layer->kernel) / layer->stride + 1;
}

/* Root of the mean square of the error, relative to that of the result. */
static double error_of(const struct layer *layer, int ending)
{
    struct subject subject = open_layer(layer, 2, ending);
    subject_need_kernel(&subject, "own:panels");
    plan_forward(subject.plan, subject.inputs, subject.outputs);
    const float *x = subject.inputs[0].data, *y = subject.outputs[0].data;
    struct tensor weights = subject_read(&subject, params_find(subject.params, "conv2d/weights"));
    struct tensor bias = subject_read(&subject, params_find(subject.params, "conv2d/bias"));
    int rows = size_after(layer, layer->height), columns = size_after(layer, layer->width);
    int64_t picture = (int64_t)layer->in * layer->height * layer->width;
    double error = 0, size = 0;
    for (int n = 0; n < layer->batch; n++)
        for (int k = 0; k < layer->out; k += 7)
            for (int p = 0; p < rows * columns; p++) {
                int64_t at = ((int64_t)n * layer->out + k) * rows * columns + p;
                double wanted = direct(layer, x + n * picture,
                                       (const float *)weights.data +
                                           (int64_t)k * layer->in * layer->kernel * layer->kernel,
                                       p / columns, p % columns) +
                                ((const float *)bias.data)[k] + (ending & 2 ? x[at] : 0);
                wanted = ending & 1 && wanted < 0 ? 0 : wanted;
                error += (y[at] - wanted) * (y[at] - wanted);
                size += wanted * wanted;
            }
    subject_close(&subject);
    return sqrt(error / size);
}

/* One pixel, sixes, fives and fewer; inputs that fill no block of them; windows beyond the picture. */
static const struct layer layers[] = {
    {2048, 64, 1, 1, 1, 1, 0, 0, 3},  {512, 512, 7, 7, 1, 1, 0, 0, 2},
    {1024, 80, 8, 8, 1, 1, 0, 0, 1},  {72, 64, 3, 5, 1, 1, 0, 0, 2},
    {256, 64, 14, 13, 1, 2, 0, 0, 2}, {128, 96, 14, 14, 3, 2, 1, 1, 2},
    {512, 512, 7, 7, 3, 1, 1, 1, 1},  {104, 64, 9, 11, 3, 2, 0, 1, 3},
    {64, 64, 2, 2, 3, 1, 1, 1, 2},    {128, 64, 28, 27, 3, 2, 1, 1, 2},
};
enum { LAYERS = sizeof layers / sizeof *layers };

TEST(conv_panels, is_as_exact_as_single_precision_allows)
{
    subject_need_processor("own:panels");
    for (int i = 0; i < LAYERS; i++)
        for (int ending = 0; ending < (can_add(&layers[i]) ? ENDINGS : 2); ending++) {
            double error = error_of(&layers[i], ending);
            if (!(error < 2e-6))
                fail_msg("layer %d, ending %d: %g", i, ending, error);
        }
}

TEST(conv_panels, has_the_same_bits_with_any_number_of_threads)
{
    subject_need_processor("own:panels");
    /* Enough operations that a plan takes as many threads as it is given: 1x1, and 3x3 that leaves pixels
     * out; panels that threads divide unevenly. */
    static const struct layer large[] = {{1024, 2064, 7, 7, 1, 1, 0, 0, 4},
                                         {512, 528, 14, 14, 3, 2, 1, 1, 3}};
    for (int i = 0; i < 2; i++) {
        struct subject one = open_layer(&large[i], 1, 1);
        subject_need_kernel(&one, "own:panels");
        plan_forward(one.plan, one.inputs, one.outputs);
        for (int threads = 2; threads <= 5; threads += 3) {
            struct subject more = open_layer(&large[i], threads, 1);
            ASSERT_INT(plan_threads(more.plan), ==, threads);
            plan_forward(more.plan, more.inputs, more.outputs);
            ASSERT_BYTES(one.outputs[0].data, more.outputs[0].data, tensor_bytes(&one.outputs[0]));
            subject_close(&more);
        }
        subject_close(&one);
    }
}
