#include <inttypes.h>
#include <math.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "cli/bench_text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/refused.h"
#include "cli/report.h"
#include "cli/rule.h"
#include "cli/session.h"
#include "cli/signals.h"
#include "cli/tracing.h"
#include "cli/tuning.h"
#include "train/feed.h"

enum { TUNED_STEPS = 3 };

struct bench_settings {
    struct session_settings common;
    struct rule_settings rule;
    struct ranks_settings ranks;
    int64_t batches, warmup_batches, display_every;
    bool forward_only, explain;
    const char *tune; /* a file to write; NULL: none */
    struct tracing_settings trace;
};

static const struct option options[] = {
    SESSION_MODEL_OPTION(bench_settings),
    OPTION_SECTION("Work"),
    SESSION_BATCH_OPTION(bench_settings),
    OPTION_LONG(bench_settings, batches, "num-batches", .letter = 'n', OPTION_AT_LEAST(1),
                .initial = "100", .aliases = "steps max-train-steps",
                .help = "steps that are measured"),
    OPTION_LONG(bench_settings, warmup_batches, "num-warmup-batches", OPTION_AT_LEAST(0),
                .initial = "10", .help = "steps before them that are not"),
    OPTION_LONG(bench_settings, display_every, "display-every", OPTION_AT_LEAST(1), .initial = "10",
                .help = "steps between two lines"),
    OPTION_FLAG(bench_settings, forward_only, "forward-only",
                .help = "only the forward pass, as in evaluation"),
    OPTION_TEXT(bench_settings, tune, "tune", .value = "FILE",
                .help = "instead of measuring the network, measure the kernels that its "
                        "convolutions could have at this batch size, for a few steps each, and "
                        "write the fastest to FILE, for --kernels"),
    OPTION_TEXT(bench_settings, common.data, "data", .initial = "synthetic", .value = "SPEC",
                .aliases = "data-dir data-location",
                .help = "KIND or KIND:DIR (see `lockstep datasets`)"),
    SESSION_READING_OPTIONS(bench_settings),
    OPTION_SECTION("Network"),
    SESSION_NETWORK_OPTIONS(bench_settings),
    SESSION_SCALING_OPTION(bench_settings),
    SESSION_SMOOTHING_OPTION(bench_settings),
    OPTION_SECTION("Optimizer"),
    RULE_OPTIONS(bench_settings),
    OPTION_SECTION("Ranks"),
    RANKS_OPTIONS(bench_settings),
    OPTION_SECTION("Running"),
    SESSION_RUN_OPTIONS(bench_settings),
    SESSION_PLAN_OPTIONS(bench_settings),
    OPTION_SECTION("Results"),
    SESSION_JSON_OPTION(bench_settings),
    OPTION_FLAG(bench_settings, explain, "explain",
                .help = "also print kernel, layout, bytes and share of the time of each "
                        "operation; taking the times costs a little"),
    TRACING_OPTIONS(bench_settings, trace),
    REFUSED_IN_BENCH,
    REFUSED_EVERYWHERE,
    OPTION_END};

struct job {
    const struct bench_settings *settings;
    const struct options *options;
    struct ranks ranks;
    bool began;  /* the trainer has: what fails from now on fails on all ranks */
    bool leaves; /* without the other ranks, which have not failed */
    int stop_signal;
    struct session session;
    struct session_data data;
    struct rule rule;
    struct schedule schedule;
    struct params *params;
    struct plan *plan;
    struct updater *updater; /* NULL: forward only */
    struct report report;
    struct tracing *tracing; /* may be NULL */
    FILE *out;               /* standard output, or NULL when the JSON goes there */
    struct strbuf text;      /* of what is printed next */
};

static void release(struct job *job)
{
    tracing_finish(job->tracing);
    strbuf_release(&job->text);
    report_release(&job->report);
    updater_destroy(job->updater);
    ranks_destroy_plans(&job->ranks);
    plan_destroy(job->plan);
    params_destroy(job->params);
    ranks_close(&job->ranks, job->leaves);
    session_close_data(&job->data);
    session_close(&job->session);
}

