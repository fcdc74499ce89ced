/* The last lines of the log, for a page that shows them. Lines come from any thread. */
#ifndef WATCH_TAIL_H
#define WATCH_TAIL_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

struct json;

enum { TAIL_LINES = 200, TAIL_LINE_BYTES = 240 };

struct tail {
    pthread_mutex_t lock; /* guards the lines; held while some are copied */
    int64_t count;        /* lines since the start; line i is at i % TAIL_LINES */
    char lines[TAIL_LINES][TAIL_LINE_BYTES];
    /* What tail_stream wrote of a line so far; one thread's. */
    char part[TAIL_LINE_BYTES];
    size_t part_bytes;
};

void tail_init(struct tail *tail);
void tail_release(struct tail *tail);
void tail_add(struct tail *tail, const char *line); /* cut when it is too long */
/* A stream whose lines go to the tail; NULL when memory is short. The caller closes it. */
FILE *tail_stream(struct tail *tail);
/* Appends the lines from number `first` on, as far as they are still there, to the array; returns
 * the number of the first of them. `*next` is that of the line to come. */
int64_t tail_read(struct tail *tail, int64_t first, struct json *array, int64_t *next);

#endif
