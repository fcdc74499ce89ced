/* A few threads for the REST door's long pieces of work, reading and writing large bodies, so that
 * the thread that serves all connections is never held up. */
#ifndef SERVE_REST_POOL_H
#define SERVE_REST_POOL_H

struct error;
struct rest_pool;

/* A piece of work, in memory of whoever gives it. */
struct rest_task {
    struct rest_task *next;
    void (*run)(struct rest_task *task);
};

int rest_pool_create(int threads, struct rest_pool **out, struct error *err);
/* Does what is left, then ends. Accepts NULL. */
void rest_pool_destroy(struct rest_pool *pool);
void rest_pool_add(struct rest_pool *pool, struct rest_task *task); /* from any thread */

#endif
