/* Training events smoothed into what a person wants to know: how fast, how long, how well. */
#ifndef WATCH_PACE_H
#define WATCH_PACE_H

#include <stddef.h>
#include <stdint.h>

struct train_event;

/* Plain storage; all zero is the start. */
struct pace {
    int64_t steps; /* seen */
    int64_t last_examples;
    double step_seconds;   /* smoothed; the first step, which pays for warming up, is left out */
    double step_examples;  /* of the last step, over all ranks */
    double loss, accuracy; /* smoothed */
};

void pace_add(struct pace *pace, const struct train_event *event);
double pace_examples_per_second(const struct pace *pace); /* 0 when unknown */
double pace_seconds_left(const struct pace *pace, const struct train_event *event);

/* "0:07", "12:34", "1:02:03", "3 d 04:05"; "?" when unknown (negative or NaN). */
const char *pace_duration_text(double seconds, char *text, size_t bytes);
/* Four digits that mean something: "0.2154", "21.54", "5321". */
const char *pace_number_text(double value, char *text, size_t bytes);

#endif
