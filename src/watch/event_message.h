/* The messages in TensorBoard's event files (event.proto, summary.proto, graph.proto), appended to a
 * strbuf. One Event: event_begin, then one of the others. */
#ifndef WATCH_EVENT_MESSAGE_H
#define WATCH_EVENT_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

struct histogram;
struct strbuf;

/* As TensorFlow numbers them. */
enum event_dtype {
    EVENT_FLOAT = 1,
    EVENT_INT32 = 3,
    EVENT_UINT8 = 4,
    EVENT_STRING = 7,
    EVENT_INT64 = 9
};

/* A node of the network, as a graph in TensorBoard shows it. */
struct event_node {
    const char *name, *op;
    const char *const *inputs; /* names of nodes */
    int input_count;
    enum event_dtype dtype; /* of its result */
    const int64_t *dims;    /* the same; -1: the batch */
    int dim_count;
};

void event_begin(struct strbuf *out, double wall_seconds, int64_t step);
/* What the first record of a file says. */
void event_add_version(struct strbuf *out);
/* A session begins at the event's step: what older files say of it and later ones is no more. */
void event_add_start(struct strbuf *out);
void event_add_graph(struct strbuf *out, const struct event_node *nodes, int count);
/* Scalars and histograms stand in a summary: between these two, any number of them. */
size_t event_begin_summary(struct strbuf *out);
void event_end_summary(struct strbuf *out, size_t summary);
void event_add_scalar(struct strbuf *out, const char *tag, double value); /* not if it is NaN */
void event_add_histogram(struct strbuf *out, const char *tag, const struct histogram *histogram);

#endif
