/* The product that our AVX2 kernels have in common: 16 columns of weights by up to 6 rows of numbers,
 * 12 sums, 2 weights and a broadcast being 15 of 16 registers. Include it inside the part of a file that
 * is compiled for AVX2. */
#ifndef OPS_PRODUCT_H
#define OPS_PRODUCT_H

#include "ops/avx2.h"

enum { PRODUCT_ROWS = 6, PRODUCT_LANES = 8 };

INLINE void product_begin(__m256 sums[PRODUCT_ROWS][2], int rows)
{
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
        sums[r][0] = sums[r][1] = _mm256_setzero_ps();
}

/* sums[r] += x[r * row_step + i] * weights[i * weight_step .. + 16], for i below `depth`. The rows and
 * the depth are constants to the compiler. */
INLINE void product_add(__m256 sums[PRODUCT_ROWS][2], int rows, int depth, const float *x,
                        int64_t row_step, const float *weights, int64_t weight_step)
{
#pragma GCC unroll 8
    for (int i = 0; i < depth; i++) {
        __m256 low = _mm256_loadu_ps(weights + i * weight_step);
        __m256 high = _mm256_loadu_ps(weights + i * weight_step + PRODUCT_LANES);
        KEEP(low);
        KEEP(high);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            __m256 value = _mm256_broadcast_ss(x + r * row_step + i);
            sums[r][0] = _mm256_fmadd_ps(value, low, sums[r][0]);
            sums[r][1] = _mm256_fmadd_ps(value, high, sums[r][1]);
        }
    }
}

/* CALL(rows) with the number as a constant, for 1 to PRODUCT_ROWS of them. */
#define PRODUCT_DISPATCH(rows, CALL)                                                               \
    switch (rows) {                                                                                \
    case 6:                                                                                        \
        CALL(6);                                                                                   \
        break;                                                                                     \
    case 5:                                                                                        \
        CALL(5);                                                                                   \
        break;                                                                                     \
    case 4:                                                                                        \
        CALL(4);                                                                                   \
        break;                                                                                     \
    case 3:                                                                                        \
        CALL(3);                                                                                   \
        break;                                                                                     \
    case 2:                                                                                        \
        CALL(2);                                                                                   \
        break;                                                                                     \
    default:                                                                                       \
        CALL(1);                                                                                   \
        break;                                                                                     \
    }

#endif
