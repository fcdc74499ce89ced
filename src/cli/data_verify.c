#include <inttypes.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/data_parts.h"
#include "cli/output.h"
#include "data/survey.h"

struct verify_command {
    const char *spec, *json;
    int threads;
};

static const struct option options[] = {
    OPTION_ARGUMENT(verify_command, spec, "SPEC", .required = true, .aliases = "data",
                    .help = "KIND:DIR, as in --data of `lockstep train`"),
    DATA_THREADS_OPTION(verify_command), DATA_JSON_OPTION(verify_command), OPTION_END};

static struct json *problem_json(const struct survey_problem *problem)
{
    struct json *json = json_object_create();
    json_set_text(json, "file", problem->file);
    if (problem->offset >= 0)
        json_set_integer(json, "offset", problem->offset);
    if (problem->line > 0)
        json_set_integer(json, "line", problem->line);
    json_set_text(json, "problem", problem->message);
    return json;
}

static int write_json(const struct survey *survey, double seconds, const char *target,
                      struct error *err)
{
    struct json *json = json_object_create(), *list = json_array_create();
    for (int64_t i = 0; i < survey->problem_count; i++)
        json_append(list, problem_json(&survey->problems[i]));
    json_set_integer(json, "examples", survey->splits[0].examples + survey->splits[1].examples);
    json_set_integer(json, "damaged", survey->damaged);
    json_set_number(json, "seconds", seconds);
    json_set(json, "problems", list);
    int status = output_json(json, target, err);
    json_release(json);
    return status;
}

/* A message that begins with the place says it already. */
static void print_problem(const struct survey_problem *problem)
{
    if (strncmp(problem->message, problem->file, strlen(problem->file)) == 0)
        printf("%s\n", problem->message);
    else if (problem->offset > 0)
        printf("%s: offset %" PRId64 ": %s\n", problem->file, problem->offset, problem->message);
    else
        printf("%s: %s\n", problem->file, problem->message);
}

static void print(const struct survey *survey, double seconds)
{
    char bytes[32];
    for (int64_t i = 0; i < survey->problem_count; i++)
        print_problem(&survey->problems[i]);
    if (survey->damaged > survey->problem_count)
        printf("... and %" PRId64 " more, which are not named\n",
               survey->damaged - survey->problem_count);
    uint64_t sum = survey->splits[0].bytes + survey->splits[1].bytes;
    printf("%" PRId64 " examples are fine, %" PRId64 " damaged",
           survey->splits[0].examples + survey->splits[1].examples, survey->damaged);
    if (sum)
        printf("; %s read", data_bytes_text((double)sum, bytes, sizeof bytes));
    printf(" in %.1f s\n", seconds);
}

static int run(struct options *parsed, void *given, struct error *err)
{
    (void)parsed;
    const struct verify_command *wanted = given;
    struct survey_options survey_options = {.spec = wanted->spec, .decode = true};
    struct survey *survey;
    struct task_line line;
    if (output_json_prepare(wanted->json, err) < 0)
        return -1;
    double start = clock_seconds();
    struct work work = data_work_begin(&line, wanted->threads, "verifying", NULL);
    int status = survey_run(&survey_options, &work, &survey, err);
    data_work_end(&line);
    if (status < 0)
        return -1;
    double seconds = clock_seconds() - start;
    if (!wanted->json || strcmp(wanted->json, "-") != 0)
        print(survey, seconds);
    if (wanted->json)
        status = write_json(survey, seconds, wanted->json, err);
    if (status == 0 && survey->splits[0].examples + survey->splits[1].examples == 0 &&
        survey->problem_count == 0)
        status = error_set(err, ERROR_FORMAT, "%s holds no examples", wanted->spec);
    if (status == 0 && survey->problem_count > 0)
        status = STATUS_FAILED;
    survey_destroy(survey);
    return status;
}

const struct command command_data_verify = {
    .name = "data verify",
    .summary = "read everything and name what is damaged",
    .description = "Reads every record or file, checks its sums and decodes its picture, and names "
                   "file and offset, or line, of each that is damaged (of the first 10000; the "
                   "others are counted); the exit status is 1 if there is one. Behind a damaged "
                   "TFRecord it goes on with the next that is whole.",
    .examples = "# before a long training\n"
                "lockstep data verify imagenet:shards\n"
                "# for a script\n"
                "lockstep data verify images:pictures --json -\n",
    .options = options,
    .settings_size = sizeof(struct verify_command),
    .run = run,
};
