/* What an operation is. Each file in ops/ defines one, named op_<file name>. */
#ifndef EXEC_OP_H
#define EXEC_OP_H

#include <stdbool.h>
#include <stddef.h>

#include "graph/graph.h"

struct plan_builder;
struct plan_node;
struct op_run;

/* One way to compute an op. A plan takes the first of the op's kernels whose `fits` says yes: a
 * fixed rule over shapes, batch, threads and processor, never a clock. */
struct op_kernel {
    const char *name;
    /* NULL: fits everything. */
    bool (*fits)(const struct plan_builder *builder, const struct plan_node *node);
    /* Creates primitives and tells the planner: layouts wanted and made, what backward will read,
     * scratch bytes, and which input may be overwritten. */
    int (*prepare)(struct plan_builder *builder, struct plan_node *node, struct error *err);
    /* Run with every buffer bound; may not allocate, lock or fail. */
    void (*forward)(const struct op_run *run);
    void (*backward)(const struct op_run *run);
    /* NULL, or what moves running statistics at the end of a step. */
    void (*commit)(const struct op_run *run);
};

struct op {
    const char *name;
    size_t attributes_size;
    /* Fills the output's dtype and shape from the inputs'; the batch stays symbolic. */
    int (*infer)(const struct graph *graph, const struct node *node, struct value *out,
                 struct error *err);
    const struct op_kernel *const *kernels;     /* NULL-terminated, in order of preference */
    /* A view: the output is the input's memory under another shape, when layouts allow. */
    bool view;
    /* Multiply-adds of one forward pass per example, times two; NULL: not counted. */
    double (*flops)(const struct graph *graph, const struct node *node);
    /* Adds this op on small shapes to `graph`; variant 0, 1, ... until it returns a negative id
     * with nothing added. The gradient and reference tests run all of them. */
    value_id (*example)(struct graph *graph, value_id x, int variant);
};

const struct op *const *op_list(void);          /* NULL-terminated, generated from ops/ */

#endif
