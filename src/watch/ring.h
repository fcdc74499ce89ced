/* Training events on their way from the training thread to those who show them. The writer stores
 * numbers and goes on: no lock, no allocation, no wait. One writer, one reader at a time. */
#ifndef WATCH_RING_H
#define WATCH_RING_H

#include <stdbool.h>

#include "train/trainer.h"

struct error;
struct ring;

enum { RING_PATH_BYTES = 160 };

struct ring_entry {
    /* Of steps: means of the scores, sums of the seconds; `path` and `ranks` are NULL. */
    struct train_event event;
    int64_t steps;    /* how many it stands for: more than 1 when the reader was late */
    double low, high; /* least and greatest loss of them */
    double at;        /* clock_wall_seconds of the last */
    char path[RING_PATH_BYTES];
};

int ring_create(int capacity, struct ring **out, struct error *err);
void ring_destroy(struct ring *ring); /* accepts NULL */

/* The writer's. When there is no room, steps are merged until there is; other events, which are
 * rare, are kept in the order they came with what was merged before them. */
void ring_put(struct ring *ring, const struct train_event *event, double at);
/* After the last event, on any thread when the writer is done: offers once more what had no room.
 * False when there is still none. */
bool ring_flush(struct ring *ring);
/* The reader's: false when there is nothing. */
bool ring_take(struct ring *ring, struct ring_entry *out);

/* Adds `more`, of later steps, to `into`, also of steps. */
void ring_merge(struct ring_entry *into, const struct ring_entry *more);

#endif
