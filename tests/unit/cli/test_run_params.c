#include "base/arena.h"
#include "cli/options.h"
#include "cli/run_params.h"
#include "cli/watchers.h"
#include "support/test.h"

struct sample {
    const char *model, *data, *note;
    int batch;
    int64_t steps;
    double rate;
    bool fresh;
};

static const struct option table[] = {
    OPTION_ARGUMENT(sample, model, "MODEL", .help = "network"),
    OPTION_SECTION("Training"),
    OPTION_TEXT(sample, data, "data", .help = "data"),
    OPTION_TEXT(sample, note, "note", .help = "remark"),
    OPTION_INT(sample, batch, "batch-size", .help = "examples per step"),
    OPTION_LONG(sample, steps, "steps", .help = "steps"),
    OPTION_NUMBER(sample, rate, "lr", .initial = "0.1", .help = "learning rate"),
    OPTION_FLAG(sample, fresh, "start-fresh", .help = "start over"),
    OPTION_REFUSED("use-fp16", .accepts = "false", .help = "this program computes in float32"),
    OPTION_END};

static char *no_variables(const char *name)
{
    (void)name;
    return NULL;
}

static const char *value_of(const struct mlflow_param *params, int count, const char *name)
{
    const char *found = NULL;
    for (int i = 0; i < count; i++)
        if (strcmp(params[i].name, name) == 0) {
            ASSERT_TRUE(!found); /* MLflow refuses a name that comes twice */
            found = params[i].value;
        }
    return found;
}

TEST(run_params, are_all_options_with_a_value_and_what_was_resolved)
{
    struct sample sample = {0};
    struct options options;
    struct error err = {0};
    char *words[] = {"net", "--data", "digits:/x", "--start-fresh", "--use-fp16=false"};
    ASSERT_OK(options_parse(table, 5, words, no_variables, &sample, &options, &err), err);
    struct watchers_run run = {.model = "net",
                               .data = "digits:/y",
                               .options = &options,
                               .total_steps = 12,
                               .batch = 32,
                               .threads = 2};
    struct arena *memory = arena_create();
    struct mlflow_param *params;
    int count = run_params(&run, memory, &params);
    ASSERT_INT(count, ==, 7);
    ASSERT_TEXT(value_of(params, count, "model"), "net");
    ASSERT_TEXT(value_of(params, count, "data"), "digits:/y");
    ASSERT_TEXT(value_of(params, count, "steps"), "12");
    ASSERT_TEXT(value_of(params, count, "batch_size"), "32");
    ASSERT_TEXT(value_of(params, count, "threads"), "2");
    ASSERT_TEXT(value_of(params, count, "lr"), "0.1");
    ASSERT_TEXT(value_of(params, count, "start_fresh"), "true");
    arena_destroy(memory);
}
