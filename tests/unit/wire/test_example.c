#include "wire/example.h"

#include <math.h>

#include "base/files.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "support/test.h"
#include "wire/proto.h"
#include "wire/tfrecord.h"

enum { FILE_LIMIT = 1 << 24 };

TEST(example, what_is_written_is_read)
{
    struct strbuf out;
    struct error err = {0};
    strbuf_init(&out);
    strbuf_add(&out, "left over");
    const int64_t integers[] = {1, -1, INT64_MIN, INT64_MAX, 300};
    const float floats[] = {0.5f, -0.0f, NAN, INFINITY};
    char large[40000];
    memset(large, 'x', sizeof large);
    example_begin(&out);
    example_add_int64(&out, "integers", integers, 5);
    example_add_float(&out, "floats", floats, 4);
    example_add_bytes(&out, "large", large, sizeof large);
    example_add_bytes(&out, "empty", "", 0);
    example_add_float(&out, "none", NULL, 0);
    example_add_int64(&out, "none of these", NULL, 0);
    example_end(&out);
    ASSERT_FALSE(out.failed);

    const char *const names[] = {"large", "integers", "absent",       "floats",
                                 "empty", "none",     "none of these"};
    struct feature found[7];
    ASSERT_OK(example_find(out.text, out.length, names, 7, found, &err), err);
    const uint8_t *bytes;
    size_t count;
    ASSERT_TRUE(feature_bytes(&found[0], 0, &bytes, &count));
    ASSERT_INT(count, ==, sizeof large);
    ASSERT_BYTES(bytes, large, count);
    ASSERT_FALSE(feature_bytes(&found[0], 1, &bytes, &count));
    ASSERT_INT(feature_count(&found[1]), ==, 5);
    for (int i = 0; i < 5; i++) {
        int64_t value;
        ASSERT_TRUE(feature_int64(&found[1], i, &value));
        ASSERT_INT(value, ==, integers[i]);
        ASSERT_FALSE(feature_bytes(&found[1], i, &bytes, &count));
    }
    int64_t value;
    ASSERT_FALSE(feature_int64(&found[1], 5, &value));
    ASSERT_FALSE(feature_int64(&found[1], -1, &value));
    ASSERT_INT(found[2].kind, ==, FEATURE_NONE);
    ASSERT_INT(feature_count(&found[2]), ==, 0);
    ASSERT_INT(feature_count(&found[3]), ==, 4);
    for (int i = 0; i < 4; i++) {
        float number;
        ASSERT_TRUE(feature_float(&found[3], i, &number));
        ASSERT_BYTES(&number, &floats[i], 4);
    }
    ASSERT_TRUE(feature_bytes(&found[4], 0, &bytes, &count));
    ASSERT_INT(count, ==, 0);
    ASSERT_INT(found[5].kind, ==, FEATURE_FLOAT);
    ASSERT_INT(feature_count(&found[5]), ==, 0);
    ASSERT_INT(found[6].kind, ==, FEATURE_INT64);
    strbuf_release(&out);
}

static void add_entry(struct strbuf *out, const char *name, int64_t value)
{
    size_t entry = proto_begin(out, 1);
    proto_add_text(out, 1, name);
    size_t feature = proto_begin(out, 2), list = proto_begin(out, 3);
    proto_add_varint(out, 1, (uint64_t)value); /* not packed: old writers do this */
    proto_end(out, list);
    proto_end(out, feature);
    proto_end(out, entry);
}

TEST(example, the_last_of_a_name_counts_and_unpacked_lists_are_read)
{
    struct strbuf out;
    struct error err = {0};
    strbuf_init(&out);
    size_t features = proto_begin(&out, 1);
    add_entry(&out, "a", 1);
    proto_add_varint(&out, 9, 5); /* a field nobody knows */
    add_entry(&out, "ab", 2);
    add_entry(&out, "a", -3);
    proto_end(&out, features);
    const char *const names[] = {"a", "ab", ""};
    struct feature found[3];
    int64_t value;
    ASSERT_OK(example_find(out.text, out.length, names, 3, found, &err), err);
    ASSERT_TRUE(feature_int64(&found[0], 0, &value));
    ASSERT_INT(value, ==, -3);
    ASSERT_TRUE(feature_int64(&found[1], 0, &value));
    ASSERT_INT(value, ==, 2);
    ASSERT_INT(found[2].kind, ==, FEATURE_NONE);
    strbuf_release(&out);
}

TEST(example, a_message_cut_anywhere_is_read_inside_its_bytes_or_refused)
{
    struct strbuf out;
    const int64_t integers[] = {1, 300, 70000};
    const float floats[] = {1, 2};
    strbuf_init(&out);
    example_begin(&out);
    example_add_int64(&out, "i", integers, 3);
    example_add_float(&out, "f", floats, 2);
    example_add_bytes(&out, "b", "bytes", 5);
    example_end(&out);
    const char *const names[] = {"i", "f", "b"};
    for (size_t cut = 1; cut < out.length; cut++) {
        struct error err = {0};
        struct feature found[3];
        char *copy = memory_allocate(cut);
        memcpy(copy, out.text, cut);
        ASSERT_FAILS(example_find(copy, cut, names, 3, found, &err), err, ERROR_FORMAT, "offset ");
        memory_free(copy);
    }
    strbuf_release(&out);
}

