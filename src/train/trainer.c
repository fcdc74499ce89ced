#include "train/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/stop.h"
#include "exec/params.h"
#include "exec/sparse.h"
#include "graph/graph.h"
#include "store/saver.h"
#include "store/state.h"
#include "train/bucket_tuner.h"
#include "train/compute.h"
#include "train/evaluation.h"
#include "train/exchange.h"

struct run {
    const struct trainer_inputs *inputs;
    train_observer *observer;
    void *context;
    struct evaluation evaluation;
    struct arena *arena;
    struct compute *compute;
    struct exchange *exchange; /* NULL: one rank with one piece */
    struct bucket_tuner tuner;
    struct plan **plans;
    int plan_count;
    int ranks, pieces;            /* of the group; of all ranks in a step */
    struct rank_status *statuses; /* [ranks] of this step */
    double last_step_seconds;
    int stop_agreed;          /* a signal that came to one of the ranks */
    bool pause_agreed;        /* likewise */
    struct sparse_rows *rows; /* the tables' gradients of this step */
    int row_lists;
    int64_t step; /* finished ones */
    int64_t steps_per_epoch;
    int64_t examples;
    int64_t evaluated_at; /* the step of the last evaluation, or -1 */
    double evaluated_loss, evaluated_accuracy;
    bool abandoned;        /* the step in flight was given up for a signal */
    int64_t saved_at;      /* the step of the last snapshot; at first the one that was resumed */
    bool saved_score;      /* with its evaluation */
    bool saved_finished;   /* and as all there is to do */
    double saved_clock;    /* when */
    double saving_seconds; /* waited for it since the last step */
};

/* An event with what is alike for all kinds; the numbers start as unknown. */
static struct train_event make_event(const struct run *run, enum train_event_kind kind)
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

static void emit(const struct run *run, const struct train_event *event)
{
    if (run->observer)
        run->observer(run->context, event);
}

static void set_metrics(struct train_event *event, const struct metrics *metrics)
{
    event->loss = metrics_loss(metrics);
    event->accuracy = metrics_accuracy(metrics);
    event->accuracy_top_5 = metrics_accuracy_top_5(metrics);
    event->log_loss = metrics_log_loss(metrics);
    event->majority = metrics_majority(metrics);
}

static int own_signal(const struct run *run)
{
    return run->inputs->stop_signal ? atomic_load(run->inputs->stop_signal) : 0;
}

static bool evaluated_now(const struct run *run)
{
    return run->evaluated_at == run->step;
}

/* --- keeping ---------------------------------------------------------------------------------- */

/* What is known after step `step`. */
static struct saver_moment moment_after(const struct run *run, int64_t step, int64_t goal,
                                        bool finished)
{
    return (struct saver_moment){
        .step = step,
        .goal = goal,
        .origin = run->inputs->saving.origin,
        .finished = finished,
        .bucket_bytes = run->ranks > 1 ? (int64_t)bucket_tuner_settled(&run->tuner) : 0,
        .evaluated = run->evaluated_at == step,
        .loss = run->evaluated_loss,
        .accuracy = run->evaluated_accuracy};
}

/* Something was learned about the last step, and its numbers are as they were. */
static void keep(const struct run *run)
{
    struct saver_moment moment = moment_after(run, run->step, run->inputs->total_steps, false);
    if (run->inputs->keeping.state)
        state_commit(run->inputs->keeping.state, &moment, NULL);
}

static bool own_pause(const struct run *run)
{
    struct trainer_progress *progress = run->inputs->keeping.progress;
    return progress && atomic_load(&progress->pause);
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
            run->stop_agreed = own_signal(run) ? own_signal(run) : SIGTERM;
            return 0;
        }
        return error_set(err, inner.code, "evaluation after step %" PRId64 ": %s", run->step,
                         inner.message);
    }
    struct train_event event = make_event(run, TRAIN_EVALUATED);
    set_metrics(&event, &metrics);
    event.auc = metrics.auc;
    event.examples = metrics.examples;
    event.started = start;
    event.step_seconds = clock_seconds() - start;
    run->evaluated_at = run->step;
    run->evaluated_loss = event.loss;
    run->evaluated_accuracy = event.accuracy;
    emit(run, &event);
    keep(run); /* a process that is killed in between is followed by one that evaluates again */
    return 0;
}

/* --- one step ------------------------------------------------------------------------------- */

