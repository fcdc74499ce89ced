/* The steps of Winograd convolutions with stride 2 (winograd.h), in registers of 8 lanes: AVX2, or two of
 * NEON.
 *
 * With the points +-a, +-b and infinity, a convolution of two taps over d[5], and one of one tap over d[4]:
 *
 *     B' = [-a b2  -b2   a         1   0]    G = [1  a]    A' = columns (1, p, p2, p3) / distances of +p;
 *          [-a b2   b2   a        -1   0]        [1 -a]         (0, 0, 0, 1)
 *          [-b a2  -a2   b         1   0]        [1  b]
 *          [-b a2   a2   b        -1   0]        [1 -b]
 *          [a2b2    0   -(a2+b2)   0   1]        [0  1]
 *
 * The rows of -a and -b are the negative of what they would be, so that both points of a pair have the same
 * distance to the others. Only the last row has d[4]: one tap needs the first four rows and columns, and its
 * weight is the same at all four points. */
#include "ops/winograd_products.h"
#include "ops/winograd_squares.h"

#if VECTOR
VECTOR_BEGIN

/* Along an axis: two taps have the first places, one tap those behind. */
enum {
    POINTS = 5,
    PATCH = 9,          /* 5 + 4 */
    WEIGHTS = 6,        /* 5 + 1 */
    SIDE = 2 * TILE,    /* of x */
    BEHIND = POINTS,    /* where those of one tap begin */
    FINITE = POINTS - 1 /* and how many they are */
};

#define POINT_A 0.5F
#define POINT_B 1.375F
#define A2 (POINT_A * POINT_A)
#define B2 (POINT_B * POINT_B)

/* --- Along one axis --- */

/* B'd at the finite points. */
INLINE void finite_axis(const vector d[FINITE], vector out[FINITE])
{
    vector even_a = vector_mul(all(POINT_A), vector_fnma(all(B2), d[0], d[2]));
    vector odd_a = vector_fnma(all(B2), d[1], d[3]);
    vector even_b = vector_mul(all(POINT_B), vector_fnma(all(A2), d[0], d[2]));
    vector odd_b = vector_fnma(all(A2), d[1], d[3]);
    out[0] = vector_add(even_a, odd_a);
    out[1] = vector_sub(even_a, odd_a);
    out[2] = vector_add(even_b, odd_b);
    out[3] = vector_sub(even_b, odd_b);
}

/* B'd */
INLINE void points_axis(const vector d[POINTS], vector out[POINTS])
{
    finite_axis(d, out);
    out[4] = vector_fma(all(A2 * B2), d[0], vector_fnma(all(A2 + B2), d[2], d[4]));
}

/* B'd of every other number, and of those between. */
INLINE void patch_axis(const vector d[PATCH], vector out[PATCH])
{
    const vector two[POINTS] = {d[0], d[2], d[4], d[6], d[8]},
                 one[FINITE] = {d[1], d[3], d[5], d[7]};
    points_axis(two, out);
    finite_axis(one, out + BEHIND);
}

/* One over the product of a point's distances to the others. */
#define SHARE_A (1 / (2 * POINT_A * (A2 - B2)))
#define SHARE_B (1 / (2 * POINT_B * (B2 - A2)))

/* A'm, with `infinite` for the last point. */
INLINE void tile_axis(const vector m[FINITE], vector infinite, vector out[TILE])
{
    vector sum_a = vector_add(m[0], m[1]), sum_b = vector_add(m[2], m[3]);
    vector odd_a = vector_mul(all(SHARE_A * POINT_A), vector_sub(m[0], m[1]));
    vector odd_b = vector_mul(all(SHARE_B * POINT_B), vector_sub(m[2], m[3]));
    out[0] = vector_fma(all(SHARE_A), sum_a, vector_mul(all(SHARE_B), sum_b));
    out[1] = vector_add(odd_a, odd_b);
    out[2] = vector_fma(all(SHARE_A * A2), sum_a, vector_mul(all(SHARE_B * B2), sum_b));
    out[3] = vector_fma(all(A2), odd_a, vector_fma(all(B2), odd_b, infinite));
}

INLINE void result_axis(const vector m[POINTS], vector out[TILE])
{
    tile_axis(m, m[4], out);
}

/* A'm of both: one tap's come first. */
INLINE void back_axis(const vector m[PATCH], vector out[SIDE])
{
    vector two[TILE], one[TILE];
    tile_axis(m, m[4], two);
    tile_axis(m + BEHIND, vector_zero(), one);
#pragma GCC unroll 4
    for (int i = 0; i < TILE; i++) {
        out[2 * i] = one[i];
        out[2 * i + 1] = two[i];
    }
}

/* Aw */
INLINE void gradient_axis(const vector w[TILE], vector out[POINTS])
{
    vector even_a = vector_fma(all(SHARE_A * A2), w[2], vector_mul(all(SHARE_A), w[0]));
    vector odd_a = vector_mul(all(SHARE_A * POINT_A), vector_fma(all(A2), w[3], w[1]));
    vector even_b = vector_fma(all(SHARE_B * B2), w[2], vector_mul(all(SHARE_B), w[0]));
    vector odd_b = vector_mul(all(SHARE_B * POINT_B), vector_fma(all(B2), w[3], w[1]));
    out[0] = vector_add(even_a, odd_a);
    out[1] = vector_sub(even_a, odd_a);
    out[2] = vector_add(even_b, odd_b);
    out[3] = vector_sub(even_b, odd_b);
    out[4] = w[3];
}

