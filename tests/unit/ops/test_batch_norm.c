/* That batch norm gives the same bits whether threads take whole blocks of channels or divide the segments of
 * all of them, which depends on how many threads there are. The reference cases compare it with PyTorch's. */
#include "support/subject.h"
#include "support/test.h"

/* 96 channels are blocks of 8 or 16 that 1, 2 and 3 threads can share evenly, and 5 cannot. The convolution's
 * bits do not depend on threads (test_winograd.c). */
static const char network[] = "input x f32 64 16 16\n"
                              "conv2d a x channels=96 kernel=3 padding=same bias=0\n"
                              "batch_norm b a\nrelu c b\n"
                              "conv2d d c channels=96 kernel=3 padding=same bias=0\n"
                              "batch_norm e d\nadd f e c\nrelu g f\n"
                              "output y g\ninput label i32\nglobal_avg_pool h g\nflatten i h\n"
                              "dense logits i units=4\nsoftmax_cross_entropy each logits label\n"
                              "loss each\n";

static struct subject open_with(int threads)
{
    struct plan_options options = {.mode = PLAN_TRAIN, .batch = 8, .threads = threads};
    return subject_open(network, options, 7);
}

static struct tensor gradient_of(struct subject *subject, const char *name)
{
    int index = params_find(subject->params, name);
    ASSERT_TRUE(index >= 0);
    return subject_read_gradient(subject, index);
}

static const char *const names[] = {"batch_norm/scale", "batch_norm/shift", "conv2d/weights"};

TEST(batch_norm, has_the_same_bits_with_any_number_of_threads)
{
    subject_need_processor("own:winograd");
    struct subject one = open_with(1);
    subject_need_kernel(&one, "own:winograd");
    subject_gradients(&one);
    for (int threads = 2; threads <= 5; threads++) {
        struct subject more = open_with(threads);
        subject_gradients(&more);
        ASSERT_BYTES(one.outputs[0].data, more.outputs[0].data, tensor_bytes(&one.outputs[0]));
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            struct tensor a = gradient_of(&one, names[i]), b = gradient_of(&more, names[i]);
            ASSERT_BYTES(a.data, b.data, tensor_bytes(&a));
        }
        subject_close(&more);
    }
    subject_close(&one);
}
