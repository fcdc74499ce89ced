/* tf.Example messages: whatever the bytes, values that lie inside them or an error. */
#include <assert.h>

#include "base/error.h"
#include "wire/example.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

struct message {
    const uint8_t *bytes;
    size_t count;
};

static volatile uint8_t sum;

static void check_inside(const struct message *message, const uint8_t *at, size_t count)
{
    if (count == 0)
        return;
    assert(at >= message->bytes && at + count <= message->bytes + message->count);
    sum = (uint8_t)(sum + at[0] + at[count - 1]);
}

/* Asks for every value, and for one more, by all three functions. */
static int check_feature(void *context, const char *name, size_t name_bytes,
                         const struct feature *feature)
{
    const struct message *message = context;
    check_inside(message, (const uint8_t *)name, name_bytes);
    int64_t values = feature_count(feature);
    assert(values >= 0);
    for (int64_t i = 0; i <= values; i += i < 20 ? 1 : values / 4 + 1) {
        const uint8_t *at;
        size_t count;
        int64_t integer;
        float number;
        bool there = i < values;
        bool is_bytes = feature_bytes(feature, i, &at, &count);
        assert(is_bytes == (there && feature->kind == FEATURE_BYTES));
        if (is_bytes)
            check_inside(message, at, count);
        assert(feature_int64(feature, i, &integer) == (there && feature->kind == FEATURE_INT64));
        assert(feature_float(feature, i, &number) == (there && feature->kind == FEATURE_FLOAT));
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const char *const names[] = {"image/encoded", "image/class/label", ""};
    struct message message = {bytes, count};
    struct feature found[3];
    struct error err = {0};
    int walked = example_walk(bytes, count, check_feature, &message, &err);
    assert(walked == 0 || (err.code == ERROR_FORMAT && err.message[0]));
    assert(example_find(bytes, count, names, 3, found, NULL) == walked);
    for (int i = 0; walked == 0 && i < 3; i++)
        check_feature(&message, names[i], 0, &found[i]);
    return 0;
}
