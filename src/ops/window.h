/* Sliding windows: what convolution and pooling share. */
#ifndef OPS_WINDOW_H
#define OPS_WINDOW_H

#include <lockstep/model.h>
#include <stdint.h>

struct error;

/* One axis of a window that slides over a picture. */
struct window {
    int kernel, stride, dilation;
    enum padding padding;
    int pad_before, pad_after; /* after window_resolve: the real numbers of cells */
};

/* Settles the padding for a picture of `size` cells and gives the number of window positions.
 * Fails when the window does not fit. */
int window_resolve(struct window *window, int64_t size, int64_t *out, struct error *err);

#endif
