/* That threads do not change the bits of a 1x1's weight gradients, which the reference cases compare with
 * PyTorch's; and that pictures which are too small keep the library's kernel. */
#include "base/strbuf.h"
#include "support/subject.h"
#include "support/test.h"

struct layer {
    int in, out, height, width, batch;
};

static struct subject open_layer(const struct layer *layer, int threads)
{
    char text[512];
    snprintf(text, sizeof text,
             "input x f32 %d %d %d\n"
             "conv2d y x channels=%d kernel=1 bias=0\n"
             "output y y\ninput label i32\nglobal_avg_pool g y\nflatten f g\n"
             "dense logits f units=4\nsoftmax_cross_entropy each logits label\nloss each\n",
             layer->in, layer->height, layer->width, layer->out);
    struct plan_options options = {.mode = PLAN_TRAIN, .batch = layer->batch, .threads = threads};
    return subject_open(text, options, 7);
}

static bool has_kernel(const struct subject *subject)
{
    struct strbuf text;
    strbuf_init(&text);
    plan_explain(subject->plan, &text);
    bool found = strstr(text.text, "own:points");
    strbuf_release(&text);
    return found;
}

/* Fewer blocks of outputs than threads, threes and twos; pixels that fill no piece, and several pieces. */
static const struct layer layers[] = {
    {16, 16, 10, 10, 2}, {64, 72, 11, 13, 3}, {24, 40, 20, 21, 2}, {256, 64, 14, 14, 2}};
enum { LAYERS = sizeof layers / sizeof *layers };

TEST(conv_points, has_the_same_bits_with_any_number_of_threads)
{
    for (int i = 0; i < LAYERS; i++) {
        struct subject one = open_layer(&layers[i], 1);
        if (!has_kernel(&one))
            test_skip("the kernel is for processors with AVX2 and FMA");
        subject_gradients(&one);
        struct tensor a = subject_read_gradient(&one, 0);
        for (int threads = 2; threads <= 5; threads += 3) {
            struct subject more = open_layer(&layers[i], threads);
            subject_gradients(&more);
            struct tensor b = subject_read_gradient(&more, 0);
            ASSERT_BYTES(a.data, b.data, tensor_bytes(&a));
            subject_close(&more);
        }
        subject_close(&one);
    }
}

TEST(conv_points, leaves_small_pictures_to_the_library)
{
    struct subject subject = open_layer(&(struct layer){64, 64, 7, 7, 2}, 1);
    ASSERT_TRUE(!has_kernel(&subject));
    subject_close(&subject);
}