/* The tables' gradients are lists in the plan, or sums over pieces; the updater reads them there. */
static void hand_rows_over(struct run *run)
{
    const struct sparse_rows *lists = run->rows;
    for (int i = 0; i < run->row_lists && !run->exchange; i++)
        plan_sparse(run->inputs->plan, i, &run->rows[i]);
    if (run->exchange)
        lists = exchange_rows(run->exchange);
    updater_give_rows(run->inputs->updater, lists, run->row_lists);
}

/* The first example of the batch whose label is no class of the logits, or -1. */
static int64_t wrong_label(const struct feed *feed)
{
    if (feed->label < 0 || feed->logits < 0 || feed->inputs[feed->label].dtype != DTYPE_I32)
        return -1;
    const struct tensor *logits = &feed->outputs[feed->logits];
    const int32_t *labels = feed->inputs[feed->label].data;
    int64_t classes = logits->shape.dim[logits->shape.ndim - 1];
    for (int64_t i = 0; i < feed->rows; i++)
        if (labels[i] < 0 || (classes > 1 && labels[i] >= classes))
            return i;
    return -1;
}

/* Says where it began: in the data, in an operation, or only on the way back. */
static int not_finite(struct run *run, double loss, struct error *err)
{
    int64_t at = run->step + 1;
    const struct feed *feed = NULL;
    const char *node = compute_find_nonfinite(run->compute, &feed);
    if (!node)
        return error_set(err, ERROR_NUMERIC,
                         "step %" PRId64 ": a gradient is not finite (loss "
                         "%g); a lower --lr or more --warmup-epochs may help",
                         at, loss);
    int64_t wrong = wrong_label(feed);
    if (wrong >= 0)
        return error_set(err, ERROR_FORMAT,
                         "step %" PRId64 ": example %" PRId64 " of the batch has a label that is "
                         "none of the network's classes; give --classes",
                         at, wrong);
    if (updater_has_param(run->inputs->updater, node))
        return error_set(err, ERROR_NUMERIC,
                         "step %" PRId64 ": %s is not finite since the step before; a lower --lr "
                         "may help",
                         at, node);
    if (graph_find_input(run->inputs->graph, node) >= 0)
        return error_set(err, ERROR_NUMERIC,
                         "step %" PRId64 ": the data holds a value of %s that "
                         "is not finite (loss %g)",
                         at, node, loss);
    return error_set(err, ERROR_NUMERIC,
                     "step %" PRId64 ": %s is the first operation whose result is not finite (loss "
                     "%g); a lower --lr or more --warmup-epochs may help",
                     at, node, loss);
}

/* Looked at before anything is changed, so that the last good step stays whole. */
static int check_finite(struct run *run, double loss, struct error *err)
{
    if (isfinite(loss) && updater_gradients_finite(run->inputs->updater))
        return 0;
    return not_finite(run, loss, err);
}

/* A rank of several must not leave alone: it gives up its part of the step, and the others, who learn
 * of it at the end of theirs, drop that step, too. */
static bool stops(const struct run *run)
{
    return run->ranks > 1 ? run->stop_agreed || run->pause_agreed
                          : stop_wanted(run->inputs->stop_signal) || own_pause(run);
}

static void tell(const struct run *run, const char *doing)
{
    struct trainer_progress *progress = run->inputs->keeping.progress;
    if (progress) {
        atomic_store(&progress->step, run->step);
        atomic_store(&progress->doing, doing);
    }
    if (run->ranks > 1)
        comm_tell(run->inputs->ranks.comm, run->step + 1, doing);
}

/* Forward and backward. The signal that ends the run ends what waits for data, too. */
static int compute_gradients(struct run *run, struct compute_result *result, struct error *err)
{
    struct error failure = {0};
    float examples = (float)plan_batch(run->inputs->plan) * (float)run->pieces;
    compute_bucket_fn *on_bucket = run->ranks > 1 ? exchange_bucket : NULL;
    int status = compute_run(run->compute, run->step, 1.0F / examples, on_bucket, run->exchange,
                             result, &failure);
    run->abandoned = run->ranks == 1 && stop_wanted(run->inputs->stop_signal) &&
                     (status == 0 || failure.code == ERROR_CANCELLED);
    return status == 0 || run->abandoned ? 0 : error_set(err, failure.code, "%s", failure.message);
}