TEST(example, lists_that_lie_are_refused_when_found)
{
    struct error err = {0};
    struct feature found;
    const char *const name = "a";
    /* A float list of five packed bytes; an integer list whose varint does not end; a bytes list
     * of integers. */
    const char float_list[] =
        "\x0a\x10\x0a\x0e\x0a\x01\x61\x12\x09\x12\x07\x0a\x05\x01\x02\x03\x04\x05";
    const char open_list[] = "\x0a\x0d\x0a\x0b\x0a\x01\x61\x12\x06\x1a\x04\x0a\x02\x81\x81";
    const char wrong_kind[] = "\x0a\x0b\x0a\x09\x0a\x01\x61\x12\x04\x0a\x02\x08\x05";
    ASSERT_FAILS(example_find(float_list, sizeof float_list - 1, &name, 1, &found, &err), err,
                 ERROR_FORMAT, "ends inside one");
    ASSERT_FAILS(example_find(open_list, sizeof open_list - 1, &name, 1, &found, &err), err,
                 ERROR_FORMAT, "ends inside one");
    ASSERT_FAILS(example_find(wrong_kind, sizeof wrong_kind - 1, &name, 1, &found, &err), err,
                 ERROR_FORMAT, "is a varint, not bytes");
}

/* ---- what a real TensorFlow wrote ---- */

struct bytes {
    char *data;
    size_t count;
};

static struct bytes read_whole(const char *path)
{
    struct bytes file;
    struct error err = {0};
    ASSERT_OK(file_read(path, FILE_LIMIT, &file.data, &file.count, &err), err);
    return file;
}

static void compare_shard(const char *name, const char *manifest, int expected)
{
    struct error err = {0};
    struct bytes file = read_whole(test_data(name));
    const char *listed = strstr(manifest, strrchr(name, '/') + 1);
    uint64_t offset = 0;
    struct tfrecord record;
    int count = 0;
    ASSERT_TRUE(listed != NULL);
    while (tfrecord_next(name, (uint8_t *)file.data, file.count, &offset, &record, &err) > 0) {
        const char *const names[] = {"image/class/label", "image/filename", "image/encoded",
                                     "image/object/bbox/xmin"};
        struct feature found[4];
        int64_t label;
        const uint8_t *text;
        size_t bytes;
        ASSERT_OK(example_find(record.data, record.bytes, names, 4, found, &err), err);
        ASSERT_TRUE(feature_int64(&found[0], 0, &label));
        listed = strstr(listed, "\"file\": \"") + 9;
        ASSERT_TRUE(feature_bytes(&found[1], 0, &text, &bytes));
        ASSERT_BYTES(text, listed, bytes);
        listed = strstr(listed, "\"label\": ") + 9;
        ASSERT_INT(label, ==, strtol(listed, NULL, 10));
        ASSERT_TRUE(feature_bytes(&found[2], 0, &text, &bytes));
        ASSERT_BYTES(text, "\xff\xd8", 2);
        ASSERT_INT(feature_count(&found[3]), ==, 0);
        count++;
    }
    if (err.code)
        FAIL("%s", err.message);
    ASSERT_INT(count, ==, expected);
    memory_free(file.data);
}

TEST(example, the_imagenet_records_of_tensorflow_are_what_their_manifest_says)
{
    struct bytes manifest = read_whole(test_data("tf-made/imagenet-tfrecord/manifest.json"));
    compare_shard("tf-made/imagenet-tfrecord/train-00000-of-00002", manifest.data, 60);
    compare_shard("tf-made/imagenet-tfrecord/train-00001-of-00002", manifest.data, 60);
    compare_shard("tf-made/imagenet-tfrecord/validation-00000-of-00001", manifest.data, 30);
    memory_free(manifest.data);
}

struct totals {
    int features, floats, integers;
};

static int count_feature(void *context, const char *name, size_t name_bytes,
                         const struct feature *feature)
{
    struct totals *totals = context;
    ASSERT_TRUE(name_bytes > 0 && name != NULL);
    ASSERT_INT(feature_count(feature), ==, 1);
    totals->features++;
    totals->floats += feature->kind == FEATURE_FLOAT;
    totals->integers += feature->kind == FEATURE_INT64;
    return 0;
}

TEST(example, the_criteo_records_of_another_writer_are_read)
{
    static const struct {
        const char *name;
        int records;
    } files[] = {{"criteo/criteo_sample.tr.tfrecords", 160},
                 {"criteo/criteo_sample.te.tfrecords", 40}};
    for (int i = 0; i < 2; i++) {
        struct bytes file = read_whole(test_data(files[i].name));
        struct error err = {0};
        uint64_t offset = 0;
        struct tfrecord record;
        int count = 0;
        while (tfrecord_next("criteo", (uint8_t *)file.data, file.count, &offset, &record, &err) >
               0) {
            struct totals totals = {0};
            ASSERT_OK(example_walk(record.data, record.bytes, count_feature, &totals, &err), err);
            ASSERT_INT(totals.features, ==, 40);
            ASSERT_INT(totals.floats + totals.integers, ==, 40);
            count++;
        }
        ASSERT_INT(count, ==, files[i].records);
        memory_free(file.data);
    }
}
