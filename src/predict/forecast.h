/* How a measured step would scale: for a number of ranks on a network, the time of a step, what is
 * gained and what it costs. */
#ifndef PREDICT_FORECAST_H
#define PREDICT_FORECAST_H

#include <stdint.h>

#include "predict/step.h"

struct forecast_question {
    const struct step_work *work;
    int batch; /* examples of one rank in a step */
    struct network network;
    struct step_sharing sharing;
    int per_host;
    bool half;
    const size_t *bucket_sizes; /* of which the fastest is taken; a size of 0: one bucket */
    int bucket_count;           /* at least 1 */
    double spread; /* deviation of a rank's computation, relative; all wait for the slowest */
    uint64_t seed; /* of the draws */
};

struct forecast {
    int ranks, hosts;
    size_t bucket_bytes;
    struct step_times times;
    double efficiency; /* against as many single ranks that need not talk */
    double examples_per_second;
};

void forecast(const struct forecast_question *question, int ranks, struct forecast *out);

/* The slowest of so many computations, as a multiple of their mean: the mean over some rounds of
 * the greatest of `ranks` draws from a normal distribution. */
double forecast_slowest(int ranks, double spread, uint64_t seed);

#endif
