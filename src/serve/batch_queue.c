#include "serve/batch_queue.h"

#include <math.h>
#include <stddef.h>

#include "serve/inference.h"
#include "serve/piece.h"

bool batch_queue_is_empty(const struct batch_queue *queue)
{
    return !queue->first && !queue->first_large;
}

static void append(struct batch_queue *queue, struct inference *inference)
{
    inference->next = NULL;
    if (queue->last)
        queue->last->next = inference;
    else
        queue->first = inference;
    queue->last = inference;
    queue->rows += inference->rows;
    queue->count++;
}

static void append_large(struct batch_queue *queue, struct inference *inference, double now)
{
    inference->next = NULL;
    inference->queued = now;
    if (queue->last_large)
        queue->last_large->next = inference;
    else
        queue->first_large = inference;
    queue->last_large = inference;
    queue->large_rows += inference->rows - inference->taken;
}

static void remove_large(struct batch_queue *queue, struct inference *inference)
{
    struct inference **at = &queue->first_large, *before = NULL;
    for (; *at != inference; at = &before->next)
        before = *at;
    *at = inference->next;
    if (queue->last_large == inference)
        queue->last_large = before;
    queue->large_rows -= inference->rows - inference->taken;
}

bool batch_queue_add(struct batch_queue *queue, const struct batch_rules *rules,
                     struct inference *inference, double now)
{
    bool large = inference->rows > rules->max_rows;
    int64_t waiting = large ? queue->large_rows : queue->rows;
    int64_t limit = (int64_t)rules->max_rows * rules->max_batches;
    /* The first has nobody to wait for, and others do not wait for all of it. */
    if (waiting > 0 && waiting + inference->rows > limit)
        return false;
    inference->asked = now;
    inference->taken = inference->running = 0;
    if (large)
        append_large(queue, inference, now);
    else
        append(queue, inference);
    return true;
}

double batch_queue_due(const struct batch_queue *queue, const struct batch_rules *rules, bool hurry)
{
    if (!queue->first)
        return INFINITY;
    bool full = queue->rows >= rules->max_rows || rules->alone || hurry;
    return full ? queue->first->asked : queue->first->asked + rules->wait_seconds;
}

double batch_queue_piece_due(const struct batch_queue *queue)
{
    return queue->first_large ? queue->first_large->queued : INFINITY;
}

static struct inference *pop(struct batch_queue *queue)
{
    struct inference *first = queue->first;
    queue->first = first->next;
    if (!queue->first)
        queue->last = NULL;
    first->next = NULL;
    queue->rows -= first->rows;
    queue->count--;
    return first;
}

/* Fills the reason why it need not be computed any more. */
static bool is_over(struct inference *inference, double now)
{
    if (atomic_load(&inference->cancelled)) {
        inference->status = SERVE_CANCELLED;
        error_set(&inference->error, ERROR_CANCELLED, "the client has left");
        return true;
    }
    if (inference->deadline > 0 && now >= inference->deadline) {
        inference->status = SERVE_DEADLINE;
        error_set(&inference->error, ERROR_CANCELLED, "the deadline passed after %.3f s %s",
                  now - inference->asked,
                  inference->taken > 0 ? "with rows left to compute" : "in the queue");
        return true;
    }
    return false;
}

static void drop(struct inference *inference, struct inference **dropped)
{
    inference->next = *dropped;
    *dropped = inference;
}

/* No piece of it is taken any more. */
static void give_up_large(struct batch_queue *queue, struct inference *inference)
{
    remove_large(queue, inference);
    inference->taken = inference->rows;
}

int batch_queue_take(struct batch_queue *queue, const struct batch_rules *rules, double now,
                     struct inference **batch, int space, struct inference **dropped)
{
    int count = 0;
    int64_t rows = 0;
    while (queue->first && count < space && !(rules->alone && count > 0)) {
        struct inference *first = queue->first;
        if (is_over(first, now)) {
            drop(pop(queue), dropped);
            continue;
        }
        if ((count > 0 || rules->strict) && rows + first->rows > rules->max_rows)
            break;
        rows += first->rows;
        batch[count++] = pop(queue);
    }
    return count;
}

struct inference *batch_queue_take_piece(struct batch_queue *queue, const struct batch_rules *rules,
                                         double now, int64_t *first, struct inference **dropped)
{
    struct inference *large;
    while ((large = queue->first_large) && is_over(large, now)) {
        give_up_large(queue, large);
        if (large->running == 0)
            drop(large, dropped);
    }
    if (!large)
        return NULL;
    remove_large(queue, large);
    *first = large->taken;
    large->taken += piece_rows(large, large->taken, rules->max_rows);
    large->running++;
    if (large->taken < large->rows)
        append_large(queue, large, now);
    return large;
}

bool batch_queue_end_piece(struct batch_queue *queue, struct inference *inference, double now)
{
    inference->running--;
    if (inference->taken < inference->rows) {
        if (inference->status != SERVE_OK || is_over(inference, now)) {
            give_up_large(queue, inference);
        } else {
            remove_large(queue, inference);
            append_large(queue, inference, now);
        }
    }
    return inference->running == 0 && inference->taken == inference->rows;
}

static void sweep_large(struct batch_queue *queue, double now, struct inference **dropped)
{
    for (struct inference *next, *large = queue->first_large; large; large = next) {
        next = large->next;
        if (!is_over(large, now))
            continue;
        give_up_large(queue, large);
        if (large->running == 0)
            drop(large, dropped);
    }
}

void batch_queue_sweep(struct batch_queue *queue, double now, struct inference **dropped)
{
    struct inference *left = queue->first;
    queue->first = queue->last = NULL;
    queue->rows = queue->count = 0;
    for (struct inference *next; left; left = next) {
        next = left->next;
        if (is_over(left, now))
            drop(left, dropped);
        else
            append(queue, left);
    }
    sweep_large(queue, now, dropped);
}
