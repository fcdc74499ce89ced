/* A training's speed as tf_cnn_benchmarks prints it, line by line while it runs. */
#ifndef CLI_DISPLAY_H
#define CLI_DISPLAY_H

#include <stdio.h>

#include "base/strbuf.h"
#include "cli/bench_text.h"

struct report;
struct train_event;
struct updater;

/* Plain storage; all zero shows nothing. */
struct display {
    FILE *out;     /* borrowed */
    int64_t every; /* steps between two lines; 0: none at all */
    struct bench_header header;
    const struct report *report; /* told of each event before the display is */
    struct updater *updater;
    struct strbuf text; /* of what is printed next */
};

void display_observe(struct display *display, const struct train_event *event);
void display_release(struct display *display);

#endif
