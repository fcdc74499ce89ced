/* What Kubeflow Trainer's status server is told. Its API: progressPercentage 0 to 100,
 * estimatedRemainingSeconds an int32 of 0 or more, metrics with names and values of 1 to 64
 * characters, all values text. */
#include <math.h>

#include "base/clock.h"
#include "base/json.h"
#include "support/http_server.h"
#include "support/log_record.h"
#include "support/test.h"
#include "train/trainer.h"
#include "watch/kubeflow.h"

static const char *variables[12]; /* "NAME", "value", ... */

static char *look_up(const char *name)
{
    for (int i = 0; variables[i]; i += 2)
        if (strcmp(variables[i], name) == 0)
            return (char *)(uintptr_t)variables[i + 1];
    return NULL;
}

#define ENVIRONMENT(...) memcpy(variables, (const char *[12]){__VA_ARGS__}, sizeof variables)

static struct http_answer agree(void *context, const struct http_question *question, int number)
{
    (void)context, (void)number;
    return (struct http_answer){.status = 200, .body = question->body};
}

static const struct outbox_times quick = {
    .interval = 0.01, .first_wait = 0.02, .last_wait = 0.05, .connect = 1, .end = 2};

static struct kubeflow *open_status(struct outbox_times times)
{
    struct kubeflow *kubeflow;
    struct error err = {0};
    struct kubeflow_options options = {.environment = look_up, .times = times};
    log_record_start();
    ASSERT_OK(kubeflow_create(&options, &kubeflow, &err), err);
    ASSERT_TRUE(kubeflow);
    return kubeflow;
}

static void observe(struct kubeflow *kubeflow, enum train_event_kind kind, int64_t step)
{
    struct train_event event = {.kind = kind,
                                .step = step,
                                .total = 200,
                                .examples = step * 32,
                                .loss = 0.25,
                                .accuracy = 0.5,
                                .accuracy_top_5 = NAN,
                                .log_loss = NAN,
                                .auc = NAN,
                                .rate = 0.001,
                                .step_seconds = 2};
    kubeflow_observe(kubeflow, &event);
}

static void end_run(struct kubeflow *kubeflow, enum run_outcome outcome)
{
    kubeflow_end(kubeflow, outcome);
    kubeflow_destroy(kubeflow);
}

/* The last report, which the caller releases. */
static struct json *last_report(struct http_server *server)
{
    struct json *json;
    struct error err = {0};
    const struct http_question *last = http_server_question(server, http_server_count(server) - 1);
    ASSERT_TEXT(last->method, "POST");
    ASSERT_OK(json_parse(last->body, strlen(last->body), &json, &err), err);
    return json;
}

static const char *metric(const struct json *status, const char *name)
{
    const struct json *metrics = json_get(status, "metrics");
    for (int i = 0; i < json_count(metrics); i++)
        if (!strcmp(json_get_text(json_at(metrics, i), "name", ""), name))
            return json_get_text(json_at(metrics, i), "value", NULL);
    return NULL;
}

TEST(kubeflow, reports_progress_time_left_and_metrics_as_the_api_wants_them)
{
    struct http_server *server = http_server_start(agree, NULL);
    char url[128];
    snprintf(url, sizeof url, "%s/apis/trainer.kubeflow.org/v1alpha1/status",
             http_server_url(server));
    ENVIRONMENT("KUBEFLOW_TRAINER_SERVER_URL", url);
    struct kubeflow *kubeflow = open_status(quick);
    observe(kubeflow, TRAIN_STARTED, 0);
    for (int step = 1; step <= 50; step++)
        observe(kubeflow, TRAIN_STEP, step);
    observe(kubeflow, TRAIN_EVALUATED, 50);
    end_run(kubeflow, RUN_INTERRUPTED);
    struct json *json = last_report(server);
    const struct json *status = json_get(json, "trainerStatus");
    ASSERT_TEXT(http_server_question(server, 0)->path, strchr(url + 7, '/'));
    ASSERT_INT(json_get_integer(status, "progressPercentage", -1), ==, 25);
    ASSERT_INT(json_get_integer(status, "estimatedRemainingSeconds", -1), ==, -1); /* it stopped */
    ASSERT_TEXT(metric(status, "loss"), "0.25");
    ASSERT_TEXT(metric(status, "learning_rate"), "0.001");
    ASSERT_TEXT(metric(status, "examples_per_second"), "16");
    ASSERT_TEXT(metric(status, "eval_accuracy"), "0.5");
    ASSERT_TRUE(!metric(status, "eval_auc"));
    ASSERT_INT(strlen(json_get_text(status, "lastUpdatedTime", "")), ==,
               strlen("2026-06-12T03:00:00Z"));
    json_release(json);
    ASSERT_INT(log_record_count(), ==, 0);
    http_server_stop(server);
}