static void print(struct job *job)
{
    if (job->out) {
        fputs(job->text.text, job->out);
        fflush(job->out);
    }
    strbuf_clear(&job->text);
}

/* --- making --------------------------------------------------------------------------------- */

static int make_plan(struct job *job, struct error *err)
{
    const struct bench_settings *settings = job->settings;
    bool forward = settings->forward_only;
    if (session_check_kernels(&job->session, &settings->common, job->ranks.threads, err) < 0)
        return -1;
    struct plan_options plan = {.mode = forward ? PLAN_EVALUATE : PLAN_TRAIN,
                                .batch = settings->common.batch,
                                .threads = job->ranks.threads,
                                .recompute = settings->common.recompute,
                                .kernels = job->session.kernels,
                                .profile = settings->explain};
    if (params_create(job->session.graph,
                      forward ? 0 : updater_slots_needed(job->rule.groups, job->rule.group_count),
                      NULL, &job->params, err) < 0 ||
        plan_create(job->session.graph, job->params, &plan, &job->plan, err) < 0 ||
        params_initialize(job->params, (uint64_t)settings->common.seed, err) < 0 ||
        session_fill_statistics(&job->session, &settings->common, &job->data, job->params, err) < 0)
        return -1;
    if (forward)
        return 0;
    if (updater_create(job->params, job->rule.groups, job->rule.group_count, job->session.threads,
                       &job->updater, err) < 0)
        return -1;
    updater_initialize_slots(job->updater);
    session_warn_of_plan(&job->session, &settings->common, job->plan);
    if (ranks_make_plans(&job->ranks, &job->session, job->params, &plan, err) < 0)
        return -1;
    return ranks_compare(&job->ranks, job->options, &job->session, job->plan, &job->data.source,
                         &(struct source){0}, err);
}

static int make_trace(struct job *job, struct error *err)
{
    const struct bench_settings *settings = job->settings;
    struct tracing_run run = {.command = "bench",
                              .model = job->session.model->name,
                              .plan = job->plan,
                              .loader = job->data.source.trainer.loader,
                              .comm = job->ranks.trainer.comm,
                              .warmup_steps = settings->warmup_batches,
                              .total_steps = settings->warmup_batches + settings->batches};
    return tracing_create(&settings->trace, &run, &job->tracing, err);
}

/* Only the first of several ranks prints. */
static int meet(struct job *job, struct bench_settings *settings, struct error *err)
{
    if (ranks_open(&job->ranks, job->options, &settings->ranks, &job->session.deal, err) < 0)
        return -1;
    if (job->ranks.rank > 0) {
        job->out = NULL;
        settings->common.json = NULL;
    }
    return 0;
}

static int batch_of_all(const struct job *job)
{
    return (int)job->ranks.global_batch;
}

static int prepare(struct job *job, struct options *parsed, struct bench_settings *settings,
                   struct error *err)
{
    if (settings->forward_only && (settings->common.recompute || settings->common.kernels))
        return error_set(err, ERROR_USAGE,
                         "--%s is about training, and --forward-only has no backward pass",
                         settings->common.recompute ? "recompute" : "kernels");
    if (settings->tune && (settings->forward_only || settings->common.kernels ||
                           settings->common.json || settings->explain))
        return error_set(err, ERROR_USAGE,
                         "--tune writes its own file: leave --%s out",
                         settings->forward_only     ? "forward-only"
                         : settings->common.kernels ? "kernels"
                         : settings->common.json    ? "json"
                                                    : "explain");
    if (((settings->forward_only || settings->tune) && ranks_refuse_several(err) < 0) || meet(job, settings, err) < 0 ||
        session_open(&job->session, parsed, SESSION_PART_OF_RECIPE, &settings->common, err) < 0 ||
        ranks_divide(&job->ranks, parsed, &settings->ranks, &settings->common.batch, &job->session,
                     err) < 0 ||
        rule_resolve_groups(parsed, &settings->rule, job->session.recipe, job->ranks.global_batch,
                            &job->rule, err) < 0 ||
        session_build(&job->session, parsed, &settings->common, err) < 0 ||
        session_open_data(&job->session, &settings->common, settings->common.data, SPLIT_TRAIN,
                          &job->data, err) < 0)
        return -1;
    job->schedule.base_rate = job->rule.rate;
    return report_init(&job->report, settings->warmup_batches + settings->batches,
                       settings->warmup_batches, err);
}

