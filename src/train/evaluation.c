#include "train/evaluation.h"

#include <inttypes.h>
#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/stop.h"
#include "comm/comm.h"
#include "train/trainer.h"

static int ranks_of(const struct evaluation *evaluation)
{
    return evaluation->comm ? comm_size(evaluation->comm) : 1;
}

int evaluation_init(struct evaluation *evaluation, const struct graph *graph, struct plan *plan,
                    const struct trainer_data *data, struct comm *comm, struct error *err)
{
    *evaluation = (struct evaluation){.comm = comm};
    if (feed_init(&evaluation->feed, graph, plan, data, err) < 0)
        return -1;
    size_t ranks = (size_t)ranks_of(evaluation);
    evaluation->batch_limit = loader_steps_per_epoch(data->loader);
    size_t limit = (size_t)evaluation->batch_limit + 1;
    evaluation->batches = memory_allocate(limit * sizeof *evaluation->batches);
    evaluation->all = memory_allocate(limit * ranks * sizeof *evaluation->all);
    evaluation->sizes = memory_allocate(ranks * sizeof *evaluation->sizes);
    if (!evaluation->batches || !evaluation->all || !evaluation->sizes)
        return error_set(err, ERROR_MEMORY, "no memory for the results of %zu batches", limit);
    if (!feed_is_binary(&evaluation->feed))
        return 0;
    int64_t examples = evaluation->batch_limit * plan_batch(plan) * (int64_t)ranks;
    return scores_create(&evaluation->scores, examples, err);
}

/* A signal that one rank got ends the pass of all: it may take minutes. */
static bool must_stop(const struct evaluation *evaluation, const atomic_int *stop_signal)
{
    bool own = stop_wanted(stop_signal);
    if (own && evaluation->comm)
        comm_ask_stop(evaluation->comm);
    return own || (evaluation->comm && comm_stop_asked(evaluation->comm));
}

/* This rank's batches. */
static int pass_own(struct evaluation *evaluation, const atomic_int *stop_signal, struct error *err)
{
    struct feed *feed = &evaluation->feed;
    evaluation->batch_count = 0;
    scores_clear(&evaluation->scores);
    plan_set_stop(feed->plan, stop_signal);
    loader_seek(feed->loader, (struct loader_position){0});
    for (;;) {
        if (feed_next(feed, err) < 0)
            return -1;
        if (!feed->rows)
            return 0;
        feed_forward(feed);
        if (must_stop(evaluation, stop_signal)) /* perhaps in the middle of it */
            return error_set(err, ERROR_CANCELLED,
                             "stopped after %" PRId64 " batches of the evaluation",
                             evaluation->batch_count);
        struct metrics *batch = &evaluation->batches[evaluation->batch_count++];
        *batch = (struct metrics){.scores = evaluation->scores.keys ? &evaluation->scores : NULL};
        feed_count(feed, batch);
        batch->scores = NULL;
    }
}

/* --- with other ranks ------------------------------------------------------------------------- */

/* A rank that failed, or was stopped, must not leave the others waiting. */
static int agree_on_outcome(struct evaluation *evaluation, struct error *own, struct error *err)
{
    struct comm *comm = evaluation->comm;
    /* A rank that failed says so by a byte. */
    int ranks = ranks_of(evaluation), failed = 0;
    if (comm_gather(comm, "", own->code ? 1 : 0, evaluation->all, (size_t)ranks, evaluation->sizes,
                    err) < 0)
        return -1;
    while (failed < ranks && !evaluation->sizes[failed])
        failed++;
    if (failed == ranks)
        return 0;
    struct error failure = *own;
    if (comm_broadcast(comm, &failure, sizeof failure, failed, err) < 0)
        return -1;
    return error_set(err, failure.code, "rank %d: %s", failed, failure.message);
}

static int gather_scores(struct evaluation *evaluation, struct error *err)
{
    struct scores *scores = &evaluation->scores;
    if (!scores->keys)
        return 0;
    size_t own = (size_t)scores->count * sizeof *scores->keys, sum = 0;
    if (comm_gather(evaluation->comm, scores->keys, own, scores->spare,
                    (size_t)scores->capacity * sizeof *scores->keys, evaluation->sizes, err) < 0)
        return -1;
    for (int r = 0; r < ranks_of(evaluation); r++)
        sum += evaluation->sizes[r];
    memcpy(scores->keys, scores->spare, sum);
    scores->count = (int64_t)(sum / sizeof *scores->keys);
    return 0;
}

static int gather_batches(struct evaluation *evaluation, struct error *err)
{
    int ranks = ranks_of(evaluation);
    size_t size = sizeof *evaluation->batches, limit = (size_t)evaluation->batch_limit + 1;
    return comm_gather(evaluation->comm, evaluation->batches,
                       (size_t)evaluation->batch_count * size, evaluation->all,
                       limit * (size_t)ranks * size, evaluation->sizes, err);
}

/* The `number`-th batch of a rank, or NULL; all ranks' lie one behind the other. */
static const struct metrics *batch_of(const struct evaluation *evaluation, int rank, int64_t number)
{
    if (!evaluation->comm)
        return number < evaluation->batch_count ? &evaluation->batches[number] : NULL;
    const struct metrics *first = evaluation->all;
    for (int r = 0; r < rank; r++)
        first += evaluation->sizes[r] / sizeof *first;
    int64_t count = (int64_t)(evaluation->sizes[rank] / sizeof *first);
    return number < count ? first + number : NULL;
}

static struct metrics sum_of_batches(const struct evaluation *evaluation)
{
    struct metrics sum = {.auc = NAN};
    for (int64_t number = 0; number < evaluation->batch_limit; number++)
        for (int rank = 0; rank < ranks_of(evaluation); rank++) {
            const struct metrics *batch = batch_of(evaluation, rank, number);
            if (batch)
                metrics_sum(&sum, batch);
        }
    return sum;
}

int evaluation_pass(struct evaluation *evaluation, const atomic_int *stop_signal,
                    struct metrics *out, struct error *err)
{
    struct error own = {0};
    int status = pass_own(evaluation, stop_signal, &own);
    if (!evaluation->comm && status < 0)
        return error_set(err, own.code, "%s", own.message);
    if (evaluation->comm && agree_on_outcome(evaluation, &own, err) < 0)
        return -1;
    if (evaluation->comm && gather_scores(evaluation, err) < 0)
        return -1;
    if (evaluation->comm && gather_batches(evaluation, err) < 0)
        return -1;
    struct metrics sum = sum_of_batches(evaluation);
    if (evaluation->scores.keys)
        sum.auc = scores_auc(&evaluation->scores);
    *out = sum;
    return 0;
}

void evaluation_release(struct evaluation *evaluation)
{
    if (evaluation->feed.plan)
        plan_set_stop(evaluation->feed.plan, NULL);
    scores_release(&evaluation->scores);
    memory_free(evaluation->batches);
    memory_free(evaluation->all);
    memory_free(evaluation->sizes);
}

int trainer_evaluate(const struct graph *graph, struct plan *plan, const struct trainer_data *data,
                     const atomic_int *stop_signal, struct metrics *out, struct error *err)
{
    struct evaluation evaluation;
    int status = evaluation_init(&evaluation, graph, plan, data, NULL, err);
    if (status == 0)
        status = evaluation_pass(&evaluation, stop_signal, out, err);
    evaluation_release(&evaluation);
    return status;
}
