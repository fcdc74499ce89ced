/* One line that follows a long task other than training: how much, how fast, how long still. On a
 * terminal it is redrawn; elsewhere a plain line comes now and then. */
#ifndef WATCH_TASK_H
#define WATCH_TASK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct task_line_options {
    FILE *out; /* borrowed */
    bool terminal;
    const char *verb;    /* "converting" */
    const char *items;   /* "pictures"; NULL: the items are bytes */
    double (*now)(void); /* NULL: the clock */
};

/* The caller's storage. */
struct task_line {
    struct task_line_options options;
    double started, drawn;
    int64_t first; /* items that were done before the first look: not part of the rate */
    bool seen, on_line;
};

void task_line_init(struct task_line *line, const struct task_line_options *options);
void task_line_show(struct task_line *line, int64_t done, int64_t total, uint64_t bytes);
/* Takes the moving line away. */
void task_line_release(struct task_line *line);

#endif
