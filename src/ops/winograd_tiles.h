/* The transforms of Winograd convolutions, for as many lanes as vector.h has: every step is vertical, one
 * channel a lane. A part of kernel_winograd_eights.c and kernel_winograd_sixteens.c.
 *
 * With the points 0, +-a, +-b and infinity, from the polynomials that are zero at all points but one
 * (B), the powers of the points (A), and those powers over the distances to the other points (G):
 *
 *     B' = [a2b2   0     -(a2+b2)  0        1  0]     A' = [1  1   1   1   1   0]
 *          [0   -a b2    -b2       a        1  0]          [0  a  -a   b  -b   0]
 *          [0    a b2    -b2      -a        1  0]          [0  a2  a2  b2  b2  0]
 *          [0   -b a2    -a2       b        1  0]          [0  a3 -a3  b3 -b3  1]
 *          [0    b a2    -a2      -b        1  0]
 *          [0    a2b2     0      -(a2+b2)   0  1]     G  = rows (1, p, p2) / distances; (0, 0, 1) */
#ifndef OPS_WINOGRAD_TILES_H
#define OPS_WINOGRAD_TILES_H

#include <string.h>

#include "ops/vector.h"
#include "ops/winograd.h"

#if VECTOR
VECTOR_BEGIN

enum { LANES = VECTOR_LANES, WIDE = 2 * LANES, TILE = WINOGRAD_TILE, PATCH = 6, KERNEL = 3 };

#define POINT_A 0.625F
#define POINT_B 1.5F
#define A2 (POINT_A * POINT_A)
#define B2 (POINT_B * POINT_B)

/* --- Along one axis --- */

INLINE vector all(float value)
{
    return vector_all(value);
}

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

/* A'm */
INLINE void result_axis(const vector m[PATCH], vector out[TILE])
{
    vector sum_a = vector_add(m[1], m[2]), sum_b = vector_add(m[3], m[4]);
    vector odd_a = vector_mul(all(POINT_A), vector_sub(m[1], m[2]));
    vector odd_b = vector_mul(all(POINT_B), vector_sub(m[3], m[4]));
    out[0] = vector_add(m[0], vector_add(sum_a, sum_b));
    out[1] = vector_add(odd_a, odd_b);
    out[2] = vector_fma(all(A2), sum_a, vector_mul(all(B2), sum_b));
    out[3] = vector_fma(all(A2), odd_a, vector_fma(all(B2), odd_b, m[5]));
}

/* Aw */
INLINE void gradient_axis(const vector w[TILE], vector out[PATCH])
{
    vector even_a = vector_fma(all(A2), w[2], w[0]);
    vector odd_a = vector_mul(all(POINT_A), vector_fma(all(A2), w[3], w[1]));
    vector even_b = vector_fma(all(B2), w[2], w[0]);
    vector odd_b = vector_mul(all(POINT_B), vector_fma(all(B2), w[3], w[1]));
    out[0] = w[0];
    out[1] = vector_add(even_a, odd_a);
    out[2] = vector_sub(even_a, odd_a);
    out[3] = vector_add(even_b, odd_b);
    out[4] = vector_sub(even_b, odd_b);
    out[5] = w[3];
}

/* One over the product of a point's distances to the others. */
#define SHARE_0 (1 / (A2 * B2))
#define SHARE_A (1 / (2 * A2 * (A2 - B2)))
#define SHARE_B (1 / (2 * B2 * (B2 - A2)))

/* Gg */
INLINE void weight_axis(const vector g[KERNEL], vector out[PATCH])
{
    vector even_a = vector_mul(all(SHARE_A), vector_fma(all(A2), g[2], g[0]));
    vector odd_a = vector_mul(all(SHARE_A * POINT_A), g[1]);
    vector even_b = vector_mul(all(SHARE_B), vector_fma(all(B2), g[2], g[0]));
    vector odd_b = vector_mul(all(SHARE_B * POINT_B), g[1]);
    out[0] = vector_mul(all(SHARE_0), g[0]);
    out[1] = vector_add(even_a, odd_a);
    out[2] = vector_sub(even_a, odd_a);
    out[3] = vector_add(even_b, odd_b);
    out[4] = vector_sub(even_b, odd_b);
    out[5] = g[2];
}

