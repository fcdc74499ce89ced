/* What those who watch a training show of its ranks. */
#include <math.h>
#include <pthread.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "support/test.h"
#include "train/exchange.h"
#include "train/trainer.h"
#include "watch/lines.h"
#include "watch/progress.h"
#include "watch/rank_times.h"
#include "watch/record.h"

enum { MOST = 300 };
static struct rank_status statuses[MOST];
static const char *hosts[MOST];

/* A tenth of a second, in which rank r reads for r ms; the last one is the slowest. */
static struct train_event make_step(int64_t step, int ranks)
{
    for (int r = 0; r < ranks; r++) {
        hosts[r] = r % 2 ? "b\"host" : "ahost";
        statuses[r] = (struct rank_status){.input_seconds = 0.001 * r,
                                           .forward_seconds = 0.02,
                                           .backward_seconds = 0.04,
                                           .reduce_seconds = 0.03 - 0.001 * r,
                                           .hidden_seconds = 0.01};
    }
    return (struct train_event){.kind = TRAIN_STEP,
                                .step = step,
                                .total = 100,
                                .examples = step * 32,
                                .loss = 1,
                                .accuracy = NAN,
                                .accuracy_top_5 = NAN,
                                .log_loss = NAN,
                                .auc = NAN,
                                .step_seconds = 0.1,
                                .forward_seconds = 0.02,
                                .backward_seconds = 0.04,
                                .reduce_seconds = 0.03,
                                .hidden_seconds = 0.01,
                                .ranks = statuses,
                                .rank_count = ranks,
                                .slowest = ranks - 1,
                                .bucket_bytes = 4 << 20};
}

/* --- times ----------------------------------------------------------------------------------- */

static struct rank_times *create(int ranks)
{
    struct rank_times *times;
    struct error err = {0};
    ASSERT_OK(rank_times_create(ranks, &times, &err), err);
    return times;
}

TEST(rank_times, adds_the_parts_of_each_rank_up)
{
    struct rank_times *times = create(3);
    struct rank_time now[3];
    ASSERT_INT(rank_times_read(times, now), ==, 0);
    for (int step = 1; step <= 10; step++) {
        struct train_event event = make_step(step, 3);
        rank_times_add(times, &event, 0.1 * step);
    }
    rank_times_flush(times);
    ASSERT_INT(rank_times_read(times, now), >, 0);
    ASSERT_INT(now[2].rank, ==, 2);
    ASSERT_NEAR(now[2].total[RANK_INPUT], 0.02, 1e-12, 1);
    ASSERT_NEAR(now[0].total[RANK_REDUCE], 0.3, 1e-12, 1);
    ASSERT_NEAR(now[1].total[RANK_HIDDEN], 0.1, 1e-12, 1);
    ASSERT_NEAR(now[1].recent[RANK_BACKWARD], 0.04, 1e-12, 1);
    ASSERT_NEAR(rank_time_own(&now[2]), 0.062, 1e-12, 1);
    ASSERT_INT(now[0].slowest, ==, 0);
    ASSERT_INT(now[2].slowest, ==, 10);
    rank_times_destroy(times);
}

TEST(rank_times, forget_what_was_some_seconds_ago)
{
    struct rank_times *times = create(2);
    struct rank_time now[2];
    for (int step = 1; step <= 400; step++) {
        struct train_event event = make_step(step, 2);
        if (step <= 100)
            statuses[0].input_seconds = 5;
        rank_times_add(times, &event, 0.1 * step);
    }
    rank_times_flush(times);
    rank_times_read(times, now);
    ASSERT_NUMBER(now[0].recent[RANK_INPUT], <, 0.02);
    ASSERT_NEAR(now[0].total[RANK_INPUT], 500, 1e-12, 1);
    rank_times_destroy(times);
}

TEST(rank_times, of_another_number_of_ranks_are_left_out)
{
    struct rank_times *times = create(2);
    struct rank_time now[2];
    struct train_event event = make_step(1, 3);
    rank_times_add(times, &event, 1);
    event.ranks = NULL;
    event.rank_count = 2;
    rank_times_add(times, &event, 2);
    rank_times_flush(times);
    ASSERT_INT(rank_times_read(times, now), ==, 0);
    rank_times_destroy(times);
}

TEST(rank_times, tell_how_far_apart_ranks_are)
{
    double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2};
    struct rank_spread spread = rank_spread_of(odd, 3);
    ASSERT_NUMBER(spread.least, ==, 1);
    ASSERT_NUMBER(spread.median, ==, 2);
    ASSERT_NUMBER(spread.most, ==, 3);
    ASSERT_NUMBER(rank_spread_of(even, 4).median, ==, 2.5);
}

