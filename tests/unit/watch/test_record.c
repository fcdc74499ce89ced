/* What is kept of a run: the ring between two threads, the history that never grows, and what is
 * made of them for pages and for Prometheus. */
#include "watch/record.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "support/test.h"
#include "train/trainer.h"
#include "watch/dashboard.h"
#include "watch/history.h"
#include "watch/ring.h"

static struct train_event step_event(int64_t step, double loss)
{
    return (struct train_event){.kind = TRAIN_STEP,
                                .step = step,
                                .total = 1000000,
                                .epoch = step / 100,
                                .steps_per_epoch = 100,
                                .examples = step * 32,
                                .loss = loss,
                                .accuracy = 0.5,
                                .accuracy_top_5 = NAN,
                                .log_loss = NAN,
                                .auc = NAN,
                                .rate = 0.001 * (double)step,
                                .step_seconds = 0.015,
                                .input_seconds = 0.001,
                                .forward_seconds = 0.004,
                                .backward_seconds = 0.008,
                                .reduce_seconds = 0,
                                .update_seconds = 0.002};
}

/* --- ring ------------------------------------------------------------------------------------ */

TEST(ring, gives_events_in_order)
{
    struct ring *ring;
    struct ring_entry entry;
    struct error err = {0};
    ASSERT_OK(ring_create(4, &ring, &err), err);
    ASSERT_FALSE(ring_take(ring, &entry));
    for (int64_t step = 1; step <= 100; step++) {
        struct train_event event = step_event(step, 1);
        ring_put(ring, &event, (double)step);
        ASSERT_TRUE(ring_take(ring, &entry));
        ASSERT_INT(entry.event.step, ==, step);
        ASSERT_INT(entry.steps, ==, 1);
        ASSERT_NUMBER(entry.at, ==, (double)step);
    }
    ring_destroy(ring);
}

TEST(ring, merges_steps_while_nobody_reads_and_loses_none)
{
    struct ring *ring;
    struct ring_entry entry;
    struct error err = {0};
    ASSERT_OK(ring_create(4, &ring, &err), err);
    for (int64_t step = 1; step <= 100; step++) {
        struct train_event event = step_event(step, (double)step);
        ring_put(ring, &event, (double)step);
    }
    struct train_event last = {.kind = TRAIN_FINISHED, .step = 100, .total = 100};
    ring_put(ring, &last, 101);
    int64_t steps = 0;
    double losses = 0, seconds = 0;
    bool finished = false;
    do
        while (ring_take(ring, &entry)) {
            ASSERT_FALSE(finished);
            finished = entry.event.kind == TRAIN_FINISHED;
            if (finished)
                continue;
            steps += entry.steps;
            losses += entry.event.loss * (double)entry.steps;
            seconds += entry.event.step_seconds;
            ASSERT_INT(entry.event.step, ==, steps);
            ASSERT_NUMBER(entry.high, ==, (double)entry.event.step);
            ASSERT_NUMBER(entry.low, ==, (double)(entry.event.step - entry.steps + 1));
        }
    while (!ring_flush(ring) || !finished);
    ASSERT_INT(steps, ==, 100);
    ASSERT_NEAR(losses, 5050, 1e-12, 1);
    ASSERT_NEAR(seconds, 1.5, 1e-12, 1);
    ring_destroy(ring);
}

struct reading {
    struct ring *ring;
    atomic_bool ended;
    int64_t steps;
};

static void *read_all(void *context)
{
    struct reading *reading = context;
    struct ring_entry entry;
    for (bool last = false; !last;) {
        last = atomic_load(&reading->ended);
        while (ring_take(reading->ring, &entry)) {
            reading->steps += entry.steps;
            if (entry.event.step != reading->steps)
                return "steps are missing or out of order";
        }
    }
    return NULL;
}

