/* The product that our kernels have in common: 16 columns of weights by up to 6 rows of numbers. 12 sums,
 * 2 weights and a broadcast are 15 of AVX2's 16 registers; NEON's 32 hold them as 29 halves. */
#ifndef OPS_PRODUCT_H
#define OPS_PRODUCT_H

#include "ops/f32x8.h"

#if F32X8
F32X8_BEGIN

enum { PRODUCT_ROWS = 6, PRODUCT_LANES = 8 };

INLINE void product_begin(f32x8 sums[PRODUCT_ROWS][2], int rows)
{
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
        sums[r][0] = sums[r][1] = f32x8_zero();
}

/* sums[r] += x[r * row_step + i] * weights[i * weight_step .. + 16], for i below `depth`. The rows and
 * the depth are constants to the compiler. */
INLINE void product_add(f32x8 sums[PRODUCT_ROWS][2], int rows, int depth, const float *x,
                        int64_t row_step, const float *weights, int64_t weight_step)
{
#pragma GCC unroll 8
    for (int i = 0; i < depth; i++) {
        f32x8 low = f32x8_load(weights + i * weight_step);
        f32x8 high = f32x8_load(weights + i * weight_step + PRODUCT_LANES);
        low = f32x8_keep(low);
        high = f32x8_keep(high);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            f32x8 value = f32x8_all_at(x + r * row_step + i);
            sums[r][0] = f32x8_fma(value, low, sums[r][0]);
            sums[r][1] = f32x8_fma(value, high, sums[r][1]);
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

F32X8_END
#endif

#endif
