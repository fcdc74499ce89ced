/* What the pooling operations share: attributes, shape rule and oneDNN's kernel. */
#ifndef OPS_POOL_H
#define OPS_POOL_H

#include "exec/op.h"
#include "ops/window.h"

struct pool_attributes {
    struct window rows, columns;
    bool max;
    bool global;        /* the window is the whole picture */
    bool count_padding; /* in averages */
};

extern const struct op_kernel pool_kernel_dnn; /* oneDNN's, for everything */
extern const struct op_kernel pool_kernel_max; /* ours, for max pools of blocked layouts on AVX2 */
extern const struct op_kernel *const pool_kernels[];

/* The pool of this node, for the library; the source's layout is the one it has now. */
struct dnn_pool pool_describe(const struct plan_builder *builder, const struct plan_node *node);

int pool_infer(const struct graph *graph, const struct node *node, struct value *out,
               struct error *err);
value_id pool_build(struct graph *graph, const struct op *op, value_id x,
                    const struct pool_options *options, bool max);

#endif
