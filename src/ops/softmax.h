/* Softmax as others find it in a graph: a converter looks for the logits in front of it. */
#ifndef OPS_SOFTMAX_H
#define OPS_SOFTMAX_H

#include "graph/op.h"

struct softmax_attributes {
    int axis;
    bool logarithm;
};

extern const struct op op_softmax;

#endif
