#include "watch/outbox.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/threads.h"
#include "net/http.h"
#include "watch/reply.h"

enum { PATIENCE = 3 }; /* failures in a row before a word is said: a restart is no news */

enum said { SAID_NOTHING, SAID_AWAY, SAID_BACK };

struct outbox {
    struct outbox_options options;
    char *name, *where;
    struct http_client *client;
    atomic_int stop; /* nonzero: the request in flight ends, too */
    pthread_t thread;

    pthread_mutex_t lock; /* guards what follows; never held while a request runs */
    pthread_cond_t changed;
    unsigned char *items; /* [capacity][item_bytes], oldest first */
    bool *keep;           /* [capacity] */
    int count;
    long lost;                 /* thinned out, refused or left over, and not yet told */
    bool ending, over;         /* over: the thread has nothing more to do */
    double ended_at, deadline; /* once ending */
    int signal_before;         /* what *stop_signal was when the end began */
    int failures;              /* in a row */

    /* Below: the thread's own. */
    unsigned char *sending; /* [batch][item_bytes] */
    double asked_wait;      /* by the service's Retry-After */
    double sent_at, away_since;
    enum said said;
    bool complained;
    struct error last; /* why it failed the last time */
};

/* --- the queue ------------------------------------------------------------------------------- */

static unsigned char *item_at(const struct outbox *outbox, int index)
{
    return outbox->items + (size_t)index * outbox->options.item_bytes;
}

static void move_item(struct outbox *outbox, int to, int from)
{
    if (to == from)
        return;
    memcpy(item_at(outbox, to), item_at(outbox, from), outbox->options.item_bytes);
    outbox->keep[to] = outbox->keep[from];
}

static void drop(struct outbox *outbox, int index)
{
    for (int i = index; i + 1 < outbox->count; i++)
        move_item(outbox, i, i + 1);
    outbox->count--;
}

/* Every second item that need not be kept goes, so that a long absence leaves a picture that is
 * coarser the older it is, not a hole. Where there is no second, the oldest goes. */
static void thin_out(struct outbox *outbox)
{
    int left = 0, loose = 0, oldest = 0, before = outbox->count;
    for (int i = 0; i < before; i++) {
        if (!outbox->keep[i] && loose++ % 2)
            continue;
        if (!outbox->keep[i] && loose == 1)
            oldest = left;
        move_item(outbox, left++, i);
    }
    outbox->count = left;
    if (left == before)
        drop(outbox, oldest);
    if (outbox->options.capacity > 1) /* where only the newest counts, older ones are no loss */
        outbox->lost += before - outbox->count;
}

void outbox_put(struct outbox *outbox, const void *item, bool keep)
{
    pthread_mutex_lock(&outbox->lock);
    if (outbox->count == outbox->options.capacity)
        thin_out(outbox);
    memcpy(item_at(outbox, outbox->count), item, outbox->options.item_bytes);
    outbox->keep[outbox->count++] = keep;
    if (outbox->count == 1) /* else the thread knows: a step must not cost a change of threads */
        pthread_cond_broadcast(&outbox->changed);
    pthread_mutex_unlock(&outbox->lock);
}

long outbox_lost(struct outbox *outbox)
{
    pthread_mutex_lock(&outbox->lock);
    long lost = outbox->lost;
    pthread_mutex_unlock(&outbox->lock);
    return lost;
}

/* Moves the oldest items to `sending`; with the lock held. */
static int take(struct outbox *outbox)
{
    int count = outbox->count < outbox->options.batch ? outbox->count : outbox->options.batch;
    memcpy(outbox->sending, outbox->items, (size_t)count * outbox->options.item_bytes);
    for (int i = count; i < outbox->count; i++)
        move_item(outbox, i - count, i);
    outbox->count -= count;
    return count;
}

/* --- waiting --------------------------------------------------------------------------------- */

