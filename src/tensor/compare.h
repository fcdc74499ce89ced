/* How far two arrays are apart, for tests and for `checkpoint diff`. */
#ifndef TENSOR_COMPARE_H
#define TENSOR_COMPARE_H

#include <stddef.h>

struct difference {
    double largest;       /* |a - b| */
    double largest_value; /* |b|, the scale of what was expected */
    double relative;      /* largest / largest_value; 0 when both are 0 */
    size_t index;         /* where the largest is */
    size_t not_finite;    /* elements of `a` that are NaN or infinite */
};

struct difference compare_floats(const float *a, const float *b, size_t count);

#endif