/* G'u */
INLINE void kernel_axis(const vector u[PATCH], vector out[KERNEL])
{
    vector sum_a = vector_mul(all(SHARE_A), vector_add(u[1], u[2]));
    vector sum_b = vector_mul(all(SHARE_B), vector_add(u[3], u[4]));
    vector odd_a = vector_mul(all(SHARE_A * POINT_A), vector_sub(u[1], u[2]));
    out[0] = vector_fma(all(SHARE_0), u[0], vector_add(sum_a, sum_b));
    out[1] = vector_fma(all(SHARE_B * POINT_B), vector_sub(u[3], u[4]), odd_a);
    out[2] = vector_fma(all(A2), sum_a, vector_fma(all(B2), sum_b, u[5]));
}

/* --- Along both: columns into a square, then its rows --- */

#define BOTH_AXES(name, axis, FROM, TO)                                                            \
    INLINE void name(vector from[FROM][FROM], vector to[TO][TO])                                   \
    {                                                                                              \
        vector half[TO][FROM], column[FROM], out[TO];                                              \
        _Pragma("GCC unroll 6") for (int c = 0; c < FROM; c++)                                     \
        {                                                                                          \
            _Pragma("GCC unroll 6") for (int r = 0; r < FROM; r++) column[r] = from[r][c];         \
            axis(column, out);                                                                     \
            _Pragma("GCC unroll 6") for (int r = 0; r < TO; r++) half[r][c] = out[r];              \
        }                                                                                          \
        _Pragma("GCC unroll 6") for (int r = 0; r < TO; r++) axis(half[r], to[r]);                 \
    }

BOTH_AXES(transform_patch, patch_axis, PATCH, PATCH)
BOTH_AXES(transform_result, result_axis, PATCH, TILE)
BOTH_AXES(transform_gradient, gradient_axis, TILE, PATCH)
BOTH_AXES(transform_weights, weight_axis, KERNEL, PATCH)
BOTH_AXES(transform_kernel, kernel_axis, PATCH, KERNEL)

INLINE void store_planes(vector square[PATCH][PATCH], float *to, size_t plane)
{
#pragma GCC unroll 6
    for (int r = 0; r < PATCH; r++)
#pragma GCC unroll 6
        for (int c = 0; c < PATCH; c++)
            vector_store(to + (size_t)(r * PATCH + c) * plane, square[r][c]);
}

INLINE void load_planes(const float *from, size_t plane, vector square[PATCH][PATCH])
{
#pragma GCC unroll 6
    for (int r = 0; r < PATCH; r++)
#pragma GCC unroll 6
        for (int c = 0; c < PATCH; c++)
            square[r][c] = vector_load(from + (size_t)(r * PATCH + c) * plane);
}

/* --- Where tiles lie --- */

/* One tile after the other, without a division for each. */
struct place {
    int64_t image, row, column;
};

static struct place place_of(const struct winograd_picture *picture, int64_t tile)
{
    int64_t each = picture->tile_rows * picture->tile_columns, within = tile % each;
    return (struct place){tile / each, within / picture->tile_columns,
                          within % picture->tile_columns};
}

static void step(const struct winograd_picture *picture, struct place *place)
{
    if (++place->column < picture->tile_columns)
        return;
    place->column = 0;
    if (++place->row < picture->tile_rows)
        return;
    place->row = 0;
    place->image++;
}

/* A square of the picture: where it begins, and which part of it lies inside. */
struct square {
    float *data; /* of its first pixel, which may lie outside */
    int64_t first_row, last_row, first_column, last_column;
};

static int64_t at_most(int64_t value, int64_t limit)
{
    return value < limit ? value : limit;
}

static struct square square_at(const struct winograd_picture *picture, int64_t block,
                               const struct place *place, int64_t size)
{
    int64_t row = place->row * TILE - picture->top, column = place->column * TILE - picture->left;
    return (struct square){.data = picture->data + place->image * picture->image +
                                   block * picture->block +
                                   (row * picture->width + column) * picture->pixel,
                           .first_row = row < 0 ? -row : 0,
                           .first_column = column < 0 ? -column : 0,
                           .last_row = at_most(picture->height - row, size),
                           .last_column = at_most(picture->width - column, size)};
}

