#include "cli/training.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/files.h"
#include "base/stop.h"
#include "cli/signals.h"
#include "train/bucket_tuner.h"

enum { EXPLAINED_STEPS = 5, WARMUP_STEPS = 5 };

static void destroy_network(struct training *training)
{
    updater_destroy(training->updater);
    plan_destroy(training->evaluation_plan);
    ranks_destroy_plans(&training->ranks);
    plan_destroy(training->plan);
    params_destroy(training->params);
    training->updater = NULL;
    training->plan = training->evaluation_plan = NULL;
    training->params = NULL;
}

void training_release(struct training *training)
{
    display_release(&training->display);
    reductions_destroy(training->reductions);
    timeline_destroy(training->timeline);
    watchers_release(&training->watchers);
    report_release(&training->report);
    saving_close(&training->saving);
    destroy_network(training);
    keeping_finish(&training->keeping); /* leaving the group may end the process */
    ranks_close(&training->ranks, training->leaves);
    keeping_close(&training->keeping);
    if (training->nowhere)
        fclose(training->nowhere);
    session_close_data(&training->validation);
    session_close_data(&training->train);
    session_close(&training->session);
}

FILE *training_output(const struct training *training)
{
    const char *json = training->settings->common.json;
    if (training->nowhere)
        return training->nowhere;
    return json && !strcmp(json, "-") ? stderr : stdout;
}

static int64_t steps_per_epoch(const struct training *training)
{
    return loader_steps_per_epoch(training->train.source.trainer.loader);
}

/* --- from options to a run ------------------------------------------------------------------ */

/* What the user said wins over what was said elsewhere. Steps and epochs said in one breath limit
 * each other, as max_train_steps and train_epochs of imagenet_main do. */
static void choose_length(struct training *training)
{
    const struct training_settings *settings = training->settings;
    enum option_source steps = settings->steps ? options_source(training->options, "steps") : 0;
    enum option_source epochs = options_source(training->options, "epochs");
    int64_t by_epochs =
        llround((epochs ? settings->epochs : 1) * (double)steps_per_epoch(training));
    if (settings->explain && steps <= OPTION_FROM_RECIPE && epochs <= OPTION_FROM_RECIPE)
        training->asked = EXPLAINED_STEPS;
    else if (steps > epochs || (steps && steps == epochs && settings->steps < by_epochs))
        training->asked = settings->steps;
    else
        training->asked = by_epochs;
    training->step = training->saving.resumed ? training->saving.manifest.step : 0;
    training->first_step = training->step;
    training->origin = saving_origin(&training->saving);
    training->goal = saving_goal(&training->saving, training->asked);
}

static int choose_evaluations(struct training *training, const struct options *parsed,
                              struct error *err)
{
    const struct training_settings *settings = training->settings;
    bool by_epochs = options_source(parsed, "eval-every-epochs") > OPTION_FROM_TABLE;
    training->evaluate_every = settings->eval_every;
    if (by_epochs && options_source(parsed, "eval-every") > OPTION_FROM_TABLE)
        return error_set(err, ERROR_USAGE,
                         "--eval-every and --eval-every-epochs exclude each other");
    if (by_epochs)
        training->evaluate_every =
            llround(settings->eval_every_epochs * (double)steps_per_epoch(training));
    if (by_epochs && settings->eval_every_epochs > 0 && training->evaluate_every < 1)
        training->evaluate_every = 1;
    return 0;
}

static bool wants_evaluation(const struct training *training)
{
    const char *spec = training->settings->eval_data;
    if (spec)
        return strcmp(spec, "none") != 0;
    return strcmp(training->train.source.kind->name, "synthetic") != 0 &&
           !training->settings->explain;
}

static int open_data(struct training *training, struct error *err)
{
    const struct training_settings *settings = training->settings;
    if (session_open_data(&training->session, &settings->common, settings->common.data, SPLIT_TRAIN,
                          &training->train, err) < 0)
        return -1;
    const struct source *source = &training->train.source;
    if (!settings->eval_data && wants_evaluation(training) && source->kind->undivided &&
        source->kind->undivided(source->dataset))
        return error_set(err, ERROR_USAGE,
                         "%s has no part of its own for evaluation: give --eval-data=SPEC, or "
                         "--eval-data=none",
                         training->train.spec);
    const char *spec = settings->eval_data ? settings->eval_data : settings->common.data;
    if (wants_evaluation(training) &&
        session_open_data(&training->session, &settings->common, spec, SPLIT_EVALUATE,
                          &training->validation, err) < 0)
        return error_wrap(err, "for evaluation (--eval-data=none turns it off)");
    return 0;
}

