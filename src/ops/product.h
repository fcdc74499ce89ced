/* The product that our kernels have in common: two registers of weights by a few rows of numbers. With 8
 * lanes and 6 rows, 12 sums, 2 weights and a broadcast are 15 of AVX2's 16 registers; NEON's 32 hold them as
 * 29 halves. With 16 lanes and 14 rows, 28 sums make 31 of AVX-512's 32. */
#ifndef OPS_PRODUCT_H
#define OPS_PRODUCT_H

#include "ops/vector.h"

#if VECTOR
VECTOR_BEGIN

enum { PRODUCT_ROWS = VECTOR_LANES == 16 ? 14 : 6, PRODUCT_LANES = VECTOR_LANES };

INLINE void product_begin(vector sums[PRODUCT_ROWS][2], int rows)
{
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++)
        sums[r][0] = sums[r][1] = vector_zero();
}

/* sums[r] += x[r * row_step + i] * weights[i * weight_step .. + 2 * PRODUCT_LANES], for i below `depth`.
 * The rows and the depth are constants to the compiler. */
INLINE void product_add(vector sums[PRODUCT_ROWS][2], int rows, int depth, const float *x,
                        int64_t row_step, const float *weights, int64_t weight_step)
{
#pragma GCC unroll 8
    for (int i = 0; i < depth; i++) {
        vector low = vector_load(weights + i * weight_step);
        vector high = vector_load(weights + i * weight_step + PRODUCT_LANES);
        low = vector_keep(low);
        high = vector_keep(high);
#pragma GCC unroll 14
        for (int r = 0; r < rows; r++) {
            vector value = vector_all_at(x + r * row_step + i);
            sums[r][0] = vector_fma(value, low, sums[r][0]);
            sums[r][1] = vector_fma(value, high, sums[r][1]);
        }
    }
}

#define PRODUCT_CASE(rows, CALL)                                                                   \
    case rows:                                                                                     \
        CALL(rows);                                                                                \
        break;

#if VECTOR_LANES == 16
#define PRODUCT_CASES_ABOVE_6(CALL)                                                                \
    PRODUCT_CASE(7, CALL)                                                                          \
    PRODUCT_CASE(8, CALL)                                                                          \
    PRODUCT_CASE(9, CALL)                                                                          \
    PRODUCT_CASE(10, CALL)                                                                         \
    PRODUCT_CASE(11, CALL)                                                                         \
    PRODUCT_CASE(12, CALL)                                                                         \
    PRODUCT_CASE(13, CALL)                                                                         \
    PRODUCT_CASE(14, CALL)
#else
#define PRODUCT_CASES_ABOVE_6(CALL)
#endif

/* CALL(rows) with the number as a constant, for 1 to PRODUCT_ROWS of them. */
#define PRODUCT_DISPATCH(rows, CALL)                                                               \
    switch (rows) {                                                                                \
        PRODUCT_CASES_ABOVE_6(CALL)                                                                \
        PRODUCT_CASE(6, CALL)                                                                      \
        PRODUCT_CASE(5, CALL)                                                                      \
        PRODUCT_CASE(4, CALL)                                                                      \
        PRODUCT_CASE(3, CALL)                                                                      \
        PRODUCT_CASE(2, CALL)                                                                      \
    default:                                                                                       \
        CALL(1);                                                                                   \
        break;                                                                                     \
    }

VECTOR_END
#endif

#endif
