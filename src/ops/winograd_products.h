/* The products of Winograd convolutions, for as many lanes as vector.h has. A part of
 * kernel_winograd_eights.c, kernel_winograd_sixteens.c and kernel_winograd_strided.c. Written by hand because the planes are already
 * packed as a product wants them; the library's sgemm packs again, and was slower on these shapes in a
 * trial. */
#ifndef OPS_WINOGRAD_PRODUCTS_H
#define OPS_WINOGRAD_PRODUCTS_H

#include "ops/product.h"
#include "ops/winograd.h"
#include "ops/winograd_squares.h"

#if VECTOR
VECTOR_BEGIN

/* Tiles are the rows of a product. */
enum { TILES = PRODUCT_ROWS, INPUTS = LANES / 2 };

/* Up to TILES tiles by two registers of outputs. */
INLINE void multiply_tiles(const float *weights, const float *patches, float *results, int64_t in,
                           int64_t stride, int count, bool add)
{
    vector sums[TILES][2];
    product_begin(sums, count);
    for (int64_t block = 0; block < in / LANES; block++, weights += LANES * WIDE)
        product_add(sums, count, LANES, patches + block * stride * LANES, LANES, weights, WIDE);
#pragma GCC unroll 14
    for (int t = 0; t < count; t++) {
        float *low = results + t * LANES, *high = low + stride * LANES;
        if (add) {
            sums[t][0] = vector_add(sums[t][0], vector_load(low));
            sums[t][1] = vector_add(sums[t][1], vector_load(high));
        }
        vector_store(low, sums[t][0]);
        vector_store(high, sums[t][1]);
    }
}

/* WIDE outputs' weights stay in the first-level cache while all tiles pass by: by TILES, or one fewer,
 * where there are many. */
static void winograd_multiply(const float *weights, const float *patches, float *results,
                              int64_t in, int64_t outputs, int64_t tiles, int64_t stride, bool add)
{
    int64_t groups = (tiles + TILES - 1) / TILES;
    for (int64_t out = 0; out < outputs; out += WIDE)
        for (int64_t g = 0, first = 0, count; g < groups; g++, first += count) {
            const float *from = patches + first * LANES;
            float *to = results + (out / LANES * stride + first) * LANES;
            count = (tiles - first + groups - g - 1) / (groups - g);
#define MULTIPLY(rows) multiply_tiles(weights + out * in, from, to, in, stride, rows, add)
            PRODUCT_DISPATCH(count, MULTIPLY)
#undef MULTIPLY
        }
}

/* INPUTS inputs by one to three registers of outputs, over all tiles: 12 sums with 8 lanes, 24 with 16. They
 * start at zero and are added to what is there at the end: less error than going on from it. `blocks` is a
 * constant to the compiler. */
INLINE void multiply_inputs(const struct winograd_gradients *product, const float *patches,
                            float *sums, int blocks)
{
    const float *gradients = product->gradients;
    vector sum[INPUTS][WINOGRAD_BLOCKS];
#pragma GCC unroll 8
    for (int i = 0; i < INPUTS; i++)
#pragma GCC unroll 3
        for (int b = 0; b < blocks; b++)
            sum[i][b] = vector_zero();
    int64_t tiles = product->tiles, stride = product->gradient_stride;
    int64_t out_step = product->out_step;
    bool add = product->add; /* not to be read again after each store */
    for (int64_t t = 0; t < tiles; t++) {
        vector gradient[WINOGRAD_BLOCKS];
#pragma GCC unroll 3
        for (int b = 0; b < blocks; b++) {
            gradient[b] = vector_load(gradients + (b * stride + t) * LANES);
            gradient[b] = vector_keep(gradient[b]);
        }
#pragma GCC unroll 8
        for (int i = 0; i < INPUTS; i++) {
            vector value = vector_all_at(patches + t * LANES + i);
#pragma GCC unroll 3
            for (int b = 0; b < blocks; b++)
                sum[i][b] = vector_fma(value, gradient[b], sum[i][b]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < INPUTS; i++)
#pragma GCC unroll 3
        for (int b = 0; b < blocks; b++) {
            float *to = sums + b * out_step + i * LANES;
            if (add)
                sum[i][b] = vector_add(sum[i][b], vector_load(to));
            vector_store(to, sum[i][b]);
        }
}

static void winograd_multiply_gradients(const struct winograd_gradients *product)
{
    for (int64_t i = 0; i < product->in; i += INPUTS) {
        int64_t block = i / LANES, lane = i % LANES;
        const float *from = product->patches + block * product->patch_stride * LANES + lane;
        float *to = product->sums + block * product->in_step + lane * LANES;
        if (product->blocks == 3)
            multiply_inputs(product, from, to, 3);
        else if (product->blocks == 2)
            multiply_inputs(product, from, to, 2);
        else
            multiply_inputs(product, from, to, 1);
    }
}

VECTOR_END
#endif

#endif