TEST(ring, carries_every_step_from_one_thread_to_another)
{
    struct reading reading = {0};
    struct error err = {0};
    pthread_t thread;
    void *complaint;
    ASSERT_OK(ring_create(16, &reading.ring, &err), err);
    ASSERT_INT(pthread_create(&thread, NULL, read_all, &reading), ==, 0);
    for (int64_t step = 1; step <= 100000; step++) {
        struct train_event event = step_event(step, 1);
        ring_put(reading.ring, &event, 0);
    }
    while (!ring_flush(reading.ring))
        ;
    atomic_store(&reading.ended, true);
    pthread_join(thread, &complaint);
    if (complaint)
        FAIL("%s", (const char *)complaint);
    ASSERT_INT(reading.steps, ==, 100000);
    ring_destroy(reading.ring);
}

/* --- history --------------------------------------------------------------------------------- */

TEST(history, keeps_the_whole_course_in_bounded_memory)
{
    static struct history history;
    memset(&history, 0, sizeof history);
    int64_t total = 100003;
    double sum = 0;
    for (int64_t step = 1; step <= total; step++) {
        double loss = 1.0 + (double)(step % 7);
        sum += loss;
        struct ring_entry entry = {
            .event = step_event(step, loss), .steps = 1, .low = loss, .high = loss};
        history_add(&history, &entry, (double)step, 1000);
        ASSERT_INT(history.count, <=, HISTORY_POINTS);
    }
    int64_t steps = 0, examples = 0;
    double losses = 0, seconds = 0;
    for (int i = 0; i < history.count; i++) {
        const struct history_point *point = &history.points[i];
        steps += point->steps;
        examples += point->examples;
        losses += point->loss * (double)point->steps;
        seconds += point->backward_seconds;
        ASSERT_INT(point->step, ==, steps);
        ASSERT_INT(point->steps, <=, history.stride);
        if (point->steps >= 7) {
            ASSERT_NUMBER(point->low, ==, 1);
            ASSERT_NUMBER(point->high, ==, 7);
        }
    }
    ASSERT_INT(steps, ==, total);
    ASSERT_INT(examples, ==, total * 32);
    ASSERT_NEAR(losses, sum, 1e-9, 1);
    ASSERT_NEAR(seconds, 0.008 * (double)total, 1e-9, 1);
    ASSERT_INT(history.count, >=, HISTORY_POINTS / 2);
    ASSERT_INT(history.generation, ==, 7); /* 1024 * 2^7 > 100003 */
}

TEST(history, keeps_the_newest_evaluations_when_there_are_many)
{
    static struct history history;
    memset(&history, 0, sizeof history);
    for (int64_t step = 1; step <= 1000; step++) {
        struct train_event event = step_event(step, 1.0 / (double)step);
        history_add_evaluation(&history, &event, (double)step);
        ASSERT_INT(history.evaluations[history.evaluation_count - 1].step, ==, step);
    }
    ASSERT_INT(history.evaluation_count, <=, HISTORY_EVALUATIONS);
    for (int i = 1; i < history.evaluation_count; i++)
        ASSERT_INT(history.evaluations[i].step, >, history.evaluations[i - 1].step);
}

/* --- record ---------------------------------------------------------------------------------- */

static double now;

static double wall(void)
{
    return 1700000000 + now;
}

static double layer_seconds(const void *context, int index)
{
    const double *seconds = context;
    return seconds[index];
}

static const double layer_times[] = {0.5, 0.25};
static const struct record_layer layers[] = {
    {.node = "conv",
     .op = "conv2d",
     .pass = "forward",
     .kernel = "jit:avx2",
     .bytes = 100,
     .flops = 1e6},
    {.node = "</script><b>", .op = "relu", .pass = "backward", .kernel = "own", .bytes = 10},
};
static const struct record_setting settings[] = {
    {.section = "Training", .name = "batch-size", .value = "32", .source = "recipe"}};
static const struct record_memory memory[] = {{"parameters", 4096}, {"gradients", 4096}};

