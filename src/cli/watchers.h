/* Those who watch a training: chosen by options, made before it starts, told of every event. Each is
 * a file of its own in watch/; this is the one place that knows them all. */
#ifndef CLI_WATCHERS_H
#define CLI_WATCHERS_H

#include "cli/options.h"
#include "cli/tracing.h"
#include "cli/remote.h"

struct argo;
struct graph;
struct lines;
struct params;
struct plan;
struct progress;
struct spool;
struct tensorboard;
struct train_event;

struct watchers_settings {
    bool quiet, verbose;
    const char *tensorboard, *progress_file;
    int64_t histogram_every;
    struct tracing_settings trace;
};

/* Rows of a table whose settings have a `struct watchers_settings watch`. */
#define WATCHERS_OPTIONS(settings)                                                                 \
    OPTION_FLAG(settings, watch.quiet, "quiet", .letter = 'q', .help = "show no progress"),        \
        OPTION_FLAG(settings, watch.verbose, "verbose", .letter = 'v',                             \
                    .help = "a line for every step"),                                              \
        OPTION_TEXT(settings, watch.tensorboard, "tensorboard", .value = "DIR",                    \
                    .help = "write event files for TensorBoard there: loss, accuracy, rate, "      \
                            "speed and the graph; at most ten steps a second"),                    \
        OPTION_LONG(settings, watch.histogram_every, "tensorboard-histograms", .initial = "0",     \
                    .initial_note = "none", .value = "N", OPTION_AT_LEAST(0),                      \
                    .help = "histograms of all weights every N steps, which costs a pass over "    \
                            "them"),                                                               \
        OPTION_TEXT(settings, watch.progress_file, "progress-file", .value = "FILE",               \
                    .environment = "ARGO_PROGRESS_FILE",                                           \
                    .help = "write STEP/TOTAL there every second, as Argo workflows read it"),     \
        TRACING_OPTIONS(settings, watch.trace)

/* What a watcher may tell about the run; all borrowed for its length. */
struct watchers_run {
    const char *command; /* "train" */
    const char *model, *data;
    const struct options *options; /* as given and resolved */
    const struct graph *graph;
    struct plan *plan;
    struct params *params;
    struct loader *loader, *evaluation_loader; /* the second may be NULL */
    const char *output_dir;                    /* NULL: nothing is kept */
    int64_t first_step, warmup_steps, total_steps;
    int batch, threads;
};

/* All zero is none. */
struct watchers {
    struct progress *progress;
    struct lines *lines;
    struct spool *spool; /* what the next two write through */
    struct tensorboard *tensorboard;
    struct argo *argo;
    struct tracing *tracing;
    struct remote remote;
};

int watchers_create(const struct watchers_settings *settings, const struct watchers_run *run,
                    struct watchers *out, struct error *err);
/* A train_observer; the context is the struct watchers. */
void watchers_observe(void *watchers, const struct train_event *event);
/* Takes the moving line away before results are printed; the others go on. */
void watchers_end_line(struct watchers *watchers);
/* How the run ended, once its results are known; does not wait for anyone. */
void watchers_end(struct watchers *watchers, enum run_outcome outcome);
/* Those who tell other services get a few seconds for the rest. */
void watchers_release(struct watchers *watchers);

#endif
