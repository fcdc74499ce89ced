/* --trace: a timeline of some steps, with the operations of the plan, the threads of the loaders and
 * the reductions between ranks; written when the run is over, however it ended. Of several ranks the
 * first writes it, with what all of them did. */
#ifndef CLI_TRACING_H
#define CLI_TRACING_H

#include "cli/options.h"

struct comm;
struct loader;
struct plan;
struct tracing;
struct train_event;

struct tracing_settings {
    const char *file, *steps;
};

/* Rows of a table whose settings have a `struct tracing_settings FIELD`. */
#define TRACING_OPTIONS(settings, field)                                                           \
    OPTION_TEXT(settings, field.file, "trace", .value = "FILE", .aliases = "trace-file",           \
                .environment = "HOROVOD_TIMELINE",                                                 \
                .help = "write a timeline of some steps: operations, kernels, loader threads; "    \
                        "for ui.perfetto.dev or chrome://tracing"),                                \
        OPTION_TEXT(settings, field.steps, "trace-steps", .value = "FIRST:COUNT",                  \
                    .initial_note = "5 after warming up", .help = "which steps --trace shows")

struct tracing_run {
    const char *command, *model;
    struct plan *plan;                         /* borrowed */
    struct loader *loader, *evaluation_loader; /* borrowed; may be NULL */
    int64_t first_step, warmup_steps, total_steps;
    struct comm *comm; /* borrowed; NULL: alone */
};

/* Without a file *out is NULL. Fails when the file could not be written later. All ranks make the
 * same calls; rank 0's settings count. */
int tracing_create(const struct tracing_settings *settings, const struct tracing_run *run,
                   struct tracing **out, struct error *err);
/* A train_observer; the context is the struct tracing, or NULL. */
void tracing_observe(void *tracing, const struct train_event *event);
/* Writes the file; a failure is a warning, for the training itself is done. Accepts NULL. Before
 * the plan and the loaders go. */
void tracing_finish(struct tracing *tracing);

#endif
