/* Those who watch a training: chosen by options, made before it starts, told of every event. Each is
 * a file of its own in watch/; this is the one place that knows them all. */
#ifndef CLI_WATCHERS_H
#define CLI_WATCHERS_H

#include <limits.h>

#include "cli/options.h"
#include "cli/remote.h"
#include "cli/tracing.h"

struct arena;
struct argo;
struct dashboard;
struct graph;
struct lines;
struct params;
struct plan;
struct progress;
struct record;
struct spool;
struct tensorboard;
struct train_event;

struct watchers_settings {
    bool quiet, verbose;
    const char *tensorboard, *progress_file;
    int64_t histogram_every;
    struct tracing_settings trace;
    const char *dashboard, *metrics; /* [ADDRESS:]PORT, or NULL */
};

/* Rows of a table whose settings have a `struct watchers_settings watch`. */
#define WATCHERS_OPTIONS(settings)                                                                 \
    OPTION_FLAG(settings, watch.quiet, "quiet", .letter = 'q', .help = "show no progress"),        \
        OPTION_FLAG(settings, watch.verbose, "verbose", .letter = 'v',                             \
                    .help = "a line for every step"),                                              \
        OPTION_TEXT(settings, watch.dashboard, "dashboard", .value = "[ADDRESS:]PORT",             \
                    .help = "serve a live page of the run; 0 takes any free port. For this "       \
                            "machine only, unless an address is given"),                           \
        OPTION_TEXT(settings, watch.metrics, "metrics-port", .value = "[ADDRESS:]PORT",            \
                    .help = "serve /metrics for Prometheus"),                                      \
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
    struct comm *comm; /* of several ranks only the first has watchers, but for lines and times */
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
    struct arena *arena; /* of what the record borrows */
    struct record *record;
    struct dashboard *dashboard;
    char page_path[PATH_MAX]; /* where dashboard.html goes at the end; "": nowhere */
    double seconds;           /* that the training spent on telling them */
};

/* Refuses addresses that are none, before anything is done. */
int watchers_check(const struct watchers_settings *settings, struct error *err);
/* Whether somebody will show how long each operation took, so that the plan must take the time. */
bool watchers_want_profile(const struct watchers_settings *settings, const char *output_dir);

int watchers_create(const struct watchers_settings *settings, const struct watchers_run *run,
                    struct watchers *out, struct error *err);
/* A train_observer; the context is the struct watchers. */
void watchers_observe(void *watchers, const struct train_event *event);
/* Instead of the last event: the run ended by this failure. */
void watchers_fail(struct watchers *watchers, const struct error *err);
/* Takes the moving line away before results are printed; the others go on. */
void watchers_end_line(struct watchers *watchers);
/* How the run ended, once its results are known; does not wait for anyone. */
void watchers_end(struct watchers *watchers, enum run_outcome outcome);
/* Those who tell other services get a few seconds for the rest. */
void watchers_release(struct watchers *watchers);

#endif
