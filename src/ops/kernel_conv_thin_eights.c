/* The loops of kernel_conv_thin.c in registers of 8 lanes: AVX2. */
#include "ops/thin_loops.h"

const struct thin_kernels thin_kernels_avx2 = {
    .name = "avx2",
    .lanes = 8,
    .is_here = thin_is_here,
#if defined(__x86_64__)
    .forward = thin_forward,
    .gradient = thin_gradient,
#endif
};