static struct record *open_record(bool readers)
{
    struct record *record = NULL;
    struct error err = {0};
    struct record_facts facts = {.version = "1.2.3",
                                 .command = "train",
                                 .model = "net\"work",
                                 .data = "a\\b\nc",
                                 .total_steps = 1000000,
                                 .batch = 32,
                                 .threads = 2,
                                 .settings = settings,
                                 .setting_count = 1,
                                 .memory = memory,
                                 .memory_count = 2,
                                 .layers = layers,
                                 .layer_count = 2,
                                 .layer_seconds = layer_seconds,
                                 .layer_context = layer_times};
    struct record_options options = {.readers = readers, .wall = wall};
    now = 0;
    ASSERT_OK(record_create(&facts, &options, &record, &err), err);
    return record;
}

static void start(struct record *record)
{
    struct train_event event = {
        .kind = TRAIN_STARTED, .total = 1000000, .steps_per_epoch = 100, .loss = NAN};
    record_observe(record, &event);
}

static void train(struct record *record, int64_t from, int64_t to)
{
    for (int64_t step = from; step <= to; step++) {
        now += 0.015;
        struct train_event event = step_event(step, 2.0 / (double)step);
        record_observe(record, &event);
    }
}

static void evaluate(struct record *record, int64_t step)
{
    struct train_event event = step_event(step, 0.1234567890123);
    event.kind = TRAIN_EVALUATED;
    event.accuracy = 0.9876543210987;
    event.examples = 1000;
    event.step_seconds = 2;
    now += 2;
    record_observe(record, &event);
}

static void end(struct record *record, int64_t step)
{
    struct train_event event = {.kind = TRAIN_FINISHED, .step = step, .total = 1000000};
    record_observe(record, &event);
    record_close(record);
}

static struct json *parse(struct strbuf *text)
{
    struct json *json = NULL;
    struct error err = {0};
    ASSERT_TRUE(!strchr(text->text, '\n'));
    ASSERT_OK(json_parse(text->text, text->length, &json, &err), err);
    strbuf_clear(text);
    return json;
}

static struct json *snapshot(struct record *record)
{
    struct strbuf text;
    struct error err = {0};
    strbuf_init(&text);
    ASSERT_OK(record_snapshot(record, &text, &err), err);
    struct json *json = parse(&text);
    strbuf_release(&text);
    return json;
}

/* NULL when there is nothing to tell. */
static struct json *delta(struct record *record, struct record_cursor *cursor)
{
    struct strbuf text;
    struct error err = {0};
    strbuf_init(&text);
    ASSERT_OK(record_delta(record, cursor, &text, &err), err);
    struct json *json = text.length ? parse(&text) : NULL;
    strbuf_release(&text);
    return json;
}

TEST(record, tells_everything_in_a_snapshot)
{
    struct record *record = open_record(true);
    start(record);
    train(record, 1, 200);
    evaluate(record, 200);
    record_log(record, "something happened");
    end(record, 200);
    struct json *json = snapshot(record);
    const struct json *run = json_get(json, "run"), *status = json_get(json, "status");
    const struct json *points = json_get(json, "points");
    ASSERT_TEXT(json_get_text(run, "model", ""), "net\"work");
    ASSERT_TEXT(json_get_text(run, "data", ""), "a\\b\nc");
    ASSERT_TEXT(json_get_text(status, "state", ""), "stopped");
    ASSERT_INT(json_get_integer(status, "step", 0), ==, 200);
    ASSERT_INT(json_get_integer(status, "examples", 0), ==, 6400);
    ASSERT_NEAR(json_get_number(status, "elapsed", 0), 5, 1e-5, 1);
    ASSERT_NEAR(json_get_number(status, "examples_per_second", 0), 32 / 0.015, 1e-5, 1);
    ASSERT_INT(json_count(json_get(points, "loss")), ==, 200);
    ASSERT_INT(json_as_integer(json_at(json_get(points, "step"), 199), 0), ==, 200);
    const struct json *evaluation = json_at(json_get(json_get(json, "evaluations"), "items"), 0);
    ASSERT_NUMBER(json_get_number(evaluation, "loss", 0), ==, 0.1234567890123);
    ASSERT_NUMBER(json_get_number(evaluation, "accuracy", 0), ==, 0.9876543210987);
    ASSERT_INT(json_count(json_get(json, "layers")), ==, 2);
    ASSERT_INT(json_count(json_get(json, "layer_seconds")), ==, 2);
    ASSERT_INT(json_count(json_get(json, "memory")), ==, 2);
    ASSERT_INT(json_count(json_get(json, "settings")), ==, 1);
    ASSERT_INT(json_count(json_get(json_get(json, "log"), "lines")), >=, 5);
    json_release(json);
    record_destroy(record);
}

