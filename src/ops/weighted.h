/* What convolution and dense layers by the library share: inputs x, weights and perhaps a bias,
 * in this order, and one primitive for each of the three passes. */
#ifndef OPS_WEIGHTED_H
#define OPS_WEIGHTED_H

#include "exec/op.h"

enum { WEIGHTED_X, WEIGHTED_WEIGHTS, WEIGHTED_BIAS };

/* The primitives of a node; the plan owns them from the moment they are made. Those of backward
 * are NULL where the pass is not wanted. */
struct weighted {
    struct dnn_primitive *passes[PASS_COUNT];
    const void *own; /* for a pass that is not the library's: what weighted_own gives it */
};

/* Binds the primitives to the node's buffers, says the output's layout and the kernels' names, and
 * leaves the node's state for the passes below. */
int weighted_bind(struct plan_builder *builder, struct plan_node *node,
                  const struct weighted *weighted, struct error *err);

const void *weighted_own(const struct op_run *run);
void weighted_forward(const struct op_run *run);
void weighted_backward_weights(const struct op_run *run);
void weighted_backward(const struct op_run *run);

#endif
