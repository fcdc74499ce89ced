/* TensorBoard's event files: scalars, the graph, and histograms of weights on request; observer of
 * trainer events. Records go through a spool, so that no step waits for a disk.
 *
 * Of the steps at most ten a second are told, the first and the last always: loss, accuracy and
 * learning rate are those of the step that is told, speed and seconds are means since the one told
 * before. Every evaluation is told. */
#ifndef WATCH_EVENTS_H
#define WATCH_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watch/event_message.h"

struct error;
struct events;
struct spool;
struct train_event;

struct events_weights {
    const char *name;
    const float *values; /* valid until the next are asked for */
    size_t count;
};

struct events_options {
    const char *directory;          /* made when it is not there */
    struct spool *spool;            /* borrowed */
    const struct event_node *nodes; /* of the network; only read while this is created */
    int node_count;
    /* Steps between two sets of histograms (also before the first step and after the last); 0:
     * none. `weights` gives the parameter `index`, false behind the last. */
    int64_t histogram_every;
    bool (*weights)(void *context, int index, struct events_weights *out);
    void *context;
    int ranks;               /* 0: one */
    double interval_seconds; /* between two steps that are told; 0: a tenth of a second */
    double (*now)(void);     /* NULL: the clock */
    double (*wall)(void);    /* seconds since 1970; NULL: the clock */
};

int events_create(const struct events_options *options, struct events **out, struct error *err);
void events_destroy(struct events *events); /* accepts NULL; the spool has what was written */
/* A train_observer; the context is the struct events. Allocates nothing. */
void events_observe(void *events, const struct train_event *event);
const char *events_path(const struct events *events);

#endif
