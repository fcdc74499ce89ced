/* What a tracking server is told, request by request; tests/interop asks a real one. */
#include <math.h>
#include <sys/stat.h>
#include <time.h>

#include "base/memory.h"
#include "support/http_server.h"
#include "support/log_record.h"
#include "support/test.h"
#include "train/trainer.h"
#include "watch/mlflow.h"
#include "watch/mlflow_settings.h"

static const char *variables[24]; /* "NAME", "value", ... */

static char *look_up(const char *name)
{
    for (int i = 0; variables[i]; i += 2)
        if (strcmp(variables[i], name) == 0)
            return (char *)(uintptr_t)variables[i + 1];
    return NULL;
}

#define ENVIRONMENT(...)                                                                           \
    memcpy(variables, (const char *[24]){"LOGNAME", "somebody", __VA_ARGS__}, sizeof variables)

/* A server with nothing in it; *context is a path that it refuses, or NULL. */
static struct http_answer track(void *context, const struct http_question *question, int number)
{
    const char *path = question->path, *refused = context ? *(const char **)context : NULL;
    (void)number;
    if (refused && strstr(path, refused))
        return (struct http_answer){
            .status = 400, .body = "{\"error_code\": \"INVALID\", \"message\": \"not so\"}"};
    if (strstr(path, "get-by-name"))
        return (struct http_answer){.status = 404,
                                    .body = "{\"error_code\": \"RESOURCE_DOES_NOT_EXIST\"}"};
    if (strstr(path, "experiments/create"))
        return (struct http_answer){.status = 200, .body = "{\"experiment_id\": \"42\"}"};
    if (strstr(path, "runs/create"))
        return (struct http_answer){.status = 200,
                                    .body = "{\"run\": {\"info\": {\"run_id\": \"abc\"}}}"};
    return (struct http_answer){.status = 200, .body = "{}"};
}

static struct http_answer greet(void *context, const struct http_question *question, int number)
{
    (void)context, (void)question, (void)number;
    return (struct http_answer){.status = 200, .body = "<html>welcome</html>"};
}

static const struct outbox_times quick = {
    .interval = 0.01, .first_wait = 0.02, .last_wait = 0.05, .connect = 1, .end = 2};

static struct mlflow *open_run(const struct mlflow_param *params, int count)
{
    struct mlflow *mlflow;
    struct error err = {0};
    struct mlflow_options options = {.environment = look_up,
                                     .source = "lockstep train x",
                                     .params = params,
                                     .param_count = count,
                                     .times = quick};
    log_record_start();
    ASSERT_OK(mlflow_create(&options, &mlflow, &err), err);
    ASSERT_TRUE(mlflow);
    return mlflow;
}

static void observe(struct mlflow *mlflow, enum train_event_kind kind, int64_t step)
{
    struct train_event event = {.kind = kind,
                                .step = step,
                                .total = 1000,
                                .examples = step * 8,
                                .loss = 0.5,
                                .accuracy = 0.75,
                                .accuracy_top_5 = NAN,
                                .log_loss = NAN,
                                .auc = 0.875,
                                .rate = 0.01,
                                .step_seconds = 0.001};
    mlflow_observe(mlflow, &event);
}

static void end_run(struct mlflow *mlflow, enum run_outcome outcome)
{
    mlflow_end(mlflow, outcome);
    mlflow_destroy(mlflow);
}

/* The index of the first request from `from` on whose path has `part`, or -1. */
static int find(struct http_server *server, const char *part, int from)
{
    for (int i = from; i < http_server_count(server); i++)
        if (strstr(http_server_question(server, i)->path, part))
            return i;
    return -1;
}

static const struct http_question *ask(struct http_server *server, const char *part)
{
    int index = find(server, part, 0);
    if (index < 0)
        FAIL("no request for %s", part);
    return http_server_question(server, index);
}

/* How many metrics of this name came in all. */
static int count_metrics(struct http_server *server, const char *name)
{
    char quoted[64];
    int count = 0;
    snprintf(quoted, sizeof quoted, "\"key\":\"%s\"", name);
    for (int i = 0; i < http_server_count(server); i++)
        for (const char *at = http_server_question(server, i)->body; (at = strstr(at, quoted));
             at++)
            count++;
    return count;
}

