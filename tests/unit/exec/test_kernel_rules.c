/* Files of rules about kernels: what they may say, what is wrong with others, and that plans do as
 * they are told. */
#include "base/strbuf.h"
#include "exec/kernel_rules.h"
#include "graph/op.h"
#include "support/subject.h"
#include "support/test.h"
#include "tensor/compare.h"

static struct kernel_rules *parse(const char *text)
{
    struct kernel_rules *rules = NULL;
    struct error err = {0};
    ASSERT_OK(kernel_rules_parse("rules", text, strlen(text), &rules, &err), err);
    return rules;
}

TEST(kernel_rules, say_what_their_lines_say)
{
    struct kernel_rules *rules =
        parse("# a comment\n\n  kernels 1\nprocessor  Some  CPU, avx2 # x\n"
              "threads 3\r\nconv2d 1x2x3x4 5x6x1x1 use winograd\n"
              "conv2d  * use onednn");
    ASSERT_TEXT(kernel_rules_name(rules), "rules");
    ASSERT_TEXT(kernel_rules_processor(rules), "Some CPU, avx2");
    ASSERT_INT(kernel_rules_threads(rules), ==, 3);
    ASSERT_TEXT(kernel_rules_find(rules, "conv2d 1x2x3x4 5x6x1x1"), "winograd");
    ASSERT_TEXT(kernel_rules_find(rules, "conv2d 1x2x3x4"), "onednn");
    ASSERT_TRUE(kernel_rules_find(rules, "dense 1x2") == NULL);
    struct kernel_rules *same = parse("kernels 1\nconv2d 1x2x3x4 5x6x1x1 use winograd\n"
                                      "conv2d * use onednn # as before\n");
    struct kernel_rules *other = parse("kernels 1\nconv2d * use onednn\n");
    ASSERT_TEXT(kernel_rules_processor(same), "");
    ASSERT_INT(kernel_rules_threads(same), ==, 0);
    ASSERT_TRUE(kernel_rules_fingerprint(rules) == kernel_rules_fingerprint(same));
    ASSERT_TRUE(kernel_rules_fingerprint(rules) != kernel_rules_fingerprint(other));
    kernel_rules_destroy(rules);
    kernel_rules_destroy(same);
    kernel_rules_destroy(other);
}