/* An unwritable place is found out before the training, not after. */
static int choose_output(struct training *training, struct error *err)
{
    const char *directory = training->settings->output_dir;
    if (!directory)
        return 0;
    if (saving_refuse_bucket("output-dir", directory, err) < 0)
        return -1;
    if (directory_make(directory, err) < 0)
        return error_wrap(err, "--output-dir");
    int length = snprintf(training->weights_path, sizeof training->weights_path,
                          "%s/weights.safetensors", directory);
    if (length < 0 || (size_t)length >= sizeof training->weights_path)
        return error_set(err, ERROR_USAGE, "--output-dir: a path of %zu bytes is too long",
                         strlen(directory));
    if (access(directory, W_OK) < 0)
        return error_set(err, ERROR_IO, "--output-dir=%s cannot be written to", directory);
    return 0;
}

static int check_target(const struct training *training, const struct options *parsed,
                        struct error *err)
{
    if (options_source(parsed, "target-accuracy") && !training->validation.source.trainer.loader)
        return error_set(err, ERROR_USAGE, "--target-accuracy needs an evaluation: %s",
                         training->settings->explain ? "leave --explain out" : "give --eval-data");
    if (options_source(parsed, "stop-at-accuracy") &&
        (!training->validation.source.trainer.loader || !training->evaluate_every))
        return error_set(err, ERROR_USAGE,
                         "--stop-at-accuracy needs evaluations on the way: give --eval-every "
                         "or --eval-every-epochs, and data for them");
    return 0;
}

/* Bits depend on the number of threads, so a run that goes on keeps it, unless told otherwise. */
static void keep_threads(struct training *training, const struct options *parsed)
{
    int64_t earlier = saving_earlier(&training->saving, "threads", training->session.threads);
    if (options_source(parsed, "threads") <= OPTION_FROM_TABLE && earlier > 0 &&
        earlier < training->session.threads)
        training->session.threads = (int)earlier;
}

/* What was found in the first steps of all is not looked for again. */
static void keep_bucket(struct training *training)
{
    struct trainer_ranks *ranks = &training->ranks.trainer;
    if (!training->saving.resumed || !ranks->tune_buckets ||
        !training->saving.manifest.bucket_bytes)
        return;
    ranks->bucket_bytes = (size_t)training->saving.manifest.bucket_bytes;
    ranks->tune_buckets = false;
}

static int open_checkpoints(struct training *training, const struct options *parsed,
                            struct error *err)
{
    const struct ranks *ranks = &training->ranks;
    if (ranks->rank == 0 && saving_open(&training->saving, parsed, &training->settings->saving,
                                        training->session.model->name, err) < 0)
        return -1;
    if (saving_share(&training->saving, ranks->trainer.comm, err) < 0 ||
        keeping_choose(&training->keeping, ranks, parsed, &training->session, &training->saving,
                       err) < 0)
        return -1;
    if (!ranks->trainer.shards) /* whose bits do not depend on it */
        keep_threads(training, parsed);
    keep_bucket(training);
    return 0;
}

static int parse_schedule(struct training *training, struct error *err)
{
    const struct training_settings *settings = training->settings;
    if (schedule_parse(settings->schedule, training->rule.rate, settings->warmup_epochs,
                       steps_per_epoch(training), training->goal, &training->schedule, err) < 0)
        return -1;
    training->schedule.origin = training->origin;
    return 0;
}

/* Only the first of several ranks writes files and prints results. */
static int meet(struct training *training, struct training_settings *settings, struct error *err)
{
    if (keeping_open(&training->keeping, err) < 0 ||
        ranks_open(&training->ranks, training->options, &settings->ranks, &training->session.deal,
                   err) < 0)
        return -1;
    if (training->ranks.rank == 0)
        return 0;
    settings->common.json = settings->output_dir = NULL;
    settings->exporting = (struct exporting_settings){0};
    settings->display_every = 0;
    training->nowhere = fopen("/dev/null", "w");
    return training->nowhere ? 0 : error_set(err, ERROR_IO, "/dev/null: %s", strerror(errno));
}

