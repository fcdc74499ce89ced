#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/refused.h"
#include "cli/report.h"
#include "cli/rule.h"
#include "cli/saving.h"
#include "cli/session.h"
#include "cli/signals.h"
#include "cli/watchers.h"
#include "comm/comm.h"
#include "store/weights.h"

enum { EXPLAINED_STEPS = 5, WARMUP_STEPS = 5 };

struct train_settings {
    struct session_settings common;
    struct rule_settings rule;
    struct saving_settings saving;
    struct watchers_settings watch;
    const char *eval_data, *schedule, *output_dir;
    int64_t steps, eval_every;
    double epochs, warmup_epochs, eval_every_epochs, target_accuracy, stop_accuracy;
    bool explain;
};

static const struct option options[] = {
    SESSION_MODEL_OPTION(train_settings),
    OPTION_SECTION("Data"),
    OPTION_TEXT(train_settings, common.data, "data", .value = "SPEC", .environment = "DATASET_DIR",
                .aliases = "data-dir data-location", .initial_note = "the model's",
                .help = "KIND, KIND:DIR (see `lockstep datasets`), or a directory whose files tell "
                        "the kind"),
    OPTION_TEXT(train_settings, eval_data, "eval-data", .value = "SPEC",
                .initial_note = "the other split of --data; none when synthetic",
                .help = "data for evaluation; none turns it off"),
    SESSION_EXAMPLES_OPTION(train_settings),
    SESSION_READING_OPTIONS(train_settings),
    OPTION_SECTION("Network"),
    SESSION_NETWORK_OPTIONS(train_settings),
    SESSION_SCALING_OPTION(train_settings),
    OPTION_NUMBER(train_settings, common.label_smoothing, "label-smoothing", .min = 0, .max = 1,
                  .initial_note = "the model's",
                  .help = "part of each label spread over all classes"),
    OPTION_SECTION("Training"),
    SESSION_BATCH_OPTION(train_settings),
    OPTION_LONG(train_settings, steps, "steps", OPTION_AT_LEAST(1), .environment = "STEPS",
                .aliases = "num-batches max-train-steps", .initial_note = "as many as --epochs are",
                .help = "steps to train; beyond those of a checkpoint that had reached its goal"),
    OPTION_NUMBER(train_settings, epochs, "epochs", .min = 0, .max = 1e6, .value = "N",
                  .aliases = "train-epochs num-epochs num-train-epoch", .initial_note = "1",
                  .help = "passes over the data; instead of --steps"),
    OPTION_TEXT(train_settings, schedule, "schedule", .initial = "constant", .value = "SHAPE",
                .help = "of the learning rate: constant, cosine, polynomial[:POWER] or "
                        "piecewise:EPOCH=FACTOR,..."),
    OPTION_NUMBER(train_settings, warmup_epochs, "warmup-epochs", OPTION_AT_LEAST(0),
                  .initial = "0", .help = "epochs in which the rate first grows from 0"),
    OPTION_SECTION("Optimizer"),
    RULE_OPTIONS(train_settings),
    OPTION_SECTION("Checkpoints"),
    SAVING_OPTIONS(train_settings),
    OPTION_SECTION("Results"),
    OPTION_TEXT(train_settings, output_dir, "output-dir", .value = "DIR", .letter = 'o',
                .environment = "OUTPUT_DIR", .aliases = "model-dir train-dir",
                .help = "where weights.safetensors goes at the end"),
    OPTION_LONG(train_settings, eval_every, "eval-every", OPTION_AT_LEAST(0), .initial = "0",
                .initial_note = "only at the end", .help = "steps between two evaluations"),
    OPTION_NUMBER(train_settings, eval_every_epochs, "eval-every-epochs", OPTION_AT_LEAST(0),
                  .aliases = "epochs-between-evals eval-interval", .help = "the same in epochs"),
    OPTION_NUMBER(train_settings, target_accuracy, "target-accuracy", .min = 0, .max = 1,
                  .environment = "TARGET_ACCURACY",
                  .help = "fail (status 1) when the last evaluation stays below it"),
    OPTION_NUMBER(train_settings, stop_accuracy, "stop-at-accuracy", .min = 0, .max = 1,
                  .aliases = "stop-threshold stop-at-top-1-accuracy",
                  .help = "end the training when an evaluation reaches it"),
    SESSION_JSON_OPTION(train_settings),
    OPTION_FLAG(train_settings, explain, "explain",
                .help = "profile 5 steps (or --steps) and print kernel, layout, bytes and share "
                        "of the time of each operation"),
    WATCHERS_OPTIONS(train_settings),
    OPTION_SECTION("Running"),
    SESSION_RUN_OPTIONS(train_settings),
    REFUSED_IN_TRAIN,
    REFUSED_EVERYWHERE,
    OPTION_END};

