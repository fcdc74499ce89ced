/* What plan_options.recompute promises: the same bits, of every network of ours and of shapes that
 * they do not have, with less kept from forward to backward. */
#include "models/registry.h"
#include "support/subject.h"
#include "support/test.h"

static const struct plan_options train = {.mode = PLAN_TRAIN, .batch = 2, .threads = 2};

static struct plan_options recomputing(struct plan_options options)
{
    options.recompute = true;
    return options;
}

static void train_step(struct subject *subject)
{
    subject_gradients(subject);
    plan_commit_statistics(subject->plan);
    float *weights = params_weights(subject->params);
    for (size_t i = 0; i < params_dense_elements(subject->params); i++)
        weights[i] -= 0.01f * params_gradients(subject->params)[i];
}

static void compare_tables(struct subject *one, struct subject *two)
{
    for (int i = 0; i < plan_sparse_count(one->plan); i++) {
        struct tensor a = subject_read_gradient(one, one->tables[i].param);
        struct tensor b = subject_read_gradient(two, two->tables[i].param);
        ASSERT_BYTES(a.data, b.data, tensor_bytes(&a));
    }
}

/* Trains both for a few steps; what recomputing keeps less, or 0. */
static size_t compare(const char *text, struct plan_options options)
{
    struct subject kept = subject_open(text, options, 3);
    struct subject remade = subject_open(text, recomputing(options), 3);
    struct plan_memory before, after;
    plan_memory(kept.plan, &before);
    plan_memory(remade.plan, &after);
    ASSERT_TRUE(plan_fingerprint(kept.plan) == plan_fingerprint(remade.plan));
    ASSERT_INT(before.recomputed, ==, 0);
    ASSERT_INT(after.saved, <=, before.saved);
    ASSERT_TRUE((after.recomputed > 0) == (after.saved < before.saved));
    for (int step = 0; step < 2; step++) {
        train_step(&kept);
        train_step(&remade);
        ASSERT_BYTES(params_gradients(kept.params), params_gradients(remade.params),
                     params_dense_elements(kept.params) * sizeof(float));
        compare_tables(&kept, &remade);
    }
    ASSERT_BYTES(params_weights(kept.params), params_weights(remade.params),
                 params_elements(kept.params) * sizeof(float));
    ASSERT_BYTES(params_statistics(kept.params), params_statistics(remade.params),
                 params_statistic_elements(kept.params) * sizeof(float));
    subject_close(&kept);
    subject_close(&remade);
    return before.saved - after.saved;
}

TEST(recompute, gives_the_bits_of_every_model)
{
    static const struct {
        const char *text;
        bool saves; /* it has batch norms */
    } rows[] = {
        {"model resnet50 classes=5 image_size=64", true},
        {"model vgg16 classes=5 image_size=32", false},
        {"model mnist_keras", false},
        {"model mnist_custom", false},
        {"model wide_deep embedding_rows=50 embedding_dim=8 hidden=96", false},
    };
    enum { ROWS = sizeof rows / sizeof rows[0] };
    for (const struct model *const *model = model_list(); *model; model++) {
        int found = 0;
        for (int i = 0; i < ROWS; i++)
            found += strstr(rows[i].text, (*model)->name) != NULL;
        ASSERT_INT(found, ==, 1);
    }
    for (int i = 0; i < ROWS; i++) {
        struct plan_options unfused = train;
        unfused.unfused = true;
        ASSERT_TRUE((compare(rows[i].text, train) > 0) == rows[i].saves);
        if (rows[i].saves)
            compare(rows[i].text, unfused);
    }
}

#define HEAD "input x f32 8 6 6\ninput label i32\n"
#define TAIL                                                                                       \
    "flatten f z\ndense logits f units=3\nsoftmax_cross_entropy each logits label\nloss each\n"

