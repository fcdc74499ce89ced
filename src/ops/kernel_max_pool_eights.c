/* The loops of kernel_max_pool.c in registers of 8 lanes: AVX2. */
#include "ops/max_pool_loops.h"

const struct max_pool_kernels max_pool_kernels_avx2 = {
    .name = "avx2",
    .fits = max_pool_fits,
#if defined(__x86_64__)
    .forward = max_pool_forward,
    .backward = max_pool_backward,
#endif
};
