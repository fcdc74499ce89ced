/* The transforms of Winograd convolutions: every step is vertical, one channel a lane.
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
#include <string.h>

#include "ops/winograd.h"

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#include "ops/avx2.h"

enum { LANES = WINOGRAD_LANES, TILE = WINOGRAD_TILE, PATCH = 6, KERNEL = 3 };

#define POINT_A 0.625F
#define POINT_B 1.5F
#define A2 (POINT_A * POINT_A)
#define B2 (POINT_B * POINT_B)

/* --- Along one axis --- */

INLINE __m256 all(float value)
{
    return _mm256_set1_ps(value);
}

/* B'd */
INLINE void patch_axis(const __m256 d[PATCH], __m256 out[PATCH])
{
    __m256 even_a = _mm256_fnmadd_ps(all(B2), d[2], d[4]);
    __m256 odd_a = _mm256_mul_ps(all(POINT_A), _mm256_fnmadd_ps(all(B2), d[1], d[3]));
    __m256 even_b = _mm256_fnmadd_ps(all(A2), d[2], d[4]);
    __m256 odd_b = _mm256_mul_ps(all(POINT_B), _mm256_fnmadd_ps(all(A2), d[1], d[3]));
    out[0] = _mm256_fmadd_ps(all(A2 * B2), d[0], _mm256_fnmadd_ps(all(A2 + B2), d[2], d[4]));
    out[1] = _mm256_add_ps(even_a, odd_a);
    out[2] = _mm256_sub_ps(even_a, odd_a);
    out[3] = _mm256_add_ps(even_b, odd_b);
    out[4] = _mm256_sub_ps(even_b, odd_b);
    out[5] = _mm256_fmadd_ps(all(A2 * B2), d[1], _mm256_fnmadd_ps(all(A2 + B2), d[3], d[5]));
}

/* A'm */
INLINE void result_axis(const __m256 m[PATCH], __m256 out[TILE])
{
    __m256 sum_a = _mm256_add_ps(m[1], m[2]), sum_b = _mm256_add_ps(m[3], m[4]);
    __m256 odd_a = _mm256_mul_ps(all(POINT_A), _mm256_sub_ps(m[1], m[2]));
    __m256 odd_b = _mm256_mul_ps(all(POINT_B), _mm256_sub_ps(m[3], m[4]));
    out[0] = _mm256_add_ps(m[0], _mm256_add_ps(sum_a, sum_b));
    out[1] = _mm256_add_ps(odd_a, odd_b);
    out[2] = _mm256_fmadd_ps(all(A2), sum_a, _mm256_mul_ps(all(B2), sum_b));
    out[3] = _mm256_fmadd_ps(all(A2), odd_a, _mm256_fmadd_ps(all(B2), odd_b, m[5]));
}

/* Aw */
INLINE void gradient_axis(const __m256 w[TILE], __m256 out[PATCH])
{
    __m256 even_a = _mm256_fmadd_ps(all(A2), w[2], w[0]);
    __m256 odd_a = _mm256_mul_ps(all(POINT_A), _mm256_fmadd_ps(all(A2), w[3], w[1]));
    __m256 even_b = _mm256_fmadd_ps(all(B2), w[2], w[0]);
    __m256 odd_b = _mm256_mul_ps(all(POINT_B), _mm256_fmadd_ps(all(B2), w[3], w[1]));
    out[0] = w[0];
    out[1] = _mm256_add_ps(even_a, odd_a);
    out[2] = _mm256_sub_ps(even_a, odd_a);
    out[3] = _mm256_add_ps(even_b, odd_b);
    out[4] = _mm256_sub_ps(even_b, odd_b);
    out[5] = w[3];
}

/* One over the product of a point's distances to the others. */
#define SHARE_0 (1 / (A2 * B2))
#define SHARE_A (1 / (2 * A2 * (A2 - B2)))
#define SHARE_B (1 / (2 * B2 * (B2 - A2)))

/* Gg */
INLINE void weight_axis(const __m256 g[KERNEL], __m256 out[PATCH])
{
    __m256 even_a = _mm256_mul_ps(all(SHARE_A), _mm256_fmadd_ps(all(A2), g[2], g[0]));
    __m256 odd_a = _mm256_mul_ps(all(SHARE_A * POINT_A), g[1]);
    __m256 even_b = _mm256_mul_ps(all(SHARE_B), _mm256_fmadd_ps(all(B2), g[2], g[0]));
    __m256 odd_b = _mm256_mul_ps(all(SHARE_B * POINT_B), g[1]);
    out[0] = _mm256_mul_ps(all(SHARE_0), g[0]);
    out[1] = _mm256_add_ps(even_a, odd_a);
    out[2] = _mm256_sub_ps(even_a, odd_a);
    out[3] = _mm256_add_ps(even_b, odd_b);
    out[4] = _mm256_sub_ps(even_b, odd_b);
    out[5] = g[2];
}

