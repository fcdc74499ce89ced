/* The last part of a pipeline: what was exported is served in this process and asked over gRPC, and
 * the answers must be, bit by bit, those of `eval --as-served`; then the server goes on, or ends. */
#ifndef CLI_DEPLOYING_H
#define CLI_DEPLOYING_H

#include <stdatomic.h>
#include <stdio.h>

#include "cli/options.h"

struct deployed;
struct error;
struct exporting_settings;
struct json;
struct session_data;

struct deploying_settings {
    bool serve, check;
    const char *name, *host, *port, *rest_port;
};

/* Rows of a table whose settings have a `struct deploying_settings deploying`. */
#define DEPLOYING_OPTIONS(settings)                                                                \
    OPTION_FLAG(settings, deploying.check, "check-served", .initial = "true",                      \
                .help = "with --export-dir: serve the new version, ask it over gRPC for examples " \
                        "of the evaluation and compare with what eval --as-served gives; a "       \
                        "version that answers otherwise is withdrawn, and the pipeline fails"),    \
        OPTION_FLAG(settings, deploying.serve, "serve",                                            \
                    .help = "and go on serving --export-dir until SIGTERM or Ctrl-C; `lockstep "   \
                            "serve` has more options"),                                            \
        OPTION_TEXT(settings, deploying.name, "serve-name", .value = "NAME",                       \
                    .environment = "MODEL_NAME", .initial_note = "that of --export-dir",           \
                    .help = "what clients call the model"),                                        \
        OPTION_TEXT(settings, deploying.host, "serve-host", .value = "ADDRESS",                    \
                    .initial = "0.0.0.0", .help = "with --serve: address to listen on"),           \
        OPTION_TEXT(settings, deploying.port, "serve-port", .value = "PORT", .initial = "8500",    \
                    .help = "with --serve: gRPC; auto: any that is free"),                         \
        OPTION_TEXT(settings, deploying.rest_port, "serve-rest-port", .value = "PORT",             \
                    .initial = "8501",                                                             \
                    .help = "with --serve: REST; 0: none, auto: any that is free")

/* Before the work: fails when an option was given that would change nothing. */
int deploying_check(const struct deploying_settings *settings, const struct options *parsed,
                    const struct exporting_settings *exporting, struct error *err);

struct deploying_work {
    const char *directory, *version; /* EXPORT, EXPORT/N */
    const struct session_data *data; /* of the evaluation; may be closed */
    int threads;
    const atomic_int *stop;
    FILE *out;
};
/* Serves and checks. Fails when the server does not start; and when the version cannot be loaded or
 * answers otherwise: then it was withdrawn. Everything must outlive it, but for `data`. */
int deploying_start(const struct deploying_settings *settings, const struct deploying_work *work,
                    struct deployed **out, struct error *err);
void deploying_describe(const struct deployed *deployed, struct json *out); /* accepts NULL */
/* With `serve`: until *stop is not 0. Returns an exit status. */
int deploying_go_on(struct deployed *deployed);
void deploying_end(struct deployed *deployed); /* accepts NULL */

#endif