static struct rank_status own_status(const struct run *run, const struct compute_result *result,
                                     double reduce_seconds, bool failed)
{
    const struct metrics *metrics = &result->metrics;
    return (struct rank_status){
        .examples = metrics->examples,
        .judged = metrics->judged,
        .correct = metrics->correct,
        .correct_top_5 = metrics->correct_top_5,
        .binary = metrics->binary,
        .positives = metrics->positives,
        .loss_sum = metrics->loss_sum,
        .log_loss_sum = metrics->log_loss_sum,
        .input_seconds = result->input_seconds,
        .forward_seconds = result->forward_seconds,
        .backward_seconds = result->backward_seconds,
        .reduce_seconds = reduce_seconds,
        .hidden_seconds = exchange_hidden_seconds(run->exchange),
        .step_seconds = run->last_step_seconds,
        .stop = own_signal(run),
        .failed = failed,
        .pause = own_pause(run),
    };
}

static void sum_statuses(struct run *run, struct metrics *sum)
{
    *sum = (struct metrics){0};
    for (int r = 0; r < run->ranks; r++) {
        const struct rank_status *status = &run->statuses[r];
        struct metrics part = {.examples = status->examples,
                               .judged = status->judged,
                               .correct = status->correct,
                               .correct_top_5 = status->correct_top_5,
                               .binary = status->binary,
                               .positives = status->positives,
                               .loss_sum = status->loss_sum,
                               .log_loss_sum = status->log_loss_sum};
        metrics_sum(sum, &part);
    }
}

static void agree_on_stop(struct run *run)
{
    for (int r = 0; r < run->ranks; r++) {
        if (!run->stop_agreed)
            run->stop_agreed = run->statuses[r].stop;
        run->pause_agreed |= run->statuses[r].pause != 0;
    }
}

static bool any_failed(const struct run *run)
{
    for (int r = 0; r < run->ranks; r++)
        if (run->statuses[r].failed)
            return true;
    return false;
}

/* On all ranks alike; a step that one of them gave up for a signal is no failure. */
static int drop_step(struct run *run, struct error *own, struct error *err)
{
    struct error failure = {0};
    exchange_failure(run->exchange, run->statuses, own, &failure);
    run->abandoned = failure.code == ERROR_CANCELLED && run->stop_agreed;
    return run->abandoned ? 0 : error_set(err, failure.code, "%s", failure.message);
}

/* The sums over all ranks. `own` says why this one has nothing to give, if it failed: the others
 * learn it, and all fail alike. */
static int exchange_all(struct run *run, struct compute_result *result, struct error *own,
                        struct error *err)
{
    double start = clock_seconds();
    if (run->ranks > 1 && own->code)
        compute_nothing(run->compute, exchange_bucket, run->exchange);
    tell(run, "waiting for gradients of others");
    if (exchange_finish(run->exchange, err) < 0)
        return -1;
    if (run->ranks == 1)
        return own->code ? error_set(err, own->code, "%s", own->message) : 0;
    struct rank_status status = own_status(run, result, clock_seconds() - start, own->code);
    if (exchange_status(run->exchange, &status, run->statuses, err) < 0)
        return -1;
    agree_on_stop(run);
    if (any_failed(run))
        return drop_step(run, own, err);
    sum_statuses(run, &result->metrics);
    return 0;
}

/* The rank whose own work took longest. */
static int slowest(const struct run *run)
{
    int found = -1;
    double most = 0;
    for (int r = 0; run->ranks > 1 && r < run->ranks; r++) {
        const struct rank_status *status = &run->statuses[r];
        double own = status->input_seconds + status->forward_seconds + status->backward_seconds;
        if (own > most) {
            most = own;
            found = r;
        }
    }
    return found;
}

static void use_buckets(struct run *run, size_t bytes)
{
    for (int i = 0; i < run->plan_count; i++)
        plan_set_buckets(run->plans[i], bytes);
}

/* Rank 0 looks at its clock, and all do as it says. */
static int tune_buckets(struct run *run, struct error *err)
{
    if (!run->tuner.tuning)
        return 0;
    bucket_tuner_note(&run->tuner, run->last_step_seconds);
    if (comm_broadcast(run->inputs->ranks.comm, &run->tuner.size, sizeof run->tuner.size, 0, err) <
        0)
        return -1;
    use_buckets(run, run->tuner.size);
    if (!run->tuner.tuning)
        keep(run);
    return 0;
}

static void commit_statistics(const struct run *run)
{
    if (run->exchange)
        exchange_commit_statistics(run->exchange);
    else
        plan_commit_statistics(run->inputs->plan);
}