/* Everything a run holds, in the order it is taken. */
struct job {
    const struct train_settings *settings;
    struct session session;
    struct session_data train, validation;
    struct rule rule;
    struct schedule schedule;
    struct saving saving;
    int64_t total_steps, evaluate_every;
    struct comm *comm;
    struct params *params;
    struct plan *plan, *evaluation_plan;
    struct updater *updater;
    struct report report;
    struct watchers watchers;
    char weights_path[PATH_MAX]; /* empty: not saved */
    char checkpoint[PATH_MAX];   /* the last one saved; empty: none */
};

static void release(struct job *job)
{
    watchers_release(&job->watchers);
    report_release(&job->report);
    saving_close(&job->saving);
    updater_destroy(job->updater);
    plan_destroy(job->evaluation_plan);
    plan_destroy(job->plan);
    params_destroy(job->params);
    comm_close(job->comm);
    session_close_data(&job->validation);
    session_close_data(&job->train);
    session_close(&job->session);
}

/* --- from options to a run ------------------------------------------------------------------ */

/* What the user said last wins over what was said elsewhere; both at once is a contradiction. */
static int choose_length(struct job *job, const struct options *parsed, struct error *err)
{
    const struct train_settings *settings = job->settings;
    enum option_source steps = options_source(parsed, "steps");
    enum option_source epochs = options_source(parsed, "epochs");
    int64_t per_epoch = loader_steps_per_epoch(job->train.source.trainer.loader);
    if (steps && steps == epochs)
        return error_set(err, ERROR_USAGE, "--steps=%" PRId64 " and --epochs=%g exclude each other",
                         settings->steps, settings->epochs);
    if (settings->explain && steps <= OPTION_FROM_RECIPE && epochs <= OPTION_FROM_RECIPE)
        job->total_steps = EXPLAINED_STEPS;
    else if (steps > epochs)
        job->total_steps = settings->steps;
    else
        job->total_steps = llround((epochs ? settings->epochs : 1) * (double)per_epoch);
    job->total_steps = saving_goal(&job->saving, job->total_steps);
    return 0;
}

static int choose_evaluations(struct job *job, const struct options *parsed, struct error *err)
{
    const struct train_settings *settings = job->settings;
    bool by_epochs = options_source(parsed, "eval-every-epochs") > OPTION_FROM_TABLE;
    int64_t per_epoch = loader_steps_per_epoch(job->train.source.trainer.loader);
    job->evaluate_every = settings->eval_every;
    if (by_epochs && options_source(parsed, "eval-every") > OPTION_FROM_TABLE)
        return error_set(err, ERROR_USAGE,
                         "--eval-every and --eval-every-epochs exclude each other");
    if (by_epochs)
        job->evaluate_every = llround(settings->eval_every_epochs * (double)per_epoch);
    if (by_epochs && settings->eval_every_epochs > 0 && job->evaluate_every < 1)
        job->evaluate_every = 1;
    return 0;
}

