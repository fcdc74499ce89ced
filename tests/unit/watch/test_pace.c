#include "watch/pace.h"

#include <math.h>

#include "support/test.h"
#include "train/trainer.h"

static const char *duration(double seconds)
{
    static char text[32];
    return pace_duration_text(seconds, text, sizeof text);
}

static const char *number(double value)
{
    static char text[32];
    return pace_number_text(value, text, sizeof text);
}

TEST(pace, durations_read_as_a_clock_does)
{
    ASSERT_TEXT(duration(0), "0:00");
    ASSERT_TEXT(duration(59.4), "0:59");
    ASSERT_TEXT(duration(59.6), "1:00");
    ASSERT_TEXT(duration(3723), "1:02:03");
    ASSERT_TEXT(duration(3 * 86400 + 4 * 3600 + 300), "3 d 04:05");
    ASSERT_TEXT(duration(-1), "?");
    ASSERT_TEXT(duration(NAN), "?");
    ASSERT_TEXT(duration(INFINITY), "?");
}

TEST(pace, numbers_keep_the_digits_that_matter)
{
    ASSERT_TEXT(number(0), "0.0000");
    ASSERT_TEXT(number(0.21544), "0.2154");
    ASSERT_TEXT(number(2.3026), "2.303");
    ASSERT_TEXT(number(215.81), "215.8");
    ASSERT_TEXT(number(5321.4), "5321");
    ASSERT_TEXT(number(0.00001234), "1.23e-05");
    ASSERT_TEXT(number(NAN), "?");
}

TEST(pace, the_first_step_does_not_count_for_the_speed)
{
    struct pace pace = {0};
    struct train_event event = {.kind = TRAIN_STEP, .total = 100, .loss = 1, .accuracy = 0.5};
    for (int step = 1; step <= 50; step++) {
        event.step = step;
        event.examples = step * 64;
        event.step_seconds = step == 1 ? 30 : 0.5;
        pace_add(&pace, &event);
    }
    ASSERT_NEAR(pace_examples_per_second(&pace), 128, 1e-9, 0);
    ASSERT_NEAR(pace_seconds_left(&pace, &event), 25, 1e-9, 0);
    ASSERT_NEAR(pace.loss, 1, 1e-9, 0);
}

TEST(pace, an_unknown_accuracy_stays_unknown)
{
    struct pace pace = {0};
    struct train_event event = {.kind = TRAIN_STEP, .loss = 1, .accuracy = NAN};
    pace_add(&pace, &event);
    pace_add(&pace, &event);
    ASSERT_TRUE(isnan(pace.accuracy));
}
