/* TensorBoard's event files, and the progress file of a workflow, as they are on disk. A real
 * TensorBoard reads such files in tests/interop/check_tensorboard.py. */
#include <glob.h>
#include <inttypes.h>
#include <math.h>

#include "base/files.h"
#include "base/memory.h"
#include "support/test.h"
#include "train/exchange.h"
#include "train/trainer.h"
#include "watch/argo.h"
#include "watch/events.h"
#include "watch/spool.h"
#include "wire/proto.h"
#include "wire/tfrecord.h"

static double seconds; /* what the observers' clock shows */

static double now(void)
{
    return seconds;
}

static double wall(void)
{
    return 1700000000 + seconds;
}

/* --- what is on disk, as lines of text ------------------------------------------------------ */

static char told[1 << 16]; /* "STEP TAG VALUE\n" or "STEP what\n" */
static size_t told_length;

static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void note(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    told_length +=
        (size_t)vsnprintf(told + told_length, sizeof told - told_length, format, arguments);
    va_end(arguments);
    ASSERT_INT(told_length, <, sizeof told);
}

static struct proto_reader enter(const struct proto_reader *outer, const struct proto_field *field)
{
    struct proto_reader reader;
    struct error err = {0};
    ASSERT_OK(proto_enter(outer, field, &reader, &err), err);
    return reader;
}

static void note_summary(struct proto_reader summary, int64_t step)
{
    struct proto_field field;
    while (proto_next(&summary, &field, NULL) == 1) {
        struct proto_reader value = enter(&summary, &field);
        char tag[64] = "";
        while (proto_next(&value, &field, NULL) == 1) {
            if (field.number == 1)
                snprintf(tag, sizeof tag, "%.*s", (int)field.count, (const char *)field.bytes);
            else if (field.number == 2)
                note("%" PRId64 " %s %.6g\n", step, tag,
                     (double)proto_float((uint32_t)field.value));
            else
                note("%" PRId64 " histogram %s\n", step, tag);
        }
    }
}

static void note_graph(struct proto_reader graph)
{
    struct proto_field field;
    while (proto_next(&graph, &field, NULL) == 1) {
        if (field.number != 1)
            continue;
        struct proto_reader node = enter(&graph, &field);
        note("node");
        while (proto_next(&node, &field, NULL) == 1)
            if (field.number <= 3)
                note(" %.*s", (int)field.count, (const char *)field.bytes);
        note("\n");
    }
}

static void note_event(const struct tfrecord *record)
{
    struct proto_reader reader;
    struct proto_field field;
    struct error err = {0};
    int64_t step = -1;
    proto_open(&reader, record->data, record->bytes);
    while (proto_next(&reader, &field, &err) == 1) {
        if (field.number == 1)
            ASSERT_NUMBER(proto_double(field.value), >=, 1700000000);
        else if (field.number == 2)
            step = (int64_t)field.value;
        else if (field.number == 3)
            note("version %.*s\n", (int)field.count, (const char *)field.bytes);
        else if (field.number == 4)
            note_graph(enter(&reader, &field));
        else if (field.number == 5)
            note_summary(enter(&reader, &field), step);
        else if (field.number == 7)
            note("%" PRId64 " start\n", step);
    }
    ASSERT_INT(err.code, ==, ERROR_NONE);
}

static void read_file(const char *path)
{
    char *bytes;
    size_t count;
    uint64_t offset = 0;
    struct tfrecord record;
    struct error err = {0};
    ASSERT_OK(file_read(path, 1 << 24, &bytes, &count, &err), err);
    told_length = 0;
    int status;
    while ((status = tfrecord_next(path, (const uint8_t *)bytes, count, &offset, &record, &err)) >
           0)
        note_event(&record);
    ASSERT_OK(status, err);
    memory_free(bytes);
}

static int count(const char *part)
{
    int found = 0;
    for (const char *at = told; (at = strstr(at, part)); at++)
        found++;
    return found;
}

/* --- a training ----------------------------------------------------------------------------- */

static struct train_event make_step(int step, int total)
{
    return (struct train_event){.kind = TRAIN_STEP,
                                .step = step,
                                .total = total,
                                .examples = step * 64,
                                .loss = 1.0 / step,
                                .accuracy = 0.5,
                                .accuracy_top_5 = NAN,
                                .log_loss = NAN,
                                .auc = NAN,
                                .rate = 0.25,
                                .step_seconds = 0.01,
                                .input_seconds = 0.001,
                                .forward_seconds = 0.004,
                                .backward_seconds = 0.005};
}