static bool wants_evaluation(const struct job *job)
{
    const char *spec = job->settings->eval_data;
    if (spec)
        return strcmp(spec, "none") != 0;
    return strcmp(job->train.source.kind->name, "synthetic") != 0 && !job->settings->explain;
}

static int open_data(struct job *job, struct error *err)
{
    const struct train_settings *settings = job->settings;
    if (session_open_data(&job->session, &settings->common, settings->common.data, SPLIT_TRAIN,
                          &job->train, err) < 0)
        return -1;
    const struct source *source = &job->train.source;
    if (!settings->eval_data && wants_evaluation(job) && source->kind->undivided &&
        source->kind->undivided(source->dataset))
        return error_set(err, ERROR_USAGE,
                         "%s has no part of its own for evaluation: give --eval-data=SPEC, or "
                         "--eval-data=none",
                         job->train.spec);
    const char *spec = settings->eval_data ? settings->eval_data : settings->common.data;
    if (wants_evaluation(job) && session_open_data(&job->session, &settings->common, spec,
                                                   SPLIT_EVALUATE, &job->validation, err) < 0)
        return error_wrap(err, "for evaluation (--eval-data=none turns it off)");
    return 0;
}

/* Weights and checkpoints replace their forerunner by a rename after a flush; S3 has neither, so a
 * run that is killed could leave half of one under the name of a whole. */
static int refuse_bucket(const char *directory, struct error *err)
{
    if (strncmp(directory, "s3://", 5) != 0)
        return 0;
    return error_set(err, ERROR_USAGE,
                     "--output-dir=%s: weights and checkpoints need a file system, for S3 can "
                     "neither rename nor flush; write to a directory and copy it when the run has "
                     "ended",
                     directory);
}

/* An unwritable place is found out before the training, not after. */
static int choose_output(struct job *job, struct error *err)
{
    const char *directory = job->settings->output_dir;
    if (!directory)
        return 0;
    if (refuse_bucket(directory, err) < 0)
        return -1;
    if (directory_make(directory, err) < 0)
        return error_wrap(err, "--output-dir");
    int length =
        snprintf(job->weights_path, sizeof job->weights_path, "%s/weights.safetensors", directory);
    if (length < 0 || (size_t)length >= sizeof job->weights_path)
        return error_set(err, ERROR_USAGE, "--output-dir: a path of %zu bytes is too long",
                         strlen(directory));
    if (access(directory, W_OK) < 0)
        return error_set(err, ERROR_IO, "--output-dir=%s cannot be written to", directory);
    return 0;
}

static int check_target(const struct job *job, const struct options *parsed, struct error *err)
{
    if (options_source(parsed, "target-accuracy") && !job->validation.source.trainer.loader)
        return error_set(err, ERROR_USAGE, "--target-accuracy needs an evaluation: %s",
                         job->settings->explain ? "leave --explain out" : "give --eval-data");
    if (options_source(parsed, "stop-at-accuracy") &&
        (!job->validation.source.trainer.loader || !job->evaluate_every))
        return error_set(err, ERROR_USAGE,
                         "--stop-at-accuracy needs evaluations on the way: give --eval-every "
                         "or --eval-every-epochs, and data for them");
    return 0;
}

/* Bits depend on the number of threads, so a run that goes on keeps it, unless told otherwise. */
static void keep_threads(struct job *job, const struct options *parsed)
{
    int64_t earlier = saving_earlier(&job->saving, "threads", job->session.threads);
    if (options_source(parsed, "threads") <= OPTION_FROM_TABLE && earlier > 0 &&
        earlier < job->session.threads)
        job->session.threads = (int)earlier;
}

static int open_checkpoints(struct job *job, const struct options *parsed, struct error *err)
{
    if (saving_open(&job->saving, parsed, &job->settings->saving, job->session.model->name, err) <
        0)
        return -1;
    keep_threads(job, parsed);
    return 0;
}

