/* One mean of two. */
#ifndef WATCH_MEAN_H
#define WATCH_MEAN_H

#include <stdint.h>

static inline double mean_of(double a, int64_t count_a, double b, int64_t count_b)
{
    return (a * (double)count_a + b * (double)count_b) / (double)(count_a + count_b);
}

#endif
