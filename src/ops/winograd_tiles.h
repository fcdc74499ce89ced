/* The transforms of Winograd convolutions with stride 1, for as many lanes as vector.h has. A part of
 * kernel_winograd_eights.c and kernel_winograd_sixteens.c.
 *
 * With the points 0, +-a, +-b and infinity, from the polynomials that are zero at all points but one
 * (B), the powers of the points (G), and those powers over the distances to the other points (A; there because
 * results are fewer than patches, and weights are many where tiles are few):
 *
 *     B' = [a2b2   0     -(a2+b2)  0        1  0]     G = [1  0  0 ]
 *          [0   -a b2    -b2       a        1  0]         [1  a  a2]
 *          [0    a b2    -b2      -a        1  0]         [1 -a  a2]
 *          [0   -b a2    -a2       b        1  0]         [1  b  b2]
 *          [0    b a2    -a2      -b        1  0]         [1 -b  b2]
 *          [0    a2b2     0      -(a2+b2)   0  1]         [0  0  1 ]
 *
 *     A' = columns (1, p, p2, p3) / distances; (0, 0, 0, 1) */
#ifndef OPS_WINOGRAD_TILES_H
#define OPS_WINOGRAD_TILES_H

#include "ops/winograd_squares.h"

#if VECTOR
VECTOR_BEGIN

enum { PATCH = 6, PLANES = PATCH * PATCH };

#define POINT_A 0.625F
#define POINT_B 1.5F
#define A2 (POINT_A * POINT_A)
#define B2 (POINT_B * POINT_B)

/* --- Along one axis --- */

/* B'd */
INLINE void patch_axis(const vector d[PATCH], vector out[PATCH])
{
    vector even_a = vector_fnma(all(B2), d[2], d[4]);
    vector odd_a = vector_mul(all(POINT_A), vector_fnma(all(B2), d[1], d[3]));
    vector even_b = vector_fnma(all(A2), d[2], d[4]);
    vector odd_b = vector_mul(all(POINT_B), vector_fnma(all(A2), d[1], d[3]));
    out[0] = vector_fma(all(A2 * B2), d[0], vector_fnma(all(A2 + B2), d[2], d[4]));
    out[1] = vector_add(even_a, odd_a);
    out[2] = vector_sub(even_a, odd_a);
    out[3] = vector_add(even_b, odd_b);
    out[4] = vector_sub(even_b, odd_b);
    out[5] = vector_fma(all(A2 * B2), d[1], vector_fnma(all(A2 + B2), d[3], d[5]));
}

/* One over the product of a point's distances to the others. */
#define SHARE_0 (1 / (A2 * B2))
#define SHARE_A (1 / (2 * A2 * (A2 - B2)))
#define SHARE_B (1 / (2 * B2 * (B2 - A2)))

/* A'm */
INLINE void result_axis(const vector m[PATCH], vector out[TILE])
{
    vector sum_a = vector_add(m[1], m[2]), sum_b = vector_add(m[3], m[4]);
    vector odd_a = vector_mul(all(SHARE_A * POINT_A), vector_sub(m[1], m[2]));
    vector odd_b = vector_mul(all(SHARE_B * POINT_B), vector_sub(m[3], m[4]));
    out[0] = vector_fma(all(SHARE_0), m[0],
                        vector_fma(all(SHARE_A), sum_a, vector_mul(all(SHARE_B), sum_b)));
    out[1] = vector_add(odd_a, odd_b);
    out[2] = vector_fma(all(SHARE_A * A2), sum_a, vector_mul(all(SHARE_B * B2), sum_b));
    out[3] = vector_fma(all(A2), odd_a, vector_fma(all(B2), odd_b, m[5]));
}

/* Aw */
INLINE void gradient_axis(const vector w[TILE], vector out[PATCH])
{
    vector even_a = vector_fma(all(SHARE_A * A2), w[2], vector_mul(all(SHARE_A), w[0]));
    vector odd_a = vector_mul(all(SHARE_A * POINT_A), vector_fma(all(A2), w[3], w[1]));
    vector even_b = vector_fma(all(SHARE_B * B2), w[2], vector_mul(all(SHARE_B), w[0]));
    vector odd_b = vector_mul(all(SHARE_B * POINT_B), vector_fma(all(B2), w[3], w[1]));
    out[0] = vector_mul(all(SHARE_0), w[0]);
    out[1] = vector_add(even_a, odd_a);
    out[2] = vector_sub(even_a, odd_a);
    out[3] = vector_add(even_b, odd_b);
    out[4] = vector_sub(even_b, odd_b);
    out[5] = w[3];
}

