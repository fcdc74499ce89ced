#include "cli/reductions.h"

#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "support/test.h"
#include "train/exchange.h"

/* A step that began at `started` and took a second, with two sums, the second after the first. */
static void tell(struct reductions *reductions, double started, size_t bucket, double second)
{
    struct exchange_sum sums[2] = {
        {.bytes = 100, .ready = started + 0.25, .start = started + 0.25, .end = started + 0.5},
        {.bytes = 60, .ready = started + 0.375, .start = started + 0.5, .end = started + second}};
    struct train_event event = {.kind = TRAIN_STEP,
                                .started = started,
                                .input_seconds = 0.125,
                                .forward_seconds = 0.25,
                                .backward_seconds = 0.25,
                                .reduce_seconds = second - 0.625,
                                .hidden_seconds = 0.375,
                                .step_seconds = 1,
                                .bucket_bytes = bucket,
                                .sums = sums,
                                .sum_count = 2};
    reductions_observe(reductions, &event);
}

#define NUMBER_IN(json, name) json_get_number(json, name, -1)

TEST(reductions, say_when_each_sum_could_begin_began_and_ended)
{
    struct reductions *reductions;
    struct json *out = json_object_create();
    struct error err = {0};
    ASSERT_OK(reductions_create(5, &reductions, &err), err);
    size_t before = memory_allocation_count();
    for (int i = 0; i < 7; i++)
        tell(reductions, 100 + i, 64, i == 4 ? 5 : 0.75);
    ASSERT_INT(memory_allocation_count() - before, ==, 0);
    reductions_describe(reductions, out);
    const struct json *json = json_get(out, "reductions");
    ASSERT_TRUE(json);
    ASSERT_NUMBER(NUMBER_IN(json, "bucket_bytes"), ==, 64);
    ASSERT_NUMBER(NUMBER_IN(json, "steps"), ==, 5); /* the first two are slower */
    ASSERT_NUMBER(NUMBER_IN(json, "compute_seconds"), ==, 0.625);
    ASSERT_NUMBER(NUMBER_IN(json, "reduce_seconds"), ==, 0.125); /* not the slow one */
    ASSERT_NUMBER(NUMBER_IN(json, "hidden_seconds"), ==, 0.375);
    const struct json *second = json_at(json_get(json, "sums"), 1);
    ASSERT_NUMBER(NUMBER_IN(second, "bytes"), ==, 60);
    ASSERT_NUMBER(NUMBER_IN(second, "ready"), ==, 0.375);
    ASSERT_NUMBER(NUMBER_IN(second, "start"), ==, 0.5);
    ASSERT_NUMBER(NUMBER_IN(second, "end"), ==, 0.75);
    json_release(out);
    reductions_destroy(reductions);
}

TEST(reductions, forget_steps_with_other_buckets)
{
    struct reductions *reductions;
    struct json *out = json_object_create();
    struct error err = {0};
    ASSERT_OK(reductions_create(5, &reductions, &err), err);
    for (int i = 0; i < 9; i++)
        tell(reductions, 100 + i, 64, 0.75);
    tell(reductions, 200, 32, 0.875);
    tell(reductions, 201, 32, 0.875);
    reductions_describe(reductions, out);
    ASSERT_FALSE(json_get(out, "reductions"));
    tell(reductions, 202, 32, 0.875);
    reductions_describe(reductions, out);
    const struct json *json = json_get(out, "reductions");
    ASSERT_NUMBER(NUMBER_IN(json, "steps"), ==, 1);
    ASSERT_NUMBER(NUMBER_IN(json, "bucket_bytes"), ==, 32);
    json_release(out);
    reductions_destroy(reductions);
}

TEST(reductions, of_one_rank_are_none)
{
    struct json *out = json_object_create();
    reductions_observe(NULL, &(struct train_event){.kind = TRAIN_STEP});
    reductions_describe(NULL, out);
    ASSERT_FALSE(json_get(out, "reductions"));
    json_release(out);
    reductions_destroy(NULL);
}
