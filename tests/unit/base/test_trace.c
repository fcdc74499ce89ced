/* A timeline as a file. */
#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "base/trace.h"
#include "support/test.h"

static struct trace *create(void)
{
    struct trace *trace;
    struct error err = {0};
    ASSERT_OK(trace_create(&trace, &err), err);
    return trace;
}

/* Writes the trace, frees it, and reads its events back. */
static struct json *write_and_read(struct trace *trace)
{
    const char *path = test_path("trace.json");
    struct json *json;
    struct error err = {0};
    char *text;
    size_t bytes;
    ASSERT_OK(trace_write(trace, "a \"process\"", path, &err), err);
    trace_destroy(trace);
    ASSERT_OK(file_read(path, 1 << 24, &text, &bytes, &err), err);
    ASSERT_OK(json_parse(text, bytes, &json, &err), err);
    memory_free(text);
    return json;
}

static const struct json *find(const struct json *events, const char *name)
{
    for (int i = 0; i < json_count(events); i++)
        if (!strcmp(json_get_text(json_at(events, i), "name", ""), name))
            return json_at(events, i);
    FAIL("no event %s", name);
}

TEST(trace, names_its_process_and_tracks)
{
    struct trace *trace = create();
    ASSERT_TRUE(trace_add_track(trace, "reader", 1));
    struct json *json = write_and_read(trace);
    const struct json *events = json_get(json, "traceEvents");
    ASSERT_TEXT(json_get_text(json_get(find(events, "process_name"), "args"), "name", ""),
                "a \"process\"");
    ASSERT_TEXT(json_get_text(json_get(find(events, "thread_name"), "args"), "name", ""), "reader");
    ASSERT_INT(json_get_integer(find(events, "thread_name"), "tid", 0), ==, 1);
    json_release(json);
}

TEST(trace, has_times_in_microseconds_from_the_first_span)
{
    struct trace *trace = create();
    struct trace_track *track = trace_add_track(trace, "thread", 10);
    ASSERT_TRUE(track);
    trace_add(track,
              &(struct trace_span){.name = "inner",
                                   .category = "b",
                                   .start = 1000.5,
                                   .end = 1000.75,
                                   .arguments = {{"op", .text = "conv"}, {"bytes", .number = 12}}});
    trace_add(track, &(struct trace_span){
                         .name = "outer", .category = "a", .start = 1000.25, .end = 1001});
    struct json *json = write_and_read(trace);
    const struct json *events = json_get(json, "traceEvents");
    const struct json *inner = find(events, "inner"), *outer = find(events, "outer");
    ASSERT_NUMBER(json_get_number(outer, "ts", -1), ==, 0);
    ASSERT_NUMBER(json_get_number(outer, "dur", -1), ==, 750000);
    ASSERT_NUMBER(json_get_number(inner, "ts", -1), ==, 250000);
    ASSERT_NUMBER(json_get_number(inner, "dur", -1), ==, 250000);
    ASSERT_TEXT(json_get_text(json_get(inner, "args"), "op", ""), "conv");
    ASSERT_INT(json_get_integer(json_get(inner, "args"), "bytes", 0), ==, 12);
    ASSERT_INT(json_count(json_get(outer, "args")), ==, 0);
    json_release(json);
}

/* A viewer takes the first of two spans that start together for the outer one. */
TEST(trace, writes_the_span_around_another_first)
{
    struct trace *trace = create();
    struct trace_track *track = trace_add_track(trace, "thread", 10);
    static const char *const names[] = {"last", "inner", "outer"};
    const double starts[] = {3, 1, 1}, ends[] = {4, 2, 3};
    for (int i = 0; i < 3; i++)
        trace_add(track, &(struct trace_span){
                             .name = names[i], .category = "", .start = starts[i], .end = ends[i]});
    struct json *json = write_and_read(trace);
    const struct json *events = json_get(json, "traceEvents");
    int first = json_count(events) - 3;
    for (int i = 0; i < 3; i++)
        ASSERT_TEXT(json_get_text(json_at(events, first + i), "name", ""), names[2 - i]);
    json_release(json);
}

