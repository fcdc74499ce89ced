/* Gives every buffer of a plan its place in one slab. Buffers whose lives do not overlap share
 * memory; largest first, each at the lowest place that is free for as long as it lives. */
#include "base/arena.h"
#include "base/error.h"
#include "exec/plan_internal.h"

enum { PLACE_ALIGN = 64 };

static void note_lifetimes(struct plan *plan)
{
    for (int i = 0; i < plan->buffer_count; i++)
        plan->buffers[i].first = plan->buffers[i].last = -1;
    for (int s = 0; s < plan->step_count; s++)
        for (int b = 0; b < plan->steps[s].bound_count; b++) {
            struct buffer *buffer = &plan->buffers[plan->steps[s].bounds[b].buffer];
            if (buffer->first < 0)
                buffer->first = s;
            buffer->last = s;
        }
    for (int i = 0; i < plan->buffer_count; i++)
        if (plan->buffers[i].keep && plan->buffers[i].first >= 0)
            plan->buffers[i].last = plan->step_count;
}

static bool alive_together(const struct buffer *a, const struct buffer *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static size_t rounded(size_t bytes)
{
    return (bytes + PLACE_ALIGN - 1) & ~(size_t)(PLACE_ALIGN - 1);
}

/* `placed` is ordered by offset: walk it and take the first gap that is large enough. */
static size_t lowest_gap(struct buffer *const *placed, int count, const struct buffer *buffer)
{
    size_t at = 0;
    for (int i = 0; i < count; i++) {
        if (!alive_together(placed[i], buffer))
            continue;
        if (placed[i]->offset >= at + rounded(buffer->bytes))
            return at;
        size_t end = placed[i]->offset + rounded(placed[i]->bytes);
        if (end > at)
            at = end;
    }
    return at;
}

static void insert_by_offset(struct buffer **placed, int count, struct buffer *buffer)
{
    int at = count;
    for (; at > 0 && placed[at - 1]->offset > buffer->offset; at--)
        placed[at] = placed[at - 1];
    placed[at] = buffer;
}

static int by_size(const void *a, const void *b)
{
    const struct buffer *x = *(struct buffer *const *)a, *y = *(struct buffer *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x < y ? -1 : x > y;
}

int plan_place_buffers(struct plan *plan, struct error *err)
{
    note_lifetimes(plan);
    struct buffer **order = ARENA_ARRAY(plan->arena, struct buffer *, plan->buffer_count + 1);
    struct buffer **placed = ARENA_ARRAY(plan->arena, struct buffer *, plan->buffer_count + 1);
    if (!order || !placed)
        return error_set(err, ERROR_MEMORY, "no memory for a plan");
    int count = 0;
    for (int i = 0; i < plan->buffer_count; i++) {
        struct buffer *buffer = &plan->buffers[i];
        if (buffer->kind != BUFFER_SLAB || buffer->first < 0)
            continue;
        order[count++] = buffer;
        plan->sum_bytes += rounded(buffer->bytes);
        if (buffer->first < plan->forward_steps && buffer->last >= plan->forward_steps)
            plan->saved_bytes += rounded(buffer->bytes);
    }
    qsort(order, (size_t)count, sizeof *order, by_size);
    for (int i = 0; i < count; i++) {
        order[i]->offset = lowest_gap(placed, i, order[i]);
        insert_by_offset(placed, i, order[i]);
        size_t end = order[i]->offset + rounded(order[i]->bytes);
        if (end > plan->slab_bytes)
            plan->slab_bytes = end;
    }
    return 0;
}
