/* Drawn sets: the same for any number of threads, readable by the kinds they are made for. */
#include "base/files.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "data/make.h"
#include "data/survey.h"
#include "data/work.h"
#include "support/test.h"

static int make(const struct maker *maker, const char *directory, int threads, bool force,
                struct error *err)
{
    struct make_settings settings = {
        .directory = directory, .examples = 40, .eval_examples = 10, .seed = 3, .force = force};
    struct work work = {.threads = threads};
    struct make_report report;
    *err = (struct error){0};
    return maker->make(&settings, &work, &report, err);
}

static void expect_same_file(const char *a, const char *b, const char *name)
{
    char path[4096], *first, *second;
    size_t first_bytes, second_bytes;
    struct error err = {0};
    snprintf(path, sizeof path, "%s/%s", a, name);
    ASSERT_OK(file_read(path, 1 << 26, &first, &first_bytes, &err), err);
    snprintf(path, sizeof path, "%s/%s", b, name);
    ASSERT_OK(file_read(path, 1 << 26, &second, &second_bytes, &err), err);
    ASSERT_INT(first_bytes, ==, second_bytes);
    ASSERT_BYTES(first, second, first_bytes);
    memory_free(first);
    memory_free(second);
}

static void check_maker(const struct maker *maker, const char *const *names)
{
    const char *one = test_path("%s-1", maker->name), *two = test_path("%s-2", maker->name);
    struct error err;
    ASSERT_OK(make(maker, one, 1, false, &err), err);
    ASSERT_OK(make(maker, two, 3, false, &err), err);
    for (; *names; names++)
        expect_same_file(one, two, *names);
    ASSERT_FAILS(make(maker, one, 1, false, &err), err, ERROR_USAGE, "--force replaces it");
    ASSERT_OK(make(maker, one, 1, true, &err), err);
    char spec[4096];
    struct survey *survey;
    snprintf(spec, sizeof spec, "%s:%s", maker->name, one);
    struct survey_options options = {.spec = spec, .decode = true, .samples = 4};
    ASSERT_OK(survey_run(&options, &(struct work){.threads = 2}, &survey, &err), err);
    ASSERT_INT(survey->problem_count, ==, 0);
    ASSERT_INT(survey->splits[SPLIT_TRAIN].examples, ==, 40);
    ASSERT_INT(survey->splits[SPLIT_EVALUATE].examples, ==, 10);
    survey_destroy(survey);
}

TEST(make, draws_digits)
{
    static const char *const names[] = {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz",
                                        "t10k-images-idx3-ubyte.gz", NULL};
    check_maker(&maker_mnist, names);
}

TEST(make, draws_click_logs)
{
    static const char *const names[] = {"train.csv", "eval.csv", NULL};
    check_maker(&maker_criteo, names);
}

TEST(make, draws_pictures)
{
    static const char *const names[] = {"train-00000-of-00001", "validation-00000-of-00001", NULL};
    check_maker(&maker_imagenet, names);
}

static void stop_soon(void *context, const struct work_state *state)
{
    if (state->done > 0)
        atomic_store((atomic_int *)context, 2);
}

TEST(make, stops_when_told_and_leaves_no_half_files)
{
    atomic_int stop = 2;
    struct make_settings settings = {
        .directory = test_path("stopped"), .examples = 20, .eval_examples = 1, .seed = 1};
    struct work work = {.threads = 1, .stop = &stop, .observe = stop_soon, .context = &stop};
    struct make_report report;
    struct error err;
    ASSERT_FAILS(maker_imagenet.make(&settings, &work, &report, &err), err, ERROR_CANCELLED,
                 "stopped");
    char *text;
    size_t bytes;
    ASSERT_FAILS(file_read(test_path("stopped/train-00000-of-00001"), 1 << 20, &text, &bytes, &err),
                 err, ERROR_IO, "No such file");
}
