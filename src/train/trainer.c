#include "train/trainer_internal.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "train/compute.h"
#include "train/exchange.h"

/* --- what others are told --------------------------------------------------------------------- */

/* An event with what is alike for all kinds; the numbers start as unknown. */
struct train_event run_event(const struct run *run, enum train_event_kind kind)
{
    return (struct train_event){
        .kind = kind,
        .step = run->step,
        .total = run->inputs->total_steps,
        .epoch = run->steps_per_epoch ? run->step / run->steps_per_epoch : 0,
        .steps_per_epoch = run->steps_per_epoch,
        .examples = run->examples,
        .loss = NAN,
        .accuracy = NAN,
        .accuracy_top_5 = NAN,
        .log_loss = NAN,
        .auc = NAN,
        .majority = NAN,
        .rate = schedule_rate(run->inputs->schedule, run->step),
        .rank_count = run->ranks,
        .slowest = -1,
    };
}

void run_emit(const struct run *run, const struct train_event *event)
{
    if (run->observer)
        run->observer(run->context, event);
}

void run_set_metrics(struct train_event *event, const struct metrics *metrics)
{
    event->loss = metrics_loss(metrics);
    event->accuracy = metrics_accuracy(metrics);
    event->accuracy_top_5 = metrics_accuracy_top_5(metrics);
    event->log_loss = metrics_log_loss(metrics);
    event->majority = metrics_majority(metrics);
}

int run_own_signal(const struct run *run)
{
    return run->inputs->stop_signal ? atomic_load(run->inputs->stop_signal) : 0;
}

bool run_own_pause(const struct run *run)
{
    struct trainer_progress *progress = run->inputs->keeping.progress;
    return progress && atomic_load(&progress->pause);
}

bool run_evaluated_now(const struct run *run)
{
    return run->evaluated_at == run->step;
}

/* --- evaluation ------------------------------------------------------------------------------- */

/* A stop signal in the middle ends it without an event, and without being a failure. */
static int evaluate(struct run *run, struct error *err)
{
    const struct trainer_inputs *inputs = run->inputs;
    struct metrics metrics = {0};
    double start = clock_seconds();
    struct error inner = {0};
    if (evaluation_pass(&run->evaluation, inputs->stop_signal, &metrics, &inner) < 0) {
        if (inner.code == ERROR_CANCELLED) {
            run->stop_agreed = run_own_signal(run) ? run_own_signal(run) : SIGTERM;
            return 0;
        }
        return error_set(err, inner.code, "evaluation after step %" PRId64 ": %s", run->step,
                         inner.message);
    }
    struct train_event event = run_event(run, TRAIN_EVALUATED);
    run_set_metrics(&event, &metrics);
    event.auc = metrics.auc;
    event.examples = metrics.examples;
    event.started = start;
    event.step_seconds = clock_seconds() - start;
    run->evaluated_at = run->step;
    run->evaluated_loss = event.loss;
    run->evaluated_accuracy = event.accuracy;
    run_emit(run, &event);
    run_keep(run); /* a process that is killed in between is followed by one that evaluates again */
    return 0;
}

/* --- the run ---------------------------------------------------------------------------------- */

/* Ranks whose slabs differ in meaning would add different weights into each other. */
static int check_agreement(const struct trainer_inputs *inputs, struct error *err)
{
    bool same;
    struct comm *comm = inputs->ranks.comm;
    if (!comm || inputs->ranks.plain)
        return 0;
    if (comm_agree(comm, plan_fingerprint(inputs->plan), &same, err) < 0)
        return -1;
    if (!same)
        return error_set(err, ERROR_PEER,
                         "rank %d of %d lays its gradients out differently: all "
                         "ranks need the same model, batch size, threads and kind of processor",
                         comm_rank(comm), comm_size(comm));
    return 0;
}

