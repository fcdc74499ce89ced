/* How exact Winograd's method is, which PyTorch's single precision cannot tell, and that threads do not
 * change its bits. A part of test_winograd.c, test_winograd_sixteens.c and test_winograd_strided.c, which say
 * what KERNEL is called, that it wants channels in multiples of WIDE, with which STRIDE it goes, and which error
 * is too large. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "support/subject.h"
#include "support/test.h"

struct layer {
    int in, out, height, width, before, after, batch;
};

enum { CLASSES = 4 };

static int results_along(int size, const struct layer *layer)
{
    return (size + layer->before + layer->after - 3) / STRIDE + 1;
}

/* Each result has a factor of its own, so that no two gradients are alike; what follows does not depend on
 * threads. */
static struct subject open_layer(const struct layer *layer, enum plan_mode mode, int threads)
{
    char text[512];
    snprintf(text, sizeof text,
             "input x f32 %d %d %d\n"
             "conv2d y x channels=%d kernel=3 stride=%d padding=explicit before=%d after=%d\n"
             "output y y\ninput factors f32 %d %d %d\narithmetic z y factors kind=multiply\n"
             "input label i32\nglobal_avg_pool g z\nflatten f g\ndense logits f units=%d\n"
             "output logits logits\nsoftmax_cross_entropy each logits label\nloss each\n",
             layer->in, layer->height, layer->width, layer->out, STRIDE, layer->before,
             layer->after, layer->out, results_along(layer->height, layer),
             results_along(layer->width, layer), CLASSES);
    struct plan_options options = {.mode = mode,
                                   .batch = layer->batch,
                                   .threads = threads,
                                   .want_input_gradient = mode == PLAN_TRAIN};
    return subject_open(text, options, 7);
}

static int index_of_input(const struct subject *subject, const char *name)
{
    for (int i = 0; i < plan_input_count(subject->plan); i++)
        if (!strcmp(plan_input_name(subject->plan, i), name))
            return i;
    fail_msg("no input %s", name);
    return -1;
}

/* The layer in double precision: what it reads, and the gradient of what it gives. */
struct exact {
    const struct layer *layer;
    int rows, columns; /* of y */
    const float *x, *weights, *bias;
    double *gradient;
};

/* Where tap t of result (row, column) meets x, or NULL. */
static const float *meets(const struct exact *exact, int image, int channel, int row, int column,
                          int tap)
{
    const struct layer *layer = exact->layer;
    int r = row * STRIDE + tap / 3 - layer->before, c = column * STRIDE + tap % 3 - layer->before;
    if (r < 0 || r >= layer->height || c < 0 || c >= layer->width)
        return NULL;
    return exact->x + (((int64_t)image * layer->in + channel) * layer->height + r) * layer->width +
           c;
}

static double *gradient_at(const struct exact *exact, int image, int channel)
{
    return exact->gradient +
           ((int64_t)image * exact->layer->out + channel) * exact->rows * exact->columns;
}

/* Root of the mean square of the error, relative to that of the result. */
struct measured {
    double error, size;
};

static void measure(struct measured *measured, double got, double wanted)
{
    measured->error += (got - wanted) * (got - wanted);
    measured->size += wanted * wanted;
}

static double relative(const struct measured *measured)
{
    return sqrt(measured->error / measured->size);
}

static double forward_error(const struct exact *exact, const float *y)
{
    const struct layer *layer = exact->layer;
    struct measured measured = {0};
    for (int n = 0; n < layer->batch; n += 3)
        for (int k = 0; k < layer->out; k += 7)
            for (int p = 0; p < exact->rows * exact->columns; p++) {
                double sum = exact->bias[k];
                for (int c = 0; c < layer->in; c++)
                    for (int tap = 0; tap < 9; tap++) {
                        const float *x =
                            meets(exact, n, c, p / exact->columns, p % exact->columns, tap);
                        if (x)
                            sum += (double)*x * exact->weights[(k * layer->in + c) * 9 + tap];
                    }
                int64_t at = ((int64_t)n * layer->out + k) * exact->rows * exact->columns + p;
                measure(&measured, y[at], sum);
            }
    return relative(&measured);
}

