/* What conv2d's kernels share. */
#ifndef OPS_CONV_ATTRIBUTES_H
#define OPS_CONV_ATTRIBUTES_H

#include "exec/op.h"
#include "ops/window.h"

struct conv_attributes {
    int channels, groups;
    struct window rows, columns;
};

/* The convolution of this node, for the library; the batch is the plan's. */
struct dnn_conv conv_describe(const struct plan_builder *builder, const struct plan_node *node);

extern const struct op_kernel conv_kernel_dnn;      /* oneDNN's, for everything */
extern const struct op_kernel conv_kernel_thin;     /* ours, for one input channel on AVX2 */
extern const struct op_kernel conv_kernel_winograd; /* ours, 3x3 with many channels on AVX2 */

#endif
