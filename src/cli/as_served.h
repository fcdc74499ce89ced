/* `eval --as-served`: an export answers as the server would, with the same plan, batch by batch, so
 * that its bits can be compared with what came through a door. */
#ifndef CLI_AS_SERVED_H
#define CLI_AS_SERVED_H

#include <stdbool.h>

#include "cli/options.h"

struct error;
struct imported;
struct trainer_data;

struct as_served_settings {
    bool wanted;
    const char *signature, *inputs, *outputs;
};

/* Rows of a table whose settings have a `struct as_served_settings served`. */
#define AS_SERVED_OPTIONS(settings)                                                                \
    OPTION_FLAG(settings, served.wanted, "as-served",                                              \
                .help = "compute an export as the server does, in batches of --batch-size, and "   \
                        "write its answers instead of scores"),                                    \
        OPTION_TEXT(settings, served.signature, "signature", .value = "NAME",                      \
                    .aliases = "signature-name", .initial_note = "serving_default",                \
                    .help = "with --as-served: what is asked"),                                    \
        OPTION_TEXT(settings, served.inputs, "inputs", .value = "FILE",                            \
                    .help = "with --as-served: {\"inputs\": {KEY: [...]}} as in a request to the " \
                            "REST door, instead of --data"),                                       \
        OPTION_TEXT(settings, served.outputs, "outputs", .value = "FILE", .initial = "-",          \
                    .help = "with --as-served: where {\"outputs\": {KEY: [...]}} goes; - is "      \
                            "standard output")

/* Fails when one of the options was given that would change nothing. `exported`: MODEL is an
 * export. */
int as_served_check(const struct as_served_settings *settings, const struct options *parsed,
                    bool exported, struct error *err);
/* Answers to all examples of the data, which are the plan's inputs. */
int as_served_data(const struct as_served_settings *settings, const struct imported *model,
                   const struct trainer_data *data, int batch, int threads, struct error *err);
/* Answers to the rows of settings->inputs. */
int as_served_answer(const struct as_served_settings *settings, const struct imported *model,
                     int batch, int threads, struct error *err);

#endif
