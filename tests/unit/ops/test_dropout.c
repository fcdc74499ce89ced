/* Dropout draws, so it is checked by its statistics and by what must not change. */
#include <math.h>

#include "support/subject.h"
#include "support/test.h"

enum { BATCH = 8, WIDTH = 500, CLASSES = 3 };
static const int elements = BATCH * WIDTH;

static struct subject open_dropout(float rate, enum plan_mode mode)
{
    char text[256];
    snprintf(text, sizeof text,
             "input x f32 %d\ninput label i32\ndropout y x rate=%g\noutput y y\n"
             "dense logits y units=%d\noutput logits logits\n"
             "softmax_cross_entropy each logits label\nloss each\n",
             WIDTH, (double)rate, CLASSES);
    struct plan_options options = {
        .mode = mode, .batch = BATCH, .threads = 2, .want_input_gradient = mode == PLAN_TRAIN};
    return subject_open(text, options, 3);
}

static const float *find_output(const struct subject *subject, const char *name)
{
    for (int i = 0; i < plan_output_count(subject->plan); i++) {
        if (strcmp(plan_output_name(subject->plan, i), name) == 0)
            return subject->outputs[i].data;
    }
    FAIL("no output %s", name);
}

static const float *find_input(const struct subject *subject)
{
    ASSERT_TEXT(plan_input_name(subject->plan, 0), "x");
    return subject->inputs[0].data;
}

/* Which elements were kept at (seed, step). */
static void draw_mask(struct subject *subject, uint64_t seed, uint64_t step, bool *kept)
{
    plan_set_random(subject->plan, seed, step);
    plan_forward(subject->plan, subject->inputs, subject->outputs);
    const float *y = find_output(subject, "y");
    for (int i = 0; i < elements; i++)
        kept[i] = y[i] != 0;
}

static int count_same(const bool *a, const bool *b)
{
    int same = 0;
    for (int i = 0; i < elements; i++)
        same += a[i] == b[i];
    return same;
}

TEST(dropout, keeps_its_share_of_elements_and_scales_them)
{
    static const float rates[] = {0.1f, 0.5f, 0.8f};
    for (int r = 0; r < 3; r++) {
        struct subject subject = open_dropout(rates[r], PLAN_TRAIN);
        double kept = 0, total = 0, rate = rates[r];
        for (uint64_t step = 0; step < 10; step++) {
            plan_set_random(subject.plan, 1, step);
            plan_forward(subject.plan, subject.inputs, subject.outputs);
            const float *x = find_input(&subject), *y = find_output(&subject, "y");
            for (int i = 0; i < elements; i++, total++) {
                kept += y[i] != 0;
                if (y[i] != 0)
                    ASSERT_NEAR(y[i], x[i] / (1 - rate), 1e-6, 0);
            }
        }
        /* Binomial: five standard deviations. */
        double deviation = sqrt(total * rate * (1 - rate));
        ASSERT_NUMBER(fabs(kept - total * (1 - rate)), <=, 5 * deviation);
        subject_close(&subject);
    }
}

TEST(dropout, draws_the_same_for_the_same_seed_and_step_only)
{
    struct subject subject = open_dropout(0.5f, PLAN_TRAIN);
    static bool first[BATCH * WIDTH], other[BATCH * WIDTH];
    draw_mask(&subject, 7, 3, first);
    draw_mask(&subject, 7, 4, other);
    /* Half agree by chance; 32 is one standard deviation of 4000 coins. */
    ASSERT_INT(abs(count_same(first, other) - elements / 2), <=, 5 * 32);
    draw_mask(&subject, 8, 3, other);
    ASSERT_INT(abs(count_same(first, other) - elements / 2), <=, 5 * 32);
    draw_mask(&subject, 7, 3, other);
    ASSERT_INT(count_same(first, other), ==, elements);
    subject_close(&subject);
}

