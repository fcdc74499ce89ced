/* What is known of a training while it runs and after: its course, where its time and memory go,
 * its settings and the end of its log. The training thread only stores numbers; those who show them
 * (the page, the metrics) read on threads of their own and agree among themselves by a lock that
 * the training never takes. */
#ifndef WATCH_RECORD_H
#define WATCH_RECORD_H

#include <stdbool.h>
#include <stdint.h>

struct error;
struct record;
struct strbuf;
struct train_event;

struct record_setting {
    const char *section, *name, *value;
    const char *source; /* "command line", "environment", "recipe", "default" */
};

struct record_memory {
    const char *name;
    double bytes;
};

/* One step of the plan. */
struct record_layer {
    const char *node, *op, *pass, *kernel;
    bool reorder;
    double bytes, flops;
};

/* All borrowed for the life of the record. */
struct record_facts {
    const char *version; /* of the program */
    const char *command, *model, *data;
    int64_t total_steps;
    int batch, threads;       /* batch: of all ranks; threads: of each */
    int ranks;                /* 0: one */
    const char *const *hosts; /* [ranks] */
    const struct record_setting *settings;
    int setting_count;
    const struct record_memory *memory;
    int memory_count;
    const struct record_layer *layers;
    int layer_count;
    /* Seconds that layer `index` takes in a step, the mean so far. Called on the training thread, about once a second;
     * NULL: not measured. */
    double (*layer_seconds)(const void *context, int index);
    const void *layer_context;
};

struct record_options {
    bool readers; /* others will read while it runs; else the training thread tidies up itself */
    double (*wall)(void); /* NULL: the clock */
};

int record_create(const struct record_facts *facts, const struct record_options *options,
                  struct record **out, struct error *err);
void record_destroy(struct record *record); /* accepts NULL; no reader may be left */

/* ---- the training thread's ------------------------------------------------------------------ */

/* A train_observer; the context is the struct record. Allocates nothing and waits for nobody. */
void record_observe(void *record, const struct train_event *event);
/* Instead of a last event: the run ended by a failure. */
void record_fail(struct record *record, const char *message);
/* After the last event: nothing more will come. */
void record_close(struct record *record);

/* ---- readers', any thread ------------------------------------------------------------------- */

/* A line for the tail of the log. */
void record_log(struct record *record, const char *line);

/* Everything as one JSON object, without a newline in it. */
int record_snapshot(struct record *record, struct strbuf *out, struct error *err);

/* How far deltas have gone. All zero is the start. */
struct record_cursor {
    int64_t generation, log, layer_readings, rank_readings, entries;
    int points, evaluations;
    double told; /* when the last one was made */
};
/* What has changed since `cursor`, which moves on: "" when there is nothing worth telling. Each
 * delta has a higher "version" than the one before; whoever has a snapshot of that version or a
 * higher one need not look at it. One cursor per record: versions are the record's. */
int record_delta(struct record *record, struct record_cursor *cursor, struct strbuf *out,
                 struct error *err);
/* Takes in what the training thread has stored, which must happen often enough, and moves the
 * cursor (which may be NULL) without making anything. */
void record_skip(struct record *record, struct record_cursor *cursor);

/* Prometheus' text format, version 0.0.4. */
int record_exposition(struct record *record, struct strbuf *out, struct error *err);

#endif
