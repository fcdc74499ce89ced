#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/refused.h"
#include "cli/report.h"
#include "cli/session.h"
#include "store/checkpoint.h"
#include "store/checkpoints.h"
#include "store/weights.h"

struct eval_settings {
    struct session_settings common;
    const char *weights;
};

static const struct option options[] = {
    SESSION_MODEL_OPTION(eval_settings),
    OPTION_TEXT(
        eval_settings, weights, "weights", .value = "PATH", .letter = 'w',
        .aliases = "checkpoint checkpoint-dir model-dir",
        .environment = "OUTPUT_DIR CHECKPOINT_DIR",
        .help = "what `train` wrote: a checkpoint, a directory of them (the newest is "
                "taken; DIR/best is the best), or weights.safetensors; an ONNX file has its own"),
    OPTION_SECTION("Data"),
    OPTION_TEXT(eval_settings, common.data, "data", .value = "SPEC", .environment = "DATASET_DIR",
                .aliases = "eval-data data-dir data-location", .initial_note = "the model's",
                .help = "KIND, KIND:DIR (see `lockstep datasets`), or a directory whose files tell "
                        "the kind; the split for evaluation is used"),
    SESSION_EXAMPLES_OPTION(eval_settings),
    SESSION_READING_OPTIONS(eval_settings),
    SESSION_BATCH_OPTION(eval_settings),
    OPTION_SECTION("Network"),
    SESSION_NETWORK_OPTIONS(eval_settings),
    OPTION_SECTION("Running"),
    SESSION_RUN_OPTIONS(eval_settings),
    SESSION_JSON_OPTION(eval_settings),
    REFUSED_IN_EVAL,
    REFUSED_EVERYWHERE,
    REFUSED_FP16,
    OPTION_END};

struct job {
    struct session session;
    struct session_data data;
    struct params *params;
    struct plan *plan;
    struct metrics metrics;
    double seconds;
};

/* What `train` wrote: a checkpoint, a directory of them, or weights.safetensors. Without any, what
 * the model itself brings. */
static int load(const struct eval_settings *settings, struct params *params, struct error *err)
{
    const char *path = settings->weights;
    char weights[PATH_MAX], checkpoint[PATH_MAX];
    struct stat info;
    if (!path)
        return params_initialize(params, (uint64_t)settings->common.seed, err);
    snprintf(weights, sizeof weights, "%s/weights.safetensors", path);
    if (stat(path, &info) < 0 || !S_ISDIR(info.st_mode) || access(weights, F_OK) == 0)
        return weights_load(path, params, err);
    if (checkpoints_resolve(path, checkpoint, err) < 0)
        return -1;
    return checkpoint_load(checkpoint, params, NULL, err);
}

static int evaluate(struct job *job, struct options *parsed, struct eval_settings *settings,
                    struct error *err)
{
    if (ranks_refuse_several(err) < 0 ||
        session_open(&job->session, parsed, SESSION_PART_OF_RECIPE, &settings->common, err) < 0)
        return -1;
    if (!settings->weights && !job->session.model->defaults.file)
        return error_set(err, ERROR_USAGE, "which weights? Give --weights=PATH");
    if (session_build(&job->session, parsed, &settings->common, err) < 0 ||
        session_open_data(&job->session, &settings->common, settings->common.data, SPLIT_EVALUATE,
                          &job->data, err) < 0)
        return -1;
    struct plan_options plan = {
        .mode = PLAN_EVALUATE, .batch = settings->common.batch, .threads = job->session.threads};
    if (params_create(job->session.graph, 0, NULL, &job->params, err) < 0 ||
        plan_create(job->session.graph, job->params, &plan, &job->plan, err) < 0 ||
        load(settings, job->params, err) < 0)
        return -1;
    double start = clock_seconds();
    int status = trainer_evaluate(job->session.graph, job->plan, &job->data.source.trainer,
                                  job->session.stop, &job->metrics, err);
    job->seconds = clock_seconds() - start;
    if (status == 0 && job->metrics.examples > 0 && !isfinite(metrics_loss(&job->metrics)))
        return error_set(err, ERROR_NUMERIC, "the loss is not finite: are the weights in %s?",
                         settings->weights ? settings->weights : settings->common.model);
    return status;
}

static int write_json(const struct job *job, const char *target, struct error *err)
{
    const struct metrics *metrics = &job->metrics;
    struct json *json = json_object_create();
    if (!json)
        return error_set(err, ERROR_MEMORY, "no memory for the JSON output");
    session_describe(&job->session, job->data.spec, job->plan, json);
    json_set_integer(json, "examples", metrics->examples);
    json_set_number(json, "seconds", job->seconds);
    json_set_number(json, "examples_per_second",
                    job->seconds > 0 ? (double)metrics->examples / job->seconds : NAN);
    json_set_number(json, "loss", metrics_loss(metrics));
    json_set_number(json, "accuracy", metrics_accuracy(metrics));
    json_set_number(json, "accuracy_top_5", metrics_accuracy_top_5(metrics));
    json_set_number(json, "auc", metrics->auc);
    json_set_number(json, "log_loss", metrics_log_loss(metrics));
    json_set_number(json, "majority_accuracy", metrics_majority(metrics));
    session_describe_input(&job->data, json);
    int status = output_json(json, target, err);
    json_release(json);
    return status;
}

static void print(const struct job *job)
{
    const struct metrics *metrics = &job->metrics;
    printf("%" PRId64 " examples in %.1f s\n", metrics->examples, job->seconds);
    printf("Loss: %.4f\n", metrics_loss(metrics));
    if (!metrics->judged)
        return;
    printf("Accuracy: %.4f\n", metrics_accuracy(metrics));
    report_binary(metrics_accuracy(metrics), metrics_majority(metrics), metrics->auc,
                  metrics_log_loss(metrics), stdout);
    if (metrics->binary)
        return;
    printf("Accuracy @ 1 = %.4f Accuracy @ 5 = %.4f [%" PRId64 " examples]\n",
           metrics_accuracy(metrics), metrics_accuracy_top_5(metrics), metrics->examples);
}

static int run(struct options *parsed, void *settings, struct error *err)
{
    const struct eval_settings *wanted = settings;
    const char *target = wanted->common.json;
    struct job job = {0};
    int status = evaluate(&job, parsed, settings, err);
    if (status == 0) {
        if (!target || strcmp(target, "-") != 0)
            print(&job);
        session_warn_of_bad(&job.data);
        if (target)
            status = write_json(&job, target, err);
    }
    plan_destroy(job.plan);
    params_destroy(job.params);
    session_close_data(&job.data);
    session_close(&job.session);
    return status;
}

const struct command command_eval = {
    .name = "eval",
    .order = 20,
    .summary = "evaluate saved weights",
    .description =
        "Runs MODEL with saved weights once over the evaluation split of the data and "
        "prints loss, accuracy and top-5 accuracy, or AUC and log loss of a network that "
        "answers yes or no.",
    .examples = "# how good is what train saved?\n"
                "lockstep eval mnist_custom --weights out --data mnist:DIR\n",
    .options = options,
    .settings_size = sizeof(struct eval_settings),
    .run = run,
};