/* G'u */
INLINE void kernel_axis(const __m256 u[PATCH], __m256 out[KERNEL])
{
    __m256 sum_a = _mm256_mul_ps(all(SHARE_A), _mm256_add_ps(u[1], u[2]));
    __m256 sum_b = _mm256_mul_ps(all(SHARE_B), _mm256_add_ps(u[3], u[4]));
    __m256 odd_a = _mm256_mul_ps(all(SHARE_A * POINT_A), _mm256_sub_ps(u[1], u[2]));
    out[0] = _mm256_fmadd_ps(all(SHARE_0), u[0], _mm256_add_ps(sum_a, sum_b));
    out[1] = _mm256_fmadd_ps(all(SHARE_B * POINT_B), _mm256_sub_ps(u[3], u[4]), odd_a);
    out[2] = _mm256_fmadd_ps(all(A2), sum_a, _mm256_fmadd_ps(all(B2), sum_b, u[5]));
}

/* --- Along both: columns into a square, then its rows --- */

#define BOTH_AXES(name, axis, FROM, TO)                                                            \
    INLINE void name(__m256 from[FROM][FROM], __m256 to[TO][TO])                                   \
    {                                                                                              \
        __m256 half[TO][FROM], column[FROM], out[TO];                                              \
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

INLINE void store_planes(__m256 square[PATCH][PATCH], float *to, size_t plane)
{
#pragma GCC unroll 6
    for (int r = 0; r < PATCH; r++)
#pragma GCC unroll 6
        for (int c = 0; c < PATCH; c++)
            _mm256_storeu_ps(to + (size_t)(r * PATCH + c) * plane, square[r][c]);
}

INLINE void load_planes(const float *from, size_t plane, __m256 square[PATCH][PATCH])
{
#pragma GCC unroll 6
    for (int r = 0; r < PATCH; r++)
#pragma GCC unroll 6
        for (int c = 0; c < PATCH; c++)
            square[r][c] = _mm256_loadu_ps(from + (size_t)(r * PATCH + c) * plane);
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
    int64_t plane = (place->image * picture->blocks + block) * picture->height;
    return (struct square){.data =
                               picture->data + ((plane + row) * picture->width + column) * LANES,
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
static void copy_inside(const struct square *square, int64_t size, int64_t width, float *copy)
{
    memset(copy, 0, (size_t)(size * size * LANES) * sizeof *copy);
    for (int64_t r = square->first_row; r < square->last_row; r++)
        for (int64_t c = square->first_column; c < square->last_column; c++)
            memcpy(copy + (r * size + c) * LANES, square->data + (r * width + c) * LANES,
                   LANES * sizeof *copy);
}

/* --- Patches --- */

INLINE void take_patch(const float *from, int64_t width, float *to, size_t plane)
{
    __m256 patch[PATCH][PATCH], out[PATCH][PATCH];
#pragma GCC unroll 6
    for (int r = 0; r < PATCH; r++)
#pragma GCC unroll 6
        for (int c = 0; c < PATCH; c++)
            patch[r][c] = _mm256_loadu_ps(from + (r * width + c) * LANES);
    transform_patch(patch, out);
    store_planes(out, to, plane);
}

void winograd_take_patches(const struct winograd_picture *x, int64_t block,
                           struct winograd_range tiles, float *planes, size_t plane)
{
    struct place place = place_of(x, tiles.first);
    float copy[PATCH * PATCH * LANES];
    for (int64_t i = 0; i < tiles.count; i++, step(x, &place)) {
        struct square square = square_at(x, block, &place, PATCH);
        if (is_whole(&square, PATCH)) {
            take_patch(square.data, x->width, planes + i * LANES, plane);
            continue;
        }
        copy_inside(&square, PATCH, x->width, copy);
        take_patch(copy, PATCH, planes + i * LANES, plane);
    }
}

/* --- Gradients of results --- */

INLINE __m256 take_gradient(const float *from, int64_t width, float *to, size_t plane)
{
    __m256 tile[TILE][TILE], out[PATCH][PATCH], sum = _mm256_setzero_ps();
#pragma GCC unroll 4
    for (int r = 0; r < TILE; r++)
#pragma GCC unroll 4
        for (int c = 0; c < TILE; c++) {
            tile[r][c] = _mm256_loadu_ps(from + (r * width + c) * LANES);
            sum = _mm256_add_ps(sum, tile[r][c]);
        }
    transform_gradient(tile, out);
    store_planes(out, to, plane);
    return sum;
}

void winograd_take_gradients(const struct winograd_picture *gradient, int64_t block,
                             struct winograd_range tiles, float *planes, size_t plane, float *sum)
{
    struct place place = place_of(gradient, tiles.first);
    float copy[TILE * TILE * LANES];
    __m256 read = _mm256_setzero_ps();
    for (int64_t i = 0; i < tiles.count; i++, step(gradient, &place)) {
        struct square square = square_at(gradient, block, &place, TILE);
        const float *from = square.data;
        int64_t width = gradient->width;
        if (!is_whole(&square, TILE)) {
            copy_inside(&square, TILE, width, copy);
            from = copy;
            width = TILE;
        }
        read = _mm256_add_ps(read, take_gradient(from, width, planes + i * LANES, plane));
    }
    _mm256_storeu_ps(sum, _mm256_add_ps(_mm256_loadu_ps(sum), read));
}

/* --- Results --- */

INLINE __m256 finish_one(__m256 value, __m256 bias, const float *there,
                         const struct winograd_finish *finish)
{
    value = _mm256_add_ps(value, bias);
    if (finish->add)
        value = _mm256_add_ps(value, _mm256_loadu_ps(there));
    /* The second operand of max is what a NaN gives: keep the NaN. */
    return finish->relu ? _mm256_max_ps(_mm256_setzero_ps(), value) : value;
}

INLINE void put_result(const float *planes, size_t plane, const struct square *square,
                       int64_t width, const struct winograd_finish *finish, bool whole)
{
    __m256 square_in[PATCH][PATCH], out[TILE][TILE];
    __m256 bias = finish->bias ? _mm256_loadu_ps(finish->bias) : _mm256_setzero_ps();
    load_planes(planes, plane, square_in);
    transform_result(square_in, out);
#pragma GCC unroll 4
    for (int r = 0; r < TILE; r++)
#pragma GCC unroll 4
        for (int c = 0; c < TILE; c++) {
            float *to = square->data + (r * width + c) * LANES;
            if (whole || (r < square->last_row && c < square->last_column))
                _mm256_storeu_ps(to, finish_one(out[r][c], bias, to, finish));
        }
}

void winograd_put_results(const float *planes, size_t plane, const struct winograd_picture *y,
                          int64_t block, struct winograd_range tiles, struct winograd_finish finish)
{
    struct place place = place_of(y, tiles.first);
    for (int64_t i = 0; i < tiles.count; i++, step(y, &place)) {
        struct square square = square_at(y, block, &place, TILE);
        if (is_whole(&square, TILE))
            put_result(planes + i * LANES, plane, &square, y->width, &finish, true);
        else
            put_result(planes + i * LANES, plane, &square, y->width, &finish, false);
    }
}

/* --- Weights --- */

/* The tap at row r, column c, of 8 outputs. */
INLINE __m256 take_tap(const struct winograd_weights *weights, const float *from, int r, int c,
                       bool adjacent)
{
    int tap = r * KERNEL + c;
    from += (weights->turned ? KERNEL * KERNEL - 1 - tap : tap) * weights->tap_stride;
    if (adjacent)
        return _mm256_loadu_ps(from);
    __m256i lanes = _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
                                       _mm256_set1_epi32((int)weights->lane_stride));
    return _mm256_i32gather_ps(from, lanes, 4);
}

INLINE void take_weights(const struct winograd_weights *weights, int64_t out, float *planes,
                         size_t plane, bool adjacent)
{
    for (int64_t i = 0; i < weights->in; i++)
        for (int half = 0; half < WINOGRAD_OUTPUTS; half += LANES) {
            const float *from = weights->data + out * weights->out_stride +
                                half * weights->lane_stride + i * weights->in_stride;
            __m256 kernel[KERNEL][KERNEL], square[PATCH][PATCH];
#pragma GCC unroll 3
            for (int r = 0; r < KERNEL; r++)
#pragma GCC unroll 3
                for (int c = 0; c < KERNEL; c++)
                    kernel[r][c] = take_tap(weights, from, r, c, adjacent);
            transform_weights(kernel, square);
            store_planes(square, planes + i * WINOGRAD_OUTPUTS + half, plane);
        }
}

void winograd_take_weights(const struct winograd_weights *weights, int64_t out, float *planes,
                           size_t plane)
{
    if (weights->lane_stride == 1)
        take_weights(weights, out, planes, plane, true);
    else
        take_weights(weights, out, planes, plane, false);
}

void winograd_put_weights(const float *planes, size_t plane, const struct winograd_weights *weights,
                          int64_t out)
{
    for (int64_t i = 0; i < weights->in; i++) {
        __m256 square[PATCH][PATCH], kernel[KERNEL][KERNEL];
        load_planes(planes + i * LANES, plane, square);
        transform_kernel(square, kernel);
        float *to = weights->data + out * weights->out_stride + i * weights->in_stride;
        for (int tap = 0; tap < KERNEL * KERNEL; tap++) {
            float lanes[LANES];
            _mm256_storeu_ps(lanes, kernel[tap / KERNEL][tap % KERNEL]);
            for (int lane = 0; lane < LANES; lane++)
                to[lane * weights->lane_stride + tap * weights->tap_stride] = lanes[lane];
        }
    }
}

#pragma GCC pop_options
#endif