static void *read_often(void *context)
{
    struct rank_time now[2];
    for (int i = 0; i < 2000; i++) {
        rank_times_read(context, now);
        if (now[0].total[RANK_FORWARD] != now[1].total[RANK_FORWARD])
            return "ranks of different steps";
    }
    return NULL;
}

TEST(rank_times, are_those_of_one_moment_to_a_reader)
{
    struct rank_times *times = create(2);
    pthread_t reader;
    void *complaint;
    ASSERT_INT(pthread_create(&reader, NULL, read_often, times), ==, 0);
    for (int step = 1; step <= 20000; step++) {
        struct train_event event = make_step(step, 2);
        rank_times_add(times, &event, step);
    }
    pthread_join(reader, &complaint);
    if (complaint)
        FAIL("%s", (char *)complaint);
    rank_times_destroy(times);
}

/* --- the record ------------------------------------------------------------------------------ */

static double wall_seconds;

static double wall(void)
{
    return 1700000000 + wall_seconds;
}

static struct record *train(int ranks, bool readers)
{
    struct record *record;
    struct error err = {0};
    struct record_facts facts = {.version = "1",
                                 .command = "train",
                                 .model = "m",
                                 .data = "d",
                                 .total_steps = 100,
                                 .ranks = ranks,
                                 .hosts = hosts};
    struct record_options options = {.readers = readers, .wall = wall};
    struct train_event event = {.kind = TRAIN_STARTED, .total = 100};
    ASSERT_OK(record_create(&facts, &options, &record, &err), err);
    record_observe(record, &event);
    uint64_t before = memory_allocation_count();
    for (int64_t step = 1; step <= 10; step++) {
        wall_seconds += 0.1;
        event = make_step(step, ranks);
        record_observe(record, &event);
    }
    ASSERT_INT(memory_allocation_count(), ==, before);
    memset(statuses, 0xff, sizeof statuses); /* the event's are gone with it */
    return record;
}