/* Steps of 0.01 s from `first` to `last` of `total`, then an evaluation. */
static void train(train_observer *observe, void *observer, int first, int last, int total)
{
    struct train_event event = {.kind = TRAIN_STARTED, .step = first - 1, .total = total};
    seconds = 0;
    observe(observer, &event);
    for (int step = first; step <= last; step++) {
        seconds += 0.01;
        event = make_step(step, total);
        observe(observer, &event);
    }
    event.kind = TRAIN_EVALUATED;
    event.loss = 0.125;
    event.auc = 0.75;
    event.log_loss = 0.375;
    observe(observer, &event);
    event.kind = TRAIN_FINISHED;
    observe(observer, &event);
}

static bool weights(void *context, int index, struct events_weights *out)
{
    static const float values[] = {-1, 0, 1};
    (void)context;
    *out = (struct events_weights){.name = index ? "b" : "a", .values = values, .count = 3};
    return index < 2;
}

static void watch(struct events_options options, int first, int last, int total, char *path,
                  size_t bytes)
{
    struct events *events;
    struct error err = {0};
    ASSERT_OK(spool_create(&(struct spool_options){0}, &options.spool, &err), err);
    options.now = now;
    options.wall = wall;
    options.weights = weights;
    if (!options.directory)
        options.directory = test_path("events");
    ASSERT_OK(events_create(&options, &events, &err), err);
    uint64_t before = memory_allocation_count();
    train(events_observe, events, first, last, total);
    ASSERT_INT(memory_allocation_count() - before, ==, 0);
    snprintf(path, bytes, "%s", events_path(events));
    events_destroy(events);
    spool_destroy(options.spool);
    read_file(path);
}

TEST(events, start_with_version_and_session_and_tell_scalars)
{
    char path[4096];
    watch((struct events_options){0}, 1, 3, 3, path, sizeof path);
    ASSERT_CONTAINS(told, "version brain.Event:2\n0 start\n1 train/loss 1\n1 train/accuracy 0.5\n1 "
                          "learning_rate 0.25\n1 examples_per_second 6400\n");
    ASSERT_CONTAINS(told, "\n3 train/loss 0.333333\n");
    ASSERT_CONTAINS(told, "\n3 step_seconds/total 0.01\n3 step_seconds/input 0.001\n3 "
                          "step_seconds/forward 0.004\n3 step_seconds/backward 0.005\n");
    ASSERT_CONTAINS(told, "\n3 eval/loss 0.125\n3 eval/accuracy 0.5\n3 eval/auc 0.75\n3 "
                          "eval/log_loss 0.375\n");
    ASSERT_INT(count("top_5"), ==, 0); /* what is not known is not told */
    ASSERT_INT(count("ranks/") + count("hidden"), ==, 0);
}

TEST(events, tell_ten_steps_a_second_with_the_first_and_the_last)
{
    char path[4096];
    watch((struct events_options){0}, 1, 995, 1000, path, sizeof path);
    ASSERT_INT(count("train/loss"), <=, 102);
    ASSERT_INT(count("train/loss"), >=, 90);
    ASSERT_CONTAINS(told, "\n1 train/loss");
    ASSERT_CONTAINS(told, "\n995 train/loss"); /* stopped early */
    ASSERT_INT(count(" examples_per_second 6400\n"), ==, count("train/loss"));
    ASSERT_INT(count(" step_seconds/total 0.01\n"), ==, count("train/loss"));
}

TEST(events, of_a_resumed_run_replace_those_after_its_checkpoint)
{
    char path[4096];
    watch((struct events_options){0}, 101, 103, 200, path, sizeof path);
    ASSERT_CONTAINS(told, "\n101 start\n");
}

/* Memory that is only valid while the observer is called, as the trainer's is. */
static void tell_of_ranks(struct events *events, int step)
{
    struct rank_status ranks[4] = {{.input_seconds = 0.004},
                                   {.forward_seconds = 0.002},
                                   {.backward_seconds = 0.009},
                                   {.backward_seconds = 0.003}};
    struct train_event event = make_step(step, 3);
    event.reduce_seconds = 0.002;
    event.hidden_seconds = 0.006;
    event.ranks = ranks;
    event.rank_count = 4;
    event.slowest = 2;
    event.bucket_bytes = 1 << 20;
    events_observe(events, &event);
    memset(ranks, 0xff, sizeof ranks);
}