TEST(kubeflow, is_at_a_hundred_only_when_all_is_over)
{
    struct http_server *server = http_server_start(agree, NULL);
    ENVIRONMENT("KUBEFLOW_TRAINER_SERVER_URL", http_server_url(server));
    struct kubeflow *kubeflow = open_status(quick);
    observe(kubeflow, TRAIN_STEP, 200);
    http_server_wait(server, 1);
    struct json *json = last_report(server);
    const struct json *status = json_get(json, "trainerStatus");
    ASSERT_INT(json_get_integer(status, "progressPercentage", -1), ==, 99);
    ASSERT_INT(json_get_integer(status, "estimatedRemainingSeconds", -1), ==, 0);
    json_release(json);
    end_run(kubeflow, RUN_FINISHED);
    json = last_report(server);
    status = json_get(json, "trainerStatus");
    ASSERT_INT(json_get_integer(status, "progressPercentage", -1), ==, 100);
    ASSERT_INT(json_get_integer(status, "estimatedRemainingSeconds", -1), ==, 0);
    json_release(json);
    http_server_stop(server);
}

TEST(kubeflow, reports_seldom_and_always_at_the_end)
{
    struct http_server *server = http_server_start(agree, NULL);
    ENVIRONMENT("KUBEFLOW_TRAINER_SERVER_URL", http_server_url(server));
    struct kubeflow *kubeflow = open_status((struct outbox_times){.connect = 1});
    double start = clock_seconds();
    for (int step = 1; step <= 100; step++)
        observe(kubeflow, TRAIN_STEP, step);
    http_server_wait(server, 1);
    for (int step = 101; step <= 200; step++)
        observe(kubeflow, TRAIN_STEP, step);
    end_run(kubeflow, RUN_FINISHED);
    if (clock_seconds() - start < 4)
        ASSERT_INT(http_server_count(server), ==, 2);
    http_server_stop(server);
}

TEST(kubeflow, reads_the_token_again_for_each_report)
{
    struct http_server *server = http_server_start(agree, NULL);
    ENVIRONMENT("KUBEFLOW_TRAINER_SERVER_URL", http_server_url(server),
                "KUBEFLOW_TRAINER_SERVER_TOKEN", test_file("token", "first\n", 6));
    struct kubeflow *kubeflow = open_status(quick);
    observe(kubeflow, TRAIN_STEP, 1);
    http_server_wait(server, 1);
    test_file("token", "second", 6);
    end_run(kubeflow, RUN_FINISHED);
    ASSERT_TEXT(http_server_question(server, 0)->authorization, "Bearer first");
    ASSERT_TEXT(http_server_question(server, http_server_count(server) - 1)->authorization,
                "Bearer second");
    http_server_stop(server);
}

TEST(kubeflow, a_token_that_is_not_there_is_one_warning)
{
    struct http_server *server = http_server_start(agree, NULL);
    ENVIRONMENT("KUBEFLOW_TRAINER_SERVER_URL", http_server_url(server),
                "KUBEFLOW_TRAINER_SERVER_TOKEN", test_path("no-such-token"));
    struct outbox_times times = quick;
    times.end = 0.3;
    struct kubeflow *kubeflow = open_status(times);
    observe(kubeflow, TRAIN_STEP, 1);
    end_run(kubeflow, RUN_FINISHED);
    ASSERT_INT(http_server_count(server), ==, 0);
    ASSERT_INT(log_record_count(), ==, 1);
    ASSERT_CONTAINS(log_record_text(), "KUBEFLOW_TRAINER_SERVER_TOKEN");
    http_server_stop(server);
}

TEST(kubeflow, a_controller_that_never_answers_costs_no_step_and_little_at_the_end)
{
    struct http_server *server = http_server_start_deaf();
    ENVIRONMENT("KUBEFLOW_TRAINER_SERVER_URL", http_server_url(server));
    struct outbox_times times = quick;
    times.end = 0.5;
    struct kubeflow *kubeflow = open_status(times);
    double start = clock_seconds();
    for (int step = 1; step <= 20000; step++)
        observe(kubeflow, TRAIN_STEP, step % 200);
    ASSERT_NUMBER(clock_seconds() - start, <, 4); /* not even one wait for an answer */
    start = clock_seconds();
    end_run(kubeflow, RUN_FINISHED);
    ASSERT_NUMBER(clock_seconds() - start, <, 2.5);
    ASSERT_INT(log_record_count(), ==, 1);
    http_server_stop(server);
}

TEST(kubeflow, is_there_only_when_its_variable_is)
{
    struct kubeflow *kubeflow;
    struct error err = {0};
    struct kubeflow_options options = {.environment = look_up};
    ENVIRONMENT("KUBEFLOW_TRAINER_SERVER_TOKEN", "/x");
    ASSERT_OK(kubeflow_create(&options, &kubeflow, &err), err);
    ASSERT_TRUE(!kubeflow);
    ENVIRONMENT("KUBEFLOW_TRAINER_SERVER_URL", "tcp://somewhere");
    ASSERT_FAILS(kubeflow_create(&options, &kubeflow, &err), err, ERROR_USAGE, "tcp://somewhere");
}