static double weights_error(const struct exact *exact, const float *got)
{
    const struct layer *layer = exact->layer;
    struct measured measured = {0};
    for (int k = 0; k < layer->out; k += 13)
        for (int c = 0; c < layer->in; c += 11)
            for (int tap = 0; tap < 9; tap++) {
                double sum = 0;
                for (int n = 0; n < layer->batch; n++)
                    for (int p = 0; p < exact->rows * exact->columns; p++) {
                        const float *x =
                            meets(exact, n, c, p / exact->columns, p % exact->columns, tap);
                        if (x)
                            sum += *x * gradient_at(exact, n, k)[p];
                    }
                measure(&measured, got[(k * layer->in + c) * 9 + tap], sum);
            }
    return relative(&measured);
}

/* Of some channels of the last image: each result's gradient is given to what it was made of. */
static double x_error(const struct exact *exact, const float *got)
{
    const struct layer *layer = exact->layer;
    struct measured measured = {0};
    int n = layer->batch - 1, pixels = layer->height * layer->width;
    double *wanted = calloc((size_t)pixels, sizeof *wanted);
    for (int c = 0; c < layer->in; c += 17) {
        const float *channel = exact->x + ((int64_t)n * layer->in + c) * pixels;
        memset(wanted, 0, (size_t)pixels * sizeof *wanted);
        for (int k = 0; k < layer->out; k++)
            for (int p = 0; p < exact->rows * exact->columns; p++)
                for (int tap = 0; tap < 9; tap++) {
                    const float *x =
                        meets(exact, n, c, p / exact->columns, p % exact->columns, tap);
                    if (x)
                        wanted[x - channel] += exact->weights[(k * layer->in + c) * 9 + tap] *
                                               gradient_at(exact, n, k)[p];
                }
        for (int i = 0; i < pixels; i++)
            measure(&measured, got[((int64_t)n * layer->in + c) * pixels + i], wanted[i]);
    }
    free(wanted);
    return relative(&measured);
}

/* That of y: the logits', through the dense layer, the average and the factors. */
static void take_gradient(struct exact *exact, struct subject *subject)
{
    int pixels = exact->rows * exact->columns, batch = exact->layer->batch;
    struct tensor weights = subject_read(subject, params_find(subject->params, "dense/weights"));
    const float *logits = subject->outputs[1].data, *dense = weights.data;
    const float *factors = subject->inputs[index_of_input(subject, "factors")].data;
    const int32_t *labels = subject->inputs[index_of_input(subject, "label")].data;
    ASSERT_INT(weights.shape.dim[0], ==, CLASSES);
    exact->gradient = calloc((size_t)batch * (size_t)(exact->layer->out * pixels), sizeof(double));
    for (int n = 0; n < batch; n++) {
        double sum = 0;
        for (int c = 0; c < CLASSES; c++)
            sum += exp((double)logits[n * CLASSES + c]);
        for (int k = 0; k < exact->layer->out; k++) {
            double mean = 0;
            for (int c = 0; c < CLASSES; c++)
                mean += (exp((double)logits[n * CLASSES + c]) / sum - (c == labels[n])) / batch *
                        dense[c * exact->layer->out + k];
            double *to = gradient_at(exact, n, k);
            for (int p = 0; p < pixels; p++)
                to[p] = mean / pixels * factors[to - exact->gradient + p];
        }
    }
}

#if STRIDE == 1
static const struct layer layers[] = {
    {64, 64, 30, 29, 1, 1, 2},  {128, 80, 16, 16, 1, 1, 8}, {256, 64, 14, 14, 1, 1, 6},
    {512, 64, 7, 7, 1, 1, 20},  {64, 64, 19, 34, 0, 0, 3},  {64, 144, 9, 11, 2, 2, 8},
    {80, 112, 17, 13, 0, 1, 7}, {160, 96, 17, 13, 0, 1, 7}, {64, 224, 9, 11, 2, 2, 8},
};

