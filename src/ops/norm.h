/* Batch norm's inner loops, over one segment: the elements of one example in one block of
 * channels, [spatial][lanes] with the lanes next to each other. Written by hand because oneDNN
 * 2.6 cannot add a residual on the way (docs/performance.md has the figures). */
#ifndef OPS_NORM_H
#define OPS_NORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NORM_MAX_GRADIENTS = 3 };

struct norm_segment {
    size_t spatial;
    int lanes;
    bool stream; /* write the result, which begins with a cache line, past the caches */
};

/* A mask has one bit per element, set where the ReLU let it through. */
struct norm_kernels {
    const char *name;
    bool (*fits)(int lanes);
    /* Adds the sums of (x - pivot) and (x - pivot)^2 of each lane. */
    void (*sum)(const struct norm_segment *segment, const float *x, const float *pivot,
                double *sums, double *squares);
    /* y = (x - mean) * factor + shift (+ residual), then the ReLU; residual and mask may be NULL. */
    void (*apply)(const struct norm_segment *segment, const float *x, const float *residual,
                  const float *mean, const float *factor, const float *shift, bool relu, float *y,
                  uint8_t *mask);
    /* g = masked sum of the gradients (mask NULL: all); adds the sums of g and g * (x - mean) of
     * each lane. Writes g to `out` unless that is NULL; `out` may be one of the gradients. */
    void (*reduce)(const struct norm_segment *segment, float *const *gradients, int count,
                   const uint8_t *mask, const float *x, const float *mean, float *out, double *sums,
                   double *products);
    /* dx = g * a + (x - mean) * b + c, with g as above; dx may be one of the gradients. */
    void (*propagate)(const struct norm_segment *segment, float *const *gradients, int count,
                      const uint8_t *mask, const float *x, const float *mean, const float *a,
                      const float *b, const float *c, float *dx);
};

extern const struct norm_kernels norm_kernels_avx512;   /* whole registers of 16 lanes */
extern const struct norm_kernels norm_kernels_avx2;     /* whole registers of 8 lanes */
extern const struct norm_kernels norm_kernels_portable; /* any lanes */

#endif