static int list_plans(struct run *run, struct error *err)
{
    const struct trainer_inputs *inputs = run->inputs;
    run->plan_count = 1 + inputs->more_plan_count;
    run->plans = ARENA_ARRAY(run->arena, struct plan *, run->plan_count);
    run->statuses = ARENA_ARRAY(run->arena, struct rank_status, run->ranks);
    run->row_lists = plan_sparse_count(inputs->plan);
    run->rows = ARENA_ARRAY(run->arena, struct sparse_rows, run->row_lists + 1);
    if (!run->plans || !run->statuses || !run->rows)
        return error_set(err, ERROR_MEMORY, "no memory for the training loop");
    run->plans[0] = inputs->plan;
    for (int i = 0; i < inputs->more_plan_count; i++)
        run->plans[i + 1] = inputs->more_plans[i];
    return 0;
}

/* Pieces are added in one tree over all ranks, or in one of each rank's own. */
static int make_compute(struct run *run, struct error *err)
{
    const struct trainer_inputs *inputs = run->inputs;
    const struct trainer_ranks *ranks = &inputs->ranks;
    int rank = ranks->comm ? comm_rank(ranks->comm) : 0, own = ranks->pieces ? ranks->pieces : 1;
    struct tree_node held = {0, own};
    if (ranks->shards)
        held = tree_held(ranks->shards, run->ranks, rank);
    run->pieces = ranks->shards ? ranks->shards : own * run->ranks;
    bool alone = run->pieces == 1;
    struct compute_options options = {
        .graph = inputs->graph,
        .params = inputs->params,
        .plans = run->plans,
        .plan_count = run->plan_count,
        .data = inputs->train,
        .shards = ranks->shards ? ranks->shards : own,
        .held = held,
        .pieces = run->pieces,
        .first = ranks->shards ? held.first : (int64_t)rank * own,
        .seed = inputs->seed,
        .alone = alone,
        .stop = inputs->stop_signal,
        .comm = ranks->comm,
    };
    if (compute_create(&options, &run->compute, err) < 0)
        return -1;
    if (alone)
        return 0;
    struct exchange_options exchange = {.comm = ranks->comm,
                                        .params = inputs->params,
                                        .compute = run->compute,
                                        .shards = ranks->shards,
                                        .pieces = run->pieces,
                                        .wire = ranks->wire,
                                        .plain = ranks->plain};
    return exchange_create(&exchange, &run->exchange, err);
}

static int prepare(struct run *run, struct error *err)
{
    const struct trainer_inputs *inputs = run->inputs;
    if (list_plans(run, err) < 0 || make_compute(run, err) < 0 || check_agreement(inputs, err) < 0)
        return -1;
    bucket_tuner_init(&run->tuner, inputs->ranks.bucket_bytes,
                      inputs->ranks.tune_buckets && run->ranks > 1);
    run_use_buckets(run, bucket_tuner_size(&run->tuner));
    /* Data that does not fit is refused now, not after the training. */
    if (inputs->validation.loader &&
        evaluation_init(&run->evaluation, inputs->graph, inputs->evaluation_plan,
                        &inputs->validation, run->ranks > 1 ? inputs->ranks.comm : NULL, err) < 0)
        return error_wrap(err, "evaluation data");
    run->steps_per_epoch = loader_steps_per_epoch(inputs->train.loader);
    if (run->steps_per_epoch)
        loader_seek(inputs->train.loader,
                    (struct loader_position){.epoch = run->step / run->steps_per_epoch,
                                             .step = run->step % run->steps_per_epoch});
    return 0;
}

static bool evaluation_due(const struct run *run)
{
    int64_t every = run->inputs->evaluate_every;
    return run->inputs->validation.loader && every && run->step % every == 0;
}

static bool accurate_enough(const struct run *run)
{
    double wanted = run->inputs->stop_accuracy;
    return wanted > 0 && run_evaluated_now(run) && run->evaluated_accuracy >= wanted;
}

static bool evaluation_missing(const struct run *run)
{
    return run->inputs->validation.loader && !run_evaluated_now(run);
}