TEST(mlflow, makes_experiment_and_run_then_logs_and_ends_it)
{
    struct http_server *server = http_server_start(track, NULL);
    ENVIRONMENT("MLFLOW_TRACKING_URI", http_server_url(server), "MLFLOW_EXPERIMENT_NAME", "a b/c",
                "MLFLOW_RUN_NAME", "first", "MLFLOW_WORKSPACE", "team");
    struct mlflow *mlflow = open_run((struct mlflow_param[]){{"batch_size", "16"}}, 1);
    observe(mlflow, TRAIN_STARTED, 0);
    observe(mlflow, TRAIN_STEP, 1);
    observe(mlflow, TRAIN_EVALUATED, 1);
    end_run(mlflow, RUN_FINISHED);
    ASSERT_INT(log_record_count(), ==, 0);
    ASSERT_TEXT(http_server_question(server, 0)->path,
                "/api/2.0/mlflow/experiments/get-by-name?experiment_name=a%20b%2Fc");
    ASSERT_TEXT(http_server_question(server, 1)->body, "{\"name\":\"a b/c\"}\n");
    ASSERT_CONTAINS(http_server_question(server, 2)->head, "\r\nX-MLFLOW-WORKSPACE: team\r\n");
    const char *made = http_server_question(server, 2)->body;
    ASSERT_CONTAINS(made, "\"experiment_id\":\"42\"");
    ASSERT_CONTAINS(made, "\"run_name\":\"first\"");
    ASSERT_CONTAINS(made, "{\"key\":\"mlflow.user\",\"value\":\"somebody\"}");
    ASSERT_CONTAINS(made, "{\"key\":\"mlflow.source.name\",\"value\":\"lockstep train x\"}");
    ASSERT_CONTAINS(made, "{\"key\":\"lockstep.version\",\"value\":\"" LOCKSTEP_VERSION "\"}");
    ASSERT_TEXT(http_server_question(server, 3)->body,
                "{\"run_id\":\"abc\",\"params\":[{\"key\":\"batch_size\",\"value\":\"16\"}]}\n");
    const char *last = http_server_question(server, http_server_count(server) - 1)->body;
    ASSERT_CONTAINS(last, "\"status\":\"FINISHED\"");
    ASSERT_CONTAINS(last, "\"end_time\":");
    ASSERT_INT(count_metrics(server, "train/loss"), ==, 1);
    ASSERT_INT(count_metrics(server, "learning_rate"), ==, 1);
    ASSERT_INT(count_metrics(server, "eval/accuracy"), ==, 1);
    ASSERT_INT(count_metrics(server, "eval/auc"), ==, 1);
    ASSERT_INT(count_metrics(server, "eval/accuracy_top_5"), ==, 0); /* is NaN */
    http_server_stop(server);
}

TEST(mlflow, says_how_a_run_ended)
{
    static const struct {
        enum run_outcome outcome;
        const char *status;
    } cases[] = {{RUN_FAILED, "\"FAILED\""}, {RUN_INTERRUPTED, "\"KILLED\""}};
    for (int i = 0; i < 2; i++) {
        struct http_server *server = http_server_start(track, NULL);
        ENVIRONMENT("MLFLOW_TRACKING_URI", http_server_url(server));
        struct mlflow *mlflow = open_run(NULL, 0);
        observe(mlflow, TRAIN_STARTED, 0);
        end_run(mlflow, cases[i].outcome);
        ASSERT_CONTAINS(ask(server, "runs/create")->body, "\"experiment_id\":\"0\"");
        ASSERT_CONTAINS(ask(server, "runs/update")->body, cases[i].status);
        http_server_stop(server);
    }
}

TEST(mlflow, bounds_the_steps_it_tells_but_tells_every_evaluation)
{
    struct http_server *server = http_server_start(track, NULL);
    ENVIRONMENT("MLFLOW_TRACKING_URI", http_server_url(server));
    struct mlflow *mlflow = open_run(NULL, 0);
    observe(mlflow, TRAIN_STARTED, 0);
    for (int step = 1; step <= 1000; step++) {
        observe(mlflow, TRAIN_STEP, step);
        if (step % 10 == 0)
            observe(mlflow, TRAIN_EVALUATED, step);
    }
    end_run(mlflow, RUN_FINISHED);
    ASSERT_INT(count_metrics(server, "eval/loss"), ==, 100);
    ASSERT_INT(count_metrics(server, "train/loss"), >=, 2); /* the first and the last */
    ASSERT_INT(count_metrics(server, "train/loss"), <=, 12);
    http_server_stop(server);
}

