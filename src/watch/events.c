#include "watch/events.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "train/exchange.h"
#include "train/trainer.h"
#include "watch/histogram.h"
#include "watch/rank_times.h"
#include "watch/spool.h"
#include "wire/tfrecord.h"

enum {
    MAX_RUNS_PER_SECOND = 1000,
    LARGEST_RECORD = 64 << 10, /* of those made while training: a histogram with all its buckets */
};

/* Seconds of the parts of a step, in the order of their tags. */
enum { TOTAL, INPUT, FORWARD, BACKWARD, REDUCE, UPDATE, HIDDEN, PARTS };

struct events {
    struct events_options options;
    char path[PATH_MAX];
    int file; /* of the spool */
    struct strbuf record;
    struct histogram *histogram; /* NULL: not wanted */
    struct train_event last;     /* the last step seen */
    bool seen, told;             /* a step; the last one */
    double told_at;              /* when */
    int64_t told_examples;       /* of the run, when a step was last told */
    int64_t steps;               /* since then */
    double seconds[PARTS];       /* the same */
    double *own_seconds;         /* [ranks] of the last step; NULL: one rank */
    int64_t histogram_step;      /* of the last histograms, or -1 */
};

/* --- the file ------------------------------------------------------------------------------- */

/* The name has the parts TensorFlow gives it; the process and a counter tell apart what starts in
 * the same second. */