/* Where a state is kept, all of the step is in it once one bit of the step is. */
static void update(const struct run *run, float rate)
{
    const struct trainer_inputs *inputs = run->inputs;
    if (!inputs->keeping.state) {
        updater_step(inputs->updater, rate, run->step + 1);
        commit_statistics(run);
        return;
    }
    struct saver_moment moment = moment_after(run, run->step + 1, inputs->total_steps, false);
    commit_statistics(run);
    updater_step_kept(inputs->updater, &moment, rate, params_statistics(inputs->params));
}

static int step(struct run *run, struct error *err)
{
    const struct trainer_inputs *inputs = run->inputs;
    struct compute_result result;
    struct error own = {0};
    bool saving = inputs->saving.saver && saver_busy(inputs->saving.saver);
    size_t bucket_bytes = bucket_tuner_size(&run->tuner);

    tell(run, "reading and computing");
    int status = compute_gradients(run, &result, &own);
    if (run->abandoned)
        return 0;
    double start = result.started, computed = clock_seconds();
    if (run->exchange)
        status = exchange_all(run, &result, &own, err);
    else if (status < 0)
        error_set(err, own.code, "%s", own.message);
    if (status < 0)
        return error_wrap(err, "step %" PRId64, run->step + 1);
    if (run->abandoned)
        return 0;
    hand_rows_over(run);
    double reduced = clock_seconds();
    if (check_finite(run, metrics_loss(&result.metrics), err) < 0)
        return -1;
    tell(run, "updating");
    float rate = schedule_rate(inputs->schedule, run->step);
    update(run, rate);
    double end = clock_seconds();

    run->step++;
    run->last_step_seconds = end - start;
    run->examples += result.metrics.examples;
    struct train_event event = make_event(run, TRAIN_STEP);
    set_metrics(&event, &result.metrics);
    event.rate = rate;
    event.started = start;
    event.step_seconds = end - start;
    event.input_seconds = result.input_seconds;
    event.forward_seconds = result.forward_seconds;
    event.backward_seconds = computed - start - result.input_seconds - result.forward_seconds;
    event.reduce_seconds = reduced - computed;
    event.hidden_seconds = run->exchange ? exchange_hidden_seconds(run->exchange) : 0;
    event.update_seconds = end - reduced;
    event.ranks = run->ranks > 1 ? run->statuses : NULL;
    event.rank_count = run->ranks;
    if (run->ranks > 1)
        event.sum_count = exchange_sums(run->exchange, &event.sums);
    event.slowest = slowest(run);
    event.bucket_bytes = bucket_bytes;
    event.saving = saving;
    event.saving_seconds = run->saving_seconds;
    run->saving_seconds = 0;
    tell(run, "saving or evaluating");
    emit(run, &event);
    return tune_buckets(run, err);
}

/* --- saving --------------------------------------------------------------------------------- */

static bool improved(const struct run *run)
{
    struct manifest now = {.evaluated = evaluated_now(run),
                           .loss = run->evaluated_loss,
                           .accuracy = run->evaluated_accuracy};
    return manifest_score(&now) > saver_best_score(run->inputs->saving.saver);
}

static bool interval_over(const struct run *run)
{
    const struct trainer_saving *saving = &run->inputs->saving;
    return (saving->every_steps && run->step % saving->every_steps == 0) ||
           (saving->every_seconds > 0 &&
            clock_seconds() - run->saved_clock >= saving->every_seconds);
}

/* An update can overflow, which only the next step would notice: kept as the newest, it would push
 * the last good one out. */
static int save(struct run *run, int64_t goal, bool finished, struct error *err)
{
    if (!updater_weights_finite(run->inputs->updater))
        return error_set(err, ERROR_NUMERIC,
                         "the weights are not finite after step %" PRId64 " and were not saved; a "
                         "lower --lr may help",
                         run->step);
    struct saver_moment moment = moment_after(run, run->step, goal, finished);
    run->saved_clock = clock_seconds();
    if (saver_start(run->inputs->saving.saver, &moment, err) < 0)
        return -1;
    run->saved_at = run->step;
    run->saved_score = moment.evaluated;
    run->saved_finished = finished;
    return 0;
}

/* Tells of a save that has ended since the last look; -1 with `err` filled when it failed. */
static int tell_saved(struct run *run, struct error *err)
{
    struct saver_result result;
    if (!saver_take(run->inputs->saving.saver, &result))
        return 0;
    if (result.error.code)
        return error_set(err, result.error.code, "the checkpoint of step %" PRId64 ": %s",
                         result.step, result.error.message);
    struct train_event event = make_event(run, TRAIN_SAVED);
    event.step = result.step;
    event.started = result.started;
    event.step_seconds = result.seconds;
    event.path = result.path;
    emit(run, &event);
    return 0;
}

