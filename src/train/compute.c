#include "train/compute.h"

#include <pthread.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/clones.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/stop.h"
#include "base/threads.h"
#include "comm/comm.h"
#include "exec/params.h"
#include "train/pieces.h"

/* A plan, and the thread that runs it; the first is run by the caller's. */
struct lane {
    struct compute *compute;
    int number;
    struct feed feed;
    pthread_t thread;
    double forwarded; /* clock_seconds() after the forward pass */
};

struct compute {
    struct compute_options options;
    struct arena *arena;
    struct pieces pieces;
    struct lane *lanes;
    int lane_count, thread_count;
    struct slab slab;   /* gradients of the places but the first, whose are those of params */
    float **gradients;  /* by place */
    float **statistics; /* by place */
    float *before;      /* the running statistics while pieces move them */
    struct rows *rows;  /* by place, and one to add in */
    struct sparse_rows *lists; /* a plan's, while they are copied */
    float *parts[TREE_MAX_NODES], *part_statistics[TREE_MAX_NODES];

    /* Of the group that is being computed; set before the lanes start. */
    const struct pieces_group *group;
    bool last;
    float scale;
    compute_bucket_fn *on_bucket;
    void *context;
    atomic_int *arrived; /* by bucket: lanes that have finished it */
    int handed;          /* buckets of this step that were handed on: the first ones */

    pthread_mutex_t lock; /* guards the following */
    pthread_cond_t begin, end;
    uint64_t begun; /* groups */
    int running;    /* lanes at work, beside the caller's */
    bool closing;
};

KERNEL_CLONES static void add_to(float *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] += from[i];
}

static bool stopped(const struct compute *compute)
{
    return compute->options.stop && stop_wanted(compute->options.stop);
}

/* A signal ends this rank's part at once. The others learn of it within a second, and need not
 * finish all their pieces before they drop the step. */
static bool gives_up(const struct compute *compute)
{
    struct comm *comm = compute->options.comm;
    if (stopped(compute) && comm)
        comm_ask_stop(comm);
    return stopped(compute) || (comm && comm_stop_asked(comm));
}

/* --- one piece -------------------------------------------------------------------------------- */

/* The lane that finishes a bucket last adds it up over the places and hands it on. */
static void finish_bucket(void *context, int bucket, float *first, size_t count)
{
    const struct lane *lane = context;
    struct compute *compute = lane->compute;
    size_t at = (size_t)(first - plan_gradients(lane->feed.plan));
    if (atomic_fetch_add(&compute->arrived[bucket], 1) + 1 < compute->group->count)
        return;
    for (int i = 0; i < compute->group->addition_count; i++) {
        const struct pieces_addition *addition = &compute->group->additions[i];
        add_to(compute->gradients[addition->to] + at, compute->gradients[addition->from] + at,
               count);
    }
    compute->handed++;
    if (compute->on_bucket)
        compute->on_bucket(compute->context, bucket, at, count, compute->parts);
}

static void run_lane(struct lane *lane)
{
    struct compute *compute = lane->compute;
    struct plan *plan = lane->feed.plan;
    if (lane->number >= compute->group->count)
        return;
    feed_forward(&lane->feed);
    lane->forwarded = clock_seconds();
    bool hook = compute->last && (compute->on_bucket || compute->group->addition_count);
    if (!stopped(compute))
        plan_backward(plan, compute->scale, hook ? finish_bucket : NULL, lane);
}

static void *lane_main(void *context)
{
    struct lane *lane = context;
    struct compute *compute = lane->compute;
    pthread_mutex_lock(&compute->lock);
    for (uint64_t seen = 0;;) {
        while (compute->begun == seen && !compute->closing)
            pthread_cond_wait(&compute->begin, &compute->lock);
        if (compute->closing)
            break;
        seen = compute->begun;
        pthread_mutex_unlock(&compute->lock);
        run_lane(lane);
        pthread_mutex_lock(&compute->lock);
        if (--compute->running == 0)
            pthread_cond_signal(&compute->end);
    }
    pthread_mutex_unlock(&compute->lock);
    return NULL;
}

