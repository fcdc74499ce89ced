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

/* Who computes has one; as many as there are workers. */
struct seat {
    struct seat *next;        /* of the free ones */
    int index;                /* of what servables compute with */
    struct inference **batch; /* room for max_rows */
};

struct batcher {
    struct batcher_settings settings;
    pthread_t *workers;
    struct seat *all_seats;
    int started;
    pthread_mutex_t lock; /* guards all below and every queue; never held while a plan runs */
    pthread_cond_t ready; /* signalled: a queue has more and a seat is free, or the end has come */
    struct batch_queue *queues; /* those that are not empty */
    struct seat *seats;         /* that are free */
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

/* Takes the batch that is due, and a seat, which is free. Returns how many questions are in it, with
 * their servable held by their doors. Called and left with the lock. */
static int take_batch(struct batcher *batcher, struct batch_queue *queue, double now,
                      struct seat **seat, struct inference **dropped)
{
    *seat = batcher->seats;
    batcher->seats = (*seat)->next;
    int count = batch_queue_take(queue, &batcher->settings.rules, now, (*seat)->batch,
                                 batcher->settings.rules.max_rows, dropped);
    if (!queue->first)
        unlist_queue(batcher, queue);
    if (batcher->queues && batcher->seats)
        pthread_cond_signal(&batcher->ready); /* the rest is for another worker */
    return count;
}

/* Waits for a batch that is due. 0: look again, there may be no seat; -1: the end. Called and left with
 * the lock. */
static int next_batch(struct batcher *batcher, struct seat **seat, struct inference **dropped)
{
    double due = 0;
    struct batch_queue *queue = next_queue(batcher, &due);
    *seat = NULL;
    if (!queue && batcher->ending)
        return -1;
    if (!queue || !batcher->seats) { /* who has the seat leaves it soon, and says so */
        pthread_cond_wait(&batcher->ready, &batcher->lock);
        return 0;
    }
    double now = batcher->settings.now();
    if (due > now) {
        wait_until(batcher, due - now);
        return 0;
    }
    return take_batch(batcher, queue, now, seat, dropped);
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

static void compute(struct batcher *batcher, const struct seat *seat, int count)
{
    struct inference **batch = seat->batch;
    struct servable *servable = batch[0]->servable;
    double start = batcher->settings.now();
    struct stats_batch told = {
        .model = servable_name(servable), .version = servable_version(servable), .requests = count};
    for (int i = 0; i < count; i++) {
        batch[i]->queue_seconds = start - batch[i]->asked;
        told.queue_seconds += batch[i]->queue_seconds;
    }
    servable_run(servable, seat->index, batch, count, &told);
    for (int i = 0; i < count; i++) {
        batch[i]->run_seconds = told.input_seconds + told.run_seconds + told.output_seconds;
        batch[i]->batch = told.rows;
    }
    if (batcher->settings.stats)
        stats_batch(batcher->settings.stats, &told);
    forget(batcher, batch[0], count);
    for (int i = 0; i < count; i++) /* from here on the door may free it */
        batch[i]->done(batch[i]);
}

/* Called and left with the lock, but not held while it computes. */
static void use_seat(struct batcher *batcher, struct seat *seat, int count,
                     struct inference *dropped)
{
    pthread_mutex_unlock(&batcher->lock);
    finish_dropped(batcher, dropped);
    if (count > 0)
        compute(batcher, seat, count);
    pthread_mutex_lock(&batcher->lock);
    seat->next = batcher->seats;
    batcher->seats = seat;
}

static void *work(void *context)
{
    struct batcher *batcher = context;
    thread_take_short_turns();
    pthread_mutex_lock(&batcher->lock);
    for (;;) {
        struct inference *dropped = NULL;
        struct seat *seat;
        int count = next_batch(batcher, &seat, &dropped);
        if (count < 0)
            break;
        if (seat)
            use_seat(batcher, seat, count, dropped);
    }
    pthread_cond_signal(&batcher->ready); /* another may wait for a seat, and find the end */
    pthread_mutex_unlock(&batcher->lock);
    return NULL;
}

static bool is_quick(const struct batcher *batcher, const struct batch_queue *queue)
{
    int64_t most = batcher->settings.rules.max_rows;
    return queue->first->rows <= most &&
           servable_is_quick(queue->servable, queue->rows < most ? queue->rows : most);
}

bool batcher_help(struct batcher *batcher)
{
    struct inference *dropped = NULL;
    struct seat *seat = NULL;
    double due = 0, now = batcher->settings.now();
    pthread_mutex_lock(&batcher->lock);
    struct batch_queue *queue = batcher->seats ? next_queue(batcher, &due) : NULL;
    if (queue && due <= now && is_quick(batcher, queue)) {
        int count = take_batch(batcher, queue, now, &seat, &dropped);
        use_seat(batcher, seat, count, dropped);
        /* Whatever came meanwhile is for the next call, which `true` asks for; what takes long is for
         * a worker, who may have waited for this seat. */
        queue = next_queue(batcher, &due);
        if (queue && !is_quick(batcher, queue))
            pthread_cond_signal(&batcher->ready);
    } else if (queue)
        pthread_cond_signal(&batcher->ready);
    pthread_mutex_unlock(&batcher->lock);
    return seat;
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
        /* Who joins others that wait for more changes nothing before the batch is full. Who asks may
         * be about to help. */
        if ((queue->count == 1 || batch_queue_due(queue, rules, false) <= now) &&
            !(inference->asker_helps && is_quick(batcher, queue)))
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
    batcher->all_seats = memory_allocate(sizeof *batcher->all_seats * (size_t)count);
    if (!batcher->workers || !batcher->all_seats)
        return error_set(err, ERROR_MEMORY, "no memory for the batcher");
    for (int i = count - 1; i >= 0; i--) {
        struct seat *seat = &batcher->all_seats[i];
        *seat = (struct seat){.next = batcher->seats, .index = i};
        batcher->seats = seat;
        seat->batch =
            memory_allocate(sizeof *seat->batch * (size_t)batcher->settings.rules.max_rows);
        if (!seat->batch)
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
        int status = thread_start(&batcher->workers[i], work, batcher);
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
        pthread_join(batcher->workers[i], NULL);
    for (int i = 0; batcher->all_seats && i < batcher->settings.workers; i++)
        memory_free(batcher->all_seats[i].batch);
    memory_free(batcher->all_seats);
    memory_free(batcher->workers);
    pthread_cond_destroy(&batcher->ready);
    pthread_mutex_destroy(&batcher->lock);
    memory_free(batcher);
}
