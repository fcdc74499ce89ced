/* The parts of `lockstep checkpoint`, and what they share. */
#ifndef CLI_CHECKPOINT_PARTS_H
#define CLI_CHECKPOINT_PARTS_H

#include "cli/command.h"

extern const struct command command_checkpoint_list, command_checkpoint_show,
    command_checkpoint_verify, command_checkpoint_diff;

#define CHECKPOINT_JSON_OPTION(settings)                                                           \
    OPTION_TEXT(settings, json, "json", .value = "FILE",                                           \
                .help =                                                                            \
                    "write the answer as one JSON object; - is standard output, where nothing "    \
                    "else is printed then")

/* Every step below a directory of checkpoints, in `arena`; fails when there is none. */
struct arena;
int checkpoint_parts_list(const char *directory, struct arena *arena, int64_t **steps, int *count,
                          struct error *err);
/* "2026-05-06 07:08:09 UTC" */
const char *checkpoint_parts_time(double seconds, char *text, size_t bytes);

#endif