TEST(dropout, draws_the_same_with_any_number_of_threads)
{
    struct subject subject = open_dropout(0.5f, PLAN_TRAIN);
    static bool two[BATCH * WIDTH], one[BATCH * WIDTH];
    draw_mask(&subject, 7, 3, two);
    struct plan_options options = {.mode = PLAN_TRAIN, .batch = BATCH, .threads = 1};
    struct plan *plan = subject_plan(&subject, options), *old = subject.plan;
    subject.plan = plan;
    draw_mask(&subject, 7, 3, one);
    ASSERT_INT(count_same(one, two), ==, elements);
    subject.plan = old;
    plan_destroy(plan);
    subject_close(&subject);
}

TEST(dropout, gives_each_node_its_own_stream)
{
    struct plan_options options = {.mode = PLAN_TRAIN, .batch = BATCH, .threads = 1};
    struct subject subject = subject_open(
        "input x f32 500\ninput label i32\ndropout a x rate=0.5\ndropout b x rate=0.5\n"
        "output a a\noutput b b\nadd s a b\ndense logits s units=3\n"
        "softmax_cross_entropy each logits label\nloss each\n",
        options, 3);
    plan_forward(subject.plan, subject.inputs, subject.outputs);
    const float *a = find_output(&subject, "a"), *b = find_output(&subject, "b");
    int same = 0;
    for (int i = 0; i < elements; i++)
        same += (a[i] != 0) == (b[i] != 0);
    ASSERT_INT(abs(same - elements / 2), <=, 5 * 32);
    subject_close(&subject);
}

/* d loss / d y of one example: weights [CLASSES, WIDTH] times (probability - label) / batch. */
static void output_gradient(const float *weights, const float *logits, int label, double *out)
{
    double sum = 0, share[CLASSES];
    for (int c = 0; c < CLASSES; c++)
        sum += share[c] = exp(logits[c]);
    for (int c = 0; c < CLASSES; c++)
        share[c] = (share[c] / sum - (c == label)) / BATCH;
    for (int i = 0; i < WIDTH; i++) {
        out[i] = 0;
        for (int c = 0; c < CLASSES; c++)
            out[i] += share[c] * weights[c * WIDTH + i];
    }
}

TEST(dropout, uses_the_mask_of_forward_in_backward)
{
    const double rate = 0.5;
    struct subject subject = open_dropout((float)rate, PLAN_TRAIN);
    plan_set_random(subject.plan, 5, 9);
    subject_gradients(&subject);
    const float *y = find_output(&subject, "y"), *logits = find_output(&subject, "logits");
    const float *gradient = plan_input_gradient(subject.plan, 0).data;
    const int32_t *labels = subject.inputs[1].data;
    const float *weights = NULL;
    for (int i = 0; i < params_count(subject.params); i++) {
        if (params_range(subject.params, i).shape.ndim == 2)
            weights = subject_read(&subject, i).data;
    }
    ASSERT_TRUE(weights != NULL && gradient != NULL);
    for (int n = 0; n < BATCH; n++) {
        double expected[WIDTH];
        output_gradient(weights, logits + n * CLASSES, labels[n], expected);
        for (int i = 0; i < WIDTH; i++) {
            double factor = y[n * WIDTH + i] != 0 ? 1 / (1 - rate) : 0;
            ASSERT_NEAR(gradient[n * WIDTH + i], expected[i] * factor, 1e-4, 1e-3);
        }
    }
    subject_close(&subject);
}

TEST(dropout, changes_nothing_outside_training)
{
    static const enum plan_mode modes[] = {PLAN_EVALUATE, PLAN_SERVE};
    for (int m = 0; m < 2; m++) {
        struct subject subject = open_dropout(0.5f, modes[m]);
        plan_forward(subject.plan, subject.inputs, subject.outputs);
        ASSERT_BYTES(find_output(&subject, "y"), find_input(&subject),
                     (size_t)elements * sizeof(float));
        subject_close(&subject);
    }
}