static int prepare(struct training *training, struct options *parsed,
                   struct training_settings *settings, struct error *err)
{
    struct session *session = &training->session;
    if (watchers_check(&settings->watch, err) < 0 || meet(training, settings, err) < 0 ||
        session_open(session, parsed, SESSION_WHOLE_RECIPE, &settings->common, err) < 0 ||
        ranks_divide(&training->ranks, parsed, &settings->ranks, &settings->common.batch, session,
                     err) < 0 ||
        rule_resolve_groups(parsed, &settings->rule, session->recipe, training->ranks.global_batch,
                            &training->rule, err) < 0 ||
        session_build(session, parsed, &settings->common, err) < 0 ||
        open_checkpoints(training, parsed, err) < 0 || choose_output(training, err) < 0 ||
        exporting_check(&settings->exporting, err) < 0 || open_data(training, err) < 0 ||
        choose_evaluations(training, parsed, err) < 0 || check_target(training, parsed, err) < 0)
        return -1;
    choose_length(training);
    return parse_schedule(training, err);
}

/* --- making what runs ----------------------------------------------------------------------- */

static int make_plans(struct training *training, struct error *err)
{
    const struct training_settings *settings = training->settings;
    if (session_check_kernels(&training->session, &settings->common, training->ranks.threads, err) <
        0)
        return -1;
    struct plan_options plan = {.mode = PLAN_TRAIN,
                                .batch = settings->common.batch,
                                .threads = training->ranks.threads,
                                .recompute = settings->common.recompute,
                                .kernels = training->session.kernels,
                                .profile =
                                    settings->explain || settings->timeline ||
                                    watchers_want_profile(&settings->watch, settings->output_dir)};
    if (params_create(training->session.graph,
                      updater_slots_needed(training->rule.groups, training->rule.group_count),
                      keeping_memory(&training->keeping), &training->params, err) < 0 ||
        plan_create(training->session.graph, training->params, &plan, &training->plan, err) < 0)
        return -1;
    session_warn_of_plan(&training->session, &settings->common, training->plan);
    if (ranks_make_plans(&training->ranks, &training->session, training->params, &plan, err) < 0)
        return -1;
    if (!training->validation.source.trainer.loader)
        return 0;
    plan.mode = PLAN_EVALUATE;
    plan.kernels = NULL; /* which were measured over all passes; and eval has none */
    plan.profile = false;
    return plan_create(training->session.graph, training->params, &plan, &training->evaluation_plan,
                       err);
}

static int start_saving(struct training *training, struct error *err)
{
    struct saving_run run = {.options = training->options,
                             .session = &training->session,
                             .data = training->train.spec,
                             .rate = training->rule.rate,
                             .goal = training->goal,
                             .global_batch = training->ranks.global_batch,
                             .steps_per_epoch = steps_per_epoch(training),
                             .sharded = training->ranks.trainer.shards > 0,
                             .params = training->params,
                             .updater = training->updater,
                             .plan = training->plan};
    if (training->ranks.rank == 0 && saving_start(&training->saving, &run, err) < 0)
        return -1;
    /* Weights of a file may differ from machine to machine: the first rank's count. */
    bool differ = training->saving.resumed || training->session.args.file;
    if (differ && !training->saving.from_memory &&
        ranks_share(&training->ranks, training->params, training->updater, 0,
                    training->ranks.rank == 0, err) < 0)
        return -1;
    return keeping_start(&training->keeping, &training->ranks, &training->saving, &run, err);
}

/* Everything that has a place in the slabs. */
static int make_network(struct training *training, struct error *err)
{
    if (make_plans(training, err) < 0 ||
        updater_create(training->params, training->rule.groups, training->rule.group_count,
                       training->session.threads, &training->updater, err) < 0)
        return -1;
    return keeping_attach(&training->keeping, training->params, training->plan, training->updater,
                          err);
}

/* Numbers to start with, unless they are there. */
static int fill_network(struct training *training, struct error *err)
{
    const struct session_settings *common = &training->settings->common;
    if (training->keeping.holds)
        return 0;
    if (params_initialize(training->params, (uint64_t)common->seed, err) < 0 ||
        session_fill_statistics(&training->session, common, &training->train, training->params,
                                err) < 0)
        return -1;
    updater_initialize_slots(training->updater);
    return 0;
}