/* --num-batches of each kernel; not the hundred of a benchmark unless they were asked for. */
static int tune(struct job *job, struct error *err)
{
    const struct bench_settings *settings = job->settings;
    bool given = options_source(job->options, "num-batches") > OPTION_FROM_TABLE;
    struct tuning_run run = {.session = &job->session,
                             .data = &job->data,
                             .path = settings->tune,
                             .batch = settings->common.batch,
                             .threads = job->ranks.threads,
                             .steps = given ? settings->batches : TUNED_STEPS,
                             .seed = (uint64_t)settings->common.seed,
                             .out = job->out};
    if (tuning_run(&run, err) < 0)
        return signals_status() ? signals_status() : -1;
    return STATUS_DONE;
}

static void print_header(struct job *job)
{
    const struct bench_settings *settings = job->settings;
    int64_t per_epoch = loader_steps_per_epoch(job->data.source.trainer.loader);
    struct bench_header header = {
        .model = job->session.model->name,
        .data = job->data.spec,
        .optimizer = rule_rest(&job->rule)->optimizer->name,
        .forward_only = settings->forward_only,
        .batch = batch_of_all(job) / job->ranks.size,
        .ranks = job->ranks.size,
        .batches = settings->batches,
        .epochs = per_epoch ? (double)settings->batches / (double)per_epoch : 0,
    };
    bench_text_header(&header, &job->text);
    print(job);
}

/* --- running -------------------------------------------------------------------------------- */

/* The loss that tf_cnn_benchmarks shows has the weight decay in it. */
static double total_loss(const struct job *job, double loss)
{
    return job->updater ? loss + updater_decay_loss(job->updater) : loss;
}

static void observe(void *context, const struct train_event *event)
{
    struct job *job = context;
    const struct bench_settings *settings = job->settings;
    tracing_observe(job->tracing, event);
    report_observe(&job->report, event);
    int64_t step = job->report.steps - settings->warmup_batches;
    if (event->kind == TRAIN_STARTED && settings->warmup_batches)
        strbuf_add(&job->text, "Running warm up\n");
    if ((event->kind == TRAIN_STARTED || event->kind == TRAIN_STEP) && step == 0)
        bench_text_columns(&job->text);
    if (event->kind == TRAIN_STEP && step > 0 &&
        (step == 1 || step % settings->display_every == 0)) {
        struct report_speed speed;
        report_measure(&job->report, batch_of_all(job), &speed);
        bench_text_step(step, batch_of_all(job), &speed, total_loss(job, event->loss), &job->text);
    }
    job->began = true;
    job->stop_signal = event->stop_signal;
    print(job);
}

static int train(struct job *job, const atomic_int *stop_signal, struct error *err)
{
    struct trainer_inputs inputs = {
        .graph = job->session.graph,
        .params = job->params,
        .plan = job->plan,
        .more_plans = job->ranks.more_plans,
        .more_plan_count = job->ranks.lanes - 1,
        .ranks = job->ranks.trainer,
        .train = job->data.source.trainer,
        .updater = job->updater,
        .schedule = &job->schedule,
        .seed = (uint64_t)job->settings->common.seed,
        .total_steps = job->settings->warmup_batches + job->settings->batches,
        .stop_signal = stop_signal,
    };
    int status = trainer_run(&inputs, observe, job, err);
    job->leaves = status < 0 && (err->code == ERROR_PEER || !job->began);
    return status;
}

