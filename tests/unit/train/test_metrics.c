#include "train/metrics.h"

#include <math.h>

#include "support/test.h"

/* [2, 6]: the first row is right with class 4, the second has class 0 in fifth place. */
static float logits_data[] = {0, 1, 2, 3, 9, 5, /**/ 1, 2, 3, 4, 5, 0};
static int32_t label_data[] = {4, 0};
static float loss_data[] = {0.5F, 1.5F};

static const struct tensor logits = {DTYPE_F32, {2, {2, 6}}, logits_data};
static const struct tensor labels = {DTYPE_I32, {1, {2}}, label_data};
static const struct tensor losses = {DTYPE_F32, {1, {2}}, loss_data};

TEST(metrics, average_over_examples)
{
    struct metrics metrics = {0};
    metrics_add(&metrics, &logits, &labels, &losses, 2);
    ASSERT_NUMBER(metrics_loss(&metrics), ==, 1);
    ASSERT_NUMBER(metrics_accuracy(&metrics), ==, 0.5);
    ASSERT_NUMBER(metrics_accuracy_top_5(&metrics), ==, 1);
}

TEST(metrics, count_only_the_real_rows_of_a_short_batch)
{
    struct metrics metrics = {0};
    metrics_add(&metrics, &logits, &labels, &losses, 2);
    metrics_add(&metrics, &logits, &labels, &losses, 1);
    ASSERT_INT(metrics.examples, ==, 3);
    ASSERT_NEAR(metrics_loss(&metrics), 2.5 / 3, 1e-12, 0);
    ASSERT_NEAR(metrics_accuracy(&metrics), 2.0 / 3, 1e-12, 0);
}

TEST(metrics, a_tie_goes_to_the_first_class)
{
    float equal[] = {1, 1, 1, 1, 1, 1, 1};
    struct tensor same = {DTYPE_F32, {2, {1, 7}}, equal};
    for (int32_t label = 0; label < 7; label++) {
        struct tensor one = {DTYPE_I32, {1, {1}}, &label};
        struct metrics metrics = {0};
        metrics_add(&metrics, &same, &one, NULL, 1);
        ASSERT_INT(metrics.correct, ==, label == 0);
        ASSERT_INT(metrics.correct_top_5, ==, label < 5);
    }
}

TEST(metrics, a_network_that_answers_nan_is_never_right)
{
    float nothing[] = {NAN, NAN, NAN, NAN, NAN, NAN};
    struct tensor bad = {DTYPE_F32, {2, {1, 6}}, nothing};
    for (int32_t label = 0; label < 6; label++) {
        struct tensor one = {DTYPE_I32, {1, {1}}, &label};
        struct metrics metrics = {0};
        metrics_add(&metrics, &bad, &one, NULL, 1);
        ASSERT_INT(metrics.correct + metrics.correct_top_5, ==, 0);
    }
}

TEST(metrics, a_label_outside_the_classes_is_wrong_not_a_crash)
{
    int32_t outside[] = {-1, 6};
    struct tensor bad = {DTYPE_I32, {1, {2}}, outside};
    struct metrics metrics = {0};
    metrics_add(&metrics, &logits, &bad, &losses, 2);
    ASSERT_NUMBER(metrics_accuracy(&metrics), ==, 0);
}

TEST(metrics, a_single_logit_says_yes_or_no_by_its_sign)
{
    float yes_no[] = {2, -2, 2, -2}, wanted[] = {1, 0, 0, 1};
    struct tensor one = {DTYPE_F32, {2, {4, 1}}, yes_no};
    struct tensor label = {DTYPE_F32, {1, {4}}, wanted};
    struct metrics metrics = {0};
    metrics_add(&metrics, &one, &label, NULL, 4);
    ASSERT_NUMBER(metrics_accuracy(&metrics), ==, 0.5);
}

TEST(metrics, without_logits_there_is_a_loss_but_no_accuracy)
{
    struct metrics metrics = {0};
    ASSERT_TRUE(isnan(metrics_loss(&metrics)));
    metrics_add(&metrics, NULL, NULL, &losses, 2);
    ASSERT_NUMBER(metrics_loss(&metrics), ==, 1);
    ASSERT_TRUE(isnan(metrics_accuracy(&metrics)));
    ASSERT_TRUE(isnan(metrics_accuracy_top_5(&metrics)));
}
