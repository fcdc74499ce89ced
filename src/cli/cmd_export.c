#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "cli/command.h"
#include "cli/exporting.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/session.h"
#include "cli/stored_weights.h"
#include "exec/params.h"
#include "exec/plan.h"

struct export_settings {
    struct session_settings common;
    struct exporting_settings exporting;
    const char *weights;
};

static const struct option options[] = {
    OPTION_ARGUMENT(export_settings, weights, "WEIGHTS", .required = true,
                    .aliases = "weights checkpoint checkpoint-dir model-dir",
                    .help = "what `train` wrote: a checkpoint, a directory of them (the newest is "
                            "taken; DIR/best is the best), or weights.safetensors"),
    EXPORTING_DIRECTORY_OPTION(export_settings, .aliases = "output-dir export-path",
                               .help = "gets the next version, DIR/1, DIR/2, ...: a SavedModel "
                                       "and an ONNX file"),
    EXPORTING_OPTIONS(export_settings),
    OPTION_SECTION("Network"),
    OPTION_TEXT(export_settings, common.model, "model", .value = "MODEL", .aliases = "model-name",
                .initial_note = "as the weights say",
                .help = "a network of `lockstep models`, or a shared object that defines one"),
    OPTION_TEXT(export_settings, common.data, "data", .value = "SPEC",
                .initial_note = "as the checkpoint says",
                .help = "what it was trained with: tables name their columns, class folders the "
                        "classes"),
    SESSION_NETWORK_OPTIONS(export_settings),
    OPTION_SECTION("Results"),
    SESSION_JSON_OPTION(export_settings),
    OPTION_END};

struct job {
    struct arena *arena; /* of what the weights say */
    struct session session;
    struct params *params;
    struct plan *plan;
    struct export_result result;
};

/* Only data that says something about the network is looked at again. */
static const char *useful_data(const char *spec)
{
    return spec && (!strncmp(spec, "table:", 6) || !strncmp(spec, "images:", 7)) ? spec : NULL;
}

static int open_network(struct job *job, struct options *parsed, struct export_settings *settings,
                        struct error *err)
{
    struct session *session = &job->session;
    struct stored_weights stored;
    job->arena = arena_create();
    if (!job->arena)
        return error_set(err, ERROR_MEMORY, "no memory to start with");
    if (stored_weights_find(settings->weights, job->arena, &stored, err) < 0)
        return -1;
    if (!settings->common.model)
        settings->common.model = stored.model;
    if (!settings->common.model)
        return error_set(err, ERROR_USAGE, "%s does not say of which network: give --model=MODEL",
                         settings->weights);
    if (!settings->common.data)
        settings->common.data = useful_data(stored.data);
    if (options_apply_recipe(parsed, stored.recipe, job->arena, err) < 0 ||
        session_open(session, parsed, SESSION_PART_OF_RECIPE, &settings->common, err) < 0)
        return -1;
    return session_build(session, parsed, &settings->common, err);
}

static int export(struct job *job, struct options *parsed, struct export_settings *settings,
                  struct error *err)
{
    struct plan_options plan = {.mode = PLAN_EVALUATE, .batch = 1};
    if (!settings->exporting.directory)
        return error_set(err, ERROR_USAGE, "where to? Give --export-dir=DIR");
    if (ranks_refuse_several(err) < 0 || exporting_check(&settings->exporting, err) < 0 ||
        open_network(job, parsed, settings, err) < 0)
        return -1;
    plan.threads = job->session.threads;
    if (params_create(job->session.graph, 0, NULL, &job->params, err) < 0 ||
        plan_create(job->session.graph, job->params, &plan, &job->plan, err) < 0 ||
        stored_weights_load(settings->weights, job->params, err) < 0)
        return -1;
    return exporting_write(&settings->exporting, &job->session, settings->common.data, job->params,
                           &job->result, err);
}

static int write_json(const struct job *job, const char *target, struct error *err)
{
    struct json *json = json_object_create();
    if (!json)
        return error_set(err, ERROR_MEMORY, "no memory for the JSON output");
    json_set_text(json, "model", job->session.model->name);
    json_set_integer(json, "parameters", graph_parameter_elements(job->session.graph));
    json_set_text(json, "export", job->result.path);
    json_set_integer(json, "export_version", job->result.version);
    json_set_bool(json, "onnx", job->result.onnx);
    json_set_text(json, "version", LOCKSTEP_VERSION);
    int status = output_json(json, target, err);
    json_release(json);
    return status;
}

static int run(struct options *parsed, void *settings, struct error *err)
{
    struct export_settings *wanted = settings;
    const char *target = wanted->common.json;
    struct job job = {0};
    int status = export(&job, parsed, settings, err);
    if (status == 0 && (!target || strcmp(target, "-") != 0))
        printf("Model exported to %s\n", job.result.path);
    if (status == 0 && target)
        status = write_json(&job, target, err);
    plan_destroy(job.plan);
    params_destroy(job.params);
    session_close(&job.session);
    arena_destroy(job.arena);
    return status;
}

const struct command command_export = {
    .name = "export",
    .order = 22,
    .summary = "write a SavedModel and an ONNX file",
    .description =
        "Writes what `train` saved as the next version in a directory that servers watch: "
        "DIR/N/ with saved_model.pb and variables/ for TensorFlow and TensorFlow Serving, and "
        "model.onnx for onnxruntime. A version appears by one rename when all of it is on the "
        "disk.\n"
        "\n"
        "A checkpoint knows its network; weights.safetensors knows its name, not its options "
        "(--classes, --hidden, ...), which are given as for `train`.",
    .examples = "# the best checkpoint of a run\n"
                "lockstep export run/best --export-dir models/digits\n"
                "# what TensorFlow sees\n"
                "saved_model_cli show --dir models/digits/1 --all\n",
    .options = options,
    .settings_size = sizeof(struct export_settings),
    .run = run,
};
