/* The network as data. Nodes are in the order they were added, which is a valid execution order.
 * No batch size, no memory layout, no buffer. Append-only; owns all its names. Building calls are
 * the public ones of lockstep/model.h plus those below. For one thread at a time. */
#ifndef GRAPH_GRAPH_H
#define GRAPH_GRAPH_H

#include <stdbool.h>
#include <stddef.h>

#include "tensor/tensor.h"

struct arena;
struct error;
struct op;
struct strbuf;

enum param_flags {
    PARAM_TRAINABLE = 1 << 0,
    PARAM_DECAY = 1 << 1,     /* weight decay applies */
    PARAM_STATISTIC = 1 << 2, /* not trained: running mean and variance, minimum and range */
    PARAM_SPARSE = 1 << 3,    /* a table of rows: its gradient is a list of those touched */
};

enum value_kind { VALUE_INPUT, VALUE_PARAM, VALUE_RESULT };

struct value {
    enum value_kind kind;
    const char *name;
    enum dtype dtype;
    struct shape shape;      /* parameters have no batch dimension */
    int producer;            /* node index, for VALUE_RESULT */
    bool channels_last;      /* an input stored N, H, W, C though its shape is N, C, H, W */
    unsigned flags;          /* of a parameter */
    struct initializer init; /* of a parameter; never INIT_DEFAULT */
};

struct node {
    const struct op *op;
    const void *attributes;
    const char *name;
    int index;
    int input_count;
    const value_id *inputs;
    value_id output;
};

struct graph *graph_create(void);        /* NULL when memory is short */
void graph_destroy(struct graph *graph); /* accepts NULL */

value_id graph_input(struct graph *graph, const char *name, enum dtype dtype, struct shape shape);
void graph_mark_channels_last(struct graph *graph, value_id input);
/* `init` may bring another name. */
value_id graph_param(struct graph *graph, const char *name, struct shape shape,
                     struct initializer init, unsigned flags);
/* Copies `attributes` (op->attributes_size bytes) and asks the op for the output's shape. */
value_id graph_node(struct graph *graph, const struct op *op, const char *name,
                    const void *attributes, const value_id *inputs, int input_count);
/* Is this a value of the graph? If not, that is the graph's failure, in the name of `who`. */
bool graph_holds(struct graph *graph, value_id value, const char *who);
/* Remembers the first failure; returns a negative id. */
value_id graph_fail(struct graph *graph, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* "conv2d_3": a name for a node the model did not name; owned by the graph. */
const char *graph_make_name(struct graph *graph, const char *stem);
/* "STEM/SUFFIX", owned by the graph. */
const char *graph_join_name(struct graph *graph, const char *stem, const char *suffix);
/* Reports the first failure, with the node's name; also when there is nothing to compute. */
int graph_finish(struct graph *graph, struct error *err);

int graph_value_count(const struct graph *graph);
const struct value *graph_value(const struct graph *graph, value_id value);
int graph_node_count(const struct graph *graph);
const struct node *graph_node_at(const struct graph *graph, int index);
int graph_output_count(const struct graph *graph);
const char *graph_output_name(const struct graph *graph, int index);
value_id graph_output_value(const struct graph *graph, int index);
value_id graph_find_input(const struct graph *graph, const char *name); /* or negative */
value_id graph_loss_value(const struct graph *graph);                   /* or negative */
int graph_input_count(const struct graph *graph);
value_id graph_input_value(const struct graph *graph, int index);
int64_t graph_parameter_elements(const struct graph *graph); /* trainable */

/* One line per node: name, op, inputs, shape, parameters. */
void graph_print(const struct graph *graph, struct strbuf *out);

#endif
