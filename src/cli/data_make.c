#include <inttypes.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/data_parts.h"
#include "cli/output.h"
#include "data/make.h"

struct make_command {
    const char *kind, *directory, *json;
    int64_t examples, eval_examples, seed;
    int classes, image_size, train_shards, validation_shards, threads;
    bool force;
};

static const char *kind_name(int index)
{
    const struct maker *maker = maker_list()[index];
    return maker ? maker->name : NULL;
}

static const struct option options[] = {
    OPTION_ARGUMENT(make_command, kind, "KIND", .required = true, .choice_at = kind_name,
                    .help = "what to draw"),
    OPTION_ARGUMENT(make_command, directory, "DIR", .required = true, .value = "DIR",
                    .help = "where it goes; made if need be"),
    OPTION_SECTION("The set"),
    OPTION_LONG(make_command, examples, "examples", .letter = 'n', OPTION_AT_LEAST(0),
                .initial = "0", .initial_note = "imagenet 10000, criteo 1000000, mnist 60000",
                .help = "training examples"),
    OPTION_LONG(make_command, eval_examples, "eval-examples", OPTION_AT_LEAST(0), .initial = "0",
                .initial_note = "imagenet 1000, criteo 100000, mnist 10000",
                .help = "examples for evaluation"),
    OPTION_INT(make_command, classes, "classes", OPTION_AT_LEAST(0), .initial = "0",
               .initial_note = "10", .aliases = "num-classes", .help = "imagenet: classes"),
    OPTION_INT(make_command, image_size, "image-size", .min = 0, .max = 8192, .initial = "0",
               .initial_note = "500", .help = "imagenet: the longer side, in pixels"),
    OPTION_INT(make_command, train_shards, "train-shards", OPTION_AT_LEAST(0), .initial = "0",
               .initial_note = "one for 1250 pictures", .help = "imagenet: training shards"),
    OPTION_INT(make_command, validation_shards, "validation-shards", OPTION_AT_LEAST(0),
               .initial = "0", .initial_note = "one for 1250 pictures",
               .help = "imagenet: validation shards"),
    OPTION_LONG(make_command, seed, "seed", .initial = "1", OPTION_AT_LEAST(0),
                .help = "of everything drawn: the same seed gives the same bytes"),
    OPTION_SECTION("Running"),
    OPTION_FLAG(make_command, force, "force", .letter = 'f',
                .help = "replace files that are there already"),
    DATA_THREADS_OPTION(make_command),
    DATA_JSON_OPTION(make_command),
    OPTION_END};

static int write_json(const struct make_report *report, double seconds, const char *target,
                      struct error *err)
{
    struct json *json = json_object_create();
    if (!json)
        return error_set(err, ERROR_MEMORY, "no memory for the JSON output");
    json_set_integer(json, "examples", report->examples);
    json_set_integer(json, "eval_examples", report->eval_examples);
    json_set_integer(json, "classes", report->classes);
    json_set_integer(json, "files", report->files);
    json_set_integer(json, "bytes", (int64_t)report->bytes);
    json_set_number(json, "seconds", seconds);
    int status = output_json(json, target, err);
    json_release(json);
    return status;
}

static const struct maker *find_maker(const char *name)
{
    const struct maker *const *maker = maker_list();
    while (strcmp((*maker)->name, name) != 0)
        maker++;
    return *maker;
}

static int run(struct options *parsed, void *given, struct error *err)
{
    (void)parsed;
    const struct make_command *wanted = given;
    struct make_settings settings = {
        .directory = wanted->directory,
        .examples = wanted->examples,
        .eval_examples = wanted->eval_examples,
        .classes = wanted->classes,
        .image_size = wanted->image_size,
        .seed = (uint64_t)wanted->seed,
        .shards = {wanted->train_shards, wanted->validation_shards},
        .force = wanted->force,
    };
    struct make_report report;
    struct task_line line;
    char bytes[32];
    if (output_json_prepare(wanted->json, err) < 0)
        return -1;
    double start = clock_seconds();
    struct work work = data_work_begin(&line, wanted->threads, "drawing", "examples");
    int status = find_maker(wanted->kind)->make(&settings, &work, &report, err);
    data_work_end(&line);
    if (status < 0)
        return -1;
    double seconds = clock_seconds() - start;
    if (!wanted->json || strcmp(wanted->json, "-") != 0)
        printf("%" PRId64 " training and %" PRId64 " evaluation examples, %s in %d files, in %.1f "
               "s: use --data %s:%s\n",
               report.examples, report.eval_examples,
               data_bytes_text((double)report.bytes, bytes, sizeof bytes), report.files, seconds,
               wanted->kind, wanted->directory);
    return wanted->json ? write_json(&report, seconds, wanted->json, err) : 0;
}

const struct command command_data_make = {
    .name = "data make",
    .summary = "draw a set of any size that a network can learn",
    .description =
        "imagenet: drawn pictures of about 500x375 as JPEGs in TFRecord shards; what is on them "
        "tells the class. criteo: click logs, train.csv and eval.csv, with frequent and rare "
        "categories, long-tailed numbers and missing fields, where a hidden model decides on the "
        "clicks. mnist: digits as if written by hand, in MNIST's four files.\n\n"
        "Files appear when they are whole, and none is replaced without --force.",
    .examples = "# a small ImageNet\n"
                "lockstep data make imagenet drawn --examples 2000 --eval-examples 200\n"
                "# ten million clicks\n"
                "lockstep data make criteo clicks --examples 10000000\n",
    .options = options,
    .settings_size = sizeof(struct make_command),
    .run = run,
};