TEST(mlflow, observing_allocates_nothing)
{
    struct http_server *server = http_server_start(track, NULL);
    ENVIRONMENT("MLFLOW_TRACKING_URI", http_server_url(server));
    struct outbox_times slow = quick;
    slow.interval = 60; /* so that the other thread is asleep */
    struct mlflow_options options = {
        .environment = look_up, .times = slow, .sample_interval = 1e-9};
    struct mlflow *mlflow;
    struct error err = {0};
    log_record_start();
    ASSERT_OK(mlflow_create(&options, &mlflow, &err), err);
    observe(mlflow, TRAIN_STARTED, 0);
    http_server_wait(server, 1);
    uint64_t before = 0;
    for (int tries = 0; tries < 200 && before != memory_allocation_count(); tries++) {
        before = memory_allocation_count();
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    for (int step = 1; step < 900; step++)
        observe(mlflow, TRAIN_STEP, step);
    ASSERT_INT(memory_allocation_count(), ==, before);
    end_run(mlflow, RUN_FINISHED);
    ASSERT_INT(count_metrics(server, "train/loss"), ==, 899);
    http_server_stop(server);
}

TEST(mlflow, keeps_the_limits_of_the_api)
{
    enum { COUNT = 130 };
    static char names[COUNT][16], long_value[2000];
    struct mlflow_param params[COUNT];
    memset(long_value, 'x', sizeof long_value - 1);
    memcpy(long_value + 498, "\xe2\x82\xac", 3); /* a euro sign across the limit */
    for (int i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "p%d", i);
        params[i] = (struct mlflow_param){names[i], i ? "1" : long_value};
    }
    struct http_server *server = http_server_start(track, NULL);
    ENVIRONMENT("MLFLOW_TRACKING_URI", http_server_url(server));
    struct mlflow *mlflow = open_run(params, COUNT);
    observe(mlflow, TRAIN_STARTED, 0);
    end_run(mlflow, RUN_FINISHED);
    int first = find(server, "log-batch", 0), second = find(server, "log-batch", first + 1);
    const char *body = http_server_question(server, first)->body;
    ASSERT_CONTAINS(body, "\"p99\"");
    ASSERT_TRUE(!strstr(body, "\"p100\"") && !strstr(body, "\xe2"));
    ASSERT_INT(strspn(strstr(body, "xx"), "x"), ==, 498);
    ASSERT_CONTAINS(http_server_question(server, second)->body, "\"p129\"");
    http_server_stop(server);
}

TEST(mlflow, continues_the_run_that_MLFLOW_RUN_ID_names)
{
    const char *refused = NULL;
    struct http_server *server = http_server_start(track, &refused);
    ENVIRONMENT("MLFLOW_TRACKING_URI", http_server_url(server), "MLFLOW_RUN_ID", "older");
    struct mlflow *mlflow = open_run((struct mlflow_param[]){{"lr", "1"}}, 1);
    observe(mlflow, TRAIN_STARTED, 0);
    end_run(mlflow, RUN_FINISHED);
    ASSERT_TEXT(http_server_question(server, 0)->path, "/api/2.0/mlflow/runs/update");
    ASSERT_TEXT(http_server_question(server, 0)->body,
                "{\"run_id\":\"older\",\"status\":\"RUNNING\"}\n");
    ASSERT_INT(find(server, "create", 0), <, 0);
    http_server_stop(server);
}

TEST(mlflow, goes_on_when_parameters_are_refused_and_says_so_once)
{
    const char *refused = "log-batch";
    struct http_server *server = http_server_start(track, &refused);
    ENVIRONMENT("MLFLOW_TRACKING_URI", http_server_url(server));
    struct mlflow *mlflow = open_run((struct mlflow_param[]){{"lr", "1"}}, 1);
    observe(mlflow, TRAIN_STARTED, 0);
    observe(mlflow, TRAIN_STEP, 1);
    end_run(mlflow, RUN_FINISHED);
    ASSERT_CONTAINS(ask(server, "runs/update")->body, "FINISHED");
    ASSERT_INT(log_record_count(), ==, 1);
    ASSERT_CONTAINS(log_record_text(),
                    "refuses what it is told: runs/log-batch: status 400: not so");
    http_server_stop(server);
}

TEST(mlflow, a_server_that_is_none_is_one_warning)
{
    struct http_server *server = http_server_start(greet, NULL);
    ENVIRONMENT("MLFLOW_TRACKING_URI", http_server_url(server));
    struct mlflow *mlflow = open_run(NULL, 0);
    observe(mlflow, TRAIN_STARTED, 0);
    http_server_wait(server, 1);
    observe(mlflow, TRAIN_STEP, 1);
    end_run(mlflow, RUN_FINISHED);
    ASSERT_INT(log_record_count(), ==, 1);
    ASSERT_CONTAINS(log_record_text(), "is MLFLOW_TRACKING_URI a tracking server?");
    http_server_stop(server);
}

