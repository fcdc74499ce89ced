/* One step: gradients of all pieces, their sum over the ranks, the update. */
#include "train/trainer_internal.h"

#include <inttypes.h>
#include <math.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/stop.h"
#include "exec/params.h"
#include "exec/sparse.h"
#include "graph/graph.h"
#include "store/saver.h"
#include "train/compute.h"
#include "train/exchange.h"

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
bool run_stops(const struct run *run)
{
    return run->ranks > 1 ? run->stop_agreed || run->pause_agreed
                          : stop_wanted(run->inputs->stop_signal) || run_own_pause(run);
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
        .stop = run_own_signal(run),
        .failed = failed,
        .pause = run_own_pause(run),
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

void run_use_buckets(struct run *run, size_t bytes)
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
    run_use_buckets(run, run->tuner.size);
    if (!run->tuner.tuning)
        run_keep(run);
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
    struct saver_moment moment = run_moment(run, run->step + 1, inputs->total_steps, false);
    commit_statistics(run);
    updater_step_kept(inputs->updater, &moment, rate, params_statistics(inputs->params));
}

/* What the step's own clocks do not say is left to the caller. */
static struct train_event step_event(const struct run *run, const struct compute_result *result)
{
    struct train_event event = run_event(run, TRAIN_STEP);
    run_set_metrics(&event, &result->metrics);
    event.started = result->started;
    event.input_seconds = result->input_seconds;
    event.forward_seconds = result->forward_seconds;
    event.hidden_seconds = run->exchange ? exchange_hidden_seconds(run->exchange) : 0;
    event.ranks = run->ranks > 1 ? run->statuses : NULL;
    if (run->ranks > 1)
        event.sum_count = exchange_sums(run->exchange, &event.sums);
    event.slowest = slowest(run);
    event.saving_seconds = run->saving_seconds;
    return event;
}

int run_one_step(struct run *run, struct error *err)
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
    struct train_event event = step_event(run, &result);
    event.rate = rate;
    event.step_seconds = end - start;
    event.backward_seconds = computed - start - result.input_seconds - result.forward_seconds;
    event.reduce_seconds = reduced - computed;
    event.update_seconds = end - reduced;
    event.bucket_bytes = bucket_bytes;
    event.saving = saving;
    run->saving_seconds = 0;
    tell(run, "saving or evaluating");
    run_emit(run, &event);
    return tune_buckets(run, err);
}