static bool is_whole(const struct square *square, int64_t size)
{
    return !square->first_row && !square->first_column && square->last_row == size &&
           square->last_column == size;
}

/* The square with zeros for what lies outside, in `copy`. */
static void copy_inside(const struct square *square, int64_t size, int64_t width, int64_t pixel,
                        float *copy)
{
    memset(copy, 0, (size_t)(size * size * LANES) * sizeof *copy);
    for (int64_t r = square->first_row; r < square->last_row; r++)
        for (int64_t c = square->first_column; c < square->last_column; c++)
            memcpy(copy + (r * size + c) * LANES, square->data + (r * width + c) * pixel,
                   LANES * sizeof *copy);
}

/* --- Patches --- */

INLINE void take_patch(const float *from, int64_t width, int64_t pixel, float *to, size_t plane)
{
    vector patch[PATCH][PATCH], out[PATCH][PATCH];
#pragma GCC unroll 6
    for (int r = 0; r < PATCH; r++)
#pragma GCC unroll 6
        for (int c = 0; c < PATCH; c++)
            patch[r][c] = vector_load(from + (r * width + c) * pixel);
    transform_patch(patch, out);
    store_planes(out, to, plane);
}

INLINE void take_patches(const struct winograd_picture *x, int64_t block,
                         struct winograd_range tiles, float *planes, size_t plane, int64_t pixel)
{
    struct place place = place_of(x, tiles.first);
    float copy[PATCH * PATCH * LANES];
    for (int64_t i = 0; i < tiles.count; i++, step(x, &place)) {
        struct square square = square_at(x, block, &place, PATCH);
        if (is_whole(&square, PATCH)) {
            take_patch(square.data, x->width, pixel, planes + i * LANES, plane);
            continue;
        }
        copy_inside(&square, PATCH, x->width, pixel, copy);
        take_patch(copy, PATCH, LANES, planes + i * LANES, plane);
    }
}

/* Twice: in blocks, the places of a patch are constants. */
static void winograd_take_patches(const struct winograd_picture *x, int64_t block,
                                  struct winograd_range tiles, float *planes, size_t plane)
{
    if (x->pixel == LANES)
        take_patches(x, block, tiles, planes, plane, LANES);
    else
        take_patches(x, block, tiles, planes, plane, x->pixel);
}

/* --- Gradients of results, in blocks --- */

INLINE vector take_gradient(const float *from, int64_t width, float *to, size_t plane)
{
    vector tile[TILE][TILE], out[PATCH][PATCH], sum = vector_zero();
#pragma GCC unroll 4
    for (int r = 0; r < TILE; r++)
#pragma GCC unroll 4
        for (int c = 0; c < TILE; c++) {
            tile[r][c] = vector_load(from + (r * width + c) * LANES);
            sum = vector_add(sum, tile[r][c]);
        }
    transform_gradient(tile, out);
    store_planes(out, to, plane);
    return sum;
}

static void winograd_take_gradients(const struct winograd_picture *gradient, int64_t block,
                                    struct winograd_range tiles, float *planes, size_t plane,
                                    float *sum)
{
    struct place place = place_of(gradient, tiles.first);
    float copy[TILE * TILE * LANES];
    vector read = vector_zero();
    for (int64_t i = 0; i < tiles.count; i++, step(gradient, &place)) {
        struct square square = square_at(gradient, block, &place, TILE);
        const float *from = square.data;
        int64_t width = gradient->width;
        if (!is_whole(&square, TILE)) {
            copy_inside(&square, TILE, width, LANES, copy);
            from = copy;
            width = TILE;
        }
        read = vector_add(read, take_gradient(from, width, planes + i * LANES, plane));
    }
    vector_store(sum, vector_add(vector_load(sum), read));
}

/* --- Results --- */

INLINE vector finish_one(vector value, vector bias, const float *there,
                         const struct winograd_finish *finish)
{
    value = vector_add(value, bias);
    if (finish->add)
        value = vector_add(value, vector_load(there));
    return finish->relu ? vector_at_least(vector_zero(), value) : value;
}