/* With the lock held; until something changed, or `until` on the monotonic clock. */
static void wait_until(struct outbox *outbox, double until)
{
    struct timespec at = {.tv_sec = (time_t)until};
    at.tv_nsec = (long)((until - (double)at.tv_sec) * 1e9);
    pthread_cond_timedwait(&outbox->changed, &outbox->lock, &at);
}

static bool time_is_up(const struct outbox *outbox)
{
    return atomic_load(&outbox->stop) || (outbox->ending && clock_seconds() >= outbox->deadline);
}

/* Until `until`; at the end of the run no longer than `hurried` seconds. */
static void pause_thread(struct outbox *outbox, double until, double hurried)
{
    pthread_mutex_lock(&outbox->lock);
    for (bool capped = false;;) {
        if (outbox->ending && !capped) {
            double soon = clock_seconds() + hurried;
            until = soon < until ? soon : until;
            capped = true;
        }
        if (clock_seconds() >= until || time_is_up(outbox))
            break;
        wait_until(outbox, until);
    }
    pthread_mutex_unlock(&outbox->lock);
}

/* Items to send, or 0: it is over. */
static int wait_for_items(struct outbox *outbox)
{
    pthread_mutex_lock(&outbox->lock);
    while (!outbox->count && !outbox->ending)
        pthread_cond_wait(&outbox->changed, &outbox->lock);
    pthread_mutex_unlock(&outbox->lock);
    pause_thread(outbox, outbox->sent_at + outbox->options.times.interval, 0);
    pthread_mutex_lock(&outbox->lock);
    int count = time_is_up(outbox) ? 0 : take(outbox);
    pthread_mutex_unlock(&outbox->lock);
    return count;
}

/* --- what is said ---------------------------------------------------------------------------- */

static long forget_lost(struct outbox *outbox)
{
    pthread_mutex_lock(&outbox->lock);
    long lost = outbox->lost;
    outbox->lost = 0;
    pthread_mutex_unlock(&outbox->lock);
    return lost;
}

/* Seconds for a service that is away at the end: one or two more attempts. */
static const double LAST_TRY = 2;

static void set_failures(struct outbox *outbox, int failures)
{
    pthread_mutex_lock(&outbox->lock);
    outbox->failures = failures;
    double soon = outbox->ended_at + LAST_TRY;
    if (outbox->ending && failures >= PATIENCE && soon < outbox->deadline)
        outbox->deadline = soon;
    pthread_mutex_unlock(&outbox->lock);
}

static void note_success(struct outbox *outbox)
{
    outbox->sent_at = clock_seconds();
    set_failures(outbox, 0);
    if (outbox->said != SAID_AWAY)
        return;
    outbox->said = SAID_BACK;
    long lost = forget_lost(outbox);
    char thinned[64] = "";
    if (lost)
        snprintf(thinned, sizeof thinned, "; %ld reports were left out meanwhile", lost);
    log_line(LOG_INFO, "%s (%s) is back after %.0f s%s", outbox->name, outbox->where,
             outbox->sent_at - outbox->away_since, thinned);
}

static bool is_ending(struct outbox *outbox)
{
    pthread_mutex_lock(&outbox->lock);
    bool ending = outbox->ending;
    pthread_mutex_unlock(&outbox->lock);
    return ending;
}

static void note_failure(struct outbox *outbox, const struct error *why)
{
    outbox->last = *why;
    if (!outbox->failures)
        outbox->away_since = clock_seconds();
    set_failures(outbox, outbox->failures + 1);
    if (outbox->failures < PATIENCE || outbox->said != SAID_NOTHING)
        return;
    outbox->said = SAID_AWAY;
    log_line(LOG_WARNING, "%s (%s) cannot be told about this run: %s%s", outbox->name,
             outbox->where, why->message,
             is_ending(outbox) ? "" : "; the training goes on, and it is told when it is back");
}

void outbox_complain(struct outbox *outbox, const struct error *why)
{
    if (!outbox->complained)
        log_line(LOG_WARNING, "%s (%s) refuses what it is told: %s", outbox->name, outbox->where,
                 why->message);
    outbox->complained = true;
}

