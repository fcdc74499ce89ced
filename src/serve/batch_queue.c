#include "serve/batch_queue.h"

#include <stddef.h>

#include "serve/inference.h"

bool batch_queue_add(struct batch_queue *queue, const struct batch_rules *rules,
                     struct inference *inference, double now)
{
    int64_t limit = (int64_t)rules->max_rows * rules->max_batches;
    if (queue->first && queue->rows + inference->rows > limit)
        return false;
    inference->next = NULL;
    inference->asked = now;
    if (queue->last)
        queue->last->next = inference;
    else
        queue->first = inference;
    queue->last = inference;
    queue->rows += inference->rows;
    queue->count++;
    return true;
}

double batch_queue_due(const struct batch_queue *queue, const struct batch_rules *rules, bool hurry)
{
    bool full = queue->rows >= rules->max_rows || rules->alone || hurry;
    return full ? queue->first->asked : queue->first->asked + rules->wait_seconds;
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
        error_set(&inference->error, ERROR_CANCELLED,
                  "the deadline passed after %.3f s in the queue", now - inference->asked);
        return true;
    }
    return false;
}

int batch_queue_take(struct batch_queue *queue, const struct batch_rules *rules, double now,
                     struct inference **batch, int space, struct inference **dropped)
{
    int count = 0;
    int64_t rows = 0;
    while (queue->first && count < space && !(rules->alone && count > 0)) {
        struct inference *first = queue->first;
        if (is_over(first, now)) {
            pop(queue);
            first->next = *dropped;
            *dropped = first;
            continue;
        }
        if ((count > 0 || rules->strict) && rows + first->rows > rules->max_rows)
            break;
        rows += first->rows;
        batch[count++] = pop(queue);
    }
    return count;
}

void batch_queue_sweep(struct batch_queue *queue, double now, struct inference **dropped)
{
    struct inference *left = queue->first;
    queue->first = queue->last = NULL;
    queue->rows = queue->count = 0;
    for (struct inference *next; left; left = next) {
        next = left->next;
        left->next = NULL;
        if (is_over(left, now)) {
            left->next = *dropped;
            *dropped = left;
            continue;
        }
        if (queue->last)
            queue->last->next = left;
        else
            queue->first = left;
        queue->last = left;
        queue->rows += left->rows;
        queue->count++;
    }
}
