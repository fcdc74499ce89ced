/* Which steps get into a trace, and what of them. */
#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/trace.h"
#include "support/test.h"
#include "train/trainer.h"
#include "watch/tracer.h"

static struct {
    bool on;
    int switches;
    double step_started; /* of the step that is told next */
} recording;

static double now(void)
{
    return 1000;
}

static void record(void *context, bool on)
{
    (void)context;
    recording.switches += recording.on != on;
    recording.on = on;
}

/* Two operations in each step. */
static void describe_op(void *context, int index, struct tracer_op *out)
{
    (void)context;
    double start = recording.step_started + (index ? 0.5 : 0.3);
    *out = (struct tracer_op){.name = index ? "dense" : "conv",
                              .op = "op",
                              .fused = "",
                              .pass = index ? "backward" : "forward",
                              .kernel = "jit",
                              .start = start,
                              .end = start + 0.1};
}

/* Steps of a second each, seven of them; evaluated after the fourth, saved after the sixth. */
static void train(struct tracer *tracer, int64_t first)
{
    struct train_event event = {.kind = TRAIN_STARTED, .step = first, .total = 7};
    tracer_observe(tracer, &event);
    for (int64_t step = first + 1; step <= 7; step++) {
        recording.step_started = (double)step;
        event = (struct train_event){.kind = TRAIN_STEP,
                                     .step = step,
                                     .total = 7,
                                     .started = (double)step,
                                     .step_seconds = 0.75,
                                     .input_seconds = 0.25,
                                     .forward_seconds = 0.25,
                                     .backward_seconds = 0.125,
                                     .update_seconds = 0.125};
        tracer_observe(tracer, &event);
        if (step == 4) {
            event.kind = TRAIN_EVALUATED;
            event.started = (double)step + 0.8;
            event.step_seconds = 0.1;
            tracer_observe(tracer, &event);
        }
        if (step == 6) {
            event.kind = TRAIN_SAVED;
            event.started = 0;
            event.step_seconds = 0.5;
            tracer_observe(tracer, &event);
        }
    }
    event.kind = TRAIN_FINISHED;
    tracer_observe(tracer, &event);
}

/* What comes of steps [first, first + steps) of a run that begins behind `from`. */
static struct json *trace_steps(int64_t from, int64_t first, int64_t steps)
{
    struct trace *trace;
    struct tracer *tracer;
    struct json *json;
    struct error err = {0};
    char *text;
    size_t bytes;
    const char *path = test_path("trace.json");
    recording.on = false;
    recording.switches = 0;
    ASSERT_OK(trace_create(&trace, &err), err);
    struct tracer_options options = {.trace = trace,
                                     .track = trace_add_track(trace, "training", 100),
                                     .first_step = first,
                                     .steps = steps,
                                     .record = record,
                                     .op_count = 2,
                                     .op = describe_op,
                                     .now = now};
    ASSERT_OK(tracer_create(&options, &tracer, &err), err);
    uint64_t before = memory_allocation_count();
    train(tracer, from);
    ASSERT_INT(memory_allocation_count() - before, ==, 0);
    tracer_destroy(tracer);
    ASSERT_OK(trace_write(trace, "test", path, &err), err);
    trace_destroy(trace);
    ASSERT_OK(file_read(path, 1 << 20, &text, &bytes, &err), err);
    ASSERT_OK(json_parse(text, bytes, &json, &err), err);
    memory_free(text);
    return json;
}

static int count(const struct json *json, const char *name)
{
    const struct json *events = json_get(json, "traceEvents");
    int found = 0;
    for (int i = 0; i < json_count(events); i++)
        found += !strcmp(json_get_text(json_at(events, i), "name", ""), name);
    return found;
}

TEST(tracer, records_the_steps_asked_for_and_their_operations)
{
    struct json *json = trace_steps(0, 3, 2);
    ASSERT_INT(count(json, "step"), ==, 2);
    ASSERT_INT(count(json, "input"), ==, 2);
    ASSERT_INT(count(json, "update"), ==, 2);
    ASSERT_INT(count(json, "reduce"), ==, 0); /* took no time */
    ASSERT_INT(count(json, "conv"), ==, 2);
    ASSERT_INT(count(json, "dense"), ==, 2);
    ASSERT_INT(recording.switches, ==, 2);
    json_release(json);
}

TEST(tracer, records_from_the_first_step_to_the_end_of_the_run)
{
    struct json *json = trace_steps(0, 1, 100);
    ASSERT_INT(count(json, "step"), ==, 7);
    ASSERT_FALSE(recording.on);
    json_release(json);
    json = trace_steps(5, 6, 1); /* a resumed run counts on */
    ASSERT_INT(count(json, "step"), ==, 1);
    ASSERT_INT(recording.switches, ==, 2);
    json_release(json);
}

TEST(tracer, records_evaluations_and_checkpoints_of_the_whole_run)
{
    struct json *json = trace_steps(0, 1, 1);
    ASSERT_INT(count(json, "evaluation"), ==, 1);
    ASSERT_INT(count(json, "checkpoint"), ==, 1);
    json_release(json);
}
