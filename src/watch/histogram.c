#include "watch/histogram.h"

#include <float.h>
#include <stdint.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "wire/proto.h"

enum {
    MAX_LIMITS = 1600,
    CELLS = 1 << 16, /* by the upper half of a float's bits: sign, exponent, 7 bits of the rest */
    CELL_BITS = 16,
    EXPONENT_CELLS = 0x7f80, /* all set: not finite */
};

struct histogram {
    int limit_count;
    double limits[MAX_LIMITS]; /* bucket b holds values in [limits[b - 1], limits[b]) */
    double counts[MAX_LIMITS];
    double minimum, maximum, number, sum, sum_of_squares;
    /* The bucket of each cell's least value. A cell spans less than one hundredth, a bucket a tenth:
     * a value lies in this bucket or the next. */
    uint16_t first[CELLS];
};

static void fill_limits(struct histogram *histogram)
{
    double positive[MAX_LIMITS / 2];
    int count = 0;
    for (double limit = 1e-12; limit < 1e20; limit *= 1.1)
        positive[count++] = limit;
    positive[count++] = DBL_MAX;
    double *limits = histogram->limits;
    for (int i = 0; i < count; i++) {
        limits[count - 1 - i] = -positive[i];
        limits[count + 1 + i] = positive[i];
    }
    limits[count] = 0;
    histogram->limit_count = 2 * count + 1;
}

static int find_bucket(const struct histogram *histogram, double value)
{
    int low = 0, high = histogram->limit_count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (histogram->limits[middle] > value)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void fill_cells(struct histogram *histogram)
{
    for (uint32_t cell = 0; cell < CELLS; cell++) {
        if ((cell & EXPONENT_CELLS) == EXPONENT_CELLS)
            continue;
        uint32_t bits = cell << CELL_BITS;
        if (bits >> 31) /* of a negative cell the least is the largest in size */
            bits |= (1U << CELL_BITS) - 1;
        histogram->first[cell] = (uint16_t)find_bucket(histogram, (double)proto_float(bits));
    }
}

int histogram_create(struct histogram **out, struct error *err)
{
    struct histogram *histogram = memory_allocate(sizeof *histogram);
    if (!histogram)
        return error_set(err, ERROR_MEMORY, "no memory for histograms");
    fill_limits(histogram);
    fill_cells(histogram);
    histogram_clear(histogram);
    *out = histogram;
    return 0;
}

void histogram_destroy(struct histogram *histogram)
{
    memory_free(histogram);
}

void histogram_clear(struct histogram *histogram)
{
    memset(histogram->counts, 0, sizeof histogram->counts);
    histogram->minimum = DBL_MAX;
    histogram->maximum = -DBL_MAX;
    histogram->number = histogram->sum = histogram->sum_of_squares = 0;
}

void histogram_add(struct histogram *histogram, const float *values, size_t count)
{
    double minimum = histogram->minimum, maximum = histogram->maximum;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        uint32_t cell = bits >> CELL_BITS;
        if ((cell & EXPONENT_CELLS) == EXPONENT_CELLS)
            continue;
        double value = (double)values[i];
        int bucket = histogram->first[cell];
        while (histogram->limits[bucket] <= value)
            bucket++;
        histogram->counts[bucket]++;
        minimum = value < minimum ? value : minimum;
        maximum = value > maximum ? value : maximum;
        histogram->number++;
        histogram->sum += value;
        histogram->sum_of_squares += value * value;
    }
    histogram->minimum = minimum;
    histogram->maximum = maximum;
}

static void add_double(struct strbuf *out, uint32_t number, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (number)
        proto_add_fixed64(out, number, bits);
    else
        proto_put_fixed64(out, bits);
}

/* The last bucket of the run of empty ones that begins with `bucket`, or itself. */
static int end_of_run(const struct histogram *histogram, int bucket)
{
    if (histogram->counts[bucket] > 0)
        return bucket;
    while (bucket + 1 < histogram->limit_count && histogram->counts[bucket + 1] <= 0)
        bucket++;
    return bucket;
}

static void add_list(const struct histogram *histogram, struct strbuf *out, uint32_t number,
                     const double *values)
{
    size_t list = proto_begin(out, number);
    for (int b = 0; b < histogram->limit_count; b++) {
        b = end_of_run(histogram, b);
        add_double(out, 0, values[b]);
    }
    proto_end(out, list);
}

void histogram_encode(const struct histogram *histogram, struct strbuf *out)
{
    bool empty = histogram->number == 0;
    add_double(out, 1, empty ? 0 : histogram->minimum);
    add_double(out, 2, empty ? 0 : histogram->maximum);
    add_double(out, 3, histogram->number);
    add_double(out, 4, histogram->sum);
    add_double(out, 5, histogram->sum_of_squares);
    add_list(histogram, out, 6, histogram->limits);
    add_list(histogram, out, 7, histogram->counts);
}
