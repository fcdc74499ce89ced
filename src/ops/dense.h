/* What dense's kernels share. */
#ifndef OPS_DENSE_H
#define OPS_DENSE_H

#include "exec/op.h"

extern const struct op_kernel dense_kernel_rows; /* ours, for serving */

#endif
