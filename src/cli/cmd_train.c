#include <inttypes.h>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "cli/command.h"
#include "cli/gate.h"
#include "cli/output.h"
#include "cli/refused.h"
#include "cli/results.h"
#include "cli/signals.h"
#include "cli/training.h"

static const struct option options[] = {
    SESSION_MODEL_OPTION(training_settings),
    TRAINING_OPTIONS,
    OPTION_FLAG(training_settings, explain, "explain",
                .help = "profile 5 steps (or --steps) and print kernel, layout, bytes and share "
                        "of the time of each operation"),
    OPTION_FLAG(training_settings, timeline, "timeline",
                .help = "take the time of each operation, and add to --json when in a step each "
                        "gradient is final: what `lockstep plan` predicts larger runs from"),
    OPTION_SECTION("Running"),
    SESSION_RUN_OPTIONS(training_settings),
    SESSION_PLAN_OPTIONS(training_settings),
    REFUSED_IN_TRAIN,
    REFUSED_EVERYWHERE,
    OPTION_END};

/* Nothing was changed by the step that failed, so what is saved is the last good one. */
static int save_after_failure(const struct training *training, struct error *err)
{
    struct error saving = {0};
    if (err->code == ERROR_NUMERIC && training->report.steps && *training->weights_path &&
        results_save_weights(training, &saving) == 0)
        log_line(LOG_INFO, "the weights of step %" PRId64 " are saved in %s", training->step,
                 training->weights_path);
    else if (saving.code)
        log_line(LOG_WARNING, "%s", saving.message);
    return -1;
}

static int write_json(const struct training *training, const struct gate *gate, struct error *err)
{
    struct json *json = json_object_create();
    if (!json)
        return error_set(err, ERROR_MEMORY, "no memory for the JSON output");
    results_describe(training, json);
    gate_describe(gate, &training->report, json);
    int status = output_json(json, training->settings->common.json, err);
    json_release(json);
    return status;
}

static int print_explanation(const struct training *training, FILE *out, struct error *err)
{
    struct strbuf text;
    strbuf_init(&text);
    plan_explain(training->plan, &text);
    int status = text.failed ? error_set(err, ERROR_MEMORY, "no memory for the explanation") : 0;
    if (status == 0)
        fputs(text.text, out);
    strbuf_release(&text);
    return status;
}

static int print_results(const struct training *training, const struct gate *gate,
                         struct error *err)
{
    FILE *out = training_output(training);
    if (training->settings->explain && print_explanation(training, out, err) < 0)
        return -1;
    if (!training->settings->watch.quiet || out == stdout) {
        results_print_scores(training, out);
        results_print_places(training, out);
    }
    if (!training_interrupted(training))
        gate_print(gate, &training->report, out);
    session_warn_of_bad(&training->train);
    session_warn_of_bad(&training->validation);
    return 0;
}

/* Only what is finished and passed the gate is for others. */
static int export_passed(struct training *training, const struct gate *gate, struct error *err)
{
    bool passed = gate_passes(gate_judge(gate, &training->report));
    return passed && !training_interrupted(training) ? results_export(training, err) : 0;
}

static int finish(struct training *training, struct error *err)
{
    struct gate gate = gate_from(training->options, training->settings->target_accuracy);
    if (results_save_weights(training, err) < 0 || export_passed(training, &gate, err) < 0 ||
        print_results(training, &gate, err) < 0 ||
        (training->settings->common.json && write_json(training, &gate, err) < 0))
        return -1;
    if (training_interrupted(training))
        return training_interrupted(training);
    return gate_passes(gate_judge(&gate, &training->report)) ? STATUS_DONE : STATUS_FAILED;
}

/* Where only the last checkpoint could not be saved, everything else is there to be kept. */
static int end_after_failure(struct training *training, struct error *err)
{
    struct error ignored = {0};
    if (!training->report.steps || training->step < training->goal || err->code == ERROR_NUMERIC)
        return save_after_failure(training, err);
    if (finish(training, &ignored) < 0)
        log_line(LOG_WARNING, "%s", ignored.message);
    return -1;
}

static enum run_outcome outcome_of(int status)
{
    if (status == 0)
        return RUN_FINISHED;
    return signals_status() ? RUN_INTERRUPTED : RUN_FAILED;
}

static int run(struct options *parsed, void *settings, struct error *err)
{
    const struct training_settings *wanted = settings;
    struct training training = TRAINING_OF("train");
    int status = -1, member = 0;
    if (members_take_over(parsed, wanted, &member, err))
        return member;
    if (wanted->timeline && !wanted->common.json)
        return error_set(err, ERROR_USAGE, "--timeline is a part of the results: give --json=FILE");
    if (training_open(&training, parsed, settings, err) == 0)
        status = training_run(&training, err) < 0 ? end_after_failure(&training, err)
                 : training.paused                ? STATUS_DONE
                                                  : finish(&training, err);
    training_note(&training, status, err);
    training_end(&training, training.paused ? RUN_INTERRUPTED : outcome_of(status));
    training_release(&training);
    return status;
}

const struct command command_train = {
    .name = "train",
    .order = 10,
    .summary = "train a network",
    .description =
        "Trains MODEL on its data, shows the progress on standard error and prints the results. "
        "Options that are not given take the values of the model's recipe (`lockstep models`).\n"
        "\n"
        "Ctrl-C or SIGTERM abandons the step in flight and ends the run; with --checkpoint-dir the "
        "last finished step is saved, with --output-dir its weights. A loss or gradient that is "
        "not a number stops it, too, and the weights of the "
        "last good step are kept.\n"
        "\n"
        "MLflow is told about the run when MLFLOW_TRACKING_URI names a server, and Kubeflow "
        "Trainer in a pod of a TrainJob. Neither can hold the training up.",
    .examples = "# two passes over MNIST, fail below 98.8 %\n"
                "lockstep train mnist_custom --data mnist:DIR --epochs 2 --target-accuracy 0.988\n"
                "# where does the time of a ResNet-50 step go?\n"
                "lockstep train resnet50 --data synthetic --batch-size 32 --explain\n",
    .options = options,
    .settings_size = sizeof(struct training_settings),
    .run = run,
};
