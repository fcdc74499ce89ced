/* How exact Winograd's method is, which PyTorch's single precision cannot tell, and that threads do not
 * change its bits. A part of test_winograd.c, test_winograd_sixteens.c and test_winograd_strided.c, which say
 * what KERNEL is called, that it wants channels in multiples of WIDE, and with which STRIDE it goes. */
#include <math.h>

#include "base/arena.h"
#include "support/subject.h"
#include "support/test.h"

struct layer {
    int in, out, height, width, before, after, batch;
};

static struct subject open_layer(const struct layer *layer, enum plan_mode mode, int threads)
{
    char text[512];
    snprintf(text, sizeof text,
             "input x f32 %d %d %d\n"
             "conv2d y x channels=%d kernel=3 stride=%d padding=explicit before=%d after=%d\n"
             "output y y\ninput label i32\nglobal_avg_pool g y\nflatten f g\n"
             "dense logits f units=4\nsoftmax_cross_entropy each logits label\nloss each\n",
             layer->in, layer->height, layer->width, layer->out, STRIDE, layer->before,
             layer->after);
    struct plan_options options = {.mode = mode, .batch = layer->batch, .threads = threads};
    return subject_open(text, options, 7);
}

static const float *input_named(const struct subject *subject, const char *name)
{
    for (int i = 0; i < plan_input_count(subject->plan); i++)
        if (!strcmp(plan_input_name(subject->plan, i), name))
            return subject->inputs[i].data;
    return NULL;
}

static double direct(const struct layer *layer, const float *x, const float *w, int row, int column)
{
    double sum = 0;
    for (int c = 0; c < layer->in; c++)
        for (int tap = 0; tap < 9; tap++) {
            int r = row * STRIDE + tap / 3 - layer->before;
            int k = column * STRIDE + tap % 3 - layer->before;
            if (r >= 0 && r < layer->height && k >= 0 && k < layer->width)
                sum += (double)x[(c * layer->height + r) * layer->width + k] * w[c * 9 + tap];
        }
    return sum;
}

/* Root of the mean square of the error, relative to that of the result. */
static double error_of(const struct layer *layer, enum plan_mode mode)
{
    struct subject subject = open_layer(layer, mode, 2);
    subject_need_kernel(&subject, KERNEL);
    plan_forward(subject.plan, subject.inputs, subject.outputs);
    const float *x = input_named(&subject, "x"), *y = subject.outputs[0].data;
    struct tensor weights = subject_read(&subject, params_find(subject.params, "conv2d/weights"));
    struct tensor bias = subject_read(&subject, params_find(subject.params, "conv2d/bias"));
    int rows = (layer->height + layer->before + layer->after - 3) / STRIDE + 1;
    int columns = (layer->width + layer->before + layer->after - 3) / STRIDE + 1;
    double error = 0, size = 0;
    for (int n = 0; n < layer->batch; n += 3)
        for (int k = 0; k < layer->out; k += 7)
            for (int p = 0; p < rows * columns; p++) {
                double wanted =
                    direct(layer, x + (int64_t)n * layer->in * layer->height * layer->width,
                           (const float *)weights.data + (int64_t)k * layer->in * 9, p / columns,
                           p % columns) +
                    ((const float *)bias.data)[k];
                double got = y[((int64_t)n * layer->out + k) * rows * columns + p];
                error += (got - wanted) * (got - wanted);
                size += wanted * wanted;
            }
    subject_close(&subject);
    return sqrt(error / size);
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
/* One row and one column before the picture, always. */
static const struct layer layers[] = {
    {128, 128, 56, 56, 1, 1, 2}, {256, 64, 28, 28, 1, 1, 5}, {512, 64, 14, 14, 1, 1, 17},
    {64, 80, 33, 27, 1, 1, 4},   {80, 64, 30, 43, 1, 0, 3},  {64, 112, 17, 19, 1, 2, 8},
};

static const struct layer served[] = {
    {128, 128, 56, 56, 1, 1, 1},
    {80, 112, 55, 53, 1, 2, 1},
    {144, 64, 58, 50, 1, 0, 1},
    {64, 64, 86, 79, 1, 1, 1},
};
#endif
enum { LAYERS = sizeof layers / sizeof *layers, SERVED = sizeof served / sizeof *served };

static bool fits(const struct layer *layer)
{
    return layer->in % WIDE == 0 && layer->out % WIDE == 0;
}

static void need_exact(const struct layer *layer, enum plan_mode mode)
{
    if (!fits(layer))
        return;
    double error = error_of(layer, mode);
    if (error > 3e-6)
        fail_msg("%d channels of %dx%d: %g", layer->in, layer->height, layer->width, error);
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
        {256, 288, 28 * STRIDE, 27 * STRIDE, STRIDE - 1, 1, 3},
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
