/* Bytes of pixels to the numbers a network takes: bilinear resize, mirror, mean and scale in one
 * pass over the result. */
#ifndef DATA_RESAMPLE_H
#define DATA_RESAMPLE_H

#include "data/pixels.h"

struct picture_numbers;

/* Where one result lies along an axis: between places `first` and `first + 1`, `weight` of the
 * latter. Never needs a place that is not there, unless with weight 0. */
struct tap {
    int first;
    float weight;
};
/* Result i lies at origin + (skipped + i) * step. */
struct line {
    float origin, step;
    int skipped;
};
/* Results beyond the ends of the axis are moved into 0 .. places - 1. */
void taps_fill(struct tap *taps, int count, struct line line, int places);

/* The two loops, for one kind of processor. A row is `count` pixels of four floats, the last of
 * which means nothing. */
struct resample_kernels {
    const char *name;
    /* Pixels of `in` between which the taps lie, as a row. */
    void (*across)(const uint8_t *in, const struct tap *taps, int count, float *row);
    /* out[3 * count] = (upper + (lower - upper) * weight - mean) * scale. */
    void (*down)(const float *upper, const float *lower, float weight, int count,
                 const struct picture_numbers *numbers, float *out);
};
extern const struct resample_kernels resample_portable;
/* The fastest for this processor; all of a family give the same bits. */
const struct resample_kernels *resample_fastest(void);

/* Floats of the two rows that `resample` keeps. */
size_t resample_row_floats(int width);

/* out[height][width][3] from the taps along both axes; the sums are TensorFlow's resize_bilinear,
 * in its order. `rows` has room for 2 * resample_row_floats(width). */
void resample(const struct resample_kernels *kernels, const struct pixels *in,
              const struct tap *across, int width, const struct tap *down, int height,
              const struct picture_numbers *numbers, float *rows, float *out);

#endif
