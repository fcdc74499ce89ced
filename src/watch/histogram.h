/* How numbers are distributed, in the buckets that TensorFlow's summaries have: they grow by a tenth
 * from 1e-12 to 1e20, on both sides of zero. */
#ifndef WATCH_HISTOGRAM_H
#define WATCH_HISTOGRAM_H

#include <stddef.h>

struct error;
struct histogram;
struct strbuf;

int histogram_create(struct histogram **out, struct error *err);
void histogram_destroy(struct histogram *histogram); /* accepts NULL */
void histogram_clear(struct histogram *histogram);
/* Numbers that are not finite are left out. */
void histogram_add(struct histogram *histogram, const float *values, size_t count);
/* Appends the fields of a HistogramProto; runs of empty buckets become one, as TensorFlow does. */
void histogram_encode(const struct histogram *histogram, struct strbuf *out);

#endif