/* --- a group of pieces ------------------------------------------------------------------------ */

static void run_lanes(struct compute *compute)
{
    pthread_mutex_lock(&compute->lock);
    compute->running = compute->thread_count;
    compute->begun++;
    pthread_cond_broadcast(&compute->begin);
    pthread_mutex_unlock(&compute->lock);
    run_lane(&compute->lanes[0]);
    pthread_mutex_lock(&compute->lock);
    while (compute->running > 0)
        pthread_cond_wait(&compute->end, &compute->lock);
    pthread_mutex_unlock(&compute->lock);
}

/* The running statistics as this piece alone would move them; their mean over all pieces is what
 * the mean of the pieces' own statistics would give. */
static void take_statistics(struct compute *compute, struct plan *plan, int place)
{
    size_t bytes = params_statistic_elements(compute->options.params) * sizeof(float);
    float *running = params_statistics(compute->options.params);
    memcpy(compute->before, running, bytes);
    plan_commit_statistics(plan);
    memcpy(compute->statistics[place], running, bytes);
    memcpy(running, compute->before, bytes);
}

static int take_rows(struct compute *compute, const struct plan *plan, int place, struct error *err)
{
    struct rows *rows = &compute->rows[place];
    for (int i = 0; i < rows->table_count; i++)
        plan_sparse(plan, i, &compute->lists[i]);
    return rows_copy(rows, compute->lists, err);
}

/* What a lane's next forward would overwrite, and what is not added up bucket by bucket. */
static int collect(struct compute *compute, const struct pieces_group *group, struct error *err)
{
    if (compute->options.alone)
        return 0;
    size_t dense = params_dense_elements(compute->options.params);
    size_t statistics = params_statistic_elements(compute->options.params);
    for (int i = 0; i < group->count; i++) {
        struct plan *plan = compute->lanes[i].feed.plan;
        if (statistics)
            take_statistics(compute, plan, group->places[i]);
        if (take_rows(compute, plan, group->places[i], err) < 0)
            return -1;
    }
    for (int i = 0; i < group->addition_count; i++) {
        const struct pieces_addition *a = &group->additions[i];
        if (!compute->last)
            add_to(compute->gradients[a->to], compute->gradients[a->from], dense);
        add_to(compute->statistics[a->to], compute->statistics[a->from], statistics);
        if (rows_add(&compute->rows[a->to], &compute->rows[a->from],
                     &compute->rows[compute->pieces.place_count], err) < 0)
            return -1;
    }
    return 0;
}

static int feed_group(struct compute *compute, const struct pieces_group *group, int64_t step,
                      struct compute_result *result, struct error *err)
{
    for (int i = 0; i < group->count; i++) {
        struct lane *lane = &compute->lanes[i];
        if (feed_next(&lane->feed, err) < 0)
            return -1;
        uint64_t piece = (uint64_t)(compute->options.first + group->first + i);
        plan_set_gradients(lane->feed.plan, compute->gradients[group->places[i]]);
        plan_set_random(lane->feed.plan, compute->options.seed,
                        (uint64_t)step * (uint64_t)compute->options.pieces + piece);
        result->rows += lane->feed.rows;
    }
    return 0;
}

static int run_group(struct compute *compute, const struct pieces_group *group, int64_t step,
                     struct compute_result *result, struct error *err)
{
    double start = clock_seconds();
    if (result->started == 0)
        result->started = start;
    int status = feed_group(compute, group, step, result, err);
    double fed = clock_seconds();
    result->input_seconds += fed - start;
    if (status < 0)
        return -1;
    compute->group = group;
    run_lanes(compute);
    result->forward_seconds += compute->lanes[0].forwarded - fed;
    if (stopped(compute))
        return 0;
    for (int i = 0; i < group->count; i++)
        feed_count(&compute->lanes[i].feed, &result->metrics);
    status = collect(compute, group, err);
    result->backward_seconds += clock_seconds() - compute->lanes[0].forwarded;
    return status;
}

