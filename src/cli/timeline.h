/* --timeline: when in a step each gradient was final, and how long the step's parts took, as medians
 * over the last steps: what `lockstep plan` predicts larger runs from. An observer. */
#ifndef CLI_TIMELINE_H
#define CLI_TIMELINE_H

#include "train/trainer.h"

struct json;
struct params;
struct timeline;

struct timeline_options {
    const struct plan *plan; /* made with `profile` */
    const struct params *params;
    int64_t warmup_steps; /* first steps that do not count */
    int batch;            /* examples of one rank in a step */
    int ranks;
};

/* All that it points to is borrowed. */
int timeline_create(const struct timeline_options *options, struct timeline **out,
                    struct error *err);
void timeline_destroy(struct timeline *timeline); /* accepts NULL */
/* A train_observer; the context is the timeline, or NULL: nothing is noted. Allocates nothing. */
void timeline_observe(void *timeline, const struct train_event *event);
/* The field "timeline"; nothing without one. */
void timeline_describe(struct timeline *timeline, struct json *out);

#endif
