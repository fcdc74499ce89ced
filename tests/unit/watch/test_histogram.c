/* TensorFlow's buckets. */
#include <float.h>
#include <math.h>

#include "base/strbuf.h"
#include "support/test.h"
#include "tensor/random.h"
#include "watch/histogram.h"
#include "wire/proto.h"

enum { LISTED = 2000 };

/* A HistogramProto, read back. */
struct listed {
    double minimum, maximum, number, sum, sum_of_squares;
    double limits[LISTED], counts[LISTED];
    int limit_count, count_count;
};

static int take_list(const struct proto_reader *outer, const struct proto_field *field,
                     double *values)
{
    struct proto_reader reader;
    struct error err = {0};
    uint64_t bits;
    int count = 0;
    ASSERT_OK(proto_enter(outer, field, &reader, &err), err);
    for (; proto_take_fixed64(&reader, &bits); count++) {
        ASSERT_INT(count, <, LISTED);
        values[count] = proto_double(bits);
    }
    return count;
}

static void read_back(const struct histogram *histogram, struct listed *out)
{
    struct strbuf text;
    struct proto_reader reader;
    struct proto_field field;
    struct error err = {0};
    strbuf_init(&text);
    histogram_encode(histogram, &text);
    memset(out, 0, sizeof *out);
    proto_open(&reader, text.text, text.length);
    double *const numbers[] = {&out->minimum, &out->maximum, &out->number, &out->sum,
                               &out->sum_of_squares};
    while (proto_next(&reader, &field, &err) == 1) {
        if (field.number <= 5)
            *numbers[field.number - 1] = proto_double(field.value);
        else if (field.number == 6)
            out->limit_count = take_list(&reader, &field, out->limits);
        else
            out->count_count = take_list(&reader, &field, out->counts);
    }
    ASSERT_INT(err.code, ==, ERROR_NONE);
    strbuf_release(&text);
}

static struct histogram *create(void)
{
    struct histogram *histogram;
    struct error err = {0};
    ASSERT_OK(histogram_create(&histogram, &err), err);
    return histogram;
}

TEST(histogram, counts_each_value_between_its_limits)
{
    static struct listed listed;
    const float values[] = {-3e38F, -1, -1e-20F, -0.0F, 0, 1e-20F, 1e-12F, 0.5F, 1, 1, 3e38F};
    struct histogram *histogram = create();
    histogram_add(histogram, values, sizeof values / sizeof *values);
    read_back(histogram, &listed);
    ASSERT_INT(listed.limit_count, ==, listed.count_count);
    ASSERT_NUMBER(listed.number, ==, 11);
    ASSERT_NUMBER(listed.minimum, ==, (double)-3e38F);
    ASSERT_NUMBER(listed.maximum, ==, (double)3e38F);
    for (int b = 0; b < listed.limit_count; b++) {
        double low = b ? listed.limits[b - 1] : -DBL_MAX, expected = 0;
        for (size_t i = 0; i < sizeof values / sizeof *values; i++)
            expected += (double)values[i] >= low && (double)values[i] < listed.limits[b];
        ASSERT_NUMBER(listed.counts[b], ==, expected);
    }
    histogram_destroy(histogram);
}

/* The table that finds a bucket against the definition, for numbers of all sizes. */
TEST(histogram, finds_the_bucket_of_any_finite_number)
{
    static struct listed listed;
    struct histogram *histogram = create();
    for (uint64_t i = 0; i < 20000; i++) {
        float value = proto_float((uint32_t)random_key(7, i));
        histogram_clear(histogram);
        histogram_add(histogram, &value, 1);
        read_back(histogram, &listed);
        if (!isfinite(value)) {
            ASSERT_NUMBER(listed.number, ==, 0);
            continue;
        }
        /* Empty below, the one, empty above. */
        int b = listed.counts[0] > 0 ? 0 : 1;
        ASSERT_NUMBER(listed.counts[b], ==, 1);
        ASSERT_NUMBER((double)value, <, listed.limits[b]);
        if (b)
            ASSERT_NUMBER((double)value, >=, listed.limits[b - 1]);
        ASSERT_NUMBER(listed.limits[b] - listed.limits[b - 1], <=,
                      fabs(value) < 1e20F ? fabs((double)value) * 0.1001 + 1e-12 : DBL_MAX);
    }
    histogram_destroy(histogram);
}

TEST(histogram, of_nothing_can_be_read)
{
    static struct listed listed;
    struct histogram *histogram = create();
    read_back(histogram, &listed);
    ASSERT_INT(listed.limit_count, ==, 1);
    ASSERT_NUMBER(listed.limits[0], ==, DBL_MAX);
    ASSERT_NUMBER(listed.minimum, ==, 0);
    histogram_destroy(histogram);
}

TEST(histogram, sums_values_and_squares)
{
    static struct listed listed;
    const float values[] = {1, 2, 3, NAN, INFINITY};
    struct histogram *histogram = create();
    histogram_add(histogram, values, 5);
    read_back(histogram, &listed);
    ASSERT_NUMBER(listed.sum, ==, 6);
    ASSERT_NUMBER(listed.sum_of_squares, ==, 14);
    ASSERT_NUMBER(listed.number, ==, 3);
    histogram_destroy(histogram);
}
