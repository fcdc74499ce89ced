#include "train/trainer.h"

#include <inttypes.h>
#include <math.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/stop.h"
#include "comm/comm.h"
#include "exec/sparse.h"
#include "graph/graph.h"
#include "store/saver.h"
#include "train/evaluation.h"
#include "train/feed.h"

struct run {
    const struct trainer_inputs *inputs;
    train_observer *observer;
    void *context;
    struct feed feed;
    struct evaluation evaluation;
    struct arena *arena;
    struct comm_request *requests; /* one per bucket, when there are peers */
    int request_count;
    struct sparse_rows *rows; /* the tables' gradients of this step */
    int row_lists;
    struct error reduce_error; /* the first of this step, from the bucket hook */
    int64_t step;              /* finished ones */
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

/* --- evaluation ----------------------------------------------------------------------------- */

/* A stop signal in the middle ends it without an event, and without being a failure. */
static int evaluate(struct run *run, struct error *err)
{
    const struct trainer_inputs *inputs = run->inputs;
    struct metrics metrics = {0};
    double start = clock_seconds();
    struct error inner = {0};
    if (evaluation_pass(&run->evaluation, inputs->stop_signal, &metrics, &inner) < 0) {
        if (inner.code == ERROR_CANCELLED)
            return 0;
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
    return 0;
}

/* --- one step ------------------------------------------------------------------------------- */

static void reduce_bucket(void *context, int bucket, float *first, size_t count)
{
    struct run *run = context;
    (void)bucket;
    if (run->reduce_error.code)
        return;
    if (comm_reduce_start(run->inputs->comm, first, count, &run->requests[run->request_count],
                          &run->reduce_error) == 0)
        run->request_count++;
}

/* Waits for the buckets in the order they were started. */
static int finish_reduce(struct run *run, struct error *err)
{
    for (int i = 0; i < run->request_count && !run->reduce_error.code; i++)
        comm_wait(run->inputs->comm, run->requests[i], &run->reduce_error);
    run->request_count = 0;
    if (!run->reduce_error.code)
        return 0;
    return error_set(err, run->reduce_error.code, "step %" PRId64 ": %s", run->step + 1,
                     run->reduce_error.message);
}

/* The tables' gradients are lists in the plan; the updater reads them there. */
static void hand_rows_over(struct run *run)
{
    for (int i = 0; i < run->row_lists; i++)
        plan_sparse(run->inputs->plan, i, &run->rows[i]);
    updater_give_rows(run->inputs->updater, run->rows, run->row_lists);
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
    const char *node = plan_find_nonfinite(run->inputs->plan, run->feed.inputs);
    if (!node)
        return error_set(err, ERROR_NUMERIC,
                         "step %" PRId64 ": a gradient is not finite (loss "
                         "%g); a lower --lr or more --warmup-epochs may help",
                         at, loss);
    int64_t wrong = wrong_label(&run->feed);
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

/* Nothing was changed yet. Ranks must agree on it first, so with peers the step is finished. */
static bool abandon(struct run *run, int peers)
{
    run->abandoned = peers == 1 && stop_wanted(run->inputs->stop_signal);
    return run->abandoned;
}

/* The signal that ends the run ends what waits for data, too. */
static int next_batch(struct run *run, struct error *err)
{
    struct error failure = {0};
    if (feed_next(&run->feed, &failure) == 0)
        return 0;
    run->abandoned = failure.code == ERROR_CANCELLED && stop_wanted(run->inputs->stop_signal);
    return run->abandoned ? 0
                          : error_set(err, failure.code, "step %" PRId64 ": %s", run->step + 1,
                                      failure.message);
}

static int step(struct run *run, struct error *err)
{
    const struct trainer_inputs *inputs = run->inputs;
    struct feed *feed = &run->feed;
    struct metrics metrics = {0};
    int peers = inputs->comm ? comm_size(inputs->comm) : 1;
    bool saving = inputs->saving.saver && saver_busy(inputs->saving.saver);

    double start = clock_seconds();
    if (next_batch(run, err) < 0)
        return -1;
    if (run->abandoned)
        return 0;
    double fed = clock_seconds();
    plan_set_random(inputs->plan, inputs->seed, (uint64_t)run->step);
    feed_forward(feed);
    if (abandon(run, peers))
        return 0;
    feed_count(feed, &metrics);
    double forwarded = clock_seconds();
    plan_backward(inputs->plan, 1.0F / ((float)plan_batch(inputs->plan) * (float)peers),
                  peers > 1 ? reduce_bucket : NULL, run);
    double backwarded = clock_seconds();
    if (abandon(run, peers))
        return 0;
    if (finish_reduce(run, err) < 0)
        return -1;
    hand_rows_over(run);
    double reduced = clock_seconds();
    if (check_finite(run, metrics_loss(&metrics), err) < 0)
        return -1;
    float rate = schedule_rate(inputs->schedule, run->step);
    updater_step(inputs->updater, rate, run->step + 1);
    plan_commit_statistics(inputs->plan);
    double end = clock_seconds();

    run->step++;
    run->examples += (int64_t)feed->rows * peers;
    struct train_event event = make_event(run, TRAIN_STEP);
    set_metrics(&event, &metrics);
    event.rate = rate;
    event.started = start;
    event.step_seconds = end - start;
    event.input_seconds = fed - start;
    event.forward_seconds = forwarded - fed;
    event.backward_seconds = backwarded - forwarded;
    event.reduce_seconds = reduced - backwarded;
    event.update_seconds = end - reduced;
    event.saving = saving;
    event.saving_seconds = run->saving_seconds;
    run->saving_seconds = 0;
    emit(run, &event);
    return 0;
}

/* --- saving --------------------------------------------------------------------------------- */

static bool evaluated_now(const struct run *run)
{
    return run->evaluated_at == run->step;
}

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
    struct saver_moment moment = {.step = run->step,
                                  .goal = goal,
                                  .origin = run->inputs->saving.origin,
                                  .finished = finished,
                                  .evaluated = evaluated_now(run),
                                  .loss = run->evaluated_loss,
                                  .accuracy = run->evaluated_accuracy};
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
    if (!saver || (run->step == run->inputs->first_step && !finished))
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
    if (!inputs->comm)
        return 0;
    if (comm_size(inputs->comm) > 1 && plan_sparse_count(inputs->plan) > 0)
        return error_set(err, ERROR_USAGE,
                         "a network with embeddings cannot be trained on several ranks yet: their "
                         "rows are not exchanged");
    if (comm_agree(inputs->comm, plan_fingerprint(inputs->plan), &same, err) < 0)
        return -1;
    if (!same)
        return error_set(err, ERROR_PEER,
                         "rank %d of %d lays its gradients out differently: all "
                         "ranks need the same model, batch size, threads and kind of processor",
                         comm_rank(inputs->comm), comm_size(inputs->comm));
    return 0;
}

static int prepare(struct run *run, struct error *err)
{
    const struct trainer_inputs *inputs = run->inputs;
    if (feed_init(&run->feed, inputs->graph, inputs->plan, &inputs->train, err) < 0 ||
        check_agreement(inputs, err) < 0)
        return -1;
    /* Data that does not fit is refused now, not after the training. */
    if (inputs->validation.loader &&
        evaluation_init(&run->evaluation, inputs->graph, inputs->evaluation_plan,
                        &inputs->validation, err) < 0)
        return error_wrap(err, "evaluation data");
    run->requests =
        ARENA_ARRAY(run->arena, struct comm_request, plan_bucket_count(inputs->plan) + 1);
    run->row_lists = plan_sparse_count(inputs->plan);
    run->rows = ARENA_ARRAY(run->arena, struct sparse_rows, run->row_lists + 1);
    if (!run->requests || !run->rows)
        return error_set(err, ERROR_MEMORY, "no memory for the training loop");
    if (!inputs->comm || comm_size(inputs->comm) == 1)
        plan_set_stop(inputs->plan, inputs->stop_signal);
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

static int run_steps(struct run *run, struct error *err)
{
    const struct trainer_inputs *inputs = run->inputs;
    while (run->step < inputs->total_steps && !stop_wanted(inputs->stop_signal) &&
           !accurate_enough(run)) {
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
    if (evaluation_missing(run) && !stop_wanted(inputs->stop_signal) && evaluate(run, err) < 0)
        return -1;
    return 0;
}

/* A step that failed, for its numbers or for its data, changed nothing, so the one before it is worth
 * keeping. */
static int run_and_save(struct run *run, struct error *err)
{
    struct error saving = {0};
    struct train_event started = make_event(run, TRAIN_STARTED);
    emit(run, &started);
    if (run_steps(run, err) < 0) {
        if (save_last(run, run->inputs->total_steps, false, &saving) < 0)
            log_line(LOG_WARNING, "%s", saving.message);
        return -1;
    }
    int64_t goal = accurate_enough(run) ? run->step : run->inputs->total_steps;
    bool finished = run->step == goal && !evaluation_missing(run);
    if (save_last(run, goal, finished, err) < 0)
        return -1;
    struct train_event last = make_event(run, TRAIN_FINISHED);
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
                      .step = inputs->first_step,
                      .evaluated_at = -1,
                      .saved_at = inputs->first_step,
                      .saved_clock = clock_seconds()};
    if (!run.arena)
        return error_set(err, ERROR_MEMORY, "no memory for the training loop");
    int status = prepare(&run, err);
    if (status == 0)
        status = run_and_save(&run, err);
    plan_set_stop(inputs->plan, NULL);
    evaluation_release(&run.evaluation);
    arena_destroy(run.arena);
    return status;
}