/* Gg */
INLINE void weight_axis(const vector g[KERNEL], vector out[PATCH])
{
    vector even_a = vector_fma(all(A2), g[2], g[0]), even_b = vector_fma(all(B2), g[2], g[0]);
    out[0] = g[0];
    out[1] = vector_fma(all(POINT_A), g[1], even_a);
    out[2] = vector_fnma(all(POINT_A), g[1], even_a);
    out[3] = vector_fma(all(POINT_B), g[1], even_b);
    out[4] = vector_fnma(all(POINT_B), g[1], even_b);
    out[5] = g[2];
}

/* G'u */
INLINE void kernel_axis(const vector u[PATCH], vector out[KERNEL])
{
    vector sum_a = vector_add(u[1], u[2]), sum_b = vector_add(u[3], u[4]);
    vector odd_a = vector_mul(all(POINT_A), vector_sub(u[1], u[2]));
    out[0] = vector_add(u[0], vector_add(sum_a, sum_b));
    out[1] = vector_fma(all(POINT_B), vector_sub(u[3], u[4]), odd_a);
    out[2] = vector_fma(all(A2), sum_a, vector_fma(all(B2), sum_b, u[5]));
}

/* --- The steps --- */

INLINE void transform_patch(const vector *from, vector *to)
{
    both_axes(from, to, PATCH, PATCH, patch_axis);
}

INLINE void transform_result(const vector *from, vector *to)
{
    both_axes(from, to, PATCH, TILE, result_axis);
}

INLINE void transform_gradient(const vector *from, vector *to)
{
    both_axes(from, to, TILE, PATCH, gradient_axis);
}

INLINE void transform_weights(const vector *from, vector *to)
{
    both_axes(from, to, KERNEL, PATCH, weight_axis);
}

INLINE void transform_kernel(const vector *from, vector *to)
{
    both_axes(from, to, PATCH, KERNEL, kernel_axis);
}

/* Twice: in blocks, the places of a patch are constants. */
static void winograd_take_patches(const struct winograd_picture *x, int64_t block,
                                  struct winograd_range tiles, float *planes, size_t plane)
{
    if (x->pixel == LANES)
        take_patches(x, block, tiles, planes, plane, LANES, PATCH, PLANES, transform_patch);
    else
        take_patches(x, block, tiles, planes, plane, x->pixel, PATCH, PLANES, transform_patch);
}

static void winograd_take_gradients(const struct winograd_picture *gradient, int64_t block,
                                    struct winograd_range tiles, float *planes, size_t plane,
                                    float *sum)
{
    take_gradients(gradient, block, tiles, planes, plane, sum, PLANES, transform_gradient);
}

static void winograd_put_results(const float *planes, size_t plane,
                                 const struct winograd_picture *y, int64_t block,
                                 struct winograd_range tiles, struct winograd_finish finish)
{
    if (y->pixel == LANES)
        put_results(planes, plane, y, block, tiles, finish, LANES, PLANES, TILE, transform_result);
    else
        put_results(planes, plane, y, block, tiles, finish, y->pixel, PLANES, TILE,
                    transform_result);
}

static void winograd_take_weights(const struct winograd_weights *weights, int64_t out,
                                  float *planes, size_t plane)
{
    take_weights(weights, out, planes, plane, PLANES, transform_weights);
}

static void winograd_put_weights(const float *planes, size_t plane,
                                 const struct winograd_weights *weights, int64_t out)
{
    put_weights(planes, plane, weights, out, PLANES, transform_kernel);
}

static int winograd_list_products(struct winograd_product products[WINOGRAD_MOST_PRODUCTS])
{
    for (int p = 0; p < PLANES; p++)
        products[p] = (struct winograd_product){p, p, p};
    return PLANES;
}

VECTOR_END

/* Back to x is a convolution like that to y. */
#define WINOGRAD_WAY(outputs_at_once)                                                              \
    {                                                                                              \
        .patch_planes = PLANES, .result_planes = PLANES, .patch_step = TILE, .result_step = TILE,  \
        .outputs = outputs_at_once, .take_patches = winograd_take_patches,                         \
        .put_results = winograd_put_results                                                        \
    }

#endif

#endif
