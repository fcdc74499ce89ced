/* Plain lines with a time stamp, for logs and pipes; observer of trainer events. */
#ifndef WATCH_LINES_H
#define WATCH_LINES_H

#include <stdio.h>

struct error;
struct train_event;
struct lines;

struct lines_options {
    FILE *out;               /* borrowed; flushed after each line */
    double interval_seconds; /* between two lines about steps; 0: every step */
    double (*now)(void);     /* NULL: the clock */
    double (*wall)(void);    /* seconds since 1970; NULL: the clock */
};

int lines_create(const struct lines_options *options, struct lines **out, struct error *err);
void lines_destroy(struct lines *lines); /* accepts NULL */
/* A train_observer; the context is the struct lines. Allocates nothing. */
void lines_observe(void *lines, const struct train_event *event);

#endif
