/* Squares of pictures and taps of weights, as Winograd convolutions of any stride read and write them: every
 * step is vertical, one channel a lane, for as many lanes as vector.h has. The transforms are the includer's:
 * winograd_tiles.h, kernel_winograd_strided.c. Sizes, counts and transforms are constants to the compiler. */
#ifndef OPS_WINOGRAD_SQUARES_H
#define OPS_WINOGRAD_SQUARES_H

#include <string.h>

#include "ops/vector.h"
#include "ops/winograd.h"

#if VECTOR
VECTOR_BEGIN

enum { LANES = VECTOR_LANES, WIDE = 2 * LANES, TILE = WINOGRAD_TILE, KERNEL = 3, LARGEST = 9 };

/* A square of numbers, row by row, to another one. */
typedef void transform(const vector *from, vector *to);

INLINE vector all(float value)
{
    return vector_all(value);
}

/* A transform along one axis, and the same along both: columns into a square, then its rows. */
typedef void axis_transform(const vector *from, vector *to);

INLINE void both_axes(const vector *from, vector *to, int from_size, int to_size,
                      axis_transform *change)
{
    vector half[LARGEST * LARGEST], column[LARGEST], out[LARGEST];
#pragma GCC unroll 9
    for (int c = 0; c < from_size; c++) {
#pragma GCC unroll 9
        for (int r = 0; r < from_size; r++)
            column[r] = from[r * from_size + c];
        change(column, out);
#pragma GCC unroll 9
        for (int r = 0; r < to_size; r++)
            half[r * from_size + c] = out[r];
    }
#pragma GCC unroll 9
    for (int r = 0; r < to_size; r++)
        change(half + r * from_size, to + r * to_size);
}

INLINE void load_square(const float *from, int64_t width, int64_t pixel, int size, vector *square)
{
#pragma GCC unroll 9
    for (int r = 0; r < size; r++)
#pragma GCC unroll 9
        for (int c = 0; c < size; c++)
            square[r * size + c] = vector_load(from + (r * width + c) * pixel);
}

/* A number of floats that the compiler cannot see. Else it would keep one pointer for each plane or tap, more
 * than there are registers, and fetch them from memory instead of adding. */
INLINE int64_t unseen(int64_t floats)
{
    __asm__("" : "+r"(floats));
    return floats;
}

INLINE void store_planes(const vector *values, int count, float *to, size_t plane)
{
    int64_t at = 0;
#pragma GCC unroll 81
    for (int p = 0; p < count; p++, at = unseen(at + (int64_t)plane))
        vector_store(to + at, values[p]);
}

INLINE void load_planes(const float *from, size_t plane, int count, vector *values)
{
    int64_t at = 0;
#pragma GCC unroll 81
    for (int p = 0; p < count; p++, at = unseen(at + (int64_t)plane))
        values[p] = vector_load(from + at);
}

/* --- Where they lie --- */

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
    int64_t row = place->row * picture->step - picture->top;
    int64_t column = place->column * picture->step - picture->left;
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

