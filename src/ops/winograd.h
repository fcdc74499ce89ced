/* Winograd's method: 16 results of a 3x3 convolution with 36 products instead of 144, or with 81 where it has
 * stride 2. For channels in blocks of as many as a register has lanes, L: 8 on AVX2 and NEON, 16 on AVX-512.
 *
 * Stride 1, F(4x4, 3x3):
 *
 *     patch of x      B'dB            for each of the 36 places of a patch, a "plane":
 *     [6][6]    ---------------->  V  [in / L][tile][L]    \
 *     weights         GgG'                                   M = U V  [out / L][tile][L]
 *     [3][3]    ---------------->  U  [out / 2L][in][2L]   /       |
 *                                                                  | A'mA
 *     tile of y  [4][4]  <-----------------------------------------+
 *
 * The gradient of x is the same with turned weights, and out and in exchanged. That of the weights is
 * G'(V W)G, where W are tiles of y's gradient as AwA', and the depth of the product are the tiles.
 *
 * The points of interpolation are 0, +-5/8, +-3/2 and infinity: 2.2 to 2.5 times less error than the
 * textbook's +-1, +-2, at the same cost.
 *
 * Stride 2: along an axis, taps 0 and 2 meet every other pixel, and tap 1 those between. The first is a
 * convolution of two taps with stride 1, F(4, 2), with five points. The second has one tap, which is a
 * polynomial of degree 0, and as such nothing at infinity: it takes part in four of the same five products,
 * and its sums are theirs.
 *
 *     patch [9] = 0 . 2 . 4 . 6 . 8   two taps   5 places of V \
 *                 . 1 . 3 . 5 . 7 .   one tap    4 places of V - 5 planes of M --> 4 results
 *
 * With two axes: 81 places of V meet in 25 planes of M. At all four points the one tap has the same weight, so
 * U has 6x6 places, not 9x9. Back to x, the 25 are those of V, and the 81 those of M: 8x8 numbers of x. The
 * points are +-1/2, +-11/8 and infinity, with an error below stride 1's.
 *
 * The steps of stride 1 are written once, in winograd_tiles.h and winograd_products.h, and compiled for 8 and for
 * 16 lanes, by kernel_winograd_eights.c and kernel_winograd_sixteens.c. Those of stride 2 are for 8 lanes, in
 * kernel_winograd_strided.c. */
#ifndef OPS_WINOGRAD_H
#define OPS_WINOGRAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WINOGRAD_TILE = 4,
    WINOGRAD_MOST_PRODUCTS = 81,
    WINOGRAD_FEWEST_STRIDED = 48, /* tiles that are worth it when served, with stride 2 */
};

/* Tiles over so many results of a convolution. */
static inline int64_t winograd_tiles_along(int64_t size)
{
    return (size + WINOGRAD_TILE - 1) / WINOGRAD_TILE;
}

/* [images][blocks][height][width][lanes], or with channels last, and the tiles over it: tile (r, c) has its
 * patch at row r * step - top, column c * step - left. What lies outside is zero, and not written. */
struct winograd_picture {
    float *data;
    int64_t height, width;
    int64_t image, block, pixel; /* floats from one to the next */
    int64_t step, top, left;
    int64_t tile_rows, tile_columns; /* of one image */
};

/* Tiles from `first` on, counted over all images. */
struct winograd_range {
    int64_t first, count;
};

struct winograd_finish {
    const float *bias; /* of the block's channels; NULL: none */
    bool add;          /* to what is there */
    bool relu;
};

/* Weights of kernels of 3x3. Those of output o and input i, tap t, are at
 * (o - o % block) * out_stride + o % block * lane_stride + i * in_stride + t * tap_stride. */
struct winograd_weights {
    float *data;
    int64_t in;
    int block;
    int64_t out_stride, lane_stride, in_stride, tap_stride;
    bool turned;
};

/* sums (+)= patches [in / L][patch_stride][L] by gradients [blocks][gradient_stride][L], over the first
 * `tiles`. Those of output block b and input i are the L numbers at
 * b * out_step + i / L * in_step + i % L * L. */
enum { WINOGRAD_BLOCKS = 3 };
struct winograd_gradients {
    const float *patches, *gradients;
    int64_t patch_stride, gradient_stride;
    float *sums;
    int64_t out_step, in_step;
    int64_t in, tiles;
    int blocks; /* at most WINOGRAD_BLOCKS */
    bool add;
};

/* How much is worked on at a time, and what is too little: as measured on processors that have such
 * registers. */
struct winograd_sizes {
    int64_t tiles;          /* of one thread */
    int64_t gradient_tiles; /* of all threads */
    int64_t piece;          /* inputs whose weights are transformed, where tiles are few */
    int64_t fewest_served;  /* tiles: with fewer, serving is not ours, or panels' */
};

/* One way through the steps: forward, or back to x. */
struct winograd_way {
    int patch_planes, result_planes;
    int patch_step, result_step; /* pixels from one tile to the next */
    int64_t outputs;             /* multiplied before their results are transformed */
    /* B'dB of each patch of one block of channels. */
    void (*take_patches)(const struct winograd_picture *x, int64_t block,
                         struct winograd_range tiles, float *planes, size_t plane);
    /* A'mA of each tile, into y. */
    void (*put_results)(const float *planes, size_t plane, const struct winograd_picture *y,
                        int64_t block, struct winograd_range tiles, struct winograd_finish finish);
};

/* A forward product: which planes it is of. */
struct winograd_product {
    int weights, patch, result;
};

/* The steps for one width of registers and one stride. Plane p of what they write or read is at p * plane. */
struct winograd_steps {
    const char *name; /* of the kernel */
    bool (*is_here)(void);
    int lanes, stride;
    bool channels_last; /* forward can also have pictures whose channels are last */
    int wide, rows;     /* products are of so many outputs, and up to so many tiles */
    struct winograd_sizes sizes;
    struct winograd_way forward, back;
    int weight_planes;
    /* All products, those with the same result one after the other; how many. Back, patch and result change
     * places. */
    int (*list_products)(struct winograd_product products[WINOGRAD_MOST_PRODUCTS]);

    /* AwA' of each tile, into as many planes as forward has results, and the sum of all that was read added
     * to sum[L]. */
    void (*take_gradients)(const struct winograd_picture *gradient, int64_t block,
                           struct winograd_range tiles, float *planes, size_t plane, float *sum);
    /* GgG' of the 2L outputs from `out` on: [in][2L] at `planes`. */
    void (*take_weights)(const struct winograd_weights *weights, int64_t out, float *planes,
                         size_t plane);
    /* G'uG of the L outputs from `out` on, from [in][L] at `planes`, into the weights. */
    void (*put_weights)(const float *planes, size_t plane, const struct winograd_weights *weights,
                        int64_t out);

    /* Of one plane: results [outputs / L][stride][L] (+)= weights [outputs / 2L][in][2L] by patches
     * [in / L][stride][L], for the first `tiles` of `stride` tiles. */
    void (*multiply)(const float *weights, const float *patches, float *results, int64_t in,
                     int64_t outputs, int64_t tiles, int64_t stride, bool add);
    void (*multiply_gradients)(const struct winograd_gradients *product);
};

extern const struct winograd_steps winograd_eights,
    winograd_strided_eights;                          /* where f32x8.h has them */
extern const struct winograd_steps winograd_sixteens; /* where f32x16.h has them */

#endif
