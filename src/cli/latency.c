#include "cli/latency.h"

#include <math.h>

static const double smallest = 1e-6; /* seconds: the first bucket ends there */

static int bucket_of(double seconds)
{
    if (!(seconds > smallest))
        return 0;
    double place = log2(seconds / smallest) * LATENCY_PER_DOUBLING;
    return place < LATENCY_BUCKETS - 1 ? (int)place + 1 : LATENCY_BUCKETS - 1;
}

/* Where a bucket ends. */
static double bound(int bucket)
{
    return smallest * exp2((double)bucket / LATENCY_PER_DOUBLING);
}

void latency_add(struct latency *latency, double seconds)
{
    if (latency->count == 0 || seconds < latency->least)
        latency->least = seconds;
    if (seconds > latency->greatest)
        latency->greatest = seconds;
    latency->count++;
    latency->sum += seconds;
    latency->buckets[bucket_of(seconds)]++;
}

void latency_merge(struct latency *into, const struct latency *from)
{
    if (from->count == 0)
        return;
    if (into->count == 0 || from->least < into->least)
        into->least = from->least;
    if (from->greatest > into->greatest)
        into->greatest = from->greatest;
    into->count += from->count;
    into->sum += from->sum;
    for (int i = 0; i < LATENCY_BUCKETS; i++)
        into->buckets[i] += from->buckets[i];
}

double latency_quantile(const struct latency *latency, double part)
{
    if (latency->count == 0)
        return NAN;
    if (part <= 0)
        return latency->least;
    uint64_t wanted = (uint64_t)ceil(part * (double)latency->count), seen = 0;
    for (int i = 0; i < LATENCY_BUCKETS && part < 1; i++) {
        seen += latency->buckets[i];
        if (seen >= wanted && wanted < latency->count)
            return fmin(bound(i), latency->greatest);
    }
    return latency->greatest;
}

double latency_mean(const struct latency *latency)
{
    return latency->count ? latency->sum / (double)latency->count : NAN;
}

uint64_t latency_between(const struct latency *latency, double from, double to)
{
    uint64_t count = 0;
    for (int i = bucket_of(from) + 1; i <= bucket_of(to) && i < LATENCY_BUCKETS; i++)
        count += latency->buckets[i];
    return count;
}