static int prepare(struct job *job, struct options *parsed, struct train_settings *settings,
                   struct error *err)
{
    if (ranks_refuse_several(err) < 0 ||
        session_open(&job->session, parsed, SESSION_WHOLE_RECIPE, &settings->common, err) < 0 ||
        rule_resolve_groups(parsed, &settings->rule, job->session.recipe, settings->common.batch,
                            &job->rule, err) < 0 ||
        session_build(&job->session, parsed, &settings->common, err) < 0 ||
        open_checkpoints(job, parsed, err) < 0 || choose_output(job, err) < 0 ||
        open_data(job, err) < 0 || choose_length(job, parsed, err) < 0 ||
        choose_evaluations(job, parsed, err) < 0 || check_target(job, parsed, err) < 0)
        return -1;
    return schedule_parse(settings->schedule, job->rule.rate, settings->warmup_epochs,
                          loader_steps_per_epoch(job->train.source.trainer.loader),
                          job->total_steps, &job->schedule, err);
}

/* --- making what runs ----------------------------------------------------------------------- */

static int make_plans(struct job *job, struct error *err)
{
    struct plan_options plan = {.mode = PLAN_TRAIN,
                                .batch = job->settings->common.batch,
                                .threads = job->session.threads,
                                .profile = job->settings->explain};
    if (params_create(job->session.graph,
                      updater_slots_needed(job->rule.groups, job->rule.group_count), NULL,
                      &job->params, err) < 0 ||
        plan_create(job->session.graph, job->params, &plan, &job->plan, err) < 0)
        return -1;
    if (!job->validation.source.trainer.loader)
        return 0;
    plan.mode = PLAN_EVALUATE;
    plan.profile = false;
    return plan_create(job->session.graph, job->params, &plan, &job->evaluation_plan, err);
}

static int make_watchers(struct job *job, const struct options *parsed, struct error *err)
{
    struct watchers_run run = {.command = "train",
                               .model = job->session.model->name,
                               .data = job->train.spec,
                               .options = parsed,
                               .graph = job->session.graph,
                               .plan = job->plan,
                               .output_dir = job->settings->output_dir,
                               .total_steps = job->total_steps,
                               .batch = plan_batch(job->plan),
                               .threads = job->session.threads};
    return watchers_create(&job->settings->watch, &run, &job->watchers, err);
}

static int start_saving(struct job *job, const struct options *parsed, struct error *err)
{
    struct saving_run run = {.options = parsed,
                             .session = &job->session,
                             .data = job->train.spec,
                             .rate = job->rule.rate,
                             .goal = job->total_steps,
                             .steps_per_epoch =
                                 loader_steps_per_epoch(job->train.source.trainer.loader),
                             .params = job->params,
                             .updater = job->updater,
                             .plan = job->plan};
    return saving_start(&job->saving, &run, err);
}

static int64_t first_step(const struct job *job)
{
    return job->saving.resumed ? job->saving.manifest.step : 0;
}

static int make(struct job *job, const struct options *parsed, struct error *err)
{
    int64_t steps = job->total_steps - first_step(job);
    int64_t warmup = steps / 2 < WARMUP_STEPS ? steps / 2 : WARMUP_STEPS;
    if (make_plans(job, err) < 0 ||
        params_initialize(job->params, (uint64_t)job->settings->common.seed, err) < 0 ||
        session_fill_statistics(&job->session, &job->settings->common, &job->train, job->params,
                                err) < 0 ||
        updater_create(job->params, job->rule.groups, job->rule.group_count, job->session.threads,
                       &job->updater, err) < 0 ||
        comm_open(&job->comm, err) < 0 || report_init(&job->report, steps, warmup, err) < 0)
        return -1;
    updater_initialize_slots(job->updater);
    if (start_saving(job, parsed, err) < 0)
        return -1;
    return make_watchers(job, parsed, err);
}