static void clear_arrived(struct compute *compute)
{
    for (int b = 0; b < plan_bucket_count(compute->options.plans[0]); b++)
        atomic_store(&compute->arrived[b], 0);
}

int compute_run(struct compute *compute, int64_t step, float scale, compute_bucket_fn *on_bucket,
                void *context, struct compute_result *out, struct error *err)
{
    *out = (struct compute_result){0};
    compute->scale = scale;
    compute->on_bucket = on_bucket;
    compute->context = context;
    compute->handed = 0;
    clear_arrived(compute);
    for (int g = 0; g < compute->pieces.group_count && !gives_up(compute); g++) {
        compute->last = g + 1 == compute->pieces.group_count;
        if (run_group(compute, &compute->pieces.groups[g], step, out, err) < 0)
            return -1;
    }
    return gives_up(compute) ? error_set(err, ERROR_CANCELLED, "stopped") : 0;
}

void compute_nothing(struct compute *compute, compute_bucket_fn *on_bucket, void *context)
{
    size_t statistics = params_statistic_elements(compute->options.params);
    const struct plan *plan = compute->options.plans[0];
    for (int p = 0; p < compute->pieces.part_count; p++) {
        int place = compute->pieces.parts[p];
        memset(compute->statistics[place], 0, statistics * sizeof(float));
        for (int t = 0; t < compute->rows[place].table_count; t++)
            compute->rows[place].tables[t].count = 0;
    }
    for (int b = compute->handed; b < plan_bucket_count(plan); b++) {
        struct plan_bucket bucket = plan_bucket(plan, b);
        for (int p = 0; p < compute->pieces.part_count; p++)
            memset(compute->parts[p] + bucket.first, 0, bucket.count * sizeof(float));
        on_bucket(context, b, bucket.first, bucket.count, compute->parts);
    }
}

int compute_part_count(const struct compute *compute)
{
    return compute->pieces.part_count;
}

float *const *compute_statistics(const struct compute *compute)
{
    return compute->part_statistics;
}

struct rows *compute_rows(const struct compute *compute, int part)
{
    return &compute->rows[compute->pieces.parts[part]];
}

const char *compute_find_nonfinite(struct compute *compute, const struct feed **feed)
{
    for (int i = 0; i < compute->group->count; i++) {
        *feed = &compute->lanes[i].feed;
        const char *node = plan_find_nonfinite((*feed)->plan, (*feed)->inputs);
        if (node)
            return node;
    }
    return NULL;
}

/* --- making it -------------------------------------------------------------------------------- */

static int make_rows(const struct compute *compute, struct rows *rows, int tables,
                     struct error *err)
{
    int status = rows_create(rows, tables, err);
    for (int t = 0; status == 0 && t < tables; t++) {
        struct sparse_rows list;
        plan_sparse(compute->options.plans[0], t, &list);
        status = rows_describe(rows, t, list.param, list.dim, err);
    }
    return status;
}