static struct json *parse(const struct strbuf *text)
{
    struct json *json;
    struct error err = {0};
    ASSERT_OK(json_parse(text->text, text->length, &json, &err), err);
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

TEST(record_of_ranks, shows_them_with_their_hosts)
{
    struct record *record = train(3, true);
    record_close(record);
    struct json *json = snapshot(record);
    const struct json *run = json_get(json, "run"), *rows = json_get(json, "ranks");
    ASSERT_INT(json_get_integer(run, "ranks", 0), ==, 3);
    ASSERT_INT(json_count(json_get(run, "hosts")), ==, 3);
    ASSERT_INT(json_count(rows), ==, 3);
    ASSERT_INT(json_as_integer(json_at(json_at(rows, 2), 0), -1), ==, 2);
    ASSERT_INT(json_as_integer(json_at(json_at(rows, 2), 1), -1), ==, 10);
    ASSERT_NEAR(json_as_number(json_at(json_at(rows, 2), 2), 0), 0.002, 1e-5, 1);
    ASSERT_NEAR(json_as_number(json_at(json_at(rows, 2), 6), 0), 0.01, 1e-5, 1);
    ASSERT_NUMBER(json_get_number(json_get(json, "status"), "bucket", 0), ==, 4 << 20);
    const struct json *hidden = json_get(json_get(json, "points"), "hidden");
    ASSERT_INT(json_count(hidden), ==, 10);
    ASSERT_NEAR(json_as_number(json_at(hidden, 9), 0), 0.01, 1e-5, 1);
    json_release(json);
    record_destroy(record);
}

TEST(record_of_ranks, tells_of_them_again_only_when_they_changed)
{
    struct record *record = train(2, true);
    struct record_cursor cursor = {0};
    struct strbuf text;
    struct error err = {0};
    record_close(record);
    strbuf_init(&text);
    for (int time = 0; time < 2; time++) {
        strbuf_clear(&text);
        wall_seconds += 10; /* a sign of life is due */
        ASSERT_OK(record_delta(record, &cursor, &text, &err), err);
        struct json *json = parse(&text);
        ASSERT_INT(json_get(json, "ranks") != NULL, ==, time == 0);
        json_release(json);
    }
    strbuf_release(&text);
    record_destroy(record);
}

TEST(record_of_ranks, of_very_many_shows_the_slowest)
{
    struct record *record = train(MOST, false);
    record_close(record);
    struct json *json = snapshot(record);
    const struct json *rows = json_get(json, "ranks");
    ASSERT_INT(json_count(rows), ==, 256);
    ASSERT_INT(json_as_integer(json_at(json_at(rows, 0), 0), -1), ==, MOST - 1);
    json_release(json);
    record_destroy(record);
}

TEST(record_of_ranks, has_none_for_a_single_one)
{
    struct record *record = train(1, false);
    struct strbuf text;
    struct error err = {0};
    record_close(record);
    struct json *json = snapshot(record);
    ASSERT_INT(json_get_integer(json_get(json, "run"), "ranks", 0), ==, 1);
    ASSERT_INT(json_count(json_get(json, "ranks")), ==, 0);
    json_release(json);
    strbuf_init(&text);
    ASSERT_OK(record_exposition(record, &text, &err), err);
    ASSERT_TRUE(!strstr(text.text, "rank"));
    strbuf_release(&text);
    record_destroy(record);
}

/* --- metrics --------------------------------------------------------------------------------- */

static void expose(int ranks, struct strbuf *text)
{
    struct error err = {0};
    struct record *record = train(ranks, true);
    record_close(record);
    strbuf_init(text);
    ASSERT_OK(record_exposition(record, text, &err), err);
    record_destroy(record);
}

TEST(metrics_of_ranks, have_the_time_of_each_by_part)
{
    struct strbuf text;
    expose(3, &text);
    static const char *const lines[] = {
        "lockstep_train_ranks 3\n",
        "lockstep_train_reduce_hidden_seconds_total 0.1\n",
        "lockstep_train_bucket_bytes 4194304\n",
        "# TYPE lockstep_rank_seconds_total counter\n",
        "lockstep_rank_seconds_total{rank=\"2\",part=\"input\"} 0.02\n",
        "lockstep_rank_seconds_total{rank=\"0\",part=\"hidden\"} 0.1\n",
        "lockstep_rank_slowest_steps_total{rank=\"2\"} 10\n",
        "lockstep_rank_info{rank=\"1\",host=\"b\\\"host\"} 1\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        ASSERT_CONTAINS(text.text, lines[i]);
    strbuf_release(&text);
}

TEST(metrics_of_ranks, of_very_many_are_the_least_and_the_most)
{
    struct strbuf text;
    expose(MOST, &text);
    ASSERT_CONTAINS(text.text, "lockstep_rank_seconds_total{rank=\"min\",part=\"input\"} 0\n");
    ASSERT_CONTAINS(text.text, "lockstep_rank_seconds_total{rank=\"max\",part=\"input\"} 2.99\n");
    ASSERT_TRUE(!strstr(text.text, "rank=\"0\""));
    ASSERT_INT(text.length, <, 16384);
    strbuf_release(&text);
}

/* --- lines ----------------------------------------------------------------------------------- */

static char *watch_lines(int ranks)
{
    char *text;
    size_t bytes;
    struct lines *lines;
    struct error err = {0};
    FILE *out = open_memstream(&text, &bytes);
    ASSERT_TRUE(out);
    ASSERT_OK(lines_create(&(struct lines_options){.out = out, .wall = wall}, &lines, &err), err);
    struct train_event event = {.kind = TRAIN_STARTED, .total = 100, .rank_count = ranks};
    lines_observe(lines, &event);
    event = make_step(1, ranks);
    lines_observe(lines, &event);
    lines_destroy(lines);
    fclose(out);
    return text;
}

TEST(lines_of_ranks, tell_how_many_and_what_part_of_the_time_they_wait)
{
    char *text = watch_lines(4);
    ASSERT_CONTAINS(text, "0 steps per epoch, 4 ranks\n");
    ASSERT_CONTAINS(text, " left, 30 % waiting for ranks\n");
    free(text);
    text = watch_lines(1);
    ASSERT_TRUE(!strstr(text, "ranks"));
    free(text);
}

TEST(progress_of_ranks, tells_how_many_where_there_is_room)
{
    for (int columns = 40; columns <= 120; columns += 80) {
        char *text;
        size_t bytes;
        struct progress *progress;
        struct error err = {0};
        FILE *out = open_memstream(&text, &bytes);
        ASSERT_TRUE(out);
        struct progress_options options = {.out = out, .columns = columns};
        ASSERT_OK(progress_create(&options, &progress, &err), err);
        struct train_event event = make_step(1, 4);
        progress_observe(progress, &event);
        progress_destroy(progress);
        fclose(out);
        ASSERT_INT(!strstr(text, "MB  4 ranks"), ==, columns < 120);
        free(text);
    }
}