static int make(struct training *training, struct error *err)
{
    int status = make_network(training, err);
    if (status < 0 && keeping_misfits(&training->keeping, err)) {
        destroy_network(training);
        status = keeping_drop(&training->keeping, err) == 0 ? make_network(training, err) : -1;
    }
    if (status < 0 || fill_network(training, err) < 0 ||
        ranks_compare(&training->ranks, training->options, &training->session, training->plan,
                      &training->train.source, &training->validation.source, err) < 0)
        return -1;
    if (training->saving.resumed && training->ranks.rank == 0)
        snprintf(training->checkpoint, sizeof training->checkpoint, "%s", training->saving.path);
    return start_saving(training, err);
}

int training_open(struct training *training, struct options *options,
                  struct training_settings *settings, struct error *err)
{
    training->settings = settings;
    training->options = options;
    training->leaves = true;
    if (prepare(training, options, settings, err) < 0 || make(training, err) < 0)
        return -1;
    training->leaves = false;
    /* With others, the first step tells whether one of them was asked to stop; and what memory kept
     * is to be saved first. */
    return training->ranks.size > 1 || training->keeping.returned
               ? 0
               : stop_check(training->session.stop, err);
}

/* --- running -------------------------------------------------------------------------------- */

/* Not counted in times. */
static int64_t warmup_steps(const struct training *training)
{
    int64_t half = (training->goal - training->step) / 2;
    if (options_source(training->options, "num-warmup-batches") > OPTION_FROM_NOTHING)
        return training->settings->warmup_batches;
    return half < WARMUP_STEPS ? half : WARMUP_STEPS;
}

/* After these, steps are as they will be: a timeline of trials with buckets would mislead. */
static int64_t unsettled_steps(const struct training *training)
{
    int64_t trials = bucket_tuner_steps(), left = training->goal - training->step;
    bool tunes = training->ranks.size > 1 && training->ranks.trainer.tune_buckets;
    return tunes && left >= 2 * trials ? trials : warmup_steps(training);
}

static int make_report(struct training *training, struct error *err)
{
    report_release(&training->report);
    return report_init(&training->report, training->goal - training->step, warmup_steps(training),
                       err);
}

/* Lines on standard output and a progress that moves would get into each other's way. */
static int make_watchers(struct training *training, struct error *err)
{
    if (training->watched)
        return 0;
    struct watchers_settings settings = training->settings->watch;
    settings.quiet |= training->settings->display_every > 0 && !settings.verbose;
    struct watchers_run run = {.command = training->command,
                               .model = training->session.model->name,
                               .data = training->train.spec,
                               .options = training->options,
                               .graph = training->session.graph,
                               .plan = training->plan,
                               .params = training->params,
                               .loader = training->train.source.trainer.loader,
                               .evaluation_loader = training->validation.source.trainer.loader,
                               .output_dir = training->settings->output_dir,
                               .first_step = training->step,
                               .warmup_steps = unsettled_steps(training),
                               .total_steps = training->goal,
                               .batch = (int)training->ranks.global_batch,
                               .threads = training->session.threads,
                               .comm = training->ranks.trainer.comm};
    training->watched = watchers_create(&settings, &run, &training->watchers, err) == 0;
    return training->watched ? 0 : -1;
}

static void make_display(struct training *training)
{
    int64_t steps = training->goal - training->step;
    display_release(&training->display);
    if (!training->settings->display_every)
        return;
    training->display = (struct display){
        .out = training_output(training),
        .every = training->settings->display_every,
        .report = &training->report,
        .updater = training->updater,
        .header = {.model = training->session.model->name,
                   .data = training->train.spec,
                   .optimizer = rule_rest(&training->rule)->optimizer->name,
                   .batch = (int)(training->ranks.global_batch / training->ranks.size),
                   .ranks = training->ranks.size,
                   .batches = steps,
                   .epochs = steps_per_epoch(training)
                                 ? (double)steps / (double)steps_per_epoch(training)
                                 : 0},
    };
    strbuf_init(&training->display.text);
}

