/* Puts a few steps of a training into a trace: each step with its parts and operations, and every
 * evaluation and checkpoint of the run; observer of trainer events. */
#ifndef WATCH_TRACER_H
#define WATCH_TRACER_H

#include <stdbool.h>
#include <stdint.h>

struct error;
struct trace;
struct tracer;
struct train_event;

/* An operation of the step that is just finished. */
struct tracer_op {
    const char *name, *op, *fused, *pass, *kernel; /* as long as the trace */
    int64_t bytes, flops;
    double start, end; /* clock_seconds() */
};

struct tracer_options {
    struct trace *trace;       /* borrowed */
    struct trace_track *track; /* of the thread that trains; the trace's */
    int64_t first_step, steps; /* which steps: counted from 1 */
    /* Others who can record are told when the first of them begins and the last is over. */
    void (*record)(void *context, bool on);
    int op_count;
    void (*op)(void *context, int index, struct tracer_op *out);
    void *context;
    double (*now)(void); /* NULL: the clock */
};

/* Spans that the track of the training gets, at most. */
size_t tracer_capacity(int64_t steps, int op_count);

int tracer_create(const struct tracer_options *options, struct tracer **out, struct error *err);
void tracer_destroy(struct tracer *tracer); /* accepts NULL */
/* A train_observer; the context is the struct tracer. Allocates nothing. */
void tracer_observe(void *tracer, const struct train_event *event);

#endif
