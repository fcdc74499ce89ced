#include "predict/measurement.h"

#include <string.h>

#include "base/arena.h"
#include "support/test.h"

#define TIMELINE(gradients)                                                                        \
    "{\"model\": \"resnet50\", \"threads\": 2, \"timeline\": {\"format\": 1, \"ranks\": 1, "       \
    "\"batch\": 8, \"steps\": 5, \"input_seconds\": 0.1, \"forward_seconds\": 0.2, "               \
    "\"backward_seconds\": 0.3, \"update_seconds\": 0.05, \"step_seconds\": 0.65, "                \
    "\"spread\": 0.01, \"statistic_bytes\": 100, \"row_bytes\": 0, \"gradients\": " gradients "}}"

static int parse(const char *text, struct measurement *out, struct error *err)
{
    static struct arena *arena;
    if (!arena)
        arena = arena_create();
    return measurement_parse("run.json", text, strlen(text), arena, out, err);
}

static void refuses(const char *text, const char *word)
{
    struct measurement run;
    struct error err = {0};
    ASSERT_INT(parse(text, &run, &err), ==, -1);
    ASSERT_INT(err.code, ==, ERROR_FORMAT);
    if (!strstr(err.message, word) || !strstr(err.message, "run.json"))
        FAIL("\"%s\" does not say run.json and \"%s\"", err.message, word);
}

TEST(measurement, reads_what_train_wrote)
{
    struct measurement run;
    struct error err = {0};
    ASSERT_INT(parse(TIMELINE("[{\"name\": \"a\", \"bytes\": 4000, \"seconds\": 0.4}, "
                              "{\"name\": \"b\", \"bytes\": 8, \"seconds\": 0.6}]"),
                     &run, &err),
               ==, 0);
    ASSERT_INT(strcmp(run.model, "resnet50"), ==, 0);
    ASSERT_INT(run.batch, ==, 8);
    ASSERT_INT(run.work.count, ==, 2);
    ASSERT_NUMBER(run.work.compute, ==, 0.1 + 0.2 + 0.3);
    ASSERT_NUMBER(run.work.gradients[0].bytes, ==, 4000);
    ASSERT_NUMBER(run.work.gradients[1].seconds, ==, 0.6);
}

TEST(measurement, can_be_sped_up)
{
    struct measurement run;
    struct error err = {0};
    ASSERT_INT(parse(TIMELINE("[{\"bytes\": 4000, \"seconds\": 0.4}]"), &run, &err), ==, 0);
    measurement_speed_up(&run, 2);
    ASSERT_NUMBER(run.work.compute, ==, (0.1 + 0.2 + 0.3) / 2);
    ASSERT_NUMBER(run.work.update, ==, 0.05 / 2);
    ASSERT_NUMBER(run.work.gradients[0].seconds, ==, 0.2);
    ASSERT_NUMBER(run.work.gradients[0].bytes, ==, 4000);
}

TEST(measurement, refuses_what_is_no_measurement)
{
    refuses("", "");
    refuses("{\"model\": \"resnet50\"}", "has no timeline");
    refuses("{\"timeline\": {\"format\": 9}}", "format");
    refuses("{\"timeline\": [1]}", "format");
    refuses(TIMELINE("[{\"bytes\": -1, \"seconds\": 0}]"), "bytes");
    refuses(TIMELINE("[{\"bytes\": 1e300, \"seconds\": 0}]"), "bytes");
    refuses(TIMELINE("[{\"bytes\": 1}]"), "seconds");
    refuses(TIMELINE("[7]"), "bytes");
}
