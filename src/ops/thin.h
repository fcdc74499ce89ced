/* A 3x3 convolution of pictures with one channel (kernel_conv_thin.c): its loops over one block of output
 * channels of one example, of which there is a set for each width of registers. */
#ifndef OPS_THIN_H
#define OPS_THIN_H

#include <stdbool.h>
#include <stdint.h>

struct op_run;

enum { THIN_KERNEL = 3, THIN_TAPS = 9, THIN_SUMS = THIN_TAPS + 1 /* the bias */ };

struct thin_state {
    const struct thin_kernels *kernels;
    int64_t batch, height, width; /* of x */
    int64_t blocks;               /* of output channels */
    int64_t rows, columns;        /* of y */
    bool bias, relu, pool, training;
};

struct thin_kernels {
    const char *name;
    int lanes; /* channels of a block */
    bool (*is_here)(void);
    /* Block `index` of [batch, blocks]. With a pool, two sets of bits a tile go to the workspace: the row
     * and the column of each lane's largest. */
    void (*forward)(const struct op_run *run, int64_t index);
    /* Its share of the gradients, to `partial` [batch, blocks, taps and bias, lanes]. */
    void (*gradient)(const struct op_run *run, int64_t index, float *partial);
};

extern const struct thin_kernels thin_kernels_avx2;   /* 8 lanes */
extern const struct thin_kernels thin_kernels_avx512; /* 16 lanes */

#endif
