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

/* The layouts of our kernels: those that the library's kernel would take and give, so that neighbours need
 * not reorder, but channels in eights where the library has plain layouts only. */
int conv_layouts(const struct plan_builder *builder, const struct plan_node *node, struct layout *x,
                 struct layout *y, struct error *err);
/* How many channels a block has, 0 where there are none; the same in both layouts of a convolution. */
int conv_layout_block(const struct layout *layout);
int conv_block(const struct plan_builder *builder, const struct plan_node *node);

/* The library's primitives of the passes that the plan wants; `weights`: the gradient of those, too. */
struct weighted;
int conv_make_passes(struct plan_builder *builder, struct plan_node *node, bool weights,
                     struct weighted *made, struct error *err);

extern const struct op_kernel conv_kernel_dnn;      /* oneDNN's, for everything */
extern const struct op_kernel conv_kernel_thin;     /* ours, for one input channel on AVX2 */
extern const struct op_kernel conv_kernel_winograd; /* ours, 3x3 with many channels */
extern const struct op_kernel conv_kernel_panels;   /* ours, small pictures served */
extern const struct op_kernel
    conv_kernel_points; /* 1x1 or strided, weights' gradient ours on AVX2 */

#endif
