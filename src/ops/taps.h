/* A convolution's tap is a 1x1 convolution with the pixels of x that meet it. */
#ifndef OPS_TAPS_H
#define OPS_TAPS_H

#include "exec/dnn.h"
#include "ops/f32x8.h"

#if F32X8
F32X8_BEGIN

/* Rows of y. */
struct tap_rows {
    int64_t first, count;
};

/* The pixels of one block of channels of x, 8 or 16, that meet tap (row, column) for some rows of y, in
 * their order, [rows][width of y][lanes]; zero where there are none. */
INLINE void tap_copy(const struct dnn_conv *conv, const float *x, int64_t row, int64_t column,
                     struct tap_rows rows, int lanes, float *to)
{
    int64_t height = conv->src.dim[2], width = conv->src.dim[3];
    int64_t from = row * conv->dilation[0] - conv->pad_before[0] + rows.first * conv->stride[0];
    int64_t left = column * conv->dilation[1] - conv->pad_before[1];
    for (int64_t r = 0; r < rows.count; r++, from += conv->stride[0]) {
        int64_t c = left;
        for (int64_t i = 0; i < conv->dst.dim[3]; i++, c += conv->stride[1], to += lanes) {
            bool inside = from >= 0 && from < height && c >= 0 && c < width;
            const float *pixel = x + (from * width + c) * lanes;
            for (int lane = 0; lane < lanes; lane += 8)
                f32x8_store(to + lane, inside ? f32x8_load(pixel + lane) : f32x8_zero());
        }
    }
}

F32X8_END
#endif

#endif
