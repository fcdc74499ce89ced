/* Who did what, from when to when: spans of time in tracks, written as a file that Perfetto and
 * chrome://tracing show. Recording allocates nothing; texts are borrowed until the file is
 * written. */
#ifndef BASE_TRACE_H
#define BASE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct strbuf;
struct trace;
struct trace_track;

enum { TRACE_MAX_ARGUMENTS = 6, TRACE_LABEL_BYTES = 32 };

/* Shown with a span; without a text it is the number. */
struct trace_argument {
    const char *key; /* NULL: none, nor any behind it */
    const char *text;
    int64_t number;
};

struct trace_span {
    const char *name; /* NULL: the label, which need not last */
    char label[TRACE_LABEL_BYTES];
    const char *category;
    double start, end; /* clock_seconds() */
    struct trace_argument arguments[TRACE_MAX_ARGUMENTS];
};

int trace_create(struct trace **out, struct error *err);
void trace_destroy(struct trace *trace); /* accepts NULL; its tracks go with it */
/* A row of the picture, such as a thread, for at most `capacity` spans, which nest or follow each
 * other; it belongs to one thread at a time. NULL when memory is short. */
struct trace_track *trace_add_track(struct trace *trace, const char *name, size_t capacity);
/* Copies the span; one too many is counted and left out. */
void trace_add(struct trace_track *track, const struct trace_span *span);
uint64_t trace_left_out(const struct trace *trace);

/* For a picture of several processes: which of them this one is, from 1 on, and when the time of the
 * picture begins by this process's clock. Without it: by its id, from the first span. */
void trace_set_place(struct trace *trace, int number, double origin);
/* Appends the events as text, for trace_include in the process that writes the file; only spans that
 * are wanted (NULL: all). */
int trace_text(const struct trace *trace, const char *process,
               bool (*wanted)(const struct trace_span *span), struct strbuf *out,
               struct error *err);
/* Copies what another process made with trace_text. */
int trace_include(struct trace *trace, const char *text, size_t bytes, struct error *err);

/* When nobody adds any more. `process` is what the picture is called. The file appears whole. */
int trace_write(const struct trace *trace, const char *process, const char *path,
                struct error *err);

#endif