TEST(record, tells_in_a_delta_what_is_new_and_no_more)
{
    struct record *record = open_record(true);
    struct record_cursor cursor = {0};
    start(record);
    train(record, 1, 10);
    struct json *json = delta(record, &cursor);
    ASSERT_INT(json_get_integer(json, "version", 0), ==, 1);
    ASSERT_INT(json_count(json_get(json_get(json, "points"), "step")), ==, 10);
    json_release(json);
    ASSERT_TRUE(!delta(record, &cursor)); /* nothing happened */
    train(record, 11, 12);
    json = delta(record, &cursor);
    ASSERT_INT(json_get_integer(json, "version", 0), ==, 2);
    const struct json *points = json_get(json, "points");
    ASSERT_INT(json_get_integer(points, "from", -1), ==, 9); /* the last one might have grown */
    ASSERT_INT(json_count(json_get(points, "step")), ==, 3);
    ASSERT_INT(json_count(json_get(json_get(json, "log"), "lines")), ==, 0);
    json_release(json);
    now += 6; /* a sign of life */
    json = delta(record, &cursor);
    ASSERT_TRUE(json);
    json_release(json);
    train(record, 13, 2000); /* points were merged: a delta cannot say it */
    json = delta(record, &cursor);
    ASSERT_INT(json_get_integer(json, "generation", 0), >, 0);
    ASSERT_TRUE(!json_get(json, "points"));
    json_release(json);
    record_close(record);
    record_destroy(record);
}

TEST(record, says_why_a_run_failed)
{
    struct record *record = open_record(true);
    start(record);
    train(record, 1, 3);
    record_fail(record, "step 4: a gradient is not finite");
    struct json *json = snapshot(record);
    ASSERT_TEXT(json_get_text(json_get(json, "status"), "state", ""), "failed");
    ASSERT_CONTAINS(json_get_text(json_get(json, "status"), "message", ""), "step 4");
    json_release(json);
    record_destroy(record);
}

TEST(record, costs_the_training_thread_no_allocation)
{
    for (int readers = 0; readers < 2; readers++) {
        struct record *record = open_record(readers);
        start(record);
        train(record, 1, 10);
        uint64_t before = memory_allocation_count();
        train(record, 11, 5000);
        evaluate(record, 5000);
        ASSERT_INT(memory_allocation_count(), ==, before);
        record_close(record);
        record_destroy(record);
    }
}

/* --- metrics --------------------------------------------------------------------------------- */

static void exposition(struct record *record, struct strbuf *text)
{
    struct error err = {0};
    strbuf_clear(text);
    ASSERT_OK(record_exposition(record, text, &err), err);
}

static bool name_is_right(const char *name, size_t length)
{
    size_t letters = strspn(name, "abcdefghijklmnopqrstuvwxyz_0123456789");
    return length && letters >= length && (name[0] < '0' || name[0] > '9');
}

/* Every sample has its HELP and TYPE before it, in this order, once; every value is a number. */
static void check_lines(const char *text)
{
    char help[128] = "", type[128] = "", kind[32] = "";
    for (const char *line = text, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        ASSERT_TRUE(end);
        char copy[512], value[64], *stop;
        snprintf(copy, sizeof copy, "%.*s", (int)(end - line), line);
        if (sscanf(copy, "# HELP %127s", help) == 1)
            continue;
        if (sscanf(copy, "# TYPE %127s %31s", type, kind) == 2) {
            ASSERT_TEXT(type, help);
            bool total = strlen(type) > 6 && !strcmp(type + strlen(type) - 6, "_total");
            ASSERT_INT(total, ==, !strcmp(kind, "counter"));
            continue;
        }
        size_t name = strcspn(copy, "{ ");
        if (!name_is_right(copy, name) || strncmp(copy, type, strlen(type)) != 0)
            FAIL("'%s' does not belong to %s", copy, type);
        ASSERT_INT(sscanf(strrchr(copy, ' ') + 1, "%63s", value), ==, 1);
        strtod(value, &stop);
        ASSERT_TEXT(stop, "");
    }
}

