#include "watch/lines.h"

#include <inttypes.h>
#include <math.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "train/trainer.h"
#include "watch/pace.h"

struct lines {
    struct lines_options options;
    struct pace pace;
    double started, written;             /* when */
    double step_seconds, reduce_seconds; /* since a step was last told */
};

int lines_create(const struct lines_options *options, struct lines **out, struct error *err)
{
    struct lines *lines = memory_allocate(sizeof *lines);
    if (!lines)
        return error_set(err, ERROR_MEMORY, "no memory for the log of the training");
    lines->options = *options;
    if (!lines->options.now)
        lines->options.now = clock_seconds;
    if (!lines->options.wall)
        lines->options.wall = clock_wall_seconds;
    *out = lines;
    return 0;
}

void lines_destroy(struct lines *lines)
{
    memory_free(lines);
}

/* "2024-05-06T07:08:09Z " in UTC: logs of several machines sort together. */
static void stamp(const struct lines *lines)
{
    time_t seconds = (time_t)lines->options.wall();
    struct tm parts;
    char text[32];
    gmtime_r(&seconds, &parts);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    fprintf(lines->options.out, "%s ", text);
}

static void write_scores(FILE *out, double loss, double accuracy)
{
    char text[32];
    fprintf(out, "loss %s", pace_number_text(loss, text, sizeof text));
    if (!isnan(accuracy))
        fprintf(out, ", accuracy %.4f", accuracy);
}

static void on_started(struct lines *lines, const struct train_event *event)
{
    lines->started = lines->options.now();
    stamp(lines);
    fprintf(lines->options.out,
            "training from step %" PRId64 " to %" PRId64 ", %" PRId64 " steps per epoch",
            event->step, event->total, event->steps_per_epoch);
    if (event->rank_count > 1)
        fprintf(lines->options.out, ", %d ranks", event->rank_count);
    fputc('\n', lines->options.out);
}

/* What could not be hidden behind the computation. */
static void write_waiting(struct lines *lines, const struct train_event *event)
{
    if (event->rank_count > 1 && lines->step_seconds > 0)
        fprintf(lines->options.out, ", %.0f %% waiting for ranks",
                100 * lines->reduce_seconds / lines->step_seconds);
    lines->step_seconds = lines->reduce_seconds = 0;
}

/* The first and the last step are always told. */
static void on_step(struct lines *lines, const struct train_event *event)
{
    double now = lines->options.now();
    pace_add(&lines->pace, event);
    lines->step_seconds += event->step_seconds;
    lines->reduce_seconds += event->reduce_seconds;
    if (lines->pace.steps > 1 && event->step < event->total &&
        now - lines->written < lines->options.interval_seconds)
        return;
    lines->written = now;
    char rate[32], speed[32], left[32];
    stamp(lines);
    fprintf(lines->options.out, "step %" PRId64 "/%" PRId64 ", ", event->step, event->total);
    write_scores(lines->options.out, lines->pace.loss, lines->pace.accuracy);
    fprintf(lines->options.out, ", lr %s, %s examples/s, %s left",
            pace_number_text(event->rate, rate, sizeof rate),
            pace_number_text(pace_examples_per_second(&lines->pace), speed, sizeof speed),
            pace_duration_text(pace_seconds_left(&lines->pace, event), left, sizeof left));
    write_waiting(lines, event);
    fputc('\n', lines->options.out);
}

static void on_evaluated(const struct lines *lines, const struct train_event *event)
{
    stamp(lines);
    fprintf(lines->options.out, "evaluated after step %" PRId64 ": ", event->step);
    write_scores(lines->options.out, event->loss, event->accuracy);
    if (!isnan(event->auc))
        fprintf(lines->options.out, ", auc %.4f", event->auc);
    if (!isnan(event->log_loss))
        fprintf(lines->options.out, ", log loss %.4f", event->log_loss);
    fprintf(lines->options.out, ", %" PRId64 " examples in %.1f s\n", event->examples,
            event->step_seconds);
}

static void on_saved(const struct lines *lines, const struct train_event *event)
{
    stamp(lines);
    fprintf(lines->options.out, "saved %s in %.1f s\n", event->path, event->step_seconds);
}

static void on_finished(const struct lines *lines, const struct train_event *event)
{
    char took[32];
    stamp(lines);
    fprintf(lines->options.out, "%s %" PRId64 " steps, %" PRId64 " examples in %s\n",
            event->step < event->total ? "stopped after" : "finished", event->step, event->examples,
            pace_duration_text(lines->options.now() - lines->started, took, sizeof took));
}

void lines_observe(void *context, const struct train_event *event)
{
    struct lines *lines = context;
    switch (event->kind) {
    case TRAIN_STARTED:
        on_started(lines, event);
        break;
    case TRAIN_STEP:
        on_step(lines, event);
        break;
    case TRAIN_EVALUATED:
        on_evaluated(lines, event);
        break;
    case TRAIN_SAVED:
        on_saved(lines, event);
        break;
    case TRAIN_FINISHED:
        on_finished(lines, event);
        break;
    }
    fflush(lines->options.out);
}