static void observe(void *context, const struct train_event *event)
{
    struct job *job = context;
    report_observe(&job->report, event);
    if (event->kind == TRAIN_SAVED)
        snprintf(job->checkpoint, sizeof job->checkpoint, "%s", event->path);
    watchers_observe(&job->watchers, event);
}

static int train(struct job *job, const atomic_int *stop_signal, struct error *err)
{
    struct trainer_inputs inputs = {
        .graph = job->session.graph,
        .plan = job->plan,
        .train = job->train.source.trainer,
        .evaluation_plan = job->evaluation_plan,
        .validation = job->validation.source.trainer,
        .updater = job->updater,
        .schedule = &job->schedule,
        .comm = job->comm,
        .seed = (uint64_t)job->settings->common.seed,
        .first_step = first_step(job),
        .total_steps = job->total_steps,
        .evaluate_every = job->evaluate_every,
        .stop_accuracy = job->settings->stop_accuracy,
        .saving = saving_for_trainer(&job->saving),
        .stop_signal = stop_signal,
    };
    return trainer_run(&inputs, observe, job, err);
}

/* --- results -------------------------------------------------------------------------------- */

static int save_weights(const struct job *job, struct error *err)
{
    if (!*job->weights_path)
        return 0;
    if (!updater_weights_finite(job->updater))
        return error_set(err, ERROR_NUMERIC,
                         "the weights are not finite after step %" PRId64 " and were not saved; a "
                         "lower --lr may help",
                         job->report.steps);
    return weights_save(job->weights_path, job->session.model->name, job->params, err);
}

/* Nothing was changed by the step that failed, so what is saved is the last good one. */
static int save_after_failure(const struct job *job, struct error *err)
{
    struct error saving = {0};
    if (err->code == ERROR_NUMERIC && job->report.steps && *job->weights_path &&
        save_weights(job, &saving) == 0)
        log_line(LOG_INFO, "the weights of step %" PRId64 " are saved in %s", job->report.steps,
                 job->weights_path);
    else if (saving.code)
        log_line(LOG_WARNING, "%s", saving.message);
    return -1;
}

static bool gate_met(const struct job *job)
{
    return job->report.evaluated &&
           job->report.evaluation.accuracy >= job->settings->target_accuracy;
}

static void describe_gate(const struct job *job, bool gated, struct json *json)
{
    json_set_number(json, "target_accuracy", gated ? job->settings->target_accuracy : NAN);
    if (gated)
        json_set_bool(json, "target_met", gate_met(job));
}

static int write_json(const struct job *job, bool gated, struct error *err)
{
    struct json *json = json_object_create();
    if (!json)
        return error_set(err, ERROR_MEMORY, "no memory for the JSON output");
    session_describe(&job->session, job->train.spec, job->plan, json);
    report_describe(&job->report, plan_batch(job->plan), json);
    json_set_text(json, "optimizer", rule_rest(&job->rule)->optimizer->name);
    json_set_number(json, "learning_rate", job->schedule.base_rate);
    json_set_integer(json, "seed", job->settings->common.seed);
    session_describe_input(&job->train, json);
    describe_gate(job, gated, json);
    json_set_bool(json, "interrupted", signals_status() != 0);
    json_set_integer(json, "first_step", first_step(job));
    json_set_integer(json, "last_step", first_step(job) + job->report.steps);
    json_set_integer(json, "goal", job->total_steps);
    json_set_text(json, "checkpoint", *job->checkpoint ? job->checkpoint : NULL);
    json_set_number(json, "export", NAN); /* null until there is one */
    if (*job->weights_path)
        json_set_text(json, "weights", job->weights_path);
    int status = output_json(json, job->settings->common.json, err);
    json_release(json);
    return status;
}

