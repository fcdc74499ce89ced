/* Batch norm's loops in registers of 8 lanes: AVX2. */
#include "ops/norm_loops.h"

const struct norm_kernels norm_kernels_avx2 = {
    .name = "own:avx2",
    .fits = norm_fits,
#if defined(__x86_64__)
    .sum = norm_sum,
    .apply = norm_apply,
    .reduce = norm_reduce,
    .propagate = norm_propagate,
#endif
};
