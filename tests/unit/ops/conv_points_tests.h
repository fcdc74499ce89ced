/* That threads do not change the bits of the weight gradients of 1x1 convolutions and of those that leave
 * pixels out, which the reference cases compare with PyTorch's; and that pictures which are too small keep
 * the library's kernel. For the KERNEL with blocks of LANES channels. */
#include "base/strbuf.h"
#include "exec/kernel_rules.h"
#include "support/subject.h"
#include "support/test.h"

struct layer {
    int in, out; /* blocks of channels */
    int height, width, batch;
    const char *window;
};

static struct subject open_layer(const struct layer *layer, int threads,
                                 const struct kernel_rules *rules)
{
    char text[512];
    snprintf(text, sizeof text,
             "input x f32 %d %d %d\n"
             "conv2d y x channels=%d bias=0 %s\n"
             "output y y\ninput label i32\nglobal_avg_pool g y\nflatten f g\n"
             "dense logits f units=4\nsoftmax_cross_entropy each logits label\nloss each\n",
             layer->in * LANES, layer->height, layer->width, layer->out * LANES, layer->window);
    struct plan_options options = {
        .mode = PLAN_TRAIN, .batch = layer->batch, .threads = threads, .kernels = rules};
    return subject_open(text, options, 7);
}

static bool has_kernel(const struct subject *subject)
{
    struct strbuf text;
    strbuf_init(&text);
    plan_explain(subject->plan, &text);
    bool found = strstr(text.text, KERNEL);
    strbuf_release(&text);
    return found;
}

static struct tensor weights_gradient(struct subject *subject)
{
    subject_gradients(subject);
    return subject_read_gradient(subject, params_find(subject->params, "conv2d/weights"));
}

/* Fewer blocks of outputs than threads, threes and twos; pixels that fill no piece, and several pieces;
 * several small pictures at a time, of which the last are fewer. */
static const struct layer layers[] = {
    {2, 2, 10, 10, 2, "kernel=1"},
    {8, 9, 11, 13, 3, "kernel=1"},
    {3, 5, 20, 21, 2, "kernel=1"},
    {32, 8, 14, 14, 2, "kernel=1"},
    {8, 9, 28, 27, 2, "kernel=1 stride=2"},
    {2, 3, 30, 41, 2, "kernel=3 stride=2 padding=same"},
    {4, 2, 14, 14, 5, "kernel=3 stride=2 padding=explicit before=1 after=0"},
    {2, 2, 5, 411, 2, "kernel=3 stride=2 padding=same"},
};
enum { LAYERS = sizeof layers / sizeof *layers };

TEST(conv_points, has_the_same_bits_with_any_number_of_threads)
{
    subject_need_processor(KERNEL);
    static const char text[] = "kernels 1\nconv2d * use points\n";
    struct kernel_rules *rules;
    struct error err;
    ASSERT_OK(kernel_rules_parse("rules", text, strlen(text), &rules, &err), err);
    for (int i = 0; i < LAYERS; i++) {
        struct subject one = open_layer(&layers[i], 1, rules);
        subject_need_kernel(&one, KERNEL);
        struct tensor a = weights_gradient(&one);
        for (int threads = 2; threads <= 5; threads += 3) {
            struct subject more = open_layer(&layers[i], threads, rules);
            struct tensor b = weights_gradient(&more);
            ASSERT_BYTES(a.data, b.data, tensor_bytes(&a));
            subject_close(&more);
        }
        subject_close(&one);
    }
    kernel_rules_destroy(rules);
}

static bool is_chosen(struct layer layer)
{
    struct subject subject = open_layer(&layer, 1, NULL);
    bool chosen = has_kernel(&subject);
    subject_close(&subject);
    return chosen;
}

/* Small pictures, and with AVX-512 all that is 1x1. */
TEST(conv_points, leaves_to_the_library_what_it_does_as_fast)
{
    subject_need_processor(KERNEL);
    struct subject subject = open_layer(&layers[LAYERS - 1], 1, NULL);
    subject_need_kernel(&subject, KERNEL);
    subject_close(&subject);
    ASSERT_TRUE(!is_chosen((struct layer){8, 8, 7, 7, 2, "kernel=1"}));
    ASSERT_TRUE(is_chosen((struct layer){8, 8, 28, 28, 2, "kernel=1"}) == (LANES == 8));
    ASSERT_TRUE(is_chosen((struct layer){8, 8, 28, 28, 2, "kernel=3 stride=2 padding=same"}));
}
