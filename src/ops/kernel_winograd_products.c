/* The products of Winograd convolutions. Written by hand because the planes are already packed as a
 * product wants them; the library's sgemm packs again, and was slower on these shapes in a trial. */
#include "ops/product.h"
#include "ops/winograd.h"

#if F32X8
F32X8_BEGIN

enum { LANES = WINOGRAD_LANES, WIDE = WINOGRAD_OUTPUTS, TILES = WINOGRAD_TILES };
_Static_assert((int)TILES == (int)PRODUCT_ROWS, "tiles are the rows of a product");

/* Up to 6 tiles by 16 outputs. */
INLINE void multiply_tiles(const float *weights, const float *patches, float *results, int64_t in,
                           int64_t stride, int count, bool add)
{
    f32x8 sums[TILES][2];
    product_begin(sums, count);
    for (int64_t block = 0; block < in / LANES; block++, weights += LANES * WIDE)
        product_add(sums, count, LANES, patches + block * stride * LANES, LANES, weights, WIDE);
#pragma GCC unroll 6
    for (int t = 0; t < count; t++) {
        float *low = results + t * LANES, *high = low + stride * LANES;
        if (add) {
            sums[t][0] = f32x8_add(sums[t][0], f32x8_load(low));
            sums[t][1] = f32x8_add(sums[t][1], f32x8_load(high));
        }
        f32x8_store(low, sums[t][0]);
        f32x8_store(high, sums[t][1]);
    }
}

/* 16 outputs' weights stay in the first-level cache while all tiles pass by: by sixes and fives
 * where there are many. */
void winograd_multiply(const float *weights, const float *patches, float *results, int64_t in,
                       int64_t outputs, int64_t tiles, int64_t stride, bool add)
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

/* 4 inputs by 8, 16 or 24 outputs, over all tiles. The sums start at zero and are added to what is there
 * at the end: less error than going on from it. `blocks` is a constant to the compiler. */
INLINE void multiply_inputs(const struct winograd_gradients *product, const float *patches,
                            float *sums, int blocks)
{
    enum { INPUTS = 4 };
    const float *gradients = product->gradients;
    f32x8 sum[INPUTS][WINOGRAD_BLOCKS];
#pragma GCC unroll 4
    for (int i = 0; i < INPUTS; i++)
#pragma GCC unroll 3
        for (int b = 0; b < blocks; b++)
            sum[i][b] = f32x8_zero();
    int64_t tiles = product->tiles, stride = product->gradient_stride;
    int64_t out_step = product->out_step;
    bool add = product->add; /* not to be read again after each store */
    for (int64_t t = 0; t < tiles; t++) {
        f32x8 gradient[WINOGRAD_BLOCKS];
#pragma GCC unroll 3
        for (int b = 0; b < blocks; b++) {
            gradient[b] = f32x8_load(gradients + (b * stride + t) * LANES);
            gradient[b] = f32x8_keep(gradient[b]);
        }
#pragma GCC unroll 4
        for (int i = 0; i < INPUTS; i++) {
            f32x8 value = f32x8_all_at(patches + t * LANES + i);
#pragma GCC unroll 3
            for (int b = 0; b < blocks; b++)
                sum[i][b] = f32x8_fma(value, gradient[b], sum[i][b]);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < INPUTS; i++)
#pragma GCC unroll 3
        for (int b = 0; b < blocks; b++) {
            float *to = sums + b * out_step + i * LANES;
            if (add)
                sum[i][b] = f32x8_add(sum[i][b], f32x8_load(to));
            f32x8_store(to, sum[i][b]);
        }
}

void winograd_multiply_gradients(const struct winograd_gradients *product)
{
    enum { INPUTS = 4 };
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

F32X8_END
#endif