TEST(trace, leaves_out_what_a_track_has_no_room_for)
{
    struct trace *trace = create();
    struct trace_track *track = trace_add_track(trace, "thread", 3);
    uint64_t before = memory_allocation_count();
    for (int i = 0; i < 10; i++)
        trace_add(track, &(struct trace_span){.name = "x", .category = "", .start = i, .end = i});
    ASSERT_INT(memory_allocation_count() - before, ==, 0);
    ASSERT_INT(trace_left_out(trace), ==, 7);
    trace_destroy(trace);
}

TEST(trace, without_spans_is_a_whole_file)
{
    json_release(write_and_read(create()));
}

TEST(trace, says_which_file_cannot_be_written)
{
    struct trace *trace = create();
    struct error err = {0};
    ASSERT_FAILS(trace_write(trace, "p", "/nowhere/trace.json", &err), err, ERROR_IO, "/nowhere");
    trace_destroy(trace);
}

TEST(trace, keeps_a_label_that_does_not_last)
{
    struct trace *trace = create();
    struct trace_track *track = trace_add_track(trace, "thread", 1);
    struct trace_span span = {.label = "bucket 3", .category = "comm", .start = 1, .end = 2};
    trace_add(track, &span);
    memset(&span, 'x', sizeof span);
    struct json *json = write_and_read(trace);
    find(json_get(json, "traceEvents"), "bucket 3");
    json_release(json);
}

/* --- several processes ------------------------------------------------------------------------ */

/* A process whose clock shows `origin` when the picture's time begins, with a span a second later. */
static struct trace *create_at(int number, double origin, const char *span)
{
    struct trace *trace = create();
    struct trace_track *track = trace_add_track(trace, "thread", 2);
    trace_set_place(trace, number, origin);
    trace_add(track, &(struct trace_span){
                         .name = span, .category = "kept", .start = origin + 1, .end = origin + 2});
    trace_add(track, &(struct trace_span){.name = "detail",
                                          .category = "dropped",
                                          .start = origin + 1,
                                          .end = origin + 1.5});
    return trace;
}

static bool is_kept(const struct trace_span *span)
{
    return !strcmp(span->category, "kept");
}

static int count(const struct json *events, const char *name)
{
    int found = 0;
    for (int i = 0; i < json_count(events); i++)
        found += !strcmp(json_get_text(json_at(events, i), "name", ""), name);
    return found;
}

TEST(trace, of_several_processes_has_one_time_for_all)
{
    struct trace *first = create_at(1, 1000, "here");
    for (int number = 2; number <= 3; number++) {
        struct trace *other = create_at(number, 50 * number, "there");
        struct strbuf text;
        struct error err = {0};
        strbuf_init(&text);
        ASSERT_OK(trace_text(other, "other", number == 3 ? is_kept : NULL, &text, &err), err);
        trace_destroy(other);
        ASSERT_OK(trace_include(first, text.text, text.length, &err), err);
        strbuf_release(&text);
    }
    struct json *json = write_and_read(first);
    const struct json *events = json_get(json, "traceEvents");
    ASSERT_INT(count(events, "process_name"), ==, 3);
    ASSERT_INT(count(events, "there"), ==, 2);
    ASSERT_INT(count(events, "detail"), ==, 2); /* the third has none */
    for (int i = 0; i < json_count(events); i++) {
        const struct json *event = json_at(events, i);
        ASSERT_INT(json_get_integer(event, "pid", 0), >=, 1);
        ASSERT_INT(json_get_integer(event, "pid", 0), <=, 3);
        if (!strcmp(json_get_text(event, "ph", ""), "X"))
            ASSERT_NUMBER(json_get_number(event, "ts", -1), ==, 1e6);
    }
    json_release(json);
}
