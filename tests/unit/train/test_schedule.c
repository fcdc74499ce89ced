#include "train/schedule.h"

#include <math.h>

#include "support/test.h"

static struct schedule parse(const char *text, double warmup_epochs)
{
    struct schedule schedule;
    struct error err = {0};
    ASSERT_OK(schedule_parse(text, 0.5F, warmup_epochs, 100, 1000, &schedule, &err), err);
    return schedule;
}

static const char *const all_kinds[] = {"constant", "piecewise:2=0.1,5=0.01", "polynomial",
                                        "polynomial:1", "cosine"};

TEST(schedule, warms_up_in_a_straight_line_from_zero)
{
    for (int kind = 0; kind < 5; kind++) {
        struct schedule schedule = parse(all_kinds[kind], 1);
        for (int step = 0; step <= 100; step++)
            ASSERT_NEAR(schedule_rate(&schedule, step), 0.5 * step / 100, 1e-6, 0);
    }
}

TEST(schedule, never_rises_after_the_warm_up_nor_falls_below_zero)
{
    for (int kind = 0; kind < 5; kind++) {
        struct schedule schedule = parse(all_kinds[kind], 1);
        for (int step = 100; step < 2000; step++) {
            ASSERT_NUMBER(schedule_rate(&schedule, step + 1), <=, schedule_rate(&schedule, step));
            ASSERT_NUMBER(schedule_rate(&schedule, step + 1), >=, 0);
        }
    }
}

TEST(schedule, drops_at_the_first_step_of_the_named_epoch)
{
    struct schedule schedule = parse("piecewise:2=0.1,5=0.01", 0);
    ASSERT_NEAR(schedule_rate(&schedule, 199), 0.5, 1e-6, 0);
    ASSERT_NEAR(schedule_rate(&schedule, 200), 0.05, 1e-6, 0);
    ASSERT_NEAR(schedule_rate(&schedule, 499), 0.05, 1e-6, 0);
    ASSERT_NEAR(schedule_rate(&schedule, 500), 0.005, 1e-6, 0);
}

TEST(schedule, stays_at_its_end_once_the_run_is_longer_than_planned)
{
    struct schedule polynomial = parse("polynomial", 0), cosine = parse("cosine", 0);
    ASSERT_NUMBER(schedule_rate(&polynomial, 1000), ==, 0);
    ASSERT_NUMBER(schedule_rate(&polynomial, 5000), ==, 0);
    ASSERT_NUMBER(schedule_rate(&cosine, 1000), ==, 0);
    ASSERT_NUMBER(schedule_rate(&cosine, 5000), ==, 0);
}

TEST(schedule, of_added_steps_falls_from_where_they_begin)
{
    struct schedule cosine = parse("cosine", 0), drops = parse("piecewise:2=0.1,5=0.01", 0);
    cosine.origin = drops.origin = 600; /* of 1000 */
    ASSERT_NEAR(schedule_rate(&cosine, 600), 0.5, 1e-6, 0);
    ASSERT_NEAR(schedule_rate(&cosine, 800), 0.25, 1e-6, 0);
    ASSERT_NUMBER(schedule_rate(&cosine, 1000), ==, 0);
    ASSERT_NEAR(schedule_rate(&drops, 600), 0.005, 1e-6, 0); /* epochs count from the beginning */
}

TEST(schedule, refuses_words_it_does_not_know)
{
    static const char *const wrong[] = {
        "",
        "constant:1",
        "cosin",
        "cosine:2",
        "piecewise",
        "piecewise:",
        "piecewise:30",
        "piecewise:30=",
        "piecewise:x=1",
        "piecewise:1=nan",
        "piecewise:1=0.1,",
        "piecewise:1=0.1;2=0.2",
        "piecewise:-1=0.1",
        "polynomial:",
        "polynomial:0",
        "polynomial:2x",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct schedule schedule = {.base_rate = 42};
        struct error err = {0};
        ASSERT_FAILS(schedule_parse(wrong[i], 0.5F, 0, 100, 1000, &schedule, &err), err,
                     ERROR_USAGE, "--schedule=");
        ASSERT_NUMBER(schedule.base_rate, ==, 42);
    }
}

TEST(schedule, refuses_drops_that_go_back_or_are_too_many)
{
    struct schedule schedule;
    struct error err = {0};
    ASSERT_FAILS(schedule_parse("piecewise:5=0.1,2=0.01", 0.5F, 0, 100, 1000, &schedule, &err), err,
                 ERROR_USAGE, "must rise");
    char many[512] = "piecewise:1=1";
    for (int i = 0; i < SCHEDULE_MAX_DROPS; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), ",%d=1", i + 2);
    ASSERT_FAILS(schedule_parse(many, 0.5F, 0, 100, 1000, &schedule, &err), err, ERROR_USAGE,
                 "more than 16 drops");
}

TEST(schedule, refuses_rates_that_are_none)
{
    struct schedule schedule;
    struct error err = {0};
    ASSERT_FAILS(schedule_parse("constant", -1, 0, 100, 1000, &schedule, &err), err, ERROR_USAGE,
                 "--lr=-1");
    ASSERT_FAILS(schedule_parse("constant", NAN, 0, 100, 1000, &schedule, &err), err, ERROR_USAGE,
                 "--lr=");
    ASSERT_FAILS(schedule_parse("constant", 1, -1, 100, 1000, &schedule, &err), err, ERROR_USAGE,
                 "--warmup-epochs=-1");
}
