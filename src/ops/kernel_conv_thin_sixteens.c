/* The loops of kernel_conv_thin.c in registers of 16 lanes: AVX-512. */
#define VECTOR_LANES 16
#include "ops/thin_loops.h"

const struct thin_kernels thin_kernels_avx512 = {
    .name = "avx512",
    .lanes = 16,
    .is_here = thin_is_here,
#if defined(__x86_64__)
    .forward = thin_forward,
    .gradient = thin_gradient,
#endif
};