/* What was lost without a word so far. */
static void say_the_rest(struct outbox *outbox)
{
    outbox->lost += outbox->count;
    bool said = outbox->said == SAID_AWAY || outbox->complained;
    if (outbox->lost && !said)
        log_line(LOG_WARNING, "%s (%s) was not told everything about this run: %s", outbox->name,
                 outbox->where, outbox->last.message[0] ? outbox->last.message : "it is too slow");
}

/* --- the thread ------------------------------------------------------------------------------ */

/* Before the next attempt: longer each time, and scattered, so that many runs that lost the same
 * service do not all come back at once. */
static void wait_after_failure(struct outbox *outbox)
{
    const struct outbox_times *times = &outbox->options.times;
    double wait = times->first_wait, now = clock_seconds();
    for (int i = 1; i < outbox->failures && wait < times->last_wait; i++)
        wait *= 2;
    wait *= 0.5 + 0.5 * (double)((int64_t)(now * 1e6) % 1000) / 1000;
    if (outbox->asked_wait > wait)
        wait = outbox->asked_wait;
    pause_thread(outbox, now + (wait < times->last_wait ? wait : times->last_wait), 0.2);
}

/* Where only the newest item counts, what came meanwhile replaces what failed. */
static int renew(struct outbox *outbox, int count)
{
    pthread_mutex_lock(&outbox->lock);
    if (outbox->options.capacity == 1 && outbox->count)
        count = take(outbox);
    pthread_mutex_unlock(&outbox->lock);
    return count;
}

static void lose(struct outbox *outbox, int count)
{
    pthread_mutex_lock(&outbox->lock);
    outbox->lost += count;
    pthread_mutex_unlock(&outbox->lock);
}

static bool is_over(struct outbox *outbox)
{
    pthread_mutex_lock(&outbox->lock);
    bool over = time_is_up(outbox);
    pthread_mutex_unlock(&outbox->lock);
    return over;
}

static void deliver(struct outbox *outbox, int count)
{
    for (;;) {
        struct error why = {0};
        outbox->asked_wait = 0;
        enum outbox_result result =
            outbox->options.send(outbox->options.context, outbox, outbox->sending, count, &why);
        if (result == OUTBOX_SENT)
            return note_success(outbox);
        if (result == OUTBOX_REFUSED) {
            outbox_complain(outbox, &why);
            set_failures(outbox, outbox->failures + 1);
            lose(outbox, count);
            return wait_after_failure(outbox);
        }
        note_failure(outbox, &why);
        wait_after_failure(outbox);
        if (is_over(outbox))
            return lose(outbox, count);
        count = renew(outbox, count);
    }
}

static void *thread_main(void *context)
{
    struct outbox *outbox = context;
    for (int count; (count = wait_for_items(outbox)) > 0;)
        deliver(outbox, count);
    pthread_mutex_lock(&outbox->lock);
    outbox->over = true;
    pthread_cond_broadcast(&outbox->changed);
    pthread_mutex_unlock(&outbox->lock);
    return NULL;
}

enum outbox_result outbox_request(struct outbox *outbox, const struct http_request *request,
                                  struct http_reply *reply, struct error *why)
{
    if (http_perform(outbox->client, request, reply, why) < 0)
        return OUTBOX_LATER;
    outbox->asked_wait = reply->retry_after;
    return reply_judge(reply, why);
}

/* --- beginning and end ----------------------------------------------------------------------- */

static double or_usual(double given, double usual)
{
    return given > 0 ? given : usual;
}

static void choose_times(struct outbox_times *times)
{
    times->interval = or_usual(times->interval, 1);
    times->first_wait = or_usual(times->first_wait, 1);
    times->last_wait = or_usual(times->last_wait, 30);
    times->connect = or_usual(times->connect, 5);
    times->stall = or_usual(times->stall, 10);
    times->total = or_usual(times->total, 20);
    times->end = or_usual(times->end, 5);
}

