#include "watch/rank_times.h"

#include <math.h>
#include <pthread.h>

#include "base/error.h"
#include "base/memory.h"
#include "train/exchange.h"
#include "train/trainer.h"

static const double RECENT_SECONDS = 5, SHOWN_EVERY_SECONDS = 0.5;

struct rank_times {
    int count;
    /* The training thread's. `recent` is a sum here in which older steps count for less. */
    struct rank_time *own;
    double recent_weight;
    double shown_at;
    bool fresh; /* something was added that is not shown yet */

    pthread_mutex_t lock; /* guards all below; the training thread only tries it while it trains */
    struct rank_time *shown;
    int64_t readings;
};

const char *rank_part_name(enum rank_part part)
{
    static const char *const names[RANK_PARTS] = {"input", "forward", "backward", "reduce",
                                                  "hidden"};
    return names[part];
}

int rank_times_create(int ranks, struct rank_times **out, struct error *err)
{
    struct rank_times *times = memory_allocate(sizeof *times);
    if (!times)
        return error_set(err, ERROR_MEMORY, "no memory for the times of %d ranks", ranks);
    pthread_mutex_init(&times->lock, NULL);
    times->count = ranks;
    times->own = memory_allocate((size_t)ranks * sizeof *times->own);
    times->shown = memory_allocate((size_t)ranks * sizeof *times->shown);
    if (!times->own || !times->shown) {
        rank_times_destroy(times);
        return error_set(err, ERROR_MEMORY, "no memory for the times of %d ranks", ranks);
    }
    for (int r = 0; r < ranks; r++)
        times->own[r].rank = times->shown[r].rank = r;
    *out = times;
    return 0;
}

void rank_times_destroy(struct rank_times *times)
{
    if (!times)
        return;
    memory_free(times->own);
    memory_free(times->shown);
    pthread_mutex_destroy(&times->lock);
    memory_free(times);
}

int rank_times_count(const struct rank_times *times)
{
    return times->count;
}

/* --- the training thread --------------------------------------------------------------------- */

static void add_rank(struct rank_time *time, const struct rank_status *status, double kept)
{
    const double parts[RANK_PARTS] = {
        [RANK_INPUT] = status->input_seconds,       [RANK_FORWARD] = status->forward_seconds,
        [RANK_BACKWARD] = status->backward_seconds, [RANK_REDUCE] = status->reduce_seconds,
        [RANK_HIDDEN] = status->hidden_seconds,
    };
    for (int part = 0; part < RANK_PARTS; part++) {
        time->total[part] += parts[part];
        time->recent[part] = time->recent[part] * kept + parts[part];
    }
}

/* The lock is held. */
static void show(struct rank_times *times)
{
    for (int r = 0; r < times->count; r++) {
        times->shown[r] = times->own[r];
        for (int part = 0; part < RANK_PARTS; part++)
            times->shown[r].recent[part] /= times->recent_weight;
    }
    times->readings++;
    times->fresh = false;
}

void rank_times_add(struct rank_times *times, const struct train_event *event, double now)
{
    if (!event->ranks || event->rank_count != times->count)
        return;
    double kept = exp(-event->step_seconds / RECENT_SECONDS);
    for (int r = 0; r < times->count; r++)
        add_rank(&times->own[r], &event->ranks[r], kept);
    times->recent_weight = times->recent_weight * kept + 1;
    if (event->slowest >= 0 && event->slowest < times->count)
        times->own[event->slowest].slowest++;
    times->fresh = true;
    if (now - times->shown_at < SHOWN_EVERY_SECONDS || pthread_mutex_trylock(&times->lock) != 0)
        return; /* somebody copies the last ones: next time */
    times->shown_at = now;
    show(times);
    pthread_mutex_unlock(&times->lock);
}

void rank_times_flush(struct rank_times *times)
{
    pthread_mutex_lock(&times->lock);
    if (times->fresh)
        show(times);
    pthread_mutex_unlock(&times->lock);
}

/* --- readers --------------------------------------------------------------------------------- */

int64_t rank_times_read(struct rank_times *times, struct rank_time *out)
{
    pthread_mutex_lock(&times->lock);
    memcpy(out, times->shown, (size_t)times->count * sizeof *out);
    int64_t readings = times->readings;
    pthread_mutex_unlock(&times->lock);
    return readings;
}

double rank_time_own(const struct rank_time *time)
{
    return time->recent[RANK_INPUT] + time->recent[RANK_FORWARD] + time->recent[RANK_BACKWARD];
}

double rank_status_own(const struct rank_status *status)
{
    return status->input_seconds + status->forward_seconds + status->backward_seconds;
}

static int compare_seconds(const void *a, const void *b)
{
    double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

struct rank_spread rank_spread_of(double *seconds, int count)
{
    qsort(seconds, (size_t)count, sizeof *seconds, compare_seconds);
    return (struct rank_spread){
        .least = seconds[0],
        .median = (seconds[(count - 1) / 2] + seconds[count / 2]) / 2,
        .most = seconds[count - 1],
    };
}
