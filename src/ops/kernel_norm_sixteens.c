/* Batch norm's loops in registers of 16 lanes: AVX-512. */
#define VECTOR_LANES 16
#include "ops/norm_loops.h"

const struct norm_kernels norm_kernels_avx512 = {
    .name = "own:avx512",
    .fits = norm_fits,
#if defined(__x86_64__)
    .sum = norm_sum,
    .apply = norm_apply,
    .reduce = norm_reduce,
    .propagate = norm_propagate,
#endif
};
