#include <inttypes.h>
#include <math.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/as_served.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/refused.h"
#include "cli/report.h"
#include "cli/session.h"
#include "cli/stored_weights.h"
#include "convert/export.h"
#include "convert/imported.h"

struct eval_settings {
    struct session_settings common;
    const char *weights;
    struct as_served_settings served;
};

static const struct option options[] = {
    SESSION_MODEL_OPTION(eval_settings),
    OPTION_TEXT(eval_settings, weights, "weights", .value = "PATH", .letter = 'w',
                .aliases = "checkpoint checkpoint-dir model-dir",
                .environment = "OUTPUT_DIR CHECKPOINT_DIR",
                .help = "what `train` wrote: a checkpoint, a directory of them (the newest is "
                        "taken; DIR/best is the best), or weights.safetensors; an export and "
                        "an ONNX file have their own"),
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
    OPTION_SECTION("Serving"),
    AS_SERVED_OPTIONS(eval_settings),
    OPTION_SECTION("Running"),
    SESSION_RUN_OPTIONS(eval_settings),
    SESSION_JSON_OPTION(eval_settings),
    REFUSED_IN_EVAL,
    REFUSED_EVERYWHERE,
    REFUSED_FP16,
    OPTION_END};

struct job {
    struct imported *imported; /* NULL: no export was named */
    struct model exported;     /* when it is of no known network */
    struct session session;
    struct session_data data;
    struct params *params;
    struct plan *plan;
    struct metrics metrics;
    double seconds;
};

/* --- an export is a network with its weights ------------------------------------------------ */

static int refuse_given(const struct options *parsed, struct error *err)
{
    static const char *const names[] = {"weights",       "classes", "image-size", "embedding-rows",
                                        "embedding-dim", "hidden",  "dropout"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (options_source(parsed, names[i]) == OPTION_FROM_ARGUMENTS)
            return error_set(err, ERROR_USAGE,
                             "--%s would change nothing: an export has its own network and weights",
                             names[i]);
    return 0;
}

/* Data and recipe are those of the model it was made from, as far as there is one of the name. */
static int open_export(struct job *job, struct options *parsed, struct eval_settings *settings,
                       struct error *err)
{
    char path[PATH_MAX];
    if (refuse_given(parsed, err) < 0 || export_resolve(settings->common.model, path, err) < 0 ||
        imported_read(path, &job->imported, err) < 0)
        return -1;
    job->exported = (struct model){.name = job->imported->model, .dataset = "synthetic"};
    const struct model *known = job->imported->built_in ? model_find(job->imported->model) : NULL;
    job->session.model = known ? known : &job->exported;
    if (session_open(&job->session, parsed, SESSION_PART_OF_RECIPE, &settings->common, err) < 0)
        return -1;
    job->session.graph = job->imported->graph;
    job->session.args.classes = imported_classes(job->imported);
    return 0;
}

static int open_network(struct job *job, struct options *parsed, struct eval_settings *settings,
                        struct error *err)
{
    bool exported = export_is(settings->common.model);
    if (as_served_check(&settings->served, parsed, exported, err) < 0)
        return -1;
    if (exported)
        return open_export(job, parsed, settings, err);
    if (session_open(&job->session, parsed, SESSION_PART_OF_RECIPE, &settings->common, err) < 0)
        return -1;
    if (!settings->weights && !job->session.model->defaults.file)
        return error_set(err, ERROR_USAGE, "which weights? Give --weights=PATH");
    return session_build(&job->session, parsed, &settings->common, err);
}

/* --- evaluating ----------------------------------------------------------------------------- */

static int make_plan(struct job *job, const struct eval_settings *settings, struct error *err)
{
    struct plan_options plan = {
        .mode = PLAN_EVALUATE, .batch = settings->common.batch, .threads = job->session.threads};
    if (job->imported)
        return plan_create(job->imported->graph, job->imported->params, &plan, &job->plan, err);
    if (params_create(job->session.graph, 0, NULL, &job->params, err) < 0 ||
        plan_create(job->session.graph, job->params, &plan, &job->plan, err) < 0)
        return -1;
    return settings->weights ? stored_weights_load(settings->weights, job->params, err)
                             : params_initialize(job->params, (uint64_t)settings->common.seed, err);
}

static int pass(struct job *job, const struct eval_settings *settings, struct error *err)
{
    if (make_plan(job, settings, err) < 0)
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

static int evaluate(struct job *job, struct options *parsed, struct eval_settings *settings,
                    struct error *err)
{
    if (ranks_refuse_several(err) < 0 || open_network(job, parsed, settings, err) < 0)
        return -1;
    if (settings->served.inputs)
        return as_served_answer(&settings->served, job->imported, settings->common.batch,
                                job->session.threads, err);
    if (session_open_data(&job->session, &settings->common, settings->common.data, SPLIT_EVALUATE,
                          &job->data, err) < 0)
        return -1;
    if (settings->served.wanted)
        return as_served_data(&settings->served, job->imported, &job->data.source.trainer,
                              settings->common.batch, job->session.threads, err);
    return pass(job, settings, err);
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
    if (status == 0 && !wanted->served.wanted) {
        if (!target || strcmp(target, "-") != 0)
            print(&job);
        session_warn_of_bad(&job.data);
        if (target)
            status = write_json(&job, target, err);
    }
    plan_destroy(job.plan);
    params_destroy(job.params);
    session_close_data(&job.data);
    if (job.imported)
        job.session.graph = NULL; /* is the export's */
    session_close(&job.session);
    imported_destroy(job.imported);
    return status;
}

const struct command command_eval = {
    .name = "eval",
    .order = 20,
    .summary = "evaluate saved weights",
    .description =
        "Runs MODEL with saved weights once over the evaluation split of the data and "
        "prints loss, accuracy and top-5 accuracy, or AUC and log loss of a network that "
        "answers yes or no.\n"
        "\n"
        "MODEL may be an export, DIR/N or the newest of DIR, which has its own weights.",
    .examples = "# how good is what train saved?\n"
                "lockstep eval mnist_custom --weights out --data mnist:DIR\n"
                "# and what was exported?\n"
                "lockstep eval models/digits --data mnist:DIR\n",
    .options = options,
    .settings_size = sizeof(struct eval_settings),
    .run = run,
};
