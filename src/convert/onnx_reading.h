/* What the parts that read ONNX share: the names of a network with what is known of each. */
#ifndef CONVERT_ONNX_READING_H
#define CONVERT_ONNX_READING_H

#include "base/strbuf.h"
#include "convert/onnx_build.h"

/* In integers that are computed while reading, such as shapes: the batch, whatever it will be. */
#define ONNX_BATCH INT64_MIN

enum term_kind {
    TERM_UNKNOWN,  /* not computed yet */
    TERM_VALUE,    /* of the graph */
    TERM_CONSTANT, /* numbers that are known now */
    TERM_REFUSED,  /* depends on something that was refused, which is enough to say once */
};

struct term {
    const char *name; /* NULL: a free place of the table */
    enum term_kind kind;
    value_id value;
    struct onnx_tensor tensor;
    const char *parameter; /* a constant that is trained: the parameter's name; else NULL */
    bool taken;            /* as a parameter: no second node may have it */
    int readers;           /* nodes and outputs that use it */
    int last_reader;       /* the last of these nodes, or -1 */
    /* Zeros around a picture that a Pad promised and the next window is to put there: above, left,
     * below, right. All 0: none. */
    int border[4];
};

struct reading {
    const struct onnx_file *file;
    const struct onnx_build_options *options;
    struct arena *arena;
    struct graph *graph;
    struct onnx_facts *facts;
    struct term *terms; /* open addressing, a power of two of them */
    size_t term_mask;
    const char *head; /* what the layer that gives the logits puts out; "" when there is none */
    int64_t batch;    /* that the file was written for; -1: any */
    bool *done;       /* nodes that were computed along with an earlier one */
    int64_t budget;   /* elements that may still be made while reading */
    struct strbuf refused;
    bool no_memory;
};

/* How a node becomes part of the graph: it gives its outputs or is refused. */
struct onnx_operator {
    const char *name;
    void (*read)(struct reading *reading, const struct onnx_node *node);
};
/* Each ends with a name of NULL. */
extern const struct onnx_operator onnx_layers[], onnx_elements[], onnx_shapes[];

/* Computes a node all of whose inputs are known; false when it is none that can be. */
bool onnx_fold(struct reading *reading, const struct onnx_node *node);

/* Fills the table with every name of the file; `file`, `options`, `arena`, `graph` and `facts` are set
 * before. Close it whether or not this succeeds. */
int reading_open(struct reading *reading, struct error *err);
void reading_close(struct reading *reading);

struct term *reading_add_term(struct reading *reading, const char *name); /* or the one it has */
struct term *reading_term(struct reading *reading, const char *name);     /* NULL: no such name */
/* An input of the node; NULL when it has none there. */
struct term *reading_input(struct reading *reading, const struct onnx_node *node, int index);
/* The input as a value of the graph: a constant becomes a parameter. Negative: refused, and said. A
 * border that it still lacks is refused, too, except by who asks for it. */
value_id reading_value(struct reading *reading, const struct onnx_node *node, int index);
value_id reading_bordered(struct reading *reading, const struct onnx_node *node, int index,
                          const int **border);
/* The input's numbers; NULL when it is missing or not known now. */
const struct onnx_tensor *reading_constant(struct reading *reading, const struct onnx_node *node,
                                           int index);
/* The numbers of input `index` as the start of a parameter of `count` elements that this node
 * alone has; `values` NULL: as they are. False: refused, and said. */
bool reading_parameter(struct reading *reading, const struct onnx_node *node, int index,
                       const float *values, int64_t count, struct initializer *out);

void reading_give(struct reading *reading, const struct onnx_node *node, value_id value);
void reading_give_constant(struct reading *reading, const char *name,
                           const struct onnx_tensor *tensor, const char *parameter);
/* This node cannot be computed, because...; goes on, so that all of these are said at once. */
void reading_refuse(struct reading *reading, const struct onnx_node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void reading_refuse_outputs(struct reading *reading, const struct onnx_node *node);
/* Room for numbers; when memory is short, NULL, and reading fails at its end. */
float *reading_floats(struct reading *reading, int64_t count);
int64_t *reading_integers(struct reading *reading, int64_t count);
/* A name for the node of the graph. */
const char *reading_name(struct reading *reading, const struct onnx_node *node);

const struct onnx_attribute *onnx_attribute(const struct onnx_node *node, const char *name);
int64_t onnx_integer(const struct onnx_node *node, const char *name, int64_t missing);
float onnx_number(const struct onnx_node *node, const char *name, float missing);
const char *onnx_text(const struct onnx_node *node, const char *name, const char *missing);
/* Axes, which were an attribute once and are input `index` now; those below 0 count from the end of
 * `ndim`. Gives how many, at most ONNX_MAX_DIMS; -1: neither is there, -2: they make no sense. */
int onnx_axes(struct reading *reading, const struct onnx_node *node, int index, int ndim,
              int axes[ONNX_MAX_DIMS]);

#endif