static int take_places(struct compute *compute, struct error *err)
{
    int places = compute->pieces.place_count;
    size_t dense = params_dense_elements(compute->options.params);
    size_t statistics = params_statistic_elements(compute->options.params);
    int tables = plan_sparse_count(compute->options.plans[0]);
    size_t more = (size_t)(places - 1) * dense + (size_t)(places + 1) * statistics + 1;
    compute->gradients = ARENA_ARRAY(compute->arena, float *, places);
    compute->statistics = ARENA_ARRAY(compute->arena, float *, places);
    compute->rows = ARENA_ARRAY(compute->arena, struct rows, places + 1);
    compute->lists = ARENA_ARRAY(compute->arena, struct sparse_rows, tables + 1);
    compute->arrived =
        ARENA_ARRAY(compute->arena, atomic_int, params_count(compute->options.params) + 1);
    if (!compute->gradients || !compute->statistics || !compute->rows || !compute->lists ||
        !compute->arrived)
        return error_set(err, ERROR_MEMORY, "no memory for the training loop");
    if (slab_create(more * sizeof(float), "gradients of the pieces of a batch", &compute->slab,
                    err) < 0)
        return -1;
    float *at = compute->slab.data;
    for (int p = 0; p < places; p++) {
        compute->statistics[p] = at;
        at += statistics;
    }
    compute->before = at;
    at += statistics;
    compute->gradients[0] = params_gradients(compute->options.params);
    for (int p = 1; p < places; p++, at += dense)
        compute->gradients[p] = at;
    for (int p = 0; p <= places; p++)
        if (make_rows(compute, &compute->rows[p], tables, err) < 0)
            return -1;
    for (int i = 0; i < compute->pieces.part_count; i++) {
        compute->parts[i] = compute->gradients[compute->pieces.parts[i]];
        compute->part_statistics[i] = compute->statistics[compute->pieces.parts[i]];
    }
    return 0;
}

static int start_lanes(struct compute *compute, struct error *err)
{
    const struct compute_options *options = &compute->options;
    compute->lanes = ARENA_ARRAY(compute->arena, struct lane, options->plan_count);
    if (!compute->lanes)
        return error_set(err, ERROR_MEMORY, "no memory for the training loop");
    compute->lane_count = options->plan_count;
    for (int i = 0; i < options->plan_count; i++) {
        struct lane *lane = &compute->lanes[i];
        lane->compute = compute;
        lane->number = i;
        if (feed_init(&lane->feed, options->graph, options->plans[i], &options->data, err) < 0)
            return -1;
        plan_set_stop(options->plans[i], options->stop);
        if (i == 0)
            continue;
        int code = thread_start(&lane->thread, lane_main, lane);
        if (code != 0)
            return error_set(err, ERROR_MEMORY, "cannot start thread %d of %d: %s", i + 1,
                             options->plan_count, strerror(code));
        compute->thread_count++;
    }
    return 0;
}

int compute_create(const struct compute_options *options, struct compute **out, struct error *err)
{
    struct compute *compute = memory_allocate(sizeof *compute);
    if (!compute)
        return error_set(err, ERROR_MEMORY, "no memory for the training loop");
    compute->options = *options;
    compute->arena = arena_create();
    pthread_mutex_init(&compute->lock, NULL);
    pthread_cond_init(&compute->begin, NULL);
    pthread_cond_init(&compute->end, NULL);
    int status = compute->arena ? 0 : error_set(err, ERROR_MEMORY, "no memory for the training");
    if (status == 0)
        status =
            pieces_plan(options->shards, options->held, options->plan_count, &compute->pieces, err);
    if (status == 0)
        status = take_places(compute, err);
    if (status == 0)
        status = start_lanes(compute, err);
    if (status < 0) {
        compute_destroy(compute);
        return -1;
    }
    *out = compute;
    return 0;
}

void compute_destroy(struct compute *compute)
{
    if (!compute)
        return;
    pthread_mutex_lock(&compute->lock);
    compute->closing = true;
    pthread_cond_broadcast(&compute->begin);
    pthread_mutex_unlock(&compute->lock);
    for (int i = 1; i <= compute->thread_count; i++)
        pthread_join(compute->lanes[i].thread, NULL);
    for (int i = 0; i < compute->lane_count; i++) {
        plan_set_stop(compute->options.plans[i], NULL);
        plan_set_gradients(compute->options.plans[i], NULL);
    }
    for (int p = 0; compute->rows && p <= compute->pieces.place_count; p++)
        rows_release(&compute->rows[p]);
    pthread_cond_destroy(&compute->begin);
    pthread_cond_destroy(&compute->end);
    pthread_mutex_destroy(&compute->lock);
    slab_release(&compute->slab);
    pieces_release(&compute->pieces);
    arena_destroy(compute->arena);
    memory_free(compute);
}