TEST(events, of_several_ranks_tell_how_far_apart_they_are)
{
    struct events *events;
    struct error err = {0};
    struct events_options options = {
        .directory = test_path("ranks"), .now = now, .wall = wall, .ranks = 4};
    ASSERT_OK(spool_create(&(struct spool_options){0}, &options.spool, &err), err);
    ASSERT_OK(events_create(&options, &events, &err), err);
    char path[4096];
    tell_of_ranks(events, 1);
    tell_of_ranks(events, 2); /* too soon: told at the end, when its ranks are gone */
    struct train_event last = {.kind = TRAIN_FINISHED, .step = 2, .total = 3};
    events_observe(events, &last);
    snprintf(path, sizeof path, "%s", events_path(events));
    events_destroy(events);
    spool_destroy(options.spool);
    read_file(path);
    for (int step = 1; step <= 2; step++) {
        char lines[512];
        snprintf(lines, sizeof lines,
                 "%d step_seconds/reduce 0.002\n%d step_seconds/update 0\n"
                 "%d step_seconds/reduce_hidden 0.006\n%d ranks/own_seconds_min 0.002\n"
                 "%d ranks/own_seconds_median 0.0035\n%d ranks/own_seconds_max 0.009\n"
                 "%d ranks/slowest 2\n%d ranks/slowest_excess_seconds 0.0055\n"
                 "%d ranks/bucket_bytes 1.04858e+06\n",
                 step, step, step, step, step, step, step, step, step);
        ASSERT_CONTAINS(told, lines);
    }
}

TEST(events, hold_the_graph)
{
    char path[4096];
    const int64_t dims[] = {-1, 10};
    const struct event_node nodes[] = {
        {.name = "x", .op = "Placeholder", .dtype = EVENT_FLOAT, .dims = dims, .dim_count = 2},
        {.name = "y",
         .op = "relu",
         .inputs = (const char *[]){"x"},
         .input_count = 1,
         .dtype = EVENT_FLOAT,
         .dims = dims,
         .dim_count = 2},
    };
    watch((struct events_options){.nodes = nodes, .node_count = 2}, 1, 1, 1, path, sizeof path);
    ASSERT_CONTAINS(told, "node x Placeholder\nnode y relu x\n");
}

TEST(events, hold_histograms_only_on_request)
{
    char path[4096];
    watch((struct events_options){0}, 1, 10, 10, path, sizeof path);
    ASSERT_INT(count("histogram"), ==, 0);
    watch((struct events_options){.histogram_every = 4}, 1, 10, 12, path, sizeof path);
    ASSERT_INT(count("histogram"), ==, 2 * 4);
    ASSERT_CONTAINS(told, "0 histogram a\n0 histogram b\n");
    ASSERT_CONTAINS(told, "\n8 histogram a\n8 histogram b\n");
    ASSERT_CONTAINS(told, "\n10 histogram a\n10 histogram b\n");
}

TEST(events, of_two_runs_in_one_second_are_in_two_files)
{
    char first[4096], second[4096];
    struct events_options options = {.directory = test_path("two")};
    watch(options, 1, 1, 1, first, sizeof first);
    watch(options, 1, 1, 1, second, sizeof second);
    ASSERT_CONTAINS(first, "/events.out.tfevents.1700000000.");
    ASSERT_TRUE(strcmp(first, second) != 0);
}

TEST(events, need_a_directory_that_can_be_written)
{
    struct events *events;
    struct error err = {0};
    const char *file = test_file("file", "x", 1);
    struct events_options options = {.directory = file};
    ASSERT_OK(spool_create(&(struct spool_options){0}, &options.spool, &err), err);
    ASSERT_FAILS(events_create(&options, &events, &err), err, ERROR_IO, file);
    spool_destroy(options.spool);
}

/* --- the progress of a workflow ------------------------------------------------------------- */

static void follow(const char *path, int last)
{
    struct argo *argo;
    struct error err = {0};
    struct argo_options options = {.path = path, .now = now};
    ASSERT_OK(spool_create(&(struct spool_options){0}, &options.spool, &err), err);
    ASSERT_OK(argo_create(&options, &argo, &err), err);
    uint64_t before = memory_allocation_count();
    train(argo_observe, argo, 1, last, 1000);
    ASSERT_INT(memory_allocation_count() - before, ==, 0);
    argo_destroy(argo);
    spool_destroy(options.spool);
}

static const char *line_of(const char *path)
{
    static char line[64];
    char *bytes;
    size_t length;
    struct error err = {0};
    ASSERT_OK(file_read(path, sizeof line - 1, &bytes, &length, &err), err);
    memcpy(line, bytes, length + 1);
    memory_free(bytes);
    return line;
}

TEST(argo, is_told_the_step_that_was_reached)
{
    const char *path = test_path("progress");
    follow(path, 1000);
    ASSERT_TEXT(line_of(path), "1000/1000\n");
    follow(path, 250);
    ASSERT_TEXT(line_of(path), "250/1000\n");
}

TEST(argo, that_cannot_be_told_stops_nothing)
{
    follow("/nowhere/progress", 1000);
}