static bool is_inside(const struct square *square, int64_t row, int64_t column)
{
    return row >= square->first_row && row < square->last_row && column >= square->first_column &&
           column < square->last_column;
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

/* Asks for what the tile below has more than this one, which would else come from memory line by line. In blocks
 * only: with channels last, these would be lines of other blocks. */
INLINE void fetch_below(const struct winograd_picture *picture, const struct square *square,
                        int64_t pixel, int size)
{
    enum { LINE = 16 };
    if (pixel != LANES)
        return;
    const float *from = square->data + size * picture->width * pixel;
    for (int64_t r = 0; r < picture->step; r++, from += picture->width * pixel)
        for (int64_t f = 0; f < picture->step * pixel; f += LINE)
            __builtin_prefetch(from + f, 0, 2);
}

/* --- Patches --- */

INLINE void take_patch(const float *from, int64_t width, int64_t pixel, int size, int count,
                       transform *change, float *to, size_t plane)
{
    vector patch[LARGEST * LARGEST], out[LARGEST * LARGEST];
    load_square(from, width, pixel, size, patch);
    change(patch, out);
    store_planes(out, count, to, plane);
}

INLINE void take_patches(const struct winograd_picture *x, int64_t block,
                         struct winograd_range tiles, float *planes, size_t plane, int64_t pixel,
                         int size, int count, transform *change)
{
    struct place place = place_of(x, tiles.first);
    float copy[LARGEST * LARGEST * LANES];
    for (int64_t i = 0; i < tiles.count; i++, step(x, &place)) {
        struct square square = square_at(x, block, &place, size);
        fetch_below(x, &square, pixel, size);
        float *to = planes + i * LANES;
        if (is_whole(&square, size)) {
            take_patch(square.data, x->width, pixel, size, count, change, to, plane);
            continue;
        }
        copy_inside(&square, size, x->width, pixel, copy);
        take_patch(copy, size, LANES, size, count, change, to, plane);
    }
}

/* --- Gradients of results, in blocks --- */

INLINE vector take_gradient(const float *from, int64_t width, int count, transform *change,
                            float *to, size_t plane)
{
    vector tile[TILE * TILE], out[LARGEST * LARGEST], sum = vector_zero();
    load_square(from, width, LANES, TILE, tile);
#pragma GCC unroll 16
    for (int i = 0; i < TILE * TILE; i++)
        sum = vector_add(sum, tile[i]);
    change(tile, out);
    store_planes(out, count, to, plane);
    return sum;
}

INLINE void take_gradients(const struct winograd_picture *gradient, int64_t block,
                           struct winograd_range tiles, float *planes, size_t plane, float *sum,
                           int count, transform *change)
{
    struct place place = place_of(gradient, tiles.first);
    float copy[TILE * TILE * LANES];
    vector read = vector_zero();
    for (int64_t i = 0; i < tiles.count; i++, step(gradient, &place)) {
        struct square square = square_at(gradient, block, &place, TILE);
        const float *from = square.data;
        int64_t width = gradient->width;
        fetch_below(gradient, &square, LANES, TILE);
        if (!is_whole(&square, TILE)) {
            copy_inside(&square, TILE, width, LANES, copy);
            from = copy;
            width = TILE;
        }
        read =
            vector_add(read, take_gradient(from, width, count, change, planes + i * LANES, plane));
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
                       int count, int size, transform *change, bool whole)
{
    vector square_in[LARGEST * LARGEST], out[LARGEST * LARGEST];
    vector bias = finish->bias ? vector_load(finish->bias) : vector_zero();
    load_planes(planes, plane, count, square_in);
    change(square_in, out);
#pragma GCC unroll 8
    for (int r = 0; r < size; r++)
#pragma GCC unroll 8
        for (int c = 0; c < size; c++) {
            float *to = square->data + (r * width + c) * pixel;
            if (whole || is_inside(square, r, c))
                vector_store(to, finish_one(out[r * size + c], bias, to, finish));
        }
}

INLINE void put_results(const float *planes, size_t plane, const struct winograd_picture *y,
                        int64_t block, struct winograd_range tiles, struct winograd_finish finish,
                        int64_t pixel, int count, int size, transform *change)
{
    struct place place = place_of(y, tiles.first);
    for (int64_t i = 0; i < tiles.count; i++, step(y, &place)) {
        struct square square = square_at(y, block, &place, size);
        const float *from = planes + i * LANES;
        fetch_below(y, &square, pixel, size);
        if (is_whole(&square, size))
            put_result(from, plane, &square, y->width, pixel, &finish, count, size, change, true);
        else
            put_result(from, plane, &square, y->width, pixel, &finish, count, size, change, false);
    }
}

/* --- Weights --- */

static int64_t place_of_output(const struct winograd_weights *weights, int64_t out)
{
    int64_t lane = out % weights->block;
    return (out - lane) * weights->out_stride + lane * weights->lane_stride;
}

INLINE void take_kernel(const float *from, int64_t tap_step, int64_t lane_stride, bool adjacent,
                        vector kernel[KERNEL * KERNEL])
{
    int64_t at = 0;
#pragma GCC unroll 9
    for (int tap = 0; tap < KERNEL * KERNEL; tap++, at = unseen(at + tap_step))
        kernel[tap] = adjacent ? vector_load(from + at) : vector_gather(from + at, lane_stride);
}

INLINE void take_outputs(const struct winograd_weights *weights, int64_t out, float *planes,
                         size_t plane, bool adjacent, int count, transform *change)
{
    int64_t in = weights->in, in_stride = weights->in_stride, lane_stride = weights->lane_stride;
    int64_t tap_step = weights->turned ? -weights->tap_stride : weights->tap_stride;
    int64_t first = weights->turned ? (KERNEL * KERNEL - 1) * weights->tap_stride : 0;
    const float *low = weights->data + first + place_of_output(weights, out);
    const float *high = weights->data + first + place_of_output(weights, out + LANES);
    for (int64_t i = 0; i < in; i++) {
        vector kernel[KERNEL * KERNEL], square[LARGEST * LARGEST];
        take_kernel(low + i * in_stride, tap_step, lane_stride, adjacent, kernel);
        change(kernel, square);
        store_planes(square, count, planes + i * WIDE, plane);
        take_kernel(high + i * in_stride, tap_step, lane_stride, adjacent, kernel);
        change(kernel, square);
        store_planes(square, count, planes + i * WIDE + LANES, plane);
    }
}

/* Twice: outputs that lie next to each other need no gathering. */
INLINE void take_weights(const struct winograd_weights *weights, int64_t out, float *planes,
                         size_t plane, int count, transform *change)
{
    if (weights->lane_stride == 1)
        take_outputs(weights, out, planes, plane, true, count, change);
    else
        take_outputs(weights, out, planes, plane, false, count, change);
}

INLINE void put_weights(const float *planes, size_t plane, const struct winograd_weights *weights,
                        int64_t out, int count, transform *change)
{
    for (int64_t i = 0; i < weights->in; i++) {
        vector square[LARGEST * LARGEST], kernel[KERNEL * KERNEL];
        load_planes(planes + i * LANES, plane, count, square);
        change(square, kernel);
        float *to = weights->data + place_of_output(weights, out) + i * weights->in_stride;
        for (int tap = 0; tap < KERNEL * KERNEL; tap++) {
            float lanes[LANES];
            vector_store(lanes, kernel[tap]);
            for (int lane = 0; lane < LANES; lane++)
                to[lane * weights->lane_stride + tap * weights->tap_stride] = lanes[lane];
        }
    }
}

VECTOR_END
#endif

#endif
