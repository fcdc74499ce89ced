/* Dense layers' products in registers of 16 floats: 32 outputs by up to twelve rows are 24 sums, two
 * weights and a broadcast, 27 of AVX-512's 32 registers. Few rows have several sums for each result, lest
 * each product waits for the one before it. */
#include "ops/dense_rows.h"
#include "ops/f32x16.h"

#if F32X16

enum { ROWS = 12, MOST_SUMS = 24 };

F32X16_BEGIN

/* Sums that are under way at the same time hide how long a product takes: four cycles, two at a time. */
INLINE int chains_for(int rows, int panels)
{
    int results = rows * panels;
    return results >= 8 ? 1 : results >= 4 ? 2 : 4;
}

INLINE void put(const struct dense_piece *piece, f32x16 sum, int64_t at, int panel)
{
    float *y = piece->y + at + panel * DENSE_PANEL;
    const float *to_add = piece->add ? y : piece->bias + panel * DENSE_PANEL;
    f32x16_store(y,
                 f32x16_at_least(f32x16_all(piece->least), f32x16_add(sum, f32x16_load(to_add))));
}

/* Sums of `rows` rows and `panels` panels for input `i`; the numbers are constants to the compiler. */
INLINE void add_input(f32x16 *sums, const struct dense_piece *piece, const float *x, int64_t i,
                      int rows, int panels)
{
    const float *at = piece->weights + i * DENSE_PANEL;
    f32x16 first = f32x16_keep(f32x16_load(at)), second = first;
    if (panels == 2)
        second = f32x16_keep(f32x16_load(at + piece->in * DENSE_PANEL));
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
        f32x16 value = f32x16_all_at(x + r * piece->in + i);
        sums[r * panels] = f32x16_fma(value, first, sums[r * panels]);
        if (panels == 2)
            sums[r * panels + 1] = f32x16_fma(value, second, sums[r * panels + 1]);
    }
}

INLINE void multiply(const struct dense_piece *piece, int64_t first, int rows, int panels)
{
    const int chains = chains_for(rows, panels), results = rows * panels;
    const float *x = piece->x + first * piece->in;
    f32x16 sums[MOST_SUMS];
    int64_t i = 0;
#pragma GCC unroll 24
    for (int s = 0; s < chains * results; s++)
        sums[s] = f32x16_zero();
    for (; i + chains <= piece->depth; i += chains)
#pragma GCC unroll 4
        for (int c = 0; c < chains; c++)
            add_input(sums + c * results, piece, x, i + c, rows, panels);
    for (; i < piece->depth; i++)
        add_input(sums, piece, x, i, rows, panels);
#pragma GCC unroll 24
    for (int s = 0; s < results; s++) {
        f32x16 sum = sums[s];
        if (chains > 1)
            sum = f32x16_add(sum, sums[results + s]);
        if (chains > 2)
            sum = f32x16_add(sum, f32x16_add(sums[2 * results + s], sums[3 * results + s]));
        put(piece, sum, (first + s / panels) * piece->out, s % panels);
    }
}

/* With the numbers of rows as constants. */
#define CASE(count)                                                                                \
    case count:                                                                                    \
        multiply(piece, first, count, panels);                                                     \
        break;
INLINE void multiply_some(const struct dense_piece *piece, int64_t first, int64_t rows, int panels)
{
    switch (rows) {
        CASE(1)
        CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11)
            CASE(12) default : break;
    }
}
#undef CASE

/* As equal parts as can be: 13 rows are 7 and 6, not 12 and 1. */
INLINE void multiply_all(const struct dense_piece *piece, int64_t rows, int panels)
{
    int64_t parts = (rows + ROWS - 1) / ROWS;
    for (int64_t p = 0; p < parts; p++) {
        int64_t first = p * rows / parts;
        multiply_some(piece, first, (p + 1) * rows / parts - first, panels);
    }
}

static void multiply_rows(const struct dense_piece *piece, int64_t rows)
{
    if (piece->outputs == DENSE_PANEL)
        multiply_all(piece, rows, 1);
    else
        multiply_all(piece, rows, 2);
}

F32X16_END

const struct dense_product dense_product_sixteens = {.name = "own:rows:" F32X16_NAME,
                                                     .rows = ROWS,
                                                     .outputs = DENSE_PANELS * DENSE_PANEL,
                                                     .is_here = f32x16_is_here,
                                                     .multiply = multiply_rows};

#else

const struct dense_product dense_product_sixteens = {.name = "none"};

#endif
