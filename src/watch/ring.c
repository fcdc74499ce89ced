#include "watch/ring.h"

#include <stdatomic.h>

#include "base/error.h"
#include "base/memory.h"
#include "watch/mean.h"

/* Besides steps under way the writer can hold back a few rare events: an evaluation, a checkpoint,
 * the end. */
enum { HELD = 8 };

struct ring {
    int capacity;
    /* Counts since the start; entry i is at i % capacity. Written by one side each. */
    _Atomic int64_t written, taken;
    struct ring_entry held[HELD]; /* the writer's: what had no room, oldest first */
    int held_count;
    struct ring_entry entries[];
};

int ring_create(int capacity, struct ring **out, struct error *err)
{
    struct ring *ring = memory_allocate(sizeof *ring + sizeof ring->entries[0] * (size_t)capacity);
    if (!ring)
        return error_set(err, ERROR_MEMORY, "no memory for the events of the training");
    ring->capacity = capacity;
    *out = ring;
    return 0;
}

void ring_destroy(struct ring *ring)
{
    memory_free(ring);
}

void ring_merge(struct ring_entry *into, const struct ring_entry *more)
{
    struct train_event *to = &into->event;
    const struct train_event *from = &more->event;
    struct train_event merged = *from; /* step, epoch, examples, rate: as they are now */
    merged.loss = mean_of(to->loss, into->steps, from->loss, more->steps);
    merged.accuracy = mean_of(to->accuracy, into->steps, from->accuracy, more->steps);
    merged.accuracy_top_5 =
        mean_of(to->accuracy_top_5, into->steps, from->accuracy_top_5, more->steps);
    merged.log_loss = mean_of(to->log_loss, into->steps, from->log_loss, more->steps);
    merged.step_seconds += to->step_seconds;
    merged.input_seconds += to->input_seconds;
    merged.forward_seconds += to->forward_seconds;
    merged.backward_seconds += to->backward_seconds;
    merged.reduce_seconds += to->reduce_seconds;
    merged.hidden_seconds += to->hidden_seconds;
    merged.update_seconds += to->update_seconds;
    into->event = merged;
    into->steps += more->steps;
    into->low = more->low < into->low ? more->low : into->low;
    into->high = more->high > into->high ? more->high : into->high;
    into->at = more->at;
}

static bool store(struct ring *ring, const struct ring_entry *entry)
{
    int64_t written = atomic_load_explicit(&ring->written, memory_order_relaxed);
    if (written - atomic_load_explicit(&ring->taken, memory_order_acquire) >= ring->capacity)
        return false;
    ring->entries[written % ring->capacity] = *entry;
    atomic_store_explicit(&ring->written, written + 1, memory_order_release);
    return true;
}

bool ring_flush(struct ring *ring)
{
    int stored = 0;
    while (stored < ring->held_count && store(ring, &ring->held[stored]))
        stored++;
    ring->held_count -= stored;
    memmove(ring->held, ring->held + stored, sizeof *ring->held * (size_t)ring->held_count);
    return ring->held_count == 0;
}

/* Steps join the newest that waits. Should even the places for rare events be used up, the newest
 * of them gives way: the end of a run must not be lost. */
static void hold(struct ring *ring, const struct ring_entry *entry)
{
    struct ring_entry *newest = ring->held_count ? &ring->held[ring->held_count - 1] : NULL;
    if (newest && entry->event.kind == TRAIN_STEP && newest->event.kind == TRAIN_STEP)
        ring_merge(newest, entry);
    else if (ring->held_count < HELD)
        ring->held[ring->held_count++] = *entry;
    else
        *newest = *entry;
}

void ring_put(struct ring *ring, const struct train_event *event, double at)
{
    struct ring_entry entry = {
        .event = *event, .steps = 1, .low = event->loss, .high = event->loss, .at = at};
    if (event->path)
        snprintf(entry.path, sizeof entry.path, "%s", event->path);
    entry.event.path = NULL;
    entry.event.ranks = NULL; /* valid for the observer's call only */
    entry.event.sums = NULL;
    if (!ring_flush(ring) || !store(ring, &entry))
        hold(ring, &entry);
}

bool ring_take(struct ring *ring, struct ring_entry *out)
{
    int64_t taken = atomic_load_explicit(&ring->taken, memory_order_relaxed);
    if (taken == atomic_load_explicit(&ring->written, memory_order_acquire))
        return false;
    *out = ring->entries[taken % ring->capacity];
    atomic_store_explicit(&ring->taken, taken + 1, memory_order_release);
    return true;
}