TEST(kernel_rules, name_the_line_that_is_wrong)
{
    static const struct {
        const char *text, *complaint;
    } rows[] = {
        {"", "rules: empty"},
        {"# nothing\n", "rules: empty"},
        {"conv2d * use onednn\n", "line 1: 'kernels 1' was expected first"},
        {"kernels 2\n", "line 1: version '2'"},
        {"kernels 1\nconv3d * use onednn\n", "line 2: 'conv3d' where"},
        {"kernels 1\n\nconv2d * use onednm\n",
         "line 3: conv2d has no kernel 'onednm'; did you mean "
         "'onednn'?"},
        {"kernels 1\nconv2d use onednn\n", "line 2: conv2d, its shapes"},
        {"kernels 1\nconv2d * onednn\n", "line 2: conv2d, its shapes"},
        {"kernels 1\nconv2d * use onednn\nconv2d  * use winograd\n", "line 3: a second rule"},
        {"kernels 1\nthreads\n", "line 2: threads and one number"},
        {"kernels 1\nthreads 0\n", "line 2: threads and one number"},
        {"kernels 1\nthreads 2x\n", "line 2: threads and one number"},
        {"kernels 1\nthreads 2\nthreads 2\n", "line 3: threads a second time"},
        {"kernels 1\nprocessor\n", "line 2: processor and its name"},
        {"kernels 1\nprocessor a\nprocessor b\n", "line 3: processor and its name"},
        {"kernels 1\nconv2d a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a use "
         "onednn\n",
         "line 2: more than 32 words"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kernel_rules *rules = NULL;
        struct error err = {0};
        ASSERT_FAILS(kernel_rules_parse("rules", rows[i].text, strlen(rows[i].text), &rules, &err),
                     err, ERROR_FORMAT, rows[i].complaint);
        ASSERT_TRUE(rules == NULL);
    }
    struct kernel_rules *rules = NULL;
    struct error err = {0};
    ASSERT_FAILS(kernel_rules_parse("rules", "kernels 1\nconv2d \0 use onednn\n", 28, &rules, &err),
                 err, ERROR_FORMAT, "line 2: a NUL character");
}

/* 64 channels, few tiles: what the fixed rule leaves to oneDNN. */
#define NETWORK                                                                                    \
    "image x 64 9 9\ninput label i32\nconv2d a x channels=64 kernel=3 padding=same\nrelu b a\n"    \
    "conv2d c b channels=96 kernel=3 padding=same\nrelu d c\n"                                     \
    "global_avg_pool e d\nflatten f e\ndense logits f units=3\n"                                   \
    "softmax_cross_entropy each logits label\nloss each\n"

static struct subject open_network(const struct kernel_rules *rules)
{
    return subject_open(
        NETWORK, (struct plan_options){PLAN_TRAIN, .batch = 2, .threads = 2, .kernels = rules}, 5);
}

static const struct node *convolution(const struct graph *graph, int number)
{
    for (int n = 0; n < graph_node_count(graph); n++)
        if (strcmp(graph_node_at(graph, n)->op->name, "conv2d") == 0 && number-- == 0)
            return graph_node_at(graph, n);
    return NULL;
}

TEST(kernel_rules, are_followed_by_plans)
{
    struct subject fixed = open_network(NULL);
    ASSERT_TEXT(plan_kernel(fixed.plan, convolution(fixed.graph, 0)), "onednn");
    ASSERT_INT(plan_kernels(fixed.plan).nodes, ==, 0);
    char key[KERNEL_KEY_BYTES], text[2 * KERNEL_KEY_BYTES];
    ASSERT_TEXT(kernel_rules_key(fixed.graph, convolution(fixed.graph, 1), 2, key),
                "conv2d 2x64x9x9 96x64x3x3 stride=1x1 dilation=1x1 pad=1,1,1,1 groups=1");
    snprintf(text, sizeof text, "kernels 1\n%s use winograd\n", key);
    struct kernel_rules *rules = parse(text);
    struct subject told = open_network(rules);
    struct plan_kernels followed = plan_kernels(told.plan);
    ASSERT_INT(followed.nodes, ==, 2);
    ASSERT_INT(followed.told, ==, 1);
    ASSERT_TEXT(plan_kernel(told.plan, convolution(told.graph, 0)), "onednn");
    if (followed.unfit) {
        subject_close(&told);
        subject_close(&fixed);
        kernel_rules_destroy(rules);
        test_skip("the kernel is not for this processor");
    }
    ASSERT_TEXT(plan_kernel(told.plan, convolution(told.graph, 1)), "winograd");
    ASSERT_TRUE(plan_fingerprint(fixed.plan) != plan_fingerprint(told.plan));
    struct strbuf explained;
    strbuf_init(&explained);
    plan_explain(told.plan, &explained);
    ASSERT_TRUE(strstr(explained.text, "kernels: 1 of 2 convolutions as rules says"));
    strbuf_release(&explained);
    subject_close(&told);
    subject_close(&fixed);
    kernel_rules_destroy(rules);
}

/* The fixed rule's own choice, said aloud, is the same plan; so is one that cannot be followed. */
TEST(kernel_rules, that_change_nothing_leave_the_fingerprint)
{
    static const char *const texts[] = {"kernels 1\nconv2d * use onednn\n",
                                        "kernels 1\nconv2d * use own:thin\n"};
    struct subject fixed = open_network(NULL);
    for (int i = 0; i < 2; i++) {
        struct kernel_rules *rules = parse(texts[i]);
        struct subject told = open_network(rules);
        ASSERT_INT(plan_kernels(told.plan).told, ==, 2);
        ASSERT_INT(plan_kernels(told.plan).unfit, ==, i == 0 ? 0 : 2);
        ASSERT_TRUE(plan_fingerprint(fixed.plan) == plan_fingerprint(told.plan));
        subject_close(&told);
        kernel_rules_destroy(rules);
    }
    subject_close(&fixed);
}

/* Where a kernel is used that the fixed rule would not use, its numbers are as good. */
TEST(kernel_rules, give_the_same_gradients_with_other_kernels)
{
    struct kernel_rules *rules = parse("kernels 1\nconv2d * use winograd\n");
    struct subject fixed = open_network(NULL), told = open_network(rules);
    ASSERT_NEAR(subject_gradients(&told), subject_gradients(&fixed), 1e-5, 1e-6);
    for (int i = 0; i < params_count(fixed.params); i++) {
        struct tensor a = subject_read_gradient(&fixed, i);
        struct tensor b =
            subject_read_gradient(&told, params_find(told.params, params_name(fixed.params, i)));
        struct difference apart = compare_floats(b.data, a.data, (size_t)shape_count(&a.shape));
        if (apart.not_finite || apart.relative > 1e-4)
            FAIL("%s: off by %g", params_name(fixed.params, i), apart.relative);
    }
    subject_close(&told);
    subject_close(&fixed);
    kernel_rules_destroy(rules);
}
