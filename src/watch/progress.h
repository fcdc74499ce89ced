/* One line on a terminal that follows a training; observer of trainer events. */
#ifndef WATCH_PROGRESS_H
#define WATCH_PROGRESS_H

#include <stdio.h>

struct error;
struct train_event;
struct progress;

struct progress_options {
    FILE *out;               /* borrowed */
    int columns;             /* 0: ask the terminal each time, so that resizing works */
    double interval_seconds; /* between two drawings; 0: a tenth of a second */
    double (*now)(void);     /* NULL: the clock */
    size_t (*memory)(void);  /* bytes; NULL: what this process has in physical memory */
};

int progress_create(const struct progress_options *options, struct progress **out,
                    struct error *err);
/* Ends the line it was drawing, if any. Accepts NULL. */
void progress_destroy(struct progress *progress);
/* Ends the line it was drawing, if any; the next step begins another. */
void progress_end_line(struct progress *progress);
/* A train_observer; the context is the struct progress. Allocates nothing. */
void progress_observe(void *progress, const struct train_event *event);

#endif
