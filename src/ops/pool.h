/* What the pooling operations share: attributes, shape rule and oneDNN's kernel. */
#ifndef OPS_POOL_H
#define OPS_POOL_H

#include "exec/op.h"
#include "ops/window.h"

struct pool_attributes {
    struct window rows, columns;
    bool max;
    bool global; /* the window is the whole picture */
};

extern const struct op_kernel *const pool_kernels[];

int pool_infer(const struct graph *graph, const struct node *node, struct value *out,
               struct error *err);
value_id pool_build(struct graph *graph, const struct op *op, value_id x,
                    const struct pool_options *options, bool max);

#endif
