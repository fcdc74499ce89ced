/* The parts of `lockstep data`, and what they have in common. */
#ifndef CLI_DATA_PARTS_H
#define CLI_DATA_PARTS_H

#include <stdint.h>

#include "cli/command.h"
#include "data/work.h"
#include "watch/task.h"

struct error;
struct json;
struct survey_split;

extern const struct command command_data_convert, command_data_inspect, command_data_verify,
    command_data_make;

#define DATA_THREADS_OPTION(settings)                                                              \
    OPTION_INT(settings, threads, "threads", .letter = 'j', OPTION_AT_LEAST(0), .initial = "0",    \
               .initial_note = "all cores this process may use", .aliases = "num-threads",         \
               .help = "threads that work side by side")
#define DATA_JSON_OPTION(settings)                                                                 \
    OPTION_TEXT(settings, json, "json", .value = "FILE|-",                                         \
                .help = "write the results as JSON to FILE, or to standard output, where nothing " \
                        "else is printed then")

/* Threads, a progress line on standard error, and SIGINT, for a task of data/. The line is the
 * caller's storage; data_work_end follows. */
struct work data_work_begin(struct task_line *line, int threads, const char *verb,
                            const char *items);
void data_work_end(struct task_line *line);

/* "1.4 GB", "312 kB" into `text`, which it returns. */
const char *data_bytes_text(double bytes, char *text, size_t capacity);

#endif