INLINE void put_result(const float *planes, size_t plane, const struct square *square,
                       int64_t width, int64_t pixel, const struct winograd_finish *finish,
                       bool whole)
{
    vector square_in[PATCH][PATCH], out[TILE][TILE];
    vector bias = finish->bias ? vector_load(finish->bias) : vector_zero();
    load_planes(planes, plane, square_in);
    transform_result(square_in, out);
#pragma GCC unroll 4
    for (int r = 0; r < TILE; r++)
#pragma GCC unroll 4
        for (int c = 0; c < TILE; c++) {
            float *to = square->data + (r * width + c) * pixel;
            if (whole || (r < square->last_row && c < square->last_column))
                vector_store(to, finish_one(out[r][c], bias, to, finish));
        }
}

INLINE void put_results(const float *planes, size_t plane, const struct winograd_picture *y,
                        int64_t block, struct winograd_range tiles, struct winograd_finish finish,
                        int64_t pixel)
{
    struct place place = place_of(y, tiles.first);
    for (int64_t i = 0; i < tiles.count; i++, step(y, &place)) {
        struct square square = square_at(y, block, &place, TILE);
        if (is_whole(&square, TILE))
            put_result(planes + i * LANES, plane, &square, y->width, pixel, &finish, true);
        else
            put_result(planes + i * LANES, plane, &square, y->width, pixel, &finish, false);
    }
}

static void winograd_put_results(const float *planes, size_t plane,
                                 const struct winograd_picture *y, int64_t block,
                                 struct winograd_range tiles, struct winograd_finish finish)
{
    if (y->pixel == LANES)
        put_results(planes, plane, y, block, tiles, finish, LANES);
    else
        put_results(planes, plane, y, block, tiles, finish, y->pixel);
}

/* --- Weights --- */

/* The tap at row r, column c, of a register's outputs. */
INLINE vector take_tap(const struct winograd_weights *weights, const float *from, int r, int c,
                       bool adjacent)
{
    int tap = r * KERNEL + c;
    from += (weights->turned ? KERNEL * KERNEL - 1 - tap : tap) * weights->tap_stride;
    return adjacent ? vector_load(from) : vector_gather(from, weights->lane_stride);
}

static int64_t place_of_output(const struct winograd_weights *weights, int64_t out)
{
    int64_t lane = out % weights->block;
    return (out - lane) * weights->out_stride + lane * weights->lane_stride;
}

INLINE void take_weights(const struct winograd_weights *weights, int64_t out, float *planes,
                         size_t plane, bool adjacent)
{
    for (int64_t i = 0; i < weights->in; i++)
        for (int half = 0; half < WIDE; half += LANES) {
            const float *from =
                weights->data + place_of_output(weights, out + half) + i * weights->in_stride;
            vector kernel[KERNEL][KERNEL], square[PATCH][PATCH];
#pragma GCC unroll 3
            for (int r = 0; r < KERNEL; r++)
#pragma GCC unroll 3
                for (int c = 0; c < KERNEL; c++)
                    kernel[r][c] = take_tap(weights, from, r, c, adjacent);
            transform_weights(kernel, square);
            store_planes(square, planes + i * WIDE + half, plane);
        }
}

static void winograd_take_weights(const struct winograd_weights *weights, int64_t out,
                                  float *planes, size_t plane)
{
    if (weights->lane_stride == 1)
        take_weights(weights, out, planes, plane, true);
    else
        take_weights(weights, out, planes, plane, false);
}

static void winograd_put_weights(const float *planes, size_t plane,
                                 const struct winograd_weights *weights, int64_t out)
{
    for (int64_t i = 0; i < weights->in; i++) {
        vector square[PATCH][PATCH], kernel[KERNEL][KERNEL];
        load_planes(planes + i * LANES, plane, square);
        transform_kernel(square, kernel);
        float *to = weights->data + place_of_output(weights, out) + i * weights->in_stride;
        for (int tap = 0; tap < KERNEL * KERNEL; tap++) {
            float lanes[LANES];
            vector_store(lanes, kernel[tap / KERNEL][tap % KERNEL]);
            for (int lane = 0; lane < LANES; lane++)
                to[lane * weights->lane_stride + tap * weights->tap_stride] = lanes[lane];
        }
    }
}

VECTOR_END
#endif

#endif
