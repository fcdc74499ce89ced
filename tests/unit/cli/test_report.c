#include "cli/report.h"

#include <math.h>

#include "base/json.h"
#include "base/memory.h"
#include "support/test.h"

static void start(struct report *report, int64_t total, int64_t warmup)
{
    struct error err = {0};
    ASSERT_OK(report_init(report, total, warmup, &err), err);
    report_observe(report, &(struct train_event){.kind = TRAIN_STARTED});
}

static void add_step(struct report *report, double seconds)
{
    int64_t step = report->steps + 1;
    report_observe(report, &(struct train_event){.kind = TRAIN_STEP,
                                                 .step = step,
                                                 .examples = step * 32,
                                                 .loss = 1.0 / (double)step,
                                                 .accuracy = 0.5,
                                                 .step_seconds = seconds});
}

TEST(report, leaves_the_warm_up_out_of_the_speed)
{
    struct report report;
    struct report_speed speed;
    start(&report, 5, 2);
    add_step(&report, 100);
    add_step(&report, 100);
    report_measure(&report, 32, &speed);
    ASSERT_INT(speed.steps, ==, 0);
    add_step(&report, 1);
    add_step(&report, 2);
    add_step(&report, 6);
    report_measure(&report, 32, &speed);
    ASSERT_INT(speed.steps, ==, 3);
    ASSERT_NEAR(speed.median_step_seconds, 2, 1e-12, 0);
    ASSERT_NEAR(speed.mean_step_seconds, 3, 1e-12, 0);
    report_release(&report);
}

/* numpy: s = 32/np.array([1, 2, 4, 8]); s.std()/2; 1.4826*np.median(abs(s-np.median(s))) */
TEST(report, measures_uncertainty_and_jitter_as_tf_cnn_benchmarks)
{
    struct report report;
    struct report_speed speed;
    start(&report, 4, 0);
    for (int i = 0; i < 4; i++)
        add_step(&report, 1 << i);
    report_measure(&report, 32, &speed);
    ASSERT_NEAR(speed.uncertainty, 5.361902647, 1e-9, 0);
    ASSERT_NEAR(speed.jitter, 1.4826 * 6, 1e-12, 0);
    ASSERT_NEAR(speed.median_step_seconds, 3, 1e-12, 0);
    report_release(&report);
}

TEST(report, of_a_very_long_run_takes_the_last_steps)
{
    struct report report;
    struct report_speed speed;
    start(&report, 1000000000000, 5);
    for (int i = 0; i < 100000; i++)
        add_step(&report, i < 30000 ? 1 : 2);
    report_measure(&report, 32, &speed);
    ASSERT_INT(speed.steps, ==, 65536);
    ASSERT_NEAR(speed.mean_step_seconds, 2, 1e-12, 0);
    report_release(&report);
}

TEST(report, allocates_nothing_while_it_watches)
{
    struct report report;
    start(&report, 100, 5);
    uint64_t before = memory_allocation_count();
    for (int i = 0; i < 100; i++)
        add_step(&report, 1);
    ASSERT_INT(memory_allocation_count() - before, ==, 0);
    report_release(&report);
}

static double number(const struct json *json, const char *key)
{
    return json_get_number(json, key, -1);
}

TEST(report, gives_scores_of_an_evaluation_only_and_the_last_steps_by_names_of_their_own)
{
    struct report report;
    struct json *json = json_object_create();
    start(&report, 2, 0);
    add_step(&report, 1);
    add_step(&report, 1);
    report_describe(&report, 32, json);
    ASSERT_NUMBER(number(json, "loss"), ==, -1); /* null */
    ASSERT_NEAR(number(json, "train_loss"), 0.5, 1e-12, 0);
    ASSERT_NEAR(number(json, "examples_per_second"), 32, 1e-12, 0);
    ASSERT_INT(json_get_integer(json, "steps", -1), ==, 2);
    ASSERT_INT(json_get_integer(json, "examples", -1), ==, 64);
    report_observe(&report, &(struct train_event){.kind = TRAIN_EVALUATED,
                                                  .loss = 0.125,
                                                  .accuracy = 0.75,
                                                  .accuracy_top_5 = 1});
    report_describe(&report, 32, json);
    ASSERT_NEAR(number(json, "loss"), 0.125, 1e-12, 0);
    ASSERT_NEAR(number(json, "accuracy"), 0.75, 1e-12, 0);
    ASSERT_NEAR(number(json, "train_loss"), 0.5, 1e-12, 0);
    json_release(json);
    report_release(&report);
}

TEST(report, of_no_steps_says_null_not_zero)
{
    struct report report;
    struct json *json = json_object_create();
    start(&report, 10, 0);
    report_describe(&report, 32, json);
    ASSERT_NUMBER(number(json, "loss"), ==, -1);
    ASSERT_NUMBER(number(json, "median_step_seconds"), ==, -1);
    json_release(json);
    report_release(&report);
}

static void add_saving_step(struct report *report, double seconds, double waited)
{
    report_observe(report, &(struct train_event){.kind = TRAIN_STEP,
                                                 .step_seconds = seconds,
                                                 .saving = true,
                                                 .saving_seconds = waited});
}

TEST(report, compares_steps_with_a_checkpoint_and_without)
{
    struct report report;
    struct report_saving saving;
    start(&report, 6, 1);
    add_saving_step(&report, 50, 50); /* warm-up */
    add_step(&report, 1);
    add_step(&report, 2);
    report_measure_saving(&report, &saving);
    ASSERT_INT(saving.steps, ==, 0);
    add_saving_step(&report, 4, 1);
    add_step(&report, 6);
    add_saving_step(&report, 6, 3);
    report_measure_saving(&report, &saving);
    ASSERT_INT(saving.steps, ==, 2);
    ASSERT_NEAR(saving.median_step_seconds, 7, 1e-12, 0);
    ASSERT_NEAR(saving.other_median_step_seconds, 2, 1e-12, 0);
    report_release(&report);
}
