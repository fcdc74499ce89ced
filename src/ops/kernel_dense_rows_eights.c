/* Dense layers' products in registers of 8 floats: 16 outputs by up to six rows. */
#include "ops/dense_rows.h"
#include "ops/product.h"

#if F32X8

enum {
    LANES = 8,
    ROWS = 6,     /* at a time */
    UNROLLED = 4, /* inputs */
};

F32X8_BEGIN

_Static_assert((int)ROWS == (int)PRODUCT_ROWS, "rows are those of a product");

/* Ends the sums of 16 outputs of one row. */
INLINE void put(const struct dense_piece *piece, f32x8 low, f32x8 high, float *y)
{
    const float *to_add = piece->add ? y : piece->bias;
    f32x8 least = f32x8_all(piece->least);
    low = f32x8_add(low, f32x8_load(to_add));
    high = f32x8_add(high, f32x8_load(to_add + LANES));
    f32x8_store(y, f32x8_at_least(least, low));
    f32x8_store(y + LANES, f32x8_at_least(least, high));
}

/* `count` rows from `first` on; the count is a constant to the compiler. */
INLINE void multiply(const struct dense_piece *piece, int64_t first, int count)
{
    const float *x = piece->x + first * piece->in, *weights = piece->weights;
    float *y = piece->y + first * piece->out;
    f32x8 sums[ROWS][2];
    int64_t i = 0;
    product_begin(sums, count);
    for (; i + UNROLLED <= piece->depth; i += UNROLLED)
        product_add(sums, count, UNROLLED, x + i, piece->in, weights + i * DENSE_PANEL,
                    DENSE_PANEL);
    for (; i < piece->depth; i++)
        product_add(sums, count, 1, x + i, piece->in, weights + i * DENSE_PANEL, DENSE_PANEL);
#pragma GCC unroll 6
    for (int r = 0; r < count; r++)
        put(piece, sums[r][0], sums[r][1], y + r * piece->out);
}

/* One row: with sums of their own for every fourth input, lest each product waits for the one before. */
static void multiply_one(const struct dense_piece *piece, int64_t row)
{
    enum { CHAINS = 4 };
    const float *x = piece->x + row * piece->in, *weights = piece->weights;
    f32x8 sums[CHAINS][2];
#pragma GCC unroll 4
    for (int c = 0; c < CHAINS; c++)
        sums[c][0] = sums[c][1] = f32x8_zero();
    int64_t i = 0;
    for (; i + CHAINS <= piece->depth; i += CHAINS)
#pragma GCC unroll 4
        for (int c = 0; c < CHAINS; c++) {
            f32x8 value = f32x8_all_at(x + i + c);
            const float *at = weights + (i + c) * DENSE_PANEL;
            sums[c][0] = f32x8_fma(value, f32x8_load(at), sums[c][0]);
            sums[c][1] = f32x8_fma(value, f32x8_load(at + LANES), sums[c][1]);
        }
    for (; i < piece->depth; i++) {
        f32x8 value = f32x8_all_at(x + i);
        sums[0][0] = f32x8_fma(value, f32x8_load(weights + i * DENSE_PANEL), sums[0][0]);
        sums[0][1] = f32x8_fma(value, f32x8_load(weights + i * DENSE_PANEL + LANES), sums[0][1]);
    }
    put(piece, f32x8_add(f32x8_add(sums[0][0], sums[1][0]), f32x8_add(sums[2][0], sums[3][0])),
        f32x8_add(f32x8_add(sums[0][1], sums[1][1]), f32x8_add(sums[2][1], sums[3][1])),
        piece->y + row * piece->out);
}

static void multiply_rows(const struct dense_piece *piece, int64_t rows)
{
    int64_t first = 0;
    for (; rows - first >= ROWS; first += ROWS)
        multiply(piece, first, ROWS);
    if (rows - first == 1)
        multiply_one(piece, first);
    else if (rows > first) {
#define MULTIPLY(count) multiply(piece, first, count)
        PRODUCT_DISPATCH(rows - first, MULTIPLY)
#undef MULTIPLY
    }
}

F32X8_END

const struct dense_product dense_product_eights = {.name = "own:rows:" F32X8_NAME,
                                                   .rows = ROWS,
                                                   .outputs = DENSE_PANEL,
                                                   .is_here = f32x8_is_here,
                                                   .multiply = multiply_rows};

#else

const struct dense_product dense_product_eights = {.name = "none"};

#endif