/* Fewer tiles, as they are served; the last are so many that threads divide them. */
static const struct layer served[] = {
    {128, 128, 28, 28, 1, 1, 1}, {256, 80, 14, 14, 1, 1, 1}, {512, 64, 7, 7, 1, 1, 3},
    {80, 112, 9, 11, 2, 2, 1},   {64, 144, 13, 17, 0, 1, 1}, {64, 64, 56, 55, 1, 1, 1},
    {96, 160, 9, 11, 2, 2, 1},
};
#else
/* ResNet-50's; tiles of x with one row of y's gradient fewer or more; as TensorFlow pads; pictures smaller
 * than a tile. */
static const struct layer layers[] = {
    {128, 128, 56, 56, 1, 1, 2}, {256, 64, 28, 28, 1, 1, 5}, {512, 64, 14, 14, 1, 1, 17},
    {64, 80, 33, 27, 1, 1, 4},   {80, 64, 33, 41, 1, 0, 4},  {64, 112, 16, 24, 1, 2, 11},
    {64, 64, 28, 32, 0, 1, 5},   {80, 64, 31, 33, 0, 0, 6},  {64, 64, 3, 2, 1, 1, 64},
};

static const struct layer served[] = {
    {128, 128, 56, 56, 1, 1, 1}, {128, 96, 56, 56, 0, 1, 1}, {80, 112, 55, 53, 1, 2, 1},
    {144, 64, 58, 50, 1, 0, 1},  {64, 64, 86, 79, 1, 1, 1},
};
#endif
enum { LAYERS = sizeof layers / sizeof *layers, SERVED = sizeof served / sizeof *served };

static bool fits(const struct layer *layer)
{
    return layer->in % WIDE == 0 && layer->out % WIDE == 0;
}

static void need_below(double error, const struct layer *layer, const char *what)
{
    if (!(error < MOST_ERROR))
        fail_msg("%s of %d channels of %dx%d: %g", what, layer->in, layer->height, layer->width,
                 error);
}

static void need_exact(const struct layer *layer, enum plan_mode mode)
{
    if (!fits(layer))
        return;
    struct subject subject = open_layer(layer, mode, 2);
    subject_need_kernel(&subject, KERNEL);
    if (mode == PLAN_TRAIN)
        subject_gradients(&subject);
    else
        plan_forward(subject.plan, subject.inputs, subject.outputs);
    int x = index_of_input(&subject, "x");
    struct tensor weights = subject_read(&subject, params_find(subject.params, "conv2d/weights"));
    struct tensor bias = subject_read(&subject, params_find(subject.params, "conv2d/bias"));
    struct exact exact = {.layer = layer,
                          .rows = results_along(layer->height, layer),
                          .columns = results_along(layer->width, layer),
                          .x = subject.inputs[x].data,
                          .weights = weights.data,
                          .bias = bias.data};
    need_below(forward_error(&exact, subject.outputs[0].data), layer, "results");
    if (mode == PLAN_TRAIN) {
        struct tensor gradient =
            subject_read_gradient(&subject, params_find(subject.params, "conv2d/weights"));
        take_gradient(&exact, &subject);
        need_below(weights_error(&exact, gradient.data), layer, "the weights' gradient");
        need_below(x_error(&exact, plan_input_gradient(subject.plan, x).data), layer,
                   "the gradient of x");
        free(exact.gradient);
    }
    subject_close(&subject);
}

TEST(winograd, is_as_exact_as_single_precision_allows)
{
    subject_need_processor(KERNEL);
    for (int i = 0; i < LAYERS; i++)
        need_exact(&layers[i], PLAN_TRAIN);
}

TEST(winograd, is_as_exact_when_it_serves)
{
    subject_need_processor(KERNEL);
    for (int i = 0; i < SERVED; i++)
        need_exact(&served[i], PLAN_SERVE);
}

