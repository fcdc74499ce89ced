/* What an operation is to a graph. Each file in ops/ defines one, named op_<file name>; how it is
 * computed (its kernels) is exec's business. */
#ifndef GRAPH_OP_H
#define GRAPH_OP_H

#include "graph/graph.h"

struct op_kernel;

struct op {
    const char *name;
    size_t attributes_size;
    /* Fills the output's dtype and shape from the inputs'; the batch stays symbolic. */
    int (*infer)(const struct graph *graph, const struct node *node, struct value *out,
                 struct error *err);
    /* 1 + the index of the one input that need not be float32, such as labels; 0: none. */
    int label_input;
    const struct op_kernel *const *kernels; /* NULL-terminated, in order of preference */
    /* Floating-point operations of one forward pass per example; NULL: not counted. */
    double (*flops)(const struct graph *graph, const struct node *node);
    /* Everything that the speed of its kernels depends on, as words, for files of rules about them
     * (exec/kernel_rules.h); NULL: there are no such rules. */
    void (*describe)(const struct graph *graph, const struct node *node, int batch, char *text,
                     size_t bytes);
    /* Adds this op on a small shape to `graph`, from variant 0 on; a negative id, with nothing
     * added, when there is no such variant. The gradient tests run all of them. */
    value_id (*example)(struct graph *graph, int variant);
};

/* The `infer` of those whose result looks like their first input. */
int op_infer_same(const struct graph *graph, const struct node *node, struct value *out,
                  struct error *err);

const struct op *const *op_list(void); /* NULL-terminated, generated from ops/ */

#endif