static void remember(struct run *run)
{
    const struct trainer_keeping *keeping = &run->inputs->keeping;
    if (!keeping->returned)
        return;
    run->saved_at = keeping->saved_at;
    run->saved_clock -= keeping->saved_ago;
    run->evaluated_at = keeping->evaluated ? run->step : -1;
    run->evaluated_loss = keeping->loss;
    run->evaluated_accuracy = keeping->accuracy;
}

/* Does for the last step what another process did not come to. The evaluation with which a run ends
 * is repeated, for its results are to be told. */
static int catch_up(struct run *run, struct error *err)
{
    const struct trainer_inputs *inputs = run->inputs;
    if (!inputs->keeping.returned || run->step <= inputs->saving.origin)
        return 0;
    if (run->step >= inputs->total_steps || accurate_enough(run))
        run->evaluated_at = -1;
    if (evaluation_due(run) && !run_evaluated_now(run) && evaluate(run, err) < 0)
        return -1;
    run_save_if_due(run);
    return 0;
}

static int run_steps(struct run *run, struct error *err)
{
    const struct trainer_inputs *inputs = run->inputs;
    if (catch_up(run, err) < 0)
        return -1;
    while (run->step < inputs->total_steps && !run_stops(run) && !accurate_enough(run)) {
        if (run_one_step(run, err) < 0)
            return -1;
        if (run->abandoned)
            break;
        if (evaluation_due(run) && evaluate(run, err) < 0)
            return -1;
        double before = clock_seconds();
        run_save_if_due(run);
        run->saving_seconds = clock_seconds() - before;
    }
    if (evaluation_missing(run) && !run_stops(run) && evaluate(run, err) < 0)
        return -1;
    return 0;
}

/* What failed in the middle of the training, but for the group itself, failed on all ranks. */
static void share_failure(const struct run *run, struct error *err)
{
    if (run->ranks > 1 && err && err->code != ERROR_PEER && comm_rank(run->inputs->ranks.comm) > 0)
        err->code = ERROR_TOLD;
}

static int stop_signal(const struct run *run)
{
    return run->ranks == 1 ? run_own_signal(run) : run->stop_agreed;
}

/* A step that failed, for its numbers or for its data, changed nothing, so the one before it is worth
 * keeping. */
static int run_and_save(struct run *run, struct error *err)
{
    struct error saving = {0};
    struct train_event started = run_event(run, TRAIN_STARTED);
    run_emit(run, &started);
    if (run_steps(run, err) < 0) {
        share_failure(run, err);
        if (run_save_last(run, run->inputs->total_steps, false, &saving) < 0)
            log_line(LOG_WARNING, "%s", saving.message);
        return -1;
    }
    int64_t goal = accurate_enough(run) ? run->step : run->inputs->total_steps;
    bool finished = run->step == goal && !evaluation_missing(run);
    bool paused = !finished && run_stops(run) && !stop_signal(run);
    if (!paused && run_save_last(run, goal, finished, err) < 0)
        return -1;
    struct train_event last = run_event(run, TRAIN_FINISHED);
    last.stop_signal = stop_signal(run);
    last.paused = paused;
    run_emit(run, &last);
    return 0;
}

int trainer_run(const struct trainer_inputs *inputs, train_observer *observer, void *context,
                struct error *err)
{
    struct run run = {.inputs = inputs,
                      .observer = observer,
                      .context = context,
                      .arena = arena_create(),
                      .ranks = inputs->ranks.comm ? comm_size(inputs->ranks.comm) : 1,
                      .step = inputs->first_step,
                      .evaluated_at = -1,
                      .saved_at = inputs->first_step,
                      .saved_clock = clock_seconds()};
    if (!run.arena)
        return error_set(err, ERROR_MEMORY, "no memory for the training loop");
    remember(&run);
    int status = prepare(&run, err);
    if (status == 0)
        status = run_and_save(&run, err);
    run_use_buckets(&run, 0);
    exchange_destroy(run.exchange);
    compute_destroy(run.compute);
    evaluation_release(&run.evaluation);
    arena_destroy(run.arena);
    return status;
}