static int forward(struct job *job, const atomic_int *stop_signal, struct error *err)
{
    int64_t total = job->settings->warmup_batches + job->settings->batches;
    struct feed feed;
    struct train_event event = {.kind = TRAIN_STARTED, .total = total};
    if (feed_init(&feed, job->session.graph, job->plan, &job->data.source.trainer, err) < 0)
        return -1;
    observe(job, &event);
    event.kind = TRAIN_STEP;
    while (event.step < total && !atomic_load(stop_signal)) {
        struct metrics metrics = {0};
        event.started = clock_seconds();
        if (feed_next(&feed, err) < 0)
            return -1;
        event.input_seconds = clock_seconds() - event.started;
        feed_forward(&feed);
        feed_count(&feed, &metrics);
        event.step_seconds = clock_seconds() - event.started;
        event.forward_seconds = event.step_seconds - event.input_seconds;
        event.step++;
        event.examples += feed.rows;
        event.loss = metrics_loss(&metrics);
        event.accuracy = metrics_accuracy(&metrics);
        event.accuracy_top_5 = metrics_accuracy_top_5(&metrics);
        observe(job, &event);
    }
    return 0;
}

/* --- results -------------------------------------------------------------------------------- */

static int write_json(const struct job *job, const struct report_speed *speed, struct error *err)
{
    int batch = batch_of_all(job);
    struct json *json = json_object_create();
    if (!json)
        return error_set(err, ERROR_MEMORY, "no memory for the JSON output");
    session_describe(&job->session, job->data.spec, job->plan, json);
    report_describe(&job->report, batch, json);
    ranks_describe(&job->ranks, json);
    json_set_text(json, "mode", job->settings->forward_only ? "forward-only" : "training");
    json_set_text(json, "optimizer", rule_rest(&job->rule)->optimizer->name);
    json_set_integer(json, "warmup_steps", job->settings->warmup_batches);
    json_set_number(json, "total_examples_per_second",
                    speed->steps ? batch / speed->mean_step_seconds : NAN);
    json_set_number(json, "uncertainty", speed->uncertainty);
    json_set_number(json, "jitter", speed->jitter);
    session_describe_input(&job->data, json);
    int status = output_json(json, job->settings->common.json, err);
    json_release(json);
    return status;
}

static int finish(struct job *job, struct error *err)
{
    struct report_speed speed;
    int batch = batch_of_all(job);
    report_measure(&job->report, batch, &speed);
    if (speed.steps)
        bench_text_total(batch / speed.mean_step_seconds, &job->text);
    if (job->settings->explain)
        plan_explain(job->plan, &job->text);
    if (job->text.failed)
        return error_set(err, ERROR_MEMORY, "no memory for the output");
    print(job);
    session_warn_of_bad(&job->data);
    if (job->settings->common.json && write_json(job, &speed, err) < 0)
        return -1;
    return job->stop_signal ? 128 + job->stop_signal : signals_status();
}

static int run(struct options *parsed, void *settings, struct error *err)
{
    struct job job = {.settings = settings, .options = parsed, .leaves = true};
    const char *json = job.settings->common.json;
    int status = -1;
    job.out = json && !strcmp(json, "-") ? NULL : stdout;
    strbuf_init(&job.text);
    if (prepare(&job, parsed, settings, err) < 0)
        goto out;
    if (job.settings->tune) {
        status = tune(&job, err);
        goto out;
    }
    print_header(&job);
    if (make_plan(&job, err) < 0 || make_trace(&job, err) < 0)
        goto out;
    job.leaves = false;
    if ((job.updater ? train : forward)(&job, job.session.stop, err) == 0)
        status = finish(&job, err);
out:
    release(&job);
    return status;
}

const struct command command_bench = {
    .name = "bench",
    .order = 30,
    .summary = "measure how fast a network trains",
    .description =
        "Trains MODEL on synthetic data and prints its speed as tf_cnn_benchmarks does: the mean "
        "over the steps so far, its uncertainty (standard deviation over the root of their "
        "number), and the jitter (1.4826 times the median distance from the median).",
    .examples = "# the benchmark of VGG16 that users of tf_cnn_benchmarks know\n"
                "lockstep bench --model vgg16 --batch_size 16 --num_batches 20\n"
                "# for a script\n"
                "lockstep bench resnet50 --batch-size 32 --json -\n"
                "# the fastest kernels on this machine, for trainings at this batch size\n"
                "lockstep bench resnet50 --batch-size 32 --tune kernels.txt\n"
                "lockstep train resnet50 --batch-size 32 --kernels kernels.txt\n",
    .options = options,
    .settings_size = sizeof(struct bench_settings),
    .run = run,
};
