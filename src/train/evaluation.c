#include "train/evaluation.h"

#include <inttypes.h>
#include <math.h>

#include "base/error.h"
#include "base/stop.h"
#include "train/trainer.h"

int evaluation_init(struct evaluation *evaluation, const struct graph *graph, struct plan *plan,
                    const struct trainer_data *data, struct error *err)
{
    *evaluation = (struct evaluation){0};
    if (feed_init(&evaluation->feed, graph, plan, data, err) < 0)
        return -1;
    if (!feed_is_binary(&evaluation->feed))
        return 0;
    int64_t examples = loader_steps_per_epoch(data->loader) * plan_batch(plan);
    return scores_create(&evaluation->scores, examples, err);
}

int evaluation_pass(struct evaluation *evaluation, const atomic_int *stop_signal,
                    struct metrics *out, struct error *err)
{
    struct feed *feed = &evaluation->feed;
    struct metrics metrics = {.auc = NAN,
                              .scores = evaluation->scores.keys ? &evaluation->scores : NULL};
    scores_clear(&evaluation->scores);
    plan_set_stop(feed->plan, stop_signal);
    loader_seek(feed->loader, (struct loader_position){0});
    for (;;) {
        if (feed_next(feed, err) < 0)
            return -1;
        if (!feed->rows)
            break;
        feed_forward(feed);
        if (stop_wanted(stop_signal)) /* perhaps in the middle of it */
            return error_set(err, ERROR_CANCELLED,
                             "stopped after %" PRId64 " examples of the evaluation",
                             metrics.examples);
        feed_count(feed, &metrics);
    }
    if (metrics.scores)
        metrics.auc = scores_auc(metrics.scores);
    metrics.scores = NULL;
    *out = metrics;
    return 0;
}

void evaluation_release(struct evaluation *evaluation)
{
    if (evaluation->feed.plan)
        plan_set_stop(evaluation->feed.plan, NULL);
    scores_release(&evaluation->scores);
}

int trainer_evaluate(const struct graph *graph, struct plan *plan, const struct trainer_data *data,
                     const atomic_int *stop_signal, struct metrics *out, struct error *err)
{
    struct evaluation evaluation;
    int status = evaluation_init(&evaluation, graph, plan, data, err);
    if (status == 0)
        status = evaluation_pass(&evaluation, stop_signal, out, err);
    evaluation_release(&evaluation);
    return status;
}
