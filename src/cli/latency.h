/* How long things took, without keeping each: buckets that grow by a 128th of a power of two, so that
 * any quantile is right to 0.6 %. Plain storage; all zero is empty. */
#ifndef CLI_LATENCY_H
#define CLI_LATENCY_H

#include <stdint.h>

enum { LATENCY_PER_DOUBLING = 128, LATENCY_BUCKETS = 33 * LATENCY_PER_DOUBLING };

struct latency {
    uint64_t count;
    double sum, least, greatest; /* seconds */
    uint32_t buckets[LATENCY_BUCKETS];
};

void latency_add(struct latency *latency, double seconds);
void latency_merge(struct latency *into, const struct latency *from);
/* Seconds that this part of all, 0 to 1, took at most; exact for 0 and 1, NAN when there is none. */
double latency_quantile(const struct latency *latency, double part);
double latency_mean(const struct latency *latency); /* NAN when there is none */
/* How many took more than `from` and at most `to` seconds, to the nearest bucket. */
uint64_t latency_between(const struct latency *latency, double from, double to);

#endif
