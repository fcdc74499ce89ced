#include "tensor/compare.h"

#include <math.h>

struct difference compare_floats(const float *a, const float *b, size_t count)
{
    struct difference result = {0};
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(a[i])) {
            result.not_finite++;
            continue;
        }
        double apart = fabs((double)a[i] - b[i]);
        /* Written so that a NaN in `b` counts as the largest difference there can be. */
        if (!(apart <= result.largest)) {
            result.largest = isnan(apart) ? INFINITY : apart;
            result.index = i;
        }
        if (fabs((double)b[i]) > result.largest_value)
            result.largest_value = fabs((double)b[i]);
    }
    if (result.largest > 0)
        result.relative = result.largest / result.largest_value;
    return result;
}
