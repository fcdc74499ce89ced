/* Max pooling's loops over one segment, the cells of one example in one block of channels, of which there is
 * a set for each width of registers (kernel_max_pool.c). */
#ifndef OPS_MAX_POOL_H
#define OPS_MAX_POOL_H

#include <stdbool.h>
#include <stdint.h>

struct max_pool_axis {
    int64_t in, out;
    int kernel, stride, before;
};

struct max_pool_state {
    const struct max_pool_kernels *kernels;
    struct max_pool_axis rows, columns;
    int64_t segments; /* examples times blocks */
    int64_t lanes;    /* of a block: some registers */
    bool relu, training;
    bool stream; /* the gradient is larger than the caches: write past them */
};

struct max_pool_kernels {
    const char *name;
    bool (*fits)(int64_t lanes);
    /* x [in rows, in columns, lanes] to y; `choices` may be NULL. */
    void (*forward)(const struct max_pool_state *state, const float *x, float *y, uint8_t *choices);
    /* y: NULL without a ReLU. */
    void (*backward)(const struct max_pool_state *state, const float *gradient, const float *y,
                     const uint8_t *choices, float *out);
};

extern const struct max_pool_kernels max_pool_kernels_avx2;   /* whole registers of 8 lanes */
extern const struct max_pool_kernels max_pool_kernels_avx512; /* whole registers of 16 lanes */

static inline int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The first and the last window that has cell `at` in it; none: last < first. */
static inline void windows_of(const struct max_pool_axis *axis, int64_t at, int64_t *first,
                              int64_t *last)
{
    int64_t behind = at + axis->before - axis->kernel + axis->stride;
    *first = behind > 0 ? behind / axis->stride : 0;
    *last = smaller((at + axis->before) / axis->stride, axis->out - 1);
}

#endif