/* What the server sees as Authorization with these variables. */
static void check_authorization(const char *expected)
{
    struct http_server *server = http_server_start(track, NULL);
    for (int i = 0; variables[i]; i += 2)
        if (!strcmp(variables[i], "MLFLOW_TRACKING_URI"))
            variables[i + 1] = http_server_url(server);
    struct mlflow *mlflow = open_run(NULL, 0);
    observe(mlflow, TRAIN_STARTED, 0);
    end_run(mlflow, RUN_FINISHED);
    ASSERT_TEXT(http_server_question(server, 0)->authorization, expected);
    http_server_stop(server);
}

TEST(mlflow, has_the_credentials_of_its_own_client)
{
    ENVIRONMENT("MLFLOW_TRACKING_URI", "", "MLFLOW_TRACKING_TOKEN", "tok.en");
    check_authorization("Bearer tok.en");
    ENVIRONMENT("MLFLOW_TRACKING_URI", "", "MLFLOW_TRACKING_USERNAME", "ann",
                "MLFLOW_TRACKING_PASSWORD", "p:w", "MLFLOW_TRACKING_TOKEN", "tok.en");
    check_authorization("Basic YW5uOnA6dw==");
    ENVIRONMENT("MLFLOW_TRACKING_URI", "", "MLFLOW_TRACKING_USERNAME", "ann");
    check_authorization("");
    static const char file[] = "[mlflow]\nmlflow_tracking_username = bob\n"
                               "mlflow_tracking_password = secret\n";
    mkdir(test_path(".mlflow"), 0700);
    test_file(".mlflow/credentials", file, sizeof file - 1);
    ENVIRONMENT("MLFLOW_TRACKING_URI", "", "HOME", test_directory());
    check_authorization("Basic Ym9iOnNlY3JldA==");
    ENVIRONMENT("MLFLOW_TRACKING_URI", "", "HOME", test_directory(), "MLFLOW_TRACKING_USERNAME",
                "ann");
    check_authorization("Basic YW5uOnNlY3JldA==");
}

TEST(mlflow, without_a_uri_there_is_none)
{
    struct mlflow *mlflow;
    struct error err = {0};
    ENVIRONMENT("MLFLOW_RUN_NAME", "x", "MLFLOW_TRACKING_URI", "");
    ASSERT_OK(mlflow_create(&(struct mlflow_options){.environment = look_up}, &mlflow, &err), err);
    ASSERT_TRUE(!mlflow);
}

TEST(mlflow, refuses_what_it_cannot_do_with_the_reason)
{
    struct mlflow *mlflow;
    struct error err;
    struct mlflow_options options = {.environment = look_up};
    ENVIRONMENT("MLFLOW_TRACKING_URI", "file:/tmp/mlruns");
    ASSERT_FAILS(mlflow_create(&options, &mlflow, &err), err, ERROR_USAGE, "file:/tmp/mlruns");
    ENVIRONMENT("MLFLOW_TRACKING_URI", "databricks");
    ASSERT_FAILS(mlflow_create(&options, &mlflow, &err), err, ERROR_USAGE, "https://");
    ENVIRONMENT("MLFLOW_TRACKING_URI", "http://");
    ASSERT_FAILS(mlflow_create(&options, &mlflow, &err), err, ERROR_USAGE, "names no host");
    ENVIRONMENT("MLFLOW_TRACKING_URI", "http://x", "MLFLOW_TRACKING_AUTH", "kubernetes");
    ASSERT_FAILS(mlflow_create(&options, &mlflow, &err), err, ERROR_USAGE, "MLFLOW_TRACKING_AUTH");
    ENVIRONMENT("MLFLOW_TRACKING_URI", "https://x", "MLFLOW_TRACKING_INSECURE_TLS", "true",
                "MLFLOW_TRACKING_SERVER_CERT_PATH", "/x");
    ASSERT_FAILS(mlflow_create(&options, &mlflow, &err), err, ERROR_USAGE, "exclude each other");
    ENVIRONMENT("MLFLOW_TRACKING_URI", "https://x", "MLFLOW_TRACKING_TOKEN", "a\r\nX-Evil: 1");
    ASSERT_FAILS(mlflow_create(&options, &mlflow, &err), err, ERROR_USAGE, "control character");
    ASSERT_TRUE(!strstr(err.message, "Evil"));
}

TEST(mlflow, messages_hold_no_password)
{
    char shown[MLFLOW_URL_BYTES];
    static const char *const cases[][2] = {
        {"http://ann:secret@host:5000/x@y", "http://host:5000/x@y"},
        {"https://ann:se@cret@host", "https://host"},
        {"http://host/a", "http://host/a"},
        {"sqlite:///a@b", "sqlite:///a@b"},
        {"mysql://u:p@h/db", "mysql://h/db"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mlflow_hide_password(cases[i][0], shown);
        ASSERT_TEXT(shown, cases[i][1]);
    }
}