static int make_timeline(struct training *training, struct error *err)
{
    struct timeline_options options = {
        .plan = training->plan,
        .params = training->params,
        .warmup_steps = warmup_steps(training),
        .batch = (int)(training->ranks.global_batch / training->ranks.size),
        .ranks = training->ranks.size,
    };
    if (!training->settings->timeline || training->timeline)
        return 0;
    return timeline_create(&options, &training->timeline, err);
}

/* Several runs are one to those who watch: it begins once, its examples add up, and it ends when the
 * last one has. */
static void tell_watchers(struct training *training, const struct train_event *event)
{
    struct train_event told = *event;
    if (event->kind != TRAIN_EVALUATED)
        told.examples += training->watched_examples;
    if (event->paused)
        return; /* to those who watch it goes on */
    if (event->kind == TRAIN_FINISHED && training->goes_on)
        training->last = told;
    else if (event->kind != TRAIN_STARTED || !training->told_of_start)
        watchers_observe(&training->watchers, &told);
    training->told_of_start = true;
}

static void observe(void *context, const struct train_event *event)
{
    struct training *training = context;
    report_observe(&training->report, event);
    training->began = true;
    if (event->kind == TRAIN_STEP) {
        training->step = event->step;
        keeping_tell(&training->keeping, event->step);
    }
    if (event->kind == TRAIN_FINISHED) {
        training->stop_signal = event->stop_signal;
        training->paused = event->paused;
    }
    if (event->kind == TRAIN_SAVED)
        snprintf(training->checkpoint, sizeof training->checkpoint, "%s", event->path);
    tell_watchers(training, event);
    display_observe(&training->display, event);
    reductions_observe(training->reductions, event);
    timeline_observe(training->timeline, event);
}

int training_run(struct training *training, struct error *err)
{
    struct trainer_inputs inputs = {
        .graph = training->session.graph,
        .params = training->params,
        .plan = training->plan,
        .more_plans = training->ranks.more_plans,
        .more_plan_count = training->ranks.lanes - 1,
        .train = training->train.source.trainer,
        .evaluation_plan = training->evaluation_plan,
        .validation = training->validation.source.trainer,
        .updater = training->updater,
        .schedule = &training->schedule,
        .ranks = training->ranks.trainer,
        .seed = (uint64_t)training->settings->common.seed,
        .first_step = training->step,
        .total_steps = training->goal,
        .evaluate_every = training->evaluate_every,
        .stop_accuracy = training->settings->stop_accuracy,
        .saving = saving_for_trainer(&training->saving, training->origin),
        .keeping = keeping_for_trainer(&training->keeping, &training->saving, !training->began),
        .stop_signal = training->session.stop,
    };
    training->watched_examples += training->report.examples;
    training->first_step = training->step;
    training->leaves = true; /* what fails now, such as a watcher's file, fails here alone */
    if (parse_schedule(training, err) < 0 || make_report(training, err) < 0 ||
        make_watchers(training, err) < 0)
        return -1;
    make_display(training);
    if (training->ranks.size > 1 && !training->reductions &&
        reductions_create(params_count(training->params), &training->reductions, err) < 0)
        return -1;
    if (make_timeline(training, err) < 0)
        return -1;
    int status = trainer_run(&inputs, observe, training, err);
    /* What failed before the first step, or for the group, failed here alone. */
    training->leaves = status < 0 && (err->code == ERROR_PEER || !training->began);
    if (status == 0)
        watchers_end_line(&training->watchers);
    else
        watchers_fail(&training->watchers, err);
    return status;
}

int training_interrupted(const struct training *training)
{
    const struct report *report = &training->report;
    bool evaluated = report->evaluated && report->evaluation.step == training->step;
    bool done = training->step == training->goal &&
                (evaluated || !training->validation.source.trainer.loader);
    return done || !training->stop_signal ? 0 : 128 + training->stop_signal;
}

void training_note(struct training *training, int status, const struct error *err)
{
    const struct comm *comm = training->ranks.trainer.comm;
    keeping_note(&training->keeping, training->paused, comm && comm_is_over(comm), status, err);
}

void training_end(struct training *training, enum run_outcome outcome)
{
    fflush(stdout); /* the results, before others are waited for */
    if (training->goes_on && training->last.kind == TRAIN_FINISHED)
        watchers_observe(&training->watchers, &training->last);
    watchers_end(&training->watchers, outcome);
}
