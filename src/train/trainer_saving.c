/* What is kept of a run, in memory that outlives the process and on disk. */
#include "train/trainer_internal.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "store/saver.h"
#include "store/state.h"

/* --- in memory -------------------------------------------------------------------------------- */

/* What is known after step `step`. */
struct saver_moment run_moment(const struct run *run, int64_t step, int64_t goal, bool finished)
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
void run_keep(const struct run *run)
{
    struct saver_moment moment = run_moment(run, run->step, run->inputs->total_steps, false);
    if (run->inputs->keeping.state)
        state_commit(run->inputs->keeping.state, &moment, NULL);
}

/* --- on disk ---------------------------------------------------------------------------------- */

static bool improved(const struct run *run)
{
    struct manifest now = {.evaluated = run_evaluated_now(run),
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
    struct saver_moment moment = run_moment(run, run->step, goal, finished);
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
    struct train_event event = run_event(run, TRAIN_SAVED);
    event.step = result.step;
    event.started = result.started;
    event.step_seconds = result.seconds;
    event.path = result.path;
    run_emit(run, &event);
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
void run_save_if_due(struct run *run)
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
int run_save_last(struct run *run, int64_t goal, bool finished, struct error *err)
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
                run->saved_score == run_evaluated_now(run) && run->saved_finished == finished;
    if (status == 0 && same)
        return 0;
    if (save(run, goal, finished, err) < 0)
        return -1;
    saver_wait(saver);
    return tell_saved(run, err);
}