/* The training goes on without: the earlier checkpoints are whole, and the next may succeed. */
static void warn_of_failure(const struct error *failure)
{
    log_line(LOG_WARNING, "%s; the training goes on, earlier checkpoints are as they were",
             failure->message);
}

/* A checkpoint that is due while the last one is still being written is left out; the best so far
 * is waited for, since its numbers are lost with the next step. */
static void save_if_due(struct run *run)
{
    struct saver *saver = run->inputs->saving.saver;
    struct error failure = {0};
    if (!saver)
        return;
    bool best = improved(run);
    if (best)
        saver_wait(saver);
    bool busy = saver_busy(saver); /* asked first: one that ends now is told of the next time */
    if (tell_saved(run, &failure) < 0)
        warn_of_failure(&failure);
    if (run->saved_at == run->step || busy || !(best || interval_over(run)) ||
        run->step == run->inputs->total_steps) /* that one is saved with its evaluation */
        return;
    if (save(run, run->inputs->total_steps, false, &failure) < 0)
        warn_of_failure(&failure);
}

/* The last state, unless that is what was saved last. */
static int save_last(struct run *run, int64_t goal, bool finished, struct error *err)
{
    struct error earlier = {0};
    struct saver *saver = run->inputs->saving.saver;
    bool nothing_new = run->step == run->inputs->first_step && run->saved_at == run->step;
    if (!saver || (nothing_new && !finished))
        return 0;
    saver_wait(saver);
    int status = tell_saved(run, &earlier);
    if (status < 0)
        warn_of_failure(&earlier);
    bool same = run->saved_at == run->step && goal == run->inputs->total_steps &&
                run->saved_score == evaluated_now(run) && run->saved_finished == finished;
    if (status == 0 && same)
        return 0;
    if (save(run, goal, finished, err) < 0)
        return -1;
    saver_wait(saver);
    return tell_saved(run, err);
}

/* --- the run -------------------------------------------------------------------------------- */

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
    use_buckets(run, bucket_tuner_size(&run->tuner));
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
    return wanted > 0 && evaluated_now(run) && run->evaluated_accuracy >= wanted;
}

static bool evaluation_missing(const struct run *run)
{
    return run->inputs->validation.loader && !evaluated_now(run);
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
    if (evaluation_due(run) && !evaluated_now(run) && evaluate(run, err) < 0)
        return -1;
    save_if_due(run);
    return 0;
}

static int run_steps(struct run *run, struct error *err)
{
    const struct trainer_inputs *inputs = run->inputs;
    if (catch_up(run, err) < 0)
        return -1;
    while (run->step < inputs->total_steps && !stops(run) && !accurate_enough(run)) {
        if (step(run, err) < 0)
            return -1;
        if (run->abandoned)
            break;
        if (evaluation_due(run) && evaluate(run, err) < 0)
            return -1;
        double before = clock_seconds();
        save_if_due(run);
        run->saving_seconds = clock_seconds() - before;
    }
    if (evaluation_missing(run) && !stops(run) && evaluate(run, err) < 0)
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
    return run->ranks == 1 ? own_signal(run) : run->stop_agreed;
}

/* A step that failed, for its numbers or for its data, changed nothing, so the one before it is worth
 * keeping. */
static int run_and_save(struct run *run, struct error *err)
{
    struct error saving = {0};
    struct train_event started = make_event(run, TRAIN_STARTED);
    emit(run, &started);
    if (run_steps(run, err) < 0) {
        share_failure(run, err);
        if (save_last(run, run->inputs->total_steps, false, &saving) < 0)
            log_line(LOG_WARNING, "%s", saving.message);
        return -1;
    }
    int64_t goal = accurate_enough(run) ? run->step : run->inputs->total_steps;
    bool finished = run->step == goal && !evaluation_missing(run);
    bool paused = !finished && stops(run) && !stop_signal(run);
    if (!paused && save_last(run, goal, finished, err) < 0)
        return -1;
    struct train_event last = make_event(run, TRAIN_FINISHED);
    last.stop_signal = stop_signal(run);
    last.paused = paused;
    emit(run, &last);
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
    use_buckets(&run, 0);
    exchange_destroy(run.exchange);
    compute_destroy(run.compute);
    evaluation_release(&run.evaluation);
    arena_destroy(run.arena);
    return status;
}
