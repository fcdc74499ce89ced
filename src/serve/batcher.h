/* Threads that compute what waits: the servable whose question waits longest and whose batch is full
 * or late comes first. */
#ifndef SERVE_BATCHER_H
#define SERVE_BATCHER_H

#include <stdbool.h>

#include "serve/batch_queue.h"

struct batcher;
struct error;
struct inference;
struct serve_stats;

struct batcher_settings {
    struct batch_rules rules;
    int workers;               /* threads; at least 1 */
    double (*now)(void);       /* NULL: clock_seconds */
    struct serve_stats *stats; /* told of each batch; NULL: nobody */
};

int batcher_create(const struct batcher_settings *settings, struct batcher **out,
                   struct error *err);
/* Computes what waits, then ends. Accepts NULL. */
void batcher_destroy(struct batcher *batcher);
int batcher_start(struct batcher *batcher, struct error *err);

/* Queues, or (full, too late) fills status and error and returns false. From any thread. */
bool batcher_add(struct batcher *batcher, struct inference *inference);
/* For a thread that has read all there is to read, after it asked with asker_helps: computes a batch
 * that is due and quick (servable_is_quick), so that no worker need be woken for it, beside what the
 * workers do. True: it did; look again. False: nothing of that kind waits, or another thread helps,
 * which looks again, too. */
bool batcher_help(struct batcher *batcher);
/* Looks again at the clock: for tests that move one. */
void batcher_wake(struct batcher *batcher);
/* Questions that wait or are computed. */
int batcher_pending(struct batcher *batcher);

#endif