TEST(metrics, are_in_the_format_prometheus_reads)
{
    struct record *record = open_record(true);
    struct strbuf text;
    strbuf_init(&text);
    exposition(record, &text); /* before anything happened */
    check_lines(text.text);
    ASSERT_TRUE(!strstr(text.text, "lockstep_train_loss "));
    start(record);
    train(record, 1, 200);
    evaluate(record, 200);
    struct train_event saved = {
        .kind = TRAIN_SAVED, .step = 200, .path = "/x/step-200", .step_seconds = 0.5};
    record_observe(record, &saved);
    exposition(record, &text);
    check_lines(text.text);
    static const char *const lines[] = {
        "lockstep_build_info{version=\"1.2.3\"} 1\n",
        "lockstep_train_info{model=\"net\\\"work\",data=\"a\\\\b\\nc\"} 1\n",
        "lockstep_train_running 1\n",
        "lockstep_train_step 200\n",
        "lockstep_train_steps_total 200\n",
        "lockstep_train_examples_total 6400\n",
        "lockstep_train_epoch 2\n",
        "lockstep_train_loss 0.01\n",
        "lockstep_train_step_duration_seconds_bucket{le=\"0.01\"} 0\n",
        "lockstep_train_step_duration_seconds_bucket{le=\"0.02\"} 200\n",
        "lockstep_train_step_duration_seconds_bucket{le=\"+Inf\"} 200\n",
        "lockstep_train_step_duration_seconds_count 200\n",
        "lockstep_train_evaluation_accuracy_ratio 0.9876543210987\n",
        "lockstep_train_evaluation_step 200\n",
        "lockstep_train_checkpoint_step 200\n",
        "lockstep_train_checkpoint_seconds_total 0.5\n",
        "# TYPE lockstep_train_step_duration_seconds histogram\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        ASSERT_CONTAINS(text.text, lines[i]);
    ASSERT_TRUE(!strstr(text.text, "auc")); /* unknown, so left out */
    ASSERT_TRUE(!strstr(text.text, "nan"));
    strbuf_release(&text);
    record_close(record);
    record_destroy(record);
}

/* --- the saved page -------------------------------------------------------------------------- */

TEST(dashboard, saves_a_page_that_needs_nothing_else_and_stays_small)
{
    struct record *record = open_record(false);
    struct error err = {0};
    start(record);
    train(record, 1, 300000);
    evaluate(record, 300000);
    end(record, 300000);
    const char *path = test_path("dashboard.html");
    char *page;
    size_t bytes;
    ASSERT_OK(dashboard_save(record, path, &err), err);
    ASSERT_OK(file_read(path, 1 << 20, &page, &bytes, &err), err);
    ASSERT_INT(bytes, <, 400000);
    ASSERT_CONTAINS(page, "<style>");
    ASSERT_CONTAINS(page, "default-src 'none'");
    ASSERT_CONTAINS(page, "const Charts");
    ASSERT_TRUE(!strstr(page, "src=\"charts.js\""));
    ASSERT_TRUE(!strstr(page, "href=\"dashboard.css\""));
    ASSERT_TRUE(!strstr(page, "</script><b>")); /* a layer's name does not end the script */
    const char *data = strstr(page, "id=\"data\">") + strlen("id=\"data\">");
    struct json *json = NULL;
    ASSERT_OK(json_parse(data, strcspn(data, "<"), &json, &err), err);
    ASSERT_TEXT(json_get_text(json_at(json_get(json, "layers"), 1), "node", ""), "</script><b>");
    json_release(json);
    memory_free(page);
    record_destroy(record);
}
