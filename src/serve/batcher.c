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
#include "serve/piece.h"
#include "serve/servable.h"
#include "serve/stats.h"

/* Who computes has one: one for each worker, and the last for helpers. */
struct seat {
    int index;                /* of what servables compute with */
    struct inference **batch; /* room for max_rows */
    struct inference *large;  /* or a piece of this one... */
    int64_t first;            /* ... from this row on */
};

struct worker {
    struct batcher *batcher;
    struct seat *seat;
    pthread_t thread;
};

struct batcher {
    struct batcher_settings settings;
    struct worker *workers;
    struct seat *seats;
    int started;
    pthread_mutex_t room_lock;  /* held while room is made for the answer of a large question */
    pthread_mutex_t lock;       /* guards all below and every queue; never held while a plan runs */
    pthread_cond_t ready;       /* signalled: a queue has more, or the end has come */
    struct batch_queue *queues; /* those that are not empty */
    bool helped;                /* a helper computes */
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

static void unlist_if_empty(struct batcher *batcher, struct batch_queue *queue)
{
    if (queue->listed && batch_queue_is_empty(queue))
        unlist_queue(batcher, queue);
}

/* Whether helpers may compute what is next of it. */
static bool is_quick(const struct batch_queue *queue)
{
    return queue->first && servable_is_quick(queue->servable, queue->first->rows);
}

/* The one that is due first, of all or of the quick ones; *due says when. */
static struct batch_queue *next_queue(const struct batcher *batcher, bool quick, double *due)
{
    struct batch_queue *best = NULL;
    for (struct batch_queue *queue = batcher->queues; queue; queue = queue->next) {
        if (quick && !is_quick(queue))
            continue;
        double when = batch_queue_due(queue, &batcher->settings.rules, batcher->ending);
        if (!quick)
            when = fmin(when, batch_queue_piece_due(queue));
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

/* Takes a batch of a queue. Returns how many questions are in it, with their servable held by their
 * doors. Called and left with the lock. */
static int take_batch(struct batcher *batcher, struct batch_queue *queue,
                      const struct batch_rules *rules, double now, struct seat *seat,
                      struct inference **dropped)
{
    int count = batch_queue_take(queue, rules, now, seat->batch, rules->max_rows, dropped);
    seat->large = NULL;
    unlist_if_empty(batcher, queue);
    return count;
}

/* The same of a question that is larger than a batch: 1, or 0 when none of it is wanted any more. */
static int take_piece(struct batcher *batcher, struct batch_queue *queue, double now,
                      struct seat *seat, struct inference **dropped)
{
    seat->large =
        batch_queue_take_piece(queue, &batcher->settings.rules, now, &seat->first, dropped);
    unlist_if_empty(batcher, queue);
    return seat->large ? 1 : 0;
}

/* Waits for a batch that is due. 0: look again, -1: the end. Called and left with the lock. */
static int next_batch(struct worker *worker, struct inference **dropped)
{
    struct batcher *batcher = worker->batcher;
    const struct batch_rules *rules = &batcher->settings.rules;
    double due = 0;
    struct batch_queue *queue = next_queue(batcher, false, &due);
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
    int count = batch_queue_piece_due(queue) < batch_queue_due(queue, rules, batcher->ending)
                    ? take_piece(batcher, queue, now, worker->seat, dropped)
                    : take_batch(batcher, queue, rules, now, worker->seat, dropped);
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

/* True: it was the last of its question. */
static bool end_piece(struct batcher *batcher, struct piece *piece, const struct stats_batch *told)
{
    struct inference *whole = piece->whole, *part = &piece->part;
    struct batch_queue *queue = servable_queue(whole->servable);
    pthread_mutex_lock(&batcher->room_lock);
    piece_make_room(piece);
    pthread_mutex_unlock(&batcher->room_lock);
    if (part->status == SERVE_OK)
        piece_join(piece);
    pthread_mutex_lock(&batcher->lock);
    if (part->status != SERVE_OK && whole->status == SERVE_OK) {
        whole->status = part->status;
        whole->error = part->error;
    }
    whole->run_seconds += told->input_seconds + told->run_seconds + told->output_seconds;
    whole->batch = told->rows > whole->batch ? told->rows : whole->batch;
    bool last = batch_queue_end_piece(queue, whole, batcher->settings.now());
    unlist_if_empty(batcher, queue);
    pthread_mutex_unlock(&batcher->lock);
    return last;
}

/* The question is counted with its first piece. */
static void compute_piece(struct batcher *batcher, const struct seat *seat)
{
    struct inference *whole = seat->large;
    struct servable *servable = whole->servable;
    struct stats_batch told = {.model = servable_name(servable),
                               .version = servable_version(servable),
                               .requests = seat->first == 0};
    struct piece piece;
    struct inference *part = &piece.part;
    if (seat->first == 0)
        told.queue_seconds = whole->queue_seconds = batcher->settings.now() - whole->asked;
    if (piece_open(&piece, whole, seat->first, batcher->settings.rules.max_rows))
        servable_run(servable, seat->index, &part, 1, &told);
    if (batcher->settings.stats)
        stats_batch(batcher->settings.stats, &told);
    bool last = end_piece(batcher, &piece, &told);
    piece_close(&piece);
    if (!last)
        return;
    forget(batcher, whole, 1);
    whole->done(whole); /* from here on the door may free it */
}

/* Called and left with the lock, but not held while it computes. */
static void use_seat(struct batcher *batcher, const struct seat *seat, int count,
                     struct inference *dropped)
{
    if (count == 0 && !dropped)
        return;
    pthread_mutex_unlock(&batcher->lock);
    finish_dropped(batcher, dropped);
    if (count > 0 && seat->large)
        compute_piece(batcher, seat);
    else if (count > 0)
        compute(batcher, seat, count);
    pthread_mutex_lock(&batcher->lock);
}

static void *work(void *context)
{
    struct worker *worker = context;
    struct batcher *batcher = worker->batcher;
    int count = 0;
    thread_take_short_turns();
    pthread_mutex_lock(&batcher->lock);
    while (count >= 0) {
        struct inference *dropped = NULL;
        count = next_batch(worker, &dropped);
        if (count >= 0)
            use_seat(batcher, worker->seat, count, dropped);
    }
    pthread_mutex_unlock(&batcher->lock);
    return NULL;
}

/* What is not quick, or not due, a worker was woken for when it came. */
bool batcher_help(struct batcher *batcher)
{
    struct batch_rules rules = batcher->settings.rules;
    struct inference *dropped = NULL;
    struct seat *seat = &batcher->seats[batcher->settings.workers];
    double due = 0, now = batcher->settings.now();
    pthread_mutex_lock(&batcher->lock);
    struct batch_queue *queue = batcher->helped ? NULL : next_queue(batcher, true, &due);
    bool helps = queue && due <= now;
    if (helps) {
        int64_t quick = servable_quick_rows(queue->servable);
        rules.max_rows = quick < rules.max_rows ? (int)quick : rules.max_rows;
        rules.strict = true;
        batcher->helped = true;
        int count = take_batch(batcher, queue, &rules, now, seat, &dropped);
        /* More than the next batch is left: a worker is worth being woken. */
        if (queue->rows > rules.max_rows)
            pthread_cond_signal(&batcher->ready);
        use_seat(batcher, seat, count, dropped);
        batcher->helped = false;
    } else if (queue)
        pthread_cond_signal(&batcher->ready); /* a worker waits until it is due */
    pthread_mutex_unlock(&batcher->lock);
    return helps;
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
        if ((queue->count == 1 || inference->rows > rules->max_rows ||
             batch_queue_due(queue, rules, false) <= now) &&
            !(inference->asker_helps && servable_is_quick(inference->servable, inference->rows)))
            pthread_cond_signal(&batcher->ready);
    } else {
        unlist_if_empty(batcher, queue);
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
    int workers = batcher->settings.workers, rows = batcher->settings.rules.max_rows;
    batcher->workers = memory_allocate(sizeof *batcher->workers * (size_t)workers);
    batcher->seats = memory_allocate(sizeof *batcher->seats * (size_t)(workers + 1));
    if (!batcher->workers || !batcher->seats)
        return error_set(err, ERROR_MEMORY, "no memory for the batcher");
    for (int i = 0; i <= workers; i++) {
        struct seat *seat = &batcher->seats[i];
        seat->index = i;
        seat->batch = memory_allocate(sizeof *seat->batch * (size_t)rows);
        if (!seat->batch)
            return error_set(err, ERROR_MEMORY, "no memory for the batcher");
        if (i < workers)
            batcher->workers[i] = (struct worker){.batcher = batcher, .seat = seat};
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
    pthread_mutex_init(&batcher->room_lock, NULL);
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
    for (int i = 0; batcher->seats && i <= batcher->settings.workers; i++)
        memory_free(batcher->seats[i].batch);
    memory_free(batcher->seats);
    memory_free(batcher->workers);
    pthread_cond_destroy(&batcher->ready);
    pthread_mutex_destroy(&batcher->room_lock);
    pthread_mutex_destroy(&batcher->lock);
    memory_free(batcher);
}
