#include "train/bucket_tuner.h"

#include "support/test.h"

TEST(bucket_tuner, keeps_the_size_whose_steps_were_fastest)
{
    for (size_t best = 1 << 20; best <= (size_t)256 << 20; best *= 4) {
        struct bucket_tuner tuner;
        int steps = 0;
        bucket_tuner_init(&tuner, 0, true);
        while (tuner.tuning && steps < 1000) {
            /* Every fifth step is slow for another reason. */
            double seconds = bucket_tuner_size(&tuner) == best ? 1 : 1.1;
            bucket_tuner_note(&tuner, seconds + (steps % 7 == 3));
            steps++;
        }
        ASSERT_INT(steps, ==, bucket_tuner_steps());
        ASSERT_TRUE(bucket_tuner_size(&tuner) == best);
    }
}

/* Two per cent are chance. */
TEST(bucket_tuner, takes_the_usual_size_where_none_is_clearly_faster)
{
    struct bucket_tuner tuner;
    bucket_tuner_init(&tuner, 0, true);
    for (int i = 0; i < bucket_tuner_steps(); i++)
        bucket_tuner_note(&tuner, bucket_tuner_size(&tuner) == 1 << 20 ? 0.98 : 1);
    ASSERT_TRUE(bucket_tuner_settled(&tuner) == 16 << 20);
}

TEST(bucket_tuner, leaves_a_given_size_alone)
{
    struct bucket_tuner tuner;
    bucket_tuner_init(&tuner, 12345, false);
    for (int i = 0; i < 50; i++)
        bucket_tuner_note(&tuner, i);
    ASSERT_TRUE(bucket_tuner_size(&tuner) == 12345);
}
