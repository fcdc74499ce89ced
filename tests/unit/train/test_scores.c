#include "train/scores.h"

#include <math.h>

#include "support/test.h"
#include "tensor/random.h"

enum { MANY = 700 };

/* Every pair, one by one. */
static double count_pairs(const float *values, const bool *positive, int count)
{
    double wins = 0, pairs = 0;
    for (int i = 0; i < count; i++)
        for (int j = 0; positive[i] && j < count; j++) {
            if (positive[j])
                continue;
            pairs += 1;
            wins += values[i] > values[j] ? 1 : values[i] == values[j] ? 0.5 : 0;
        }
    return pairs > 0 ? wins / pairs : NAN;
}

static double auc_of(const float *values, const bool *positive, int count)
{
    struct scores scores;
    struct error err = {0};
    ASSERT_OK(scores_create(&scores, count, &err), err);
    for (int i = 0; i < count; i++)
        scores_add(&scores, values[i], positive[i]);
    double auc = scores_auc(&scores);
    scores_release(&scores);
    return auc;
}

TEST(scores, give_the_share_of_pairs_that_are_in_order)
{
    float values[MANY];
    bool positive[MANY];
    for (int round = 0; round < 6; round++) {
        struct random random = {random_key(11, (uint64_t)round), 0};
        for (int i = 0; i < MANY; i++) {
            positive[i] = random_below(&random, 4) == 0;
            values[i] = random_normal(&random) + (positive[i] ? 0.7F : 0);
            if (round % 2) /* many ties, a zero of each sign among them */
                values[i] = rintf(values[i] * 2) / 2;
        }
        ASSERT_NEAR(auc_of(values, positive, MANY), count_pairs(values, positive, MANY), 1e-12, 0);
    }
}

TEST(scores, of_equal_answers_are_a_coin)
{
    float values[] = {-0.0F, 0, 0, -0.0F};
    bool positive[] = {true, false, true, false};
    ASSERT_NUMBER(auc_of(values, positive, 4), ==, 0.5);
}

TEST(scores, reach_from_all_wrong_to_all_right)
{
    float values[] = {-INFINITY, -1e30F, -1e-40F, 1e-40F, 3, INFINITY};
    bool up[] = {false, false, false, true, true, true};
    bool down[] = {true, true, true, false, false, false};
    ASSERT_NUMBER(auc_of(values, up, 6), ==, 1);
    ASSERT_NUMBER(auc_of(values, down, 6), ==, 0);
}

TEST(scores, that_are_no_numbers_are_wrong)
{
    float values[] = {NAN, NAN, 1, 0};
    bool positive[] = {true, false, true, false};
    ASSERT_NUMBER(auc_of(values, positive, 4), ==, 0.25);
}

TEST(scores, of_one_kind_have_no_auc)
{
    float values[] = {1, 2};
    bool positive[] = {true, true};
    ASSERT_TRUE(isnan(auc_of(values, positive, 2)));
    ASSERT_TRUE(isnan(auc_of(values, positive, 0)));
}
