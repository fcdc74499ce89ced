#include "watch/lines.h"

#include <inttypes.h>
#include <math.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "train/trainer.h"
#include "watch/pace.h"

enum { ROOM = 256 }; /* a usual line */

struct lines {
    struct lines_options options;
    struct pace pace;
    /* A line is written in one go: mpirun marks each piece that it gets as a line of its own. */
    struct strbuf text;
    double started, written;             /* when */
    double step_seconds, reduce_seconds; /* since a step was last told */
};

int lines_create(const struct lines_options *options, struct lines **out, struct error *err)
{
    struct lines *lines = memory_allocate(sizeof *lines);
    if (!lines)
        return error_set(err, ERROR_MEMORY, "no memory for the log of the training");
    lines->options = *options;
    strbuf_init(&lines->text);
    strbuf_addf(&lines->text, "%*s", ROOM, ""); /* so that no step has to make room */
    strbuf_clear(&lines->text);
    if (!lines->options.now)
        lines->options.now = clock_seconds;
    if (!lines->options.wall)
        lines->options.wall = clock_wall_seconds;
    *out = lines;
    return 0;
}

void lines_destroy(struct lines *lines)
{
    if (!lines)
        return;
    strbuf_release(&lines->text);
    memory_free(lines);
}

/* "2024-05-06T07:08:09Z " in UTC: logs of several machines sort together. */
static void stamp(struct lines *lines)
{
    time_t seconds = (time_t)lines->options.wall();
    struct tm parts;
    char text[32];
    gmtime_r(&seconds, &parts);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    strbuf_addf(&lines->text, "%s ", text);
}

static void add_scores(struct strbuf *out, double loss, double accuracy)
{
    char text[32];
    strbuf_addf(out, "loss %s", pace_number_text(loss, text, sizeof text));
    if (!isnan(accuracy))
        strbuf_addf(out, ", accuracy %.4f", accuracy);
}

static void on_started(struct lines *lines, const struct train_event *event)
{
    lines->started = lines->options.now();
    stamp(lines);
    strbuf_addf(&lines->text,
                "training from step %" PRId64 " to %" PRId64 ", %" PRId64 " steps per epoch",
                event->step, event->total, event->steps_per_epoch);
    if (event->rank_count > 1)
        strbuf_addf(&lines->text, ", %d ranks", event->rank_count);
    strbuf_add_char(&lines->text, '\n');
}

/* What could not be hidden behind the computation. */
static void add_waiting(struct lines *lines, const struct train_event *event)
{
    if (event->rank_count > 1 && lines->step_seconds > 0)
        strbuf_addf(&lines->text, ", %.0f %% waiting for ranks",
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
    strbuf_addf(&lines->text, "step %" PRId64 "/%" PRId64 ", ", event->step, event->total);
    add_scores(&lines->text, lines->pace.loss, lines->pace.accuracy);
    strbuf_addf(&lines->text, ", lr %s, %s examples/s, %s left",
                pace_number_text(event->rate, rate, sizeof rate),
                pace_number_text(pace_examples_per_second(&lines->pace), speed, sizeof speed),
                pace_duration_text(pace_seconds_left(&lines->pace, event), left, sizeof left));
    add_waiting(lines, event);
    strbuf_add_char(&lines->text, '\n');
}

static void on_evaluated(struct lines *lines, const struct train_event *event)
{
    stamp(lines);
    strbuf_addf(&lines->text, "evaluated after step %" PRId64 ": ", event->step);
    add_scores(&lines->text, event->loss, event->accuracy);
    if (!isnan(event->auc))
        strbuf_addf(&lines->text, ", auc %.4f", event->auc);
    if (!isnan(event->log_loss))
        strbuf_addf(&lines->text, ", log loss %.4f", event->log_loss);
    strbuf_addf(&lines->text, ", %" PRId64 " examples in %.1f s\n", event->examples,
                event->step_seconds);
}

static void on_saved(struct lines *lines, const struct train_event *event)
{
    stamp(lines);
    strbuf_addf(&lines->text, "saved %s in %.1f s\n", event->path, event->step_seconds);
}

static void on_finished(struct lines *lines, const struct train_event *event)
{
    char took[32];
    stamp(lines);
    strbuf_addf(&lines->text, "%s %" PRId64 " steps, %" PRId64 " examples in %s\n",
                event->step < event->total ? "stopped after" : "finished", event->step,
                event->examples,
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
    if (lines->text.length)
        fputs(lines->text.text, lines->options.out);
    strbuf_clear(&lines->text);
    fflush(lines->options.out);
}