static int open_file(struct events *events, struct error *err)
{
    char host[HOST_NAME_MAX + 1] = "";
    if (gethostname(host, sizeof host - 1) < 0 || !*host)
        snprintf(host, sizeof host, "localhost");
    int file = -1;
    for (int run = 0; run < MAX_RUNS_PER_SECOND; run++) {
        int length = snprintf(
            events->path, sizeof events->path, "%s/events.out.tfevents.%010" PRId64 ".%s.%ld.%d",
            events->options.directory, (int64_t)events->options.wall(), host, (long)getpid(), run);
        if (length >= (int)sizeof events->path)
            return error_set(err, ERROR_IO, "%s: %s", events->options.directory,
                             strerror(ENAMETOOLONG));
        file = open(events->path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
        if (file >= 0 || errno != EEXIST)
            break;
    }
    events->file = spool_append(events->options.spool, file, events->path, err);
    return events->file < 0 ? -1 : 0;
}

static void begin_record(struct events *events, int64_t step)
{
    strbuf_clear(&events->record);
    event_begin(&events->record, events->options.wall(), step);
}

static void end_record(struct events *events)
{
    const struct strbuf *record = &events->record;
    uint8_t header[TFRECORD_HEADER_BYTES], footer[TFRECORD_FOOTER_BYTES];
    if (record->failed)
        return;
    tfrecord_frame(record->text, record->length, header, footer);
    struct spool_part parts[] = {
        {header, sizeof header}, {record->text, record->length}, {footer, sizeof footer}};
    spool_write(events->options.spool, events->file, parts, sizeof parts / sizeof *parts);
}

/* --- its life ------------------------------------------------------------------------------- */

/* While training, the record only takes what it already has. */
static int reserve_record(struct events *events, struct error *err)
{
    static const char zeros[1 << 10];
    for (size_t i = 0; i < LARGEST_RECORD / sizeof zeros; i++)
        strbuf_add_bytes(&events->record, zeros, sizeof zeros);
    return events->record.failed
               ? error_set(err, ERROR_MEMORY, "no memory for TensorBoard's events")
               : 0;
}

static int start_file(struct events *events, struct error *err)
{
    const struct events_options *options = &events->options;
    if (directory_make(options->directory, err) < 0 || open_file(events, err) < 0 ||
        reserve_record(events, err) < 0)
        return -1;
    begin_record(events, 0);
    event_add_version(&events->record);
    end_record(events);
    if (options->node_count) {
        begin_record(events, 0);
        event_add_graph(&events->record, options->nodes, options->node_count);
        end_record(events);
    }
    return options->histogram_every ? histogram_create(&events->histogram, err) : 0;
}

static int make_ranks(struct events *events, struct error *err)
{
    int ranks = events->options.ranks;
    if (ranks < 2)
        return 0;
    events->own_seconds = memory_allocate((size_t)ranks * sizeof *events->own_seconds);
    return events->own_seconds ? 0 : error_set(err, ERROR_MEMORY, "no memory for %d ranks", ranks);
}

int events_create(const struct events_options *options, struct events **out, struct error *err)
{
    struct events *events = memory_allocate(sizeof *events);
    if (!events)
        return error_set(err, ERROR_MEMORY, "no memory for TensorBoard's events");
    events->options = *options;
    if (!events->options.interval_seconds)
        events->options.interval_seconds = 0.1;
    if (!events->options.now)
        events->options.now = clock_seconds;
    if (!events->options.wall)
        events->options.wall = clock_wall_seconds;
    events->histogram_step = -1;
    strbuf_init(&events->record);
    if (make_ranks(events, err) < 0 || start_file(events, err) < 0) {
        events_destroy(events);
        return -1;
    }
    *out = events;
    return 0;
}

void events_destroy(struct events *events)
{
    if (!events)
        return;
    histogram_destroy(events->histogram);
    memory_free(events->own_seconds);
    strbuf_release(&events->record);
    memory_free(events);
}

const char *events_path(const struct events *events)
{
    return events->path;
}

/* --- events --------------------------------------------------------------------------------- */

static void tell_histograms(struct events *events, int64_t step)
{
    struct events_weights weights;
    if (!events->histogram || events->histogram_step == step)
        return;
    events->histogram_step = step;
    for (int i = 0; events->options.weights(events->options.context, i, &weights); i++) {
        histogram_clear(events->histogram);
        histogram_add(events->histogram, weights.values, weights.count);
        begin_record(events, step);
        size_t summary = event_begin_summary(&events->record);
        event_add_histogram(&events->record, weights.name, events->histogram);
        event_end_summary(&events->record, summary);
        end_record(events);
    }
}

/* A resumed run tells again what came after its checkpoint. */
static void on_started(struct events *events, const struct train_event *event)
{
    begin_record(events, event->step ? event->step + 1 : 0);
    event_add_start(&events->record);
    end_record(events);
    tell_histograms(events, event->step);
}

static void add_parts(struct events *events)
{
    static const char *const tags[PARTS] = {"step_seconds/total",        "step_seconds/input",
                                            "step_seconds/forward",      "step_seconds/backward",
                                            "step_seconds/reduce",       "step_seconds/update",
                                            "step_seconds/reduce_hidden"};
    int parts = events->own_seconds ? PARTS : HIDDEN;
    for (int part = 0; part < parts; part++)
        event_add_scalar(&events->record, tags[part],
                         events->seconds[part] / (double)events->steps);
}

static void add_ranks(struct events *events)
{
    struct strbuf *record = &events->record;
    if (!events->own_seconds)
        return;
    struct rank_spread spread = rank_spread_of(events->own_seconds, events->options.ranks);
    event_add_scalar(record, "ranks/own_seconds_min", spread.least);
    event_add_scalar(record, "ranks/own_seconds_median", spread.median);
    event_add_scalar(record, "ranks/own_seconds_max", spread.most);
    event_add_scalar(record, "ranks/slowest", events->last.slowest);
    event_add_scalar(record, "ranks/slowest_excess_seconds", spread.most - spread.median);
    event_add_scalar(record, "ranks/bucket_bytes", (double)events->last.bucket_bytes);
}

static void tell_step(struct events *events)
{
    const struct train_event *event = &events->last;
    struct strbuf *record = &events->record;
    double examples = (double)(event->examples - events->told_examples);
    begin_record(events, event->step);
    size_t summary = event_begin_summary(record);
    event_add_scalar(record, "train/loss", event->loss);
    event_add_scalar(record, "train/accuracy", event->accuracy);
    event_add_scalar(record, "train/accuracy_top_5", event->accuracy_top_5);
    event_add_scalar(record, "train/log_loss", event->log_loss);
    event_add_scalar(record, "learning_rate", event->rate);
    if (events->seconds[TOTAL] > 0)
        event_add_scalar(record, "examples_per_second", examples / events->seconds[TOTAL]);
    add_parts(events);
    add_ranks(events);
    event_end_summary(record, summary);
    end_record(events);
    events->told = true;
    events->told_examples = event->examples;
    events->steps = 0;
    memset(events->seconds, 0, sizeof events->seconds);
}

static void count_step(struct events *events, const struct train_event *event)
{
    const double parts[PARTS] = {event->step_seconds,    event->input_seconds,
                                 event->forward_seconds, event->backward_seconds,
                                 event->reduce_seconds,  event->update_seconds,
                                 event->hidden_seconds};
    for (int part = 0; part < PARTS; part++)
        events->seconds[part] += parts[part];
    events->steps++;
    for (int r = 0; events->own_seconds && event->ranks && r < events->options.ranks; r++)
        events->own_seconds[r] = rank_status_own(&event->ranks[r]);
    events->last = *event;
    events->last.ranks = NULL; /* valid for this call only */
    events->last.sums = NULL;
    events->told = false;
}

static void on_step(struct events *events, const struct train_event *event)
{
    double now = events->options.now();
    count_step(events, event);
    if (!events->seen || event->step == event->total ||
        now - events->told_at >= events->options.interval_seconds) {
        events->told_at = now;
        tell_step(events);
    }
    events->seen = true;
    if (events->histogram && event->step % events->options.histogram_every == 0)
        tell_histograms(events, event->step);
}

static void on_evaluated(struct events *events, const struct train_event *event)
{
    struct strbuf *record = &events->record;
    begin_record(events, event->step);
    size_t summary = event_begin_summary(record);
    event_add_scalar(record, "eval/loss", event->loss);
    event_add_scalar(record, "eval/accuracy", event->accuracy);
    event_add_scalar(record, "eval/accuracy_top_5", event->accuracy_top_5);
    event_add_scalar(record, "eval/auc", event->auc);
    event_add_scalar(record, "eval/log_loss", event->log_loss);
    event_add_scalar(record, "eval/seconds", event->step_seconds);
    event_end_summary(record, summary);
    end_record(events);
}

static void on_saved(struct events *events, const struct train_event *event)
{
    begin_record(events, event->step);
    size_t summary = event_begin_summary(&events->record);
    event_add_scalar(&events->record, "checkpoint/seconds", event->step_seconds);
    event_end_summary(&events->record, summary);
    end_record(events);
}

/* A run that was stopped has a last step, too. */
static void on_finished(struct events *events, const struct train_event *event)
{
    if (events->seen && !events->told)
        tell_step(events);
    tell_histograms(events, event->step);
}

void events_observe(void *context, const struct train_event *event)
{
    struct events *events = context;
    switch (event->kind) {
    case TRAIN_STARTED:
        on_started(events, event);
        break;
    case TRAIN_STEP:
        on_step(events, event);
        break;
    case TRAIN_EVALUATED:
        on_evaluated(events, event);
        break;
    case TRAIN_SAVED:
        on_saved(events, event);
        break;
    case TRAIN_FINISHED:
        on_finished(events, event);
        break;
    }
}