/* Gg */
INLINE void weight_axis(const vector g[KERNEL], vector out[WEIGHTS])
{
    out[0] = vector_fma(all(POINT_A), g[2], g[0]);
    out[1] = vector_fnma(all(POINT_A), g[2], g[0]);
    out[2] = vector_fma(all(POINT_B), g[2], g[0]);
    out[3] = vector_fnma(all(POINT_B), g[2], g[0]);
    out[4] = g[2];
    out[BEHIND] = g[1];
}

/* G'u */
INLINE void kernel_axis(const vector u[WEIGHTS], vector out[KERNEL])
{
    vector odd_a = vector_fma(all(POINT_A), vector_sub(u[0], u[1]), u[4]);
    out[0] = vector_add(vector_add(u[0], u[1]), vector_add(u[2], u[3]));
    out[1] = u[BEHIND];
    out[2] = vector_fma(all(POINT_B), vector_sub(u[2], u[3]), odd_a);
}

/* --- The steps --- */

INLINE void transform_patch(const vector *from, vector *to)
{
    both_axes(from, to, PATCH, PATCH, patch_axis);
}

INLINE void transform_points(const vector *from, vector *to)
{
    both_axes(from, to, POINTS, POINTS, points_axis);
}

INLINE void transform_result(const vector *from, vector *to)
{
    both_axes(from, to, POINTS, TILE, result_axis);
}

INLINE void transform_back(const vector *from, vector *to)
{
    both_axes(from, to, PATCH, SIDE, back_axis);
}

INLINE void transform_gradient(const vector *from, vector *to)
{
    both_axes(from, to, TILE, POINTS, gradient_axis);
}

INLINE void transform_weights(const vector *from, vector *to)
{
    both_axes(from, to, KERNEL, WEIGHTS, weight_axis);
}

INLINE void transform_kernel(const vector *from, vector *to)
{
    both_axes(from, to, WEIGHTS, KERNEL, kernel_axis);
}

static void strided_take_patches(const struct winograd_picture *x, int64_t block,
                                 struct winograd_range tiles, float *planes, size_t plane)
{
    take_patches(x, block, tiles, planes, plane, LANES, PATCH, PATCH * PATCH, transform_patch);
}

static void strided_take_points(const struct winograd_picture *gradient, int64_t block,
                                struct winograd_range tiles, float *planes, size_t plane)
{
    take_patches(gradient, block, tiles, planes, plane, LANES, POINTS, POINTS * POINTS,
                 transform_points);
}

static void strided_take_gradients(const struct winograd_picture *gradient, int64_t block,
                                   struct winograd_range tiles, float *planes, size_t plane,
                                   float *sum)
{
    take_gradients(gradient, block, tiles, planes, plane, sum, POINTS * POINTS, transform_gradient);
}

static void strided_put_results(const float *planes, size_t plane, const struct winograd_picture *y,
                                int64_t block, struct winograd_range tiles,
                                struct winograd_finish finish)
{
    put_results(planes, plane, y, block, tiles, finish, LANES, POINTS * POINTS, TILE,
                transform_result);
}

static void strided_put_back(const float *planes, size_t plane, const struct winograd_picture *x,
                             int64_t block, struct winograd_range tiles,
                             struct winograd_finish finish)
{
    put_results(planes, plane, x, block, tiles, finish, LANES, PATCH * PATCH, SIDE, transform_back);
}

static void strided_take_weights(const struct winograd_weights *weights, int64_t out, float *planes,
                                 size_t plane)
{
    take_weights(weights, out, planes, plane, WEIGHTS * WEIGHTS, transform_weights);
}

static void strided_put_weights(const float *planes, size_t plane,
                                const struct winograd_weights *weights, int64_t out)
{
    put_weights(planes, plane, weights, out, WEIGHTS * WEIGHTS, transform_kernel);
}

VECTOR_END

/* The weights of a place along an axis. */
static int weight_place(int place)
{
    return place < BEHIND ? place : BEHIND;
}

/* The places along an axis that meet at a point: two, but one at infinity. */
static int places_at(int point)
{
    return point < FINITE ? 2 : 1;
}

static int strided_list_products(struct winograd_product products[WINOGRAD_MOST_PRODUCTS])
{
    int count = 0;
    for (int point = 0; point < POINTS * POINTS; point++)
        for (int i = 0; i < places_at(point / POINTS); i++)
            for (int k = 0; k < places_at(point % POINTS); k++) {
                int row = point / POINTS + i * BEHIND, column = point % POINTS + k * BEHIND;
                products[count++] =
                    (struct winograd_product){weight_place(row) * WEIGHTS + weight_place(column),
                                              row * PATCH + column, point};
            }
    return count;
}

const struct winograd_steps winograd_strided_eights = {
    .name = "own:winograd-strided:" VECTOR_NAME,
    .is_here = vector_is_here,
    .lanes = LANES,
    .stride = 2,
    .wide = WIDE,
    .rows = TILES,
    .sizes = {.tiles = 96,
              .gradient_tiles = 192,
              .piece = 64,
              .fewest_served = WINOGRAD_FEWEST_STRIDED},
    .forward = {.patch_planes = PATCH * PATCH,
                .result_planes = POINTS * POINTS,
                .patch_step = SIDE,
                .result_step = TILE,
                .outputs = 64,
                .take_patches = strided_take_patches,
                .put_results = strided_put_results},
    .back = {.patch_planes = POINTS * POINTS,
             .result_planes = PATCH * PATCH,
             .patch_step = TILE,
             .result_step = SIDE,
             .outputs = 32,
             .take_patches = strided_take_points,
             .put_results = strided_put_back},
    .weight_planes = WEIGHTS * WEIGHTS,
    .list_products = strided_list_products,
    .take_gradients = strided_take_gradients,
    .take_weights = strided_take_weights,
    .put_weights = strided_put_weights,
    .multiply = winograd_multiply,
    .multiply_gradients = winograd_multiply_gradients,
};

#endif
