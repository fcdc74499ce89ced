/* Winograd's F(4x4, 3x3): 16 results of a 3x3 convolution from a patch of 6x6 with 36 products instead
 * of 144. For channels in blocks of 8, on AVX2 or NEON.
 *
 *     patch of x      B'dB            for each of the 36 places of a patch, a "plane":
 *     [6][6]    ---------------->  V  [in / 8][tile][8]  \
 *     weights         GgG'                                 M = U V  [out / 8][tile][8]
 *     [3][3]    ---------------->  U  [out / 16][in][16] /       |
 *                                                                | A'mA
 *     tile of y  [4][4]  <---------------------------------------+
 *
 * The gradient of x is the same with turned weights, and out and in exchanged. That of the weights is
 * G'(V W)G, where W are tiles of y's gradient as AwA', and the depth of the product are the tiles.
 *
 * The points of interpolation are 0, +-5/8, +-3/2 and infinity: 2.2 to 2.5 times less error than the
 * textbook's +-1, +-2, at the same cost. */
#ifndef OPS_WINOGRAD_H
#define OPS_WINOGRAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WINOGRAD_LANES = 8, WINOGRAD_TILE = 4, WINOGRAD_PLANES = 36 };
/* The products work on up to so many tiles, and on so many outputs, at once. */
enum { WINOGRAD_TILES = 6, WINOGRAD_OUTPUTS = 16 };

/* Tiles over so many results. */
static inline int64_t winograd_tiles_along(int64_t size)
{
    return (size + WINOGRAD_TILE - 1) / WINOGRAD_TILE;
}

/* [images][blocks][height][width][8], and the tiles over it: tile (r, c) has its patch at row
 * 4r - top, column 4c - left. What lies outside is zero, and not written. */
struct winograd_picture {
    float *data;
    int64_t blocks, height, width;
    int64_t top, left;
    int64_t tile_rows, tile_columns; /* of one image */
};

/* Tiles from `first` on, counted over all images. */
struct winograd_range {
    int64_t first, count;
};

/* --- Tiles (kernel_winograd_tiles.c). Plane p of what they write or read is at p * plane. --- */

/* B'dB of each patch of one block of channels. */
void winograd_take_patches(const struct winograd_picture *x, int64_t block,
                           struct winograd_range tiles, float *planes, size_t plane);
/* AwA' of each tile, and `sum` of all that was read added to sum[8]. */
void winograd_take_gradients(const struct winograd_picture *gradient, int64_t block,
                             struct winograd_range tiles, float *planes, size_t plane, float *sum);
struct winograd_finish {
    const float *bias; /* of the block's channels; NULL: none */
    bool add;          /* to what is there */
    bool relu;
};
/* A'mA of each tile, into y. */
void winograd_put_results(const float *planes, size_t plane, const struct winograd_picture *y,
                          int64_t block, struct winograd_range tiles,
                          struct winograd_finish finish);

/* Weights of kernels of 3x3. Those of output o and input i, tap t, are at
 * (o - o % 16) * out_stride + o % 16 * lane_stride + i * in_stride + t * tap_stride. */
struct winograd_weights {
    float *data;
    int64_t in;
    int64_t out_stride, lane_stride, in_stride, tap_stride;
    bool turned;
};
/* GgG' of the 16 outputs from `out` on: [in][16] at `planes`. */
void winograd_take_weights(const struct winograd_weights *weights, int64_t out, float *planes,
                           size_t plane);
/* G'uG of the 8 outputs from `out` on, from [in][8] at `planes`, into the weights. */
void winograd_put_weights(const float *planes, size_t plane, const struct winograd_weights *weights,
                          int64_t out);

/* --- Products of one plane (kernel_winograd_products.c) --- */

/* results [outputs / 8][stride][8] (+)= weights [outputs / 16][in][16] by patches [in / 8][stride][8],
 * for the first `tiles` of `stride` tiles. */
void winograd_multiply(const float *weights, const float *patches, float *results, int64_t in,
                       int64_t outputs, int64_t tiles, int64_t stride, bool add);
enum { WINOGRAD_BLOCKS = 3 };
/* sums (+)= patches [in / 8][patch_stride][8] by gradients [blocks][gradient_stride][8], over the first
 * `tiles`. Those of output block b and input i are the 8 numbers at
 * b * out_step + i / 8 * in_step + i % 8 * 8. */
struct winograd_gradients {
    const float *patches, *gradients;
    int64_t patch_stride, gradient_stride;
    float *sums;
    int64_t out_step, in_step;
    int64_t in, tiles;
    int blocks; /* at most WINOGRAD_BLOCKS */
    bool add;
};
void winograd_multiply_gradients(const struct winograd_gradients *product);

#endif
