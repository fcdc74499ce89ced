#include "data/work.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "base/error.h"
#include "base/memory.h"

enum { MAX_THREADS = 256, TICK_NANOSECONDS = 100 * 1000 * 1000 };

struct crew {
    const struct work *work;
    int64_t jobs, total;
    work_job *run;
    void *context;
    struct work_counts counts;
    atomic_int_least64_t next; /* job to begin */
    atomic_bool failed;
    pthread_mutex_t lock; /* guards all below; never held while a job runs */
    pthread_cond_t ended; /* a thread has */
    int running;
    int64_t failed_job;
    struct error failure;
};

void work_count(struct work_counts *counts, int64_t items, uint64_t bytes)
{
    atomic_fetch_add(&counts->done, items);
    atomic_fetch_add(&counts->bytes, bytes);
}

static bool must_stop(const struct crew *crew)
{
    return atomic_load(&crew->failed) || (crew->work->stop && atomic_load(crew->work->stop));
}

static void keep_failure(struct crew *crew, int64_t job, const struct error *failure)
{
    pthread_mutex_lock(&crew->lock);
    if (!atomic_load(&crew->failed) || job < crew->failed_job) {
        crew->failed_job = job;
        crew->failure = *failure;
    }
    atomic_store(&crew->failed, true);
    pthread_mutex_unlock(&crew->lock);
}

static void run_jobs(struct crew *crew)
{
    while (!must_stop(crew)) {
        int64_t job = atomic_fetch_add(&crew->next, 1);
        struct error failure = {0};
        if (job >= crew->jobs)
            return;
        if (crew->run(crew->context, job, &crew->counts, &failure) < 0)
            keep_failure(crew, job, &failure);
    }
}

static void *thread_main(void *context)
{
    struct crew *crew = context;
    run_jobs(crew);
    pthread_mutex_lock(&crew->lock);
    crew->running--;
    pthread_cond_signal(&crew->ended);
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

static void observe(const struct crew *crew)
{
    struct work_state state = {.done = atomic_load(&crew->counts.done),
                               .total = crew->total,
                               .bytes = atomic_load(&crew->counts.bytes)};
    if (crew->work->observe)
        crew->work->observe(crew->work->context, &state);
}

/* Tells how far it is until the last thread has ended. */
static void watch(struct crew *crew)
{
    pthread_mutex_lock(&crew->lock);
    while (crew->running > 0) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += TICK_NANOSECONDS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (pthread_cond_timedwait(&crew->ended, &crew->lock, &until) == ETIMEDOUT) {
            pthread_mutex_unlock(&crew->lock);
            observe(crew);
            pthread_mutex_lock(&crew->lock);
        }
    }
    pthread_mutex_unlock(&crew->lock);
}

static void run_on_threads(struct crew *crew, int threads)
{
    pthread_t started[MAX_THREADS];
    int count = 0;
    crew->running = threads;
    while (count < threads && pthread_create(&started[count], NULL, thread_main, crew) == 0)
        count++;
    pthread_mutex_lock(&crew->lock);
    crew->running -= threads - count;
    pthread_mutex_unlock(&crew->lock);
    if (count == 0) /* none to be had: slower, but it works */
        run_jobs(crew);
    watch(crew);
    for (int i = 0; i < count; i++)
        pthread_join(started[i], NULL);
}

int work_run(const struct work *work, int64_t jobs, int64_t total, work_job *run, void *context,
             struct error *err)
{
    struct crew crew = {.work = work, .jobs = jobs, .total = total, .run = run, .context = context};
    int threads = work->threads > 0 ? work->threads : 1;
    threads = threads < MAX_THREADS ? threads : MAX_THREADS;
    pthread_mutex_init(&crew.lock, NULL);
    pthread_cond_init(&crew.ended, NULL);
    run_on_threads(&crew, jobs < threads ? (int)jobs : threads);
    pthread_cond_destroy(&crew.ended);
    pthread_mutex_destroy(&crew.lock);
    observe(&crew);
    if (atomic_load(&crew.failed)) {
        if (err)
            *err = crew.failure;
        return -1;
    }
    if (work->stop && atomic_load(work->stop) && atomic_load(&crew.next) < jobs)
        return error_set(err, ERROR_CANCELLED, "stopped");
    return 0;
}