/* The library's direct convolution is another kernel: rounding is all that may differ. */
TEST(winograd, adds_and_cuts_off_when_it_serves)
{
    subject_need_processor(KERNEL);
#if STRIDE == 1
    static const char text[] = "input x f32 64 14 15\n"
                               "conv2d y x channels=64 kernel=3 padding=same\n"
                               "add s y x\nrelu z s\noutput o z\n";
#else
    static const char text[] =
        "input x f32 64 55 53\n"
        "conv2d y x channels=64 kernel=3 stride=2 padding=explicit before=1 after=1\n"
        "conv2d a x channels=64 kernel=1 stride=2\nadd s y a\nrelu z s\noutput o z\n";
#endif
    static const int batches[] = {1, 9}; /* few tiles, and many */
    for (int i = 0; i < 2; i++) {
        struct plan_options options = {.mode = PLAN_SERVE, .batch = batches[i], .threads = 2};
        struct subject ours = subject_open(text, options, 7);
        subject_need_kernel(&ours, KERNEL);
        options.direct = true;
        struct subject theirs = subject_open(text, options, 7);
        plan_forward(ours.plan, ours.inputs, ours.outputs);
        plan_forward(theirs.plan, theirs.inputs, theirs.outputs);
        const float *got = ours.outputs[0].data, *wanted = theirs.outputs[0].data;
        for (int64_t k = 0; k < shape_count(&ours.outputs[0].shape); k++)
            if (fabsf(got[k] - wanted[k]) > 2e-5F)
                fail_msg("number %lld: %g, not %g", (long long)k, (double)got[k],
                         (double)wanted[k]);
        subject_close(&theirs);
        subject_close(&ours);
    }
}

TEST(winograd, serves_the_same_bits_with_any_number_of_threads)
{
    subject_need_processor(KERNEL);
    /* Enough operations that a plan takes as many threads as it is given; few tiles, and many. */
    static const struct layer large[] = {
        {512, 512, 14 * STRIDE, 14 * STRIDE, 1, 1, 2 * STRIDE},
        {256, 288, 28 * STRIDE, 27 * STRIDE, 0, 1, 3},
    };
    for (int i = 0; i < 2; i++) {
        struct subject one = open_layer(&large[i], PLAN_SERVE, 1);
        subject_need_kernel(&one, KERNEL);
        plan_forward(one.plan, one.inputs, one.outputs);
        for (int threads = 2; threads <= 5; threads += 3) {
            struct subject more = open_layer(&large[i], PLAN_SERVE, threads);
            ASSERT_INT(plan_threads(more.plan), ==, threads);
            plan_forward(more.plan, more.inputs, more.outputs);
            ASSERT_BYTES(one.outputs[0].data, more.outputs[0].data, tensor_bytes(&one.outputs[0]));
            subject_close(&more);
        }
        subject_close(&one);
    }
}

TEST(winograd, has_the_same_bits_with_any_number_of_threads)
{
    subject_need_processor(KERNEL);
    for (int i = 0; i < LAYERS; i++) {
        if (!fits(&layers[i]))
            continue;
        struct subject one = open_layer(&layers[i], PLAN_TRAIN, 1);
        subject_need_kernel(&one, KERNEL);
        subject_gradients(&one);
        for (int threads = 2; threads <= 5; threads += 3) {
            struct subject more = open_layer(&layers[i], PLAN_TRAIN, threads);
            subject_gradients(&more);
            ASSERT_BYTES(one.outputs[0].data, more.outputs[0].data, tensor_bytes(&one.outputs[0]));
            int x = index_of_input(&one, "x");
            struct tensor gradient = plan_input_gradient(one.plan, x);
            ASSERT_BYTES(gradient.data, plan_input_gradient(more.plan, x).data,
                         tensor_bytes(&gradient));
            for (int p = 0; p < params_count(one.params); p++) {
                struct tensor a = subject_read_gradient(&one, p);
                struct tensor b = subject_read_gradient(&more, p);
                ASSERT_BYTES(a.data, b.data, tensor_bytes(&a));
            }
            subject_close(&more);
        }
        subject_close(&one);
    }
}
