/* Those who watch a training: chosen by options, made before it starts, told of every event. Each is
 * a file of its own in watch/; this is the one place that knows them all. */
#ifndef CLI_WATCHERS_H
#define CLI_WATCHERS_H

#include "cli/options.h"
#include "cli/remote.h"

struct graph;
struct plan;
struct progress;
struct lines;
struct train_event;

struct watchers_settings {
    bool quiet, verbose;
};

/* Rows of a table whose settings have a `struct watchers_settings watch`. */
#define WATCHERS_OPTIONS(settings)                                                                 \
    OPTION_FLAG(settings, watch.quiet, "quiet", .letter = 'q', .help = "show no progress"),        \
        OPTION_FLAG(settings, watch.verbose, "verbose", .letter = 'v',                             \
                    .help = "a line for every step")

/* What a watcher may tell about the run; all borrowed for its length. */
struct watchers_run {
    const char *command; /* "train" */
    const char *model, *data;
    const struct options *options; /* as given and resolved */
    const struct graph *graph;
    struct plan *plan;
    const char *output_dir; /* NULL: nothing is kept */
    int64_t total_steps;
    int batch, threads;
};

/* All zero is none. */
struct watchers {
    struct progress *progress;
    struct lines *lines;
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
