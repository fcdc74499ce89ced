#include "serve/batcher.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "serve/inference.h"
#include "serve/servable.h"
#include "serve/stats.h"

struct worker {
    struct batcher *batcher;
    pthread_t thread;
    int index;
    struct inference **batch; /* room for max_rows */
};

struct batcher {
    struct batcher_settings settings;
    struct worker *workers;
    int started;
    pthread_mutex_t lock;       /* guards all below and every queue; never held while a plan runs */
    pthread_cond_t ready;       /* signalled: a queue has more, or the end has come */
    struct batch_queue *queues; /* those that are not empty */
    int pending;                /* waiting or being computed */
    bool ending;
};

/* --- which queue is next --------------------------------------------------------------------- */

static void list_queue(struct batcher *batcher, struct batch_queue *queue)
{
    if (queue->listed)
        return;
    queue->listed = true;
    queue->next = batcher->queues;
    batcher->queues = queue;
}

static void unlist_queue(struct batcher *batcher, struct batch_queue *queue)
{
    struct batch_queue **at = &batcher->queues;
    while (*at != queue)
        at = &(*at)->next;
    *at = queue->next;
    queue->listed = false;
}

/* The one that is due first; *due says when. */
static struct batch_queue *next_queue(const struct batcher *batcher, double *due)
{
    struct batch_queue *best = NULL;
    for (struct batch_queue *queue = batcher->queues; queue; queue = queue->next) {
        double when = batch_queue_due(queue, &batcher->settings.rules, batcher->ending);
        if (!best || when < *due) {
            best = queue;
            *due = when;
        }
    }
    return best;
}

static void wait_until(struct batcher *batcher, double seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    double left = seconds > 0 ? seconds : 0;
    until.tv_sec += (time_t)left;
    until.tv_nsec += (long)((left - floor(left)) * 1e9);
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(&batcher->ready, &batcher->lock, &until);
}

/* Waits for a batch that is due. Returns how many questions are in it, with their servable held by
 * their doors; 0: look again, -1: the end. Called and left with the lock. */
static int next_batch(struct worker *worker, struct inference **dropped)
{
    struct batcher *batcher = worker->batcher;
    double due = 0;
    struct batch_queue *queue = next_queue(batcher, &due);
    if (!queue && batcher->ending)
        return -1;
    if (!queue) {
        pthread_cond_wait(&batcher->ready, &batcher->lock);
        return 0;
    }
    double now = batcher->settings.now();
    if (due > now) {
        wait_until(batcher, due - now);
        return 0;
    }
    int count = batch_queue_take(queue, &batcher->settings.rules, now, worker->batch,
                                 batcher->settings.rules.max_rows, dropped);
    if (!queue->first)
        unlist_queue(batcher, queue);
    if (batcher->queues)
        pthread_cond_signal(&batcher->ready); /* the rest is for another worker */
    return count;
}

/* --- computing ------------------------------------------------------------------------------- */

static void tell_pending(struct batcher *batcher, const struct inference *inference, int change)
{
    if (batcher->settings.stats)
        stats_pending(batcher->settings.stats, servable_name(inference->servable),
                      servable_version(inference->servable), change);
}

/* These no longer count when their doors hear of them. All are of the same servable as this one. */
static void forget(struct batcher *batcher, const struct inference *inference, int count)
{
    tell_pending(batcher, inference, -count);
    pthread_mutex_lock(&batcher->lock);
    batcher->pending -= count;
    pthread_mutex_unlock(&batcher->lock);
}

static void finish_dropped(struct batcher *batcher, struct inference *dropped)
{
    for (struct inference *next; dropped; dropped = next) {
        next = dropped->next;
        forget(batcher, dropped, 1);
        dropped->done(dropped);
    }
}

static void compute(struct worker *worker, int count)
{
    struct batcher *batcher = worker->batcher;
    struct servable *servable = worker->batch[0]->servable;
    double start = batcher->settings.now();
    struct stats_batch told = {
        .model = servable_name(servable), .version = servable_version(servable), .requests = count};
    for (int i = 0; i < count; i++) {
        worker->batch[i]->queue_seconds = start - worker->batch[i]->asked;
        told.queue_seconds += worker->batch[i]->queue_seconds;
    }
    servable_run(servable, worker->index, worker->batch, count, &told);
    for (int i = 0; i < count; i++) {
        worker->batch[i]->run_seconds = told.input_seconds + told.run_seconds + told.output_seconds;
        worker->batch[i]->batch = told.rows;
    }
    if (batcher->settings.stats)
        stats_batch(batcher->settings.stats, &told);
    forget(batcher, worker->batch[0], count);
    for (int i = 0; i < count; i++) /* from here on the door may free it */
        worker->batch[i]->done(worker->batch[i]);
}

