#include "watch/tracer.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/trace.h"
#include "train/trainer.h"

enum {
    PARTS = 5,
    RARE_SPANS = 4096, /* evaluations and checkpoints of a long run */
};

struct tracer {
    struct tracer_options options;
    struct trace_track *saving; /* beside the training, so not in its track */
    double saved;               /* the end of the last span there */
};

size_t tracer_capacity(int64_t steps, int op_count)
{
    return (size_t)steps * (size_t)(1 + PARTS + op_count) + RARE_SPANS;
}

int tracer_create(const struct tracer_options *options, struct tracer **out, struct error *err)
{
    struct tracer *tracer = memory_allocate(sizeof *tracer);
    struct trace_track *saving = trace_add_track(options->trace, "checkpoints", RARE_SPANS);
    if (!tracer || !saving) {
        memory_free(tracer);
        return error_set(err, ERROR_MEMORY, "no memory for the trace");
    }
    tracer->options = *options;
    if (!tracer->options.now)
        tracer->options.now = clock_seconds;
    tracer->saving = saving;
    *out = tracer;
    return 0;
}

void tracer_destroy(struct tracer *tracer)
{
    memory_free(tracer);
}

static void add_ops(const struct tracer *tracer)
{
    for (int i = 0; i < tracer->options.op_count; i++) {
        struct tracer_op op;
        tracer->options.op(tracer->options.context, i, &op);
        struct trace_span span = {.name = op.name,
                                  .category = op.pass,
                                  .start = op.start,
                                  .end = op.end,
                                  .arguments = {{"op", .text = op.op},
                                                {"pass", .text = op.pass},
                                                {"kernel", .text = op.kernel},
                                                {"bytes", .number = op.bytes},
                                                {"flops", .number = op.flops},
                                                {*op.fused ? "fused" : NULL, .text = op.fused}}};
        trace_add(tracer->options.track, &span);
    }
}

/* The parts follow each other without a gap. */
static void add_step(const struct tracer *tracer, const struct train_event *event)
{
    const struct {
        const char *name;
        double seconds;
    } parts[PARTS] = {{"input", event->input_seconds},
                      {"forward", event->forward_seconds},
                      {"backward", event->backward_seconds},
                      {"reduce", event->reduce_seconds},
                      {"update", event->update_seconds}};
    struct trace_span span = {
        .name = "step",
        .category = "training",
        .start = event->started,
        .end = event->started + event->step_seconds,
        .arguments = {{"step", .number = event->step}, {"epoch", .number = event->epoch}}};
    trace_add(tracer->options.track, &span);
    double end = span.end, at = event->started;
    for (int i = 0; i < PARTS; i++) {
        if (parts[i].seconds <= 0)
            continue;
        span.name = parts[i].name;
        span.start = at;
        at += parts[i].seconds;
        span.end = at < end ? at : end; /* sums of rounded numbers */
        trace_add(tracer->options.track, &span);
    }
    add_ops(tracer);
}

/* Begins or ends recording before step `next` starts. */
static void switch_before(const struct tracer *tracer, int64_t next)
{
    const struct tracer_options *options = &tracer->options;
    if (next == options->first_step)
        options->record(options->context, true);
    else if (next == options->first_step + options->steps)
        options->record(options->context, false);
}

static void on_step(const struct tracer *tracer, const struct train_event *event)
{
    const struct tracer_options *options = &tracer->options;
    if (event->step >= options->first_step && event->step < options->first_step + options->steps)
        add_step(tracer, event);
    switch_before(tracer, event->step + 1);
}

static void on_evaluated(const struct tracer *tracer, const struct train_event *event)
{
    struct trace_span span = {
        .name = "evaluation",
        .category = "training",
        .start = event->started,
        .end = event->started + event->step_seconds,
        .arguments = {{"step", .number = event->step}, {"examples", .number = event->examples}}};
    trace_add(tracer->options.track, &span);
}

/* It ended about now. */
static void on_saved(struct tracer *tracer, const struct train_event *event)
{
    double end = event->started > 0 ? event->started + event->step_seconds : tracer->options.now();
    double start = end - event->step_seconds;
    struct trace_span span = {.name = "checkpoint",
                              .category = "saving",
                              .start = start > tracer->saved ? start : tracer->saved,
                              .end = end,
                              .arguments = {{"step", .number = event->step}}};
    trace_add(tracer->saving, &span);
    tracer->saved = end;
}

void tracer_observe(void *context, const struct train_event *event)
{
    struct tracer *tracer = context;
    switch (event->kind) {
    case TRAIN_STARTED:
        switch_before(tracer, event->step + 1);
        break;
    case TRAIN_STEP:
        on_step(tracer, event);
        break;
    case TRAIN_EVALUATED:
        on_evaluated(tracer, event);
        break;
    case TRAIN_SAVED:
        on_saved(tracer, event);
        break;
    case TRAIN_FINISHED:
        tracer->options.record(tracer->options.context, false);
        break;
    }
}
