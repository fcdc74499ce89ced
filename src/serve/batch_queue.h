/* Which questions are computed together, and when: the rules alone, without threads or a clock. */
#ifndef SERVE_BATCH_QUEUE_H
#define SERVE_BATCH_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

struct inference;
struct servable;

struct batch_rules {
    int max_rows;        /* of a batch; one question with more is a batch of its own */
    double wait_seconds; /* the first of a batch waits so long for others; 0: not at all */
    int max_batches;     /* that may wait, in rows / max_rows */
    bool alone;          /* one question a batch: batching is off */
    bool strict;         /* one with more rows than max_rows is left where it is */
};

/* Plain storage; all zero is empty. The questions belong to their doors. */
struct batch_queue {
    struct inference *first, *last; /* by arrival */
    int64_t rows;
    int count;
    struct servable *servable; /* whose it is */
    struct batch_queue *next;  /* the batcher's list of those that are not empty */
    bool listed;
};

/* False: it is full. An empty queue takes a question of any size. */
bool batch_queue_add(struct batch_queue *queue, const struct batch_rules *rules,
                     struct inference *inference, double now);
/* When the next batch should be computed: now or earlier, or a moment to wait for. The queue must
 * not be empty. `hurry`: nobody else will come. */
double batch_queue_due(const struct batch_queue *queue, const struct batch_rules *rules,
                       bool hurry);
/* Takes questions for one batch, oldest first, at most `space` of them; how many. Those that were
 * cancelled or are too late are taken out as well, into `dropped` (a list through `next`), with
 * status and error filled. May take none. */
int batch_queue_take(struct batch_queue *queue, const struct batch_rules *rules, double now,
                     struct inference **batch, int space, struct inference **dropped);
/* Takes all such out, wherever they stand. */
void batch_queue_sweep(struct batch_queue *queue, double now, struct inference **dropped);

#endif