static void print_scores(const struct job *job, FILE *out)
{
    const struct report *report = &job->report;
    struct report_speed speed;
    int batch = plan_batch(job->plan);
    report_measure(report, batch, &speed);
    int64_t steps = job->total_steps - first_step(job);
    if (report->steps < steps)
        fprintf(out, "Stopped after %" PRId64 " of ", report->steps);
    fprintf(out, "%" PRId64 " steps, %" PRId64 " examples in %.1f s", steps, report->examples,
            report->seconds);
    if (speed.steps)
        fprintf(out, ", %.1f examples/s", batch / speed.median_step_seconds);
    fprintf(out, "\n");
    if (!report->steps)
        return;
    const struct train_event *scores = report->evaluated ? &report->evaluation : &report->last_step;
    fprintf(out, "%s: %.4f\n", report->evaluated ? "Loss" : "Loss of the last step", scores->loss);
    if (report->evaluated && !isnan(scores->accuracy))
        fprintf(out, "Accuracy: %.4f\n", scores->accuracy);
    if (report->evaluated)
        report_binary(scores->accuracy, scores->majority, scores->auc, scores->log_loss, out);
    if (*job->weights_path)
        fprintf(out, "Weights: %s\n", job->weights_path);
    if (*job->checkpoint)
        fprintf(out, "Checkpoint: %s\n", job->checkpoint);
}

/* The words that scripts around the original programs look for. */
static void print_gate(const struct job *job, FILE *out)
{
    double target = job->settings->target_accuracy;
    fprintf(out, "Target Accuracy: %g\n", target);
    if (!job->report.evaluated)
        fprintf(out, "Unable to find accuracy metric in the log file\n");
    else
        fprintf(out, "Accuracy of %.4f %s the target accuracy of %g\n",
                job->report.evaluation.accuracy, gate_met(job) ? "met" : "did not meet", target);
}

static int print_explanation(const struct job *job, FILE *out, struct error *err)
{
    struct strbuf text;
    strbuf_init(&text);
    plan_explain(job->plan, &text);
    int status = text.failed ? error_set(err, ERROR_MEMORY, "no memory for the explanation") : 0;
    if (status == 0)
        fputs(text.text, out);
    strbuf_release(&text);
    return status;
}

static int finish(struct job *job, bool gated, struct error *err)
{
    const char *json = job->settings->common.json;
    FILE *out = json && !strcmp(json, "-") ? stderr : stdout;
    bool interrupted = signals_status() != 0;
    if (save_weights(job, err) < 0)
        return -1;
    if (job->settings->explain && print_explanation(job, out, err) < 0)
        return -1;
    if (!job->settings->watch.quiet || out == stdout)
        print_scores(job, out);
    if (gated && !interrupted)
        print_gate(job, out);
    session_warn_of_bad(&job->train);
    session_warn_of_bad(&job->validation);
    if (json && write_json(job, gated, err) < 0)
        return -1;
    if (interrupted)
        return signals_status();
    return gated && !gate_met(job) ? STATUS_FAILED : STATUS_DONE;
}

static int run(struct options *parsed, void *settings, struct error *err)
{
    struct job job = {.settings = settings, .saving = SAVING_NONE};
    int status = -1;
    if (prepare(&job, parsed, settings, err) < 0 || make(&job, parsed, err) < 0)
        goto out;
    if (train(&job, signals_catch(), err) < 0) {
        status = save_after_failure(&job, err);
        goto out;
    }
    watchers_end_line(&job.watchers);
    status = finish(&job, options_source(parsed, "target-accuracy") > OPTION_FROM_NOTHING, err);
out:
    release(&job);
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
        "Ctrl-C or SIGTERM ends the run after the step in flight; with --output-dir the weights "
        "are saved. A loss or gradient that is not a number stops it, too, and the weights of the "
        "last good step are kept.",
    .examples = "# two passes over MNIST, fail below 98.8 %\n"
                "lockstep train mnist_custom --data mnist:DIR --epochs 2 --target-accuracy 0.988\n"
                "# where does the time of a ResNet-50 step go?\n"
                "lockstep train resnet50 --data synthetic --batch-size 32 --explain\n",
    .options = options,
    .settings_size = sizeof(struct train_settings),
    .run = run,
};
