/* The products of served dense layers (kernel_dense_rows.c), by the registers that a processor has. */
#ifndef OPS_DENSE_ROWS_H
#define OPS_DENSE_ROWS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    DENSE_PANEL = 16, /* outputs whose weights lie next to each other */
    DENSE_PANELS = 2, /* at a time, at most */
};

/* Some outputs of all rows, from some inputs. */
struct dense_piece {
    const float *x, *weights; /* weights of the next panel are `in` * 16 behind */
    float *y;
    int64_t in, out;   /* from row to row of x and of y */
    int64_t depth;     /* inputs */
    int outputs;       /* a panel, or as many as the product takes */
    const float *bias; /* [outputs] */
    bool add;          /* to what is there, instead of the bias */
    float least;       /* 0: ReLU */
};

struct dense_product {
    const char *name;
    int rows;    /* that are one pass over the weights */
    int outputs; /* at a time */
    bool (*is_here)(void);
    void (*multiply)(const struct dense_piece *piece, int64_t rows); /* NULL: not for this family */
};

extern const struct dense_product dense_product_eights;   /* AVX2, NEON */
extern const struct dense_product dense_product_sixteens; /* AVX-512 */

#endif