static void *work(void *context)
{
    struct worker *worker = context;
    struct batcher *batcher = worker->batcher;
    thread_take_short_turns();
    pthread_mutex_lock(&batcher->lock);
    for (;;) {
        struct inference *dropped = NULL;
        int count = next_batch(worker, &dropped);
        if (count < 0)
            break;
        if (count == 0 && !dropped)
            continue;
        pthread_mutex_unlock(&batcher->lock);
        finish_dropped(batcher, dropped);
        if (count > 0)
            compute(worker, count);
        pthread_mutex_lock(&batcher->lock);
    }
    pthread_mutex_unlock(&batcher->lock);
    return NULL;
}

/* --- asking ---------------------------------------------------------------------------------- */

static bool refuse(struct inference *inference, enum serve_status status, const char *why)
{
    inference->status = status;
    error_set(&inference->error, ERROR_CANCELLED, "%s", why);
    return false;
}

bool batcher_add(struct batcher *batcher, struct inference *inference)
{
    double now = batcher->settings.now();
    if (inference->deadline > 0 && now >= inference->deadline)
        return refuse(inference, SERVE_DEADLINE, "the deadline has passed already");
    struct batch_queue *queue = servable_queue(inference->servable);
    struct inference *dropped = NULL;
    const struct batch_rules *rules = &batcher->settings.rules;
    tell_pending(batcher, inference, 1);
    pthread_mutex_lock(&batcher->lock);
    bool ending = batcher->ending;
    bool taken = !ending && batch_queue_add(queue, rules, inference, now);
    if (!taken && !ending) {
        batch_queue_sweep(queue, now, &dropped); /* who has left makes room */
        taken = batch_queue_add(queue, rules, inference, now);
    }
    if (taken) {
        batcher->pending++;
        list_queue(batcher, queue);
        /* Who joins others that wait for more changes nothing before the batch is full. */
        if (queue->count == 1 || batch_queue_due(queue, rules, false) <= now)
            pthread_cond_signal(&batcher->ready);
    } else if (queue->listed && !queue->first) {
        unlist_queue(batcher, queue);
    }
    pthread_mutex_unlock(&batcher->lock);
    finish_dropped(batcher, dropped);
    if (taken)
        return true;
    tell_pending(batcher, inference, -1);
    return ending ? refuse(inference, SERVE_UNAVAILABLE, "the server is ending")
                  : refuse(inference, SERVE_EXHAUSTED,
                           "too many requests wait for this model; try again later");
}

void batcher_wake(struct batcher *batcher)
{
    pthread_mutex_lock(&batcher->lock);
    pthread_cond_broadcast(&batcher->ready);
    pthread_mutex_unlock(&batcher->lock);
}

int batcher_pending(struct batcher *batcher)
{
    pthread_mutex_lock(&batcher->lock);
    int pending = batcher->pending;
    pthread_mutex_unlock(&batcher->lock);
    return pending;
}

/* --- making and ending ----------------------------------------------------------------------- */

static int make_workers(struct batcher *batcher, struct error *err)
{
    int count = batcher->settings.workers;
    batcher->workers = memory_allocate(sizeof *batcher->workers * (size_t)count);
    if (!batcher->workers)
        return error_set(err, ERROR_MEMORY, "no memory for the batcher");
    for (int i = 0; i < count; i++) {
        struct worker *worker = &batcher->workers[i];
        *worker = (struct worker){.batcher = batcher, .index = i};
        worker->batch =
            memory_allocate(sizeof *worker->batch * (size_t)batcher->settings.rules.max_rows);
        if (!worker->batch)
            return error_set(err, ERROR_MEMORY, "no memory for the batcher");
    }
    return 0;
}

int batcher_create(const struct batcher_settings *settings, struct batcher **out, struct error *err)
{
    struct batcher *batcher = memory_allocate(sizeof *batcher);
    if (!batcher)
        return error_set(err, ERROR_MEMORY, "no memory for the batcher");
    batcher->settings = *settings;
    if (!batcher->settings.now)
        batcher->settings.now = clock_seconds;
    pthread_mutex_init(&batcher->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&batcher->ready, &attributes);
    pthread_condattr_destroy(&attributes);
    if (make_workers(batcher, err) < 0) {
        batcher_destroy(batcher);
        return -1;
    }
    *out = batcher;
    return 0;
}

int batcher_start(struct batcher *batcher, struct error *err)
{
    for (int i = 0; i < batcher->settings.workers; i++) {
        int status = thread_start(&batcher->workers[i].thread, work, &batcher->workers[i]);
        if (status)
            return error_set(err, ERROR_IO, "no thread to compute with: %s", strerror(status));
        batcher->started++;
    }
    return 0;
}

void batcher_destroy(struct batcher *batcher)
{
    if (!batcher)
        return;
    pthread_mutex_lock(&batcher->lock);
    batcher->ending = true;
    pthread_cond_broadcast(&batcher->ready);
    pthread_mutex_unlock(&batcher->lock);
    for (int i = 0; i < batcher->started; i++)
        pthread_join(batcher->workers[i].thread, NULL);
    for (int i = 0; batcher->workers && i < batcher->settings.workers; i++)
        memory_free(batcher->workers[i].batch);
    memory_free(batcher->workers);
    pthread_cond_destroy(&batcher->ready);
    pthread_mutex_destroy(&batcher->lock);
    memory_free(batcher);
}
