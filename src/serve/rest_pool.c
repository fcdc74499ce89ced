#include "serve/rest_pool.h"

#include <pthread.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"

struct rest_pool {
    pthread_mutex_t lock; /* guards all below but the threads */
    pthread_cond_t more;
    struct rest_task *first, **end;
    bool ending;
    pthread_t *threads;
    int started;
};

static void *work(void *context)
{
    struct rest_pool *pool = context;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (!pool->first && !pool->ending)
            pthread_cond_wait(&pool->more, &pool->lock);
        struct rest_task *task = pool->first;
        if (!task)
            break;
        pool->first = task->next;
        if (!pool->first)
            pool->end = &pool->first;
        pthread_mutex_unlock(&pool->lock);
        task->run(task);
        pthread_mutex_lock(&pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

int rest_pool_create(int threads, struct rest_pool **out, struct error *err)
{
    struct rest_pool *pool = memory_allocate(sizeof *pool);
    if (!pool)
        return error_set(err, ERROR_MEMORY, "no memory for the REST door");
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->more, NULL);
    pool->end = &pool->first;
    pool->threads = memory_allocate(sizeof *pool->threads * (size_t)threads);
    int status = pool->threads ? 0 : ERROR_MEMORY;
    while (status == 0 && pool->started < threads) {
        status = thread_start(&pool->threads[pool->started], work, pool);
        pool->started += status == 0;
    }
    if (status) {
        rest_pool_destroy(pool);
        return error_set(err, ERROR_IO, "no threads for the REST door: %s", strerror(status));
    }
    *out = pool;
    return 0;
}

void rest_pool_destroy(struct rest_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->ending = true;
    pthread_cond_broadcast(&pool->more);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->started; i++)
        pthread_join(pool->threads[i], NULL);
    memory_free(pool->threads);
    pthread_cond_destroy(&pool->more);
    pthread_mutex_destroy(&pool->lock);
    memory_free(pool);
}

void rest_pool_add(struct rest_pool *pool, struct rest_task *task)
{
    task->next = NULL;
    pthread_mutex_lock(&pool->lock);
    *pool->end = task;
    pool->end = &task->next;
    pthread_cond_signal(&pool->more);
    pthread_mutex_unlock(&pool->lock);
}