/* Networks of which a wrong rule would lose a number or keep too much. */
TEST(recompute, gives_the_bits_of_any_network)
{
    static const struct {
        const char *text;
        bool saves;
    } rows[] = {
        /* Blocks in a chain: the last output is made from the first. */
        {HEAD
         "conv2d a x channels=8 kernel=3 padding=same\nbatch_norm b a\nrelu c b\n"
         "conv2d d c channels=8 kernel=3 padding=same\nbatch_norm e d\nadd g e c\nrelu h g\n"
         "conv2d i h channels=8 kernel=3 padding=same\nbatch_norm j i\nadd k j h\nrelu l k\n"
         "conv2d m l channels=8 kernel=3 padding=same\nbatch_norm n m\nadd o n l\nrelu z o\n" TAIL,
         true},
        /* Norms before convolutions: a sum with a convolution's result, which nobody else keeps, is
         * kept itself. */
        {HEAD
         "batch_norm a x\nrelu b a\nconv2d c b channels=8 kernel=3 padding=same\nadd d c x\n"
         "batch_norm e d\nrelu g e\nconv2d h g channels=8 kernel=3 padding=same\nadd z h d\n" TAIL,
         true},
        /* A ReLU that stands alone, its input read by another node, too. */
        {HEAD "conv2d a x channels=8 kernel=3 padding=same\nbatch_norm b a\nrelu c b\n"
              "conv2d d c channels=8 kernel=3 padding=same\nconv2d e b channels=8 kernel=3 "
              "padding=same\n"
              "add z d e\n" TAIL,
         true},
        /* What the network gives out is there; what is seen under another shape lies where it lies. */
        {HEAD "flatten w x\ndense a w units=36\nbatch_norm b a\nrelu c b\noutput y c\n"
              "dense z c units=8\n" TAIL,
         false},
        {HEAD "flatten w x\ndense a w units=36\nbatch_norm b a\nrelu c b\nreshape d c shape=1x6x6\n"
              "conv2d e d channels=2 kernel=3\ndense g c units=8\nflatten h e\nconcat z g h\n" TAIL,
         false},
        /* One value, read by two convolutions that want it, and added to itself. */
        {HEAD "conv2d a x channels=8 kernel=1\nbatch_norm b a\nadd c b b\n"
              "conv2d d c channels=8 kernel=3 padding=same\nconv2d e c channels=8 kernel=1\nadd z "
              "d e\n" TAIL,
         true},
        /* Nothing that could be made from something that is there. */
        {HEAD "conv2d a x channels=8 kernel=3 padding=same\nrelu b a\nadd z a b\n" TAIL, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int unfused = 0; unfused < 2; unfused++) {
            struct plan_options options = train;
            options.unfused = unfused;
            size_t saved = compare(rows[i].text, options);
            if (!unfused && (saved > 0) != rows[i].saves)
                FAIL("network %zu keeps %zu bytes less", i, saved);
        }
}

/* A step that is abandoned, or searched for a NaN, leaves nothing that the next one would read. */
TEST(recompute, starts_each_step_anew)
{
    struct subject once =
        subject_open("model resnet50 classes=5 image_size=32", recomputing(train), 3);
    struct subject often =
        subject_open("model resnet50 classes=5 image_size=32", recomputing(train), 3);
    subject_loss(&often);
    ASSERT_TRUE(plan_find_nonfinite(often.plan, often.inputs) == NULL);
    subject_gradients(&once);
    subject_gradients(&often);
    ASSERT_BYTES(params_gradients(once.params), params_gradients(often.params),
                 params_dense_elements(once.params) * sizeof(float));
    subject_close(&once);
    subject_close(&often);
}

/* What remains are the convolutions' outputs, 1.5 GB, with one stage's block outputs beside them. */
TEST(recompute, fits_resnet50_at_batch_32_into_1_7_gigabytes)
{
    struct plan_options options = recomputing(train);
    struct plan_memory memory;
    options.batch = 32;
    struct subject subject = subject_open("model resnet50", options, 1);
    plan_memory(subject.plan, &memory);
    ASSERT_INT(memory.saved, <=, 1520000000);
    ASSERT_INT(memory.peak, <=, 1700000000);
    subject_close(&subject);
}

static int recomputed_steps(const struct plan *plan)
{
    int count = 0;
    for (int i = 0; i < plan_step_count(plan); i++)
        count += strcmp(plan_step(plan, i).pass, "recompute") == 0;
    return count;
}

/* 53 norms, of which the stem's is read by a pool only, that keeps where its largest were, and the
 * last by the average. */
TEST(recompute, makes_each_output_of_resnet50_once)
{
    struct subject subject =
        subject_open("model resnet50 classes=5 image_size=64", recomputing(train), 1);
    ASSERT_INT(recomputed_steps(subject.plan), ==, 51);
    subject_close(&subject);
}