static int allocate(struct outbox *outbox, const struct outbox_options *options, struct error *err)
{
    outbox->name = memory_copy_text(options->name);
    outbox->where = memory_copy_text(options->where);
    outbox->items = memory_allocate((size_t)options->capacity * options->item_bytes);
    outbox->keep = memory_allocate((size_t)options->capacity * sizeof *outbox->keep);
    outbox->sending = memory_allocate((size_t)options->batch * options->item_bytes);
    if (!outbox->name || !outbox->where || !outbox->items || !outbox->keep || !outbox->sending)
        return error_set(err, ERROR_MEMORY, "no memory to report to %s", options->name);
    return 0;
}

static void release(struct outbox *outbox)
{
    http_client_destroy(outbox->client);
    pthread_cond_destroy(&outbox->changed);
    pthread_mutex_destroy(&outbox->lock);
    memory_free(outbox->sending);
    memory_free(outbox->keep);
    memory_free(outbox->items);
    memory_free(outbox->where);
    memory_free(outbox->name);
    memory_free(outbox);
}

static int make_client(struct outbox *outbox, struct error *err)
{
    const struct outbox_options *options = &outbox->options;
    struct http_settings settings = {.connect_seconds = options->times.connect,
                                     .stall_seconds = options->times.stall,
                                     .total_seconds = options->times.total,
                                     .ca_bundle = options->ca_bundle,
                                     .client_certificate = options->client_certificate,
                                     .trust_anyone = options->trust_anyone,
                                     .stop = &outbox->stop};
    return http_client_create(&settings, &outbox->client, err);
}

/* Signals are the training's: this thread takes none, not even the SIGPIPE of a connection that
 * broke while TLS was writing. */
static int start_thread(struct outbox *outbox, struct error *err)
{
    int code = thread_start(&outbox->thread, thread_main, outbox);
    if (code)
        return error_set(err, ERROR_IO, "no thread to report to %s: %s", outbox->name,
                         strerror(code));
    return 0;
}

int outbox_create(const struct outbox_options *options, struct outbox **out, struct error *err)
{
    struct outbox *outbox = memory_allocate(sizeof *outbox);
    if (!outbox)
        return error_set(err, ERROR_MEMORY, "no memory to report to %s", options->name);
    outbox->options = *options;
    choose_times(&outbox->options.times);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&outbox->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&outbox->lock, NULL);
    if (allocate(outbox, options, err) < 0 || make_client(outbox, err) < 0 ||
        start_thread(outbox, err) < 0) {
        release(outbox);
        return -1;
    }
    *out = outbox;
    return 0;
}

static int signal_now(const struct outbox *outbox)
{
    return outbox->options.stop_signal ? atomic_load(outbox->options.stop_signal) : 0;
}

void outbox_end(struct outbox *outbox)
{
    pthread_mutex_lock(&outbox->lock);
    if (!outbox->ending) {
        double seconds = outbox->options.times.end;
        if (outbox->failures >= PATIENCE && seconds > LAST_TRY)
            seconds = LAST_TRY;
        outbox->ending = true;
        outbox->ended_at = clock_seconds();
        outbox->deadline = outbox->ended_at + seconds;
        outbox->signal_before = signal_now(outbox);
        pthread_cond_broadcast(&outbox->changed);
    }
    pthread_mutex_unlock(&outbox->lock);
}

void outbox_destroy(struct outbox *outbox)
{
    if (!outbox)
        return;
    outbox_end(outbox);
    pthread_mutex_lock(&outbox->lock);
    while (!outbox->over && clock_seconds() < outbox->deadline &&
           signal_now(outbox) == outbox->signal_before) {
        double soon = clock_seconds() + 0.1; /* a signal handler cannot wake us */
        wait_until(outbox, soon < outbox->deadline ? soon : outbox->deadline);
    }
    atomic_store(&outbox->stop, 1);
    pthread_cond_broadcast(&outbox->changed);
    pthread_mutex_unlock(&outbox->lock);
    pthread_join(outbox->thread, NULL);
    say_the_rest(outbox);
    release(outbox);
}
