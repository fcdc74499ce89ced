#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "store/bundle.h"
#include "store/bundle_index.h"
#include "support/test.h"
#include "wire/proto.h"
#include "wire/table.h"

static const struct shape scalar = {.ndim = 0};

static struct bundle_writer *begin(const char *prefix)
{
    struct bundle_writer *writer = NULL;
    struct error err = {0};
    ASSERT_OK(bundle_write_begin(prefix, &writer, &err), err);
    return writer;
}

static void put(struct bundle_writer *writer, const char *name, enum dtype dtype,
                struct shape shape, const void *data)
{
    struct tensor tensor = {dtype, shape, (void *)data};
    struct error err = {0};
    ASSERT_OK(bundle_write_tensor(writer, name, &tensor, &err), err);
}

static void finish(struct bundle_writer *writer)
{
    struct error err = {0};
    ASSERT_OK(bundle_write_finish(writer, &err), err);
}

static struct bundle *open_bundle(const char *prefix)
{
    struct bundle *bundle = NULL;
    struct error err = {0};
    ASSERT_OK(bundle_open(prefix, &bundle, &err), err);
    return bundle;
}

/* The tensor is there, intact, with these numbers. */
static void expect(const struct bundle *bundle, const char *name, enum dtype dtype,
                   struct shape shape, const void *data)
{
    struct arena *arena = arena_create();
    struct tensor tensor;
    struct error err = {0};
    int index = bundle_find(bundle, name);
    ASSERT_INT(index, >=, 0);
    ASSERT_TRUE(bundle_entry(bundle, index)->unreadable == NULL);
    ASSERT_OK(tensor_create(arena, dtype, shape, &tensor, &err), err);
    ASSERT_OK(bundle_read(bundle, index, &tensor, &err), err);
    ASSERT_OK(bundle_check(bundle, index, &err), err);
    ASSERT_BYTES(tensor.data, data, tensor_bytes(&tensor));
    arena_destroy(arena);
}

static const float floats[] = {1, -2.5f, 1e-40f, 3e38f, 0, -0.0f};
static const uint8_t bytes[] = {0, 1, 127, 128, 255};
static const int32_t integers[] = {INT32_MIN, -1, INT32_MAX};
static const int64_t longs[] = {INT64_MIN, -1, INT64_MAX, 42};

/* Five tensors, names not in order. */
static void write_small(const char *prefix)
{
    struct bundle_writer *writer = begin(prefix);
    put(writer, "dense/kernel", DTYPE_F32, SHAPE(2, 3), floats);
    put(writer, "step", DTYPE_I64, scalar, &longs[3]);
    put(writer, "a", DTYPE_U8, SHAPE(5), bytes);
    put(writer, "dense/bias", DTYPE_I32, SHAPE(3, 1, 1), integers);
    put(writer, "empty", DTYPE_F32, SHAPE(2, 0), NULL);
    finish(writer);
}

static void expect_small(const struct bundle *bundle)
{
    ASSERT_INT(bundle_count(bundle), ==, 5);
    expect(bundle, "a", DTYPE_U8, SHAPE(5), bytes);
    expect(bundle, "dense/bias", DTYPE_I32, SHAPE(3, 1, 1), integers);
    expect(bundle, "dense/kernel", DTYPE_F32, SHAPE(2, 3), floats);
    expect(bundle, "empty", DTYPE_F32, SHAPE(2, 0), floats);
    expect(bundle, "step", DTYPE_I64, scalar, &longs[3]);
}

TEST(bundle, tensors_of_every_dtype_come_back)
{
    const char *prefix = test_path("every");
    write_small(prefix);
    struct bundle *bundle = open_bundle(prefix);
    expect_small(bundle);
    ASSERT_INT(bundle_find(bundle, "dense"), ==, -1);
    ASSERT_INT(bundle_find(bundle, "z"), ==, -1);
    ASSERT_INT(bundle_find(bundle, ""), ==, -1);
    for (int i = 1; i < bundle_count(bundle); i++)
        ASSERT_TRUE(strcmp(bundle_entry(bundle, i - 1)->name, bundle_entry(bundle, i)->name) < 0);
    bundle_close(bundle);
    bundle_close(NULL);
}

TEST(bundle, strings_come_back)
{
    static const struct text_view views[] = {{"a\0b", 3}, {"", 0}, {"long", 4}, {"\377", 1}};
    const char *prefix = test_path("strings");
    struct bundle_writer *writer = begin(prefix);
    struct arena *arena = arena_create();
    struct tensor tensor;
    struct error err = {0};
    put(writer, "none", DTYPE_STRING, SHAPE(0), NULL);
    put(writer, "four", DTYPE_STRING, SHAPE(2, 2), views);
    put(writer, "number", DTYPE_F32, scalar, floats);
    finish(writer);
    struct bundle *bundle = open_bundle(prefix);
    int four = bundle_find(bundle, "four"), number = bundle_find(bundle, "number");
    ASSERT_OK(bundle_check(bundle, four, &err), err);
    ASSERT_OK(bundle_read_strings(bundle, four, arena, &tensor, &err), err);
    ASSERT_INT(shape_count(&tensor.shape), ==, 4);
    for (int i = 0; i < 4; i++) {
        const struct text_view *got = (struct text_view *)tensor.data + i;
        ASSERT_INT(got->count, ==, views[i].count);
        ASSERT_BYTES(got->bytes, views[i].bytes, views[i].count);
    }
    ASSERT_OK(bundle_read_strings(bundle, bundle_find(bundle, "none"), arena, &tensor, &err), err);
    ASSERT_INT(shape_count(&tensor.shape), ==, 0);
    ASSERT_FAILS(bundle_read(bundle, four, &tensor, &err), err, ERROR_FORMAT, "it holds strings");
    ASSERT_FAILS(bundle_read_strings(bundle, number, arena, &tensor, &err), err, ERROR_FORMAT,
                 "it holds no strings");
    bundle_close(bundle);
    arena_destroy(arena);
}

TEST(bundle, may_hold_nothing)
{
    const char *prefix = test_path("nothing");
    finish(begin(prefix));
    struct bundle *bundle = open_bundle(prefix);
    ASSERT_INT(bundle_count(bundle), ==, 0);
    ASSERT_INT(bundle_find(bundle, "a"), ==, -1);
    bundle_close(bundle);
}

static void tiny_name(int i, char name[128])
{
    /* Scattered, so that neighbours share little and there are several blocks. */
    snprintf(name, 128, "%08x/of/a/network/with/rather/long/names/and/many/layers/number_%d/kernel",
             (unsigned)i * 2654435761u, i);
}

TEST(bundle, three_thousand_tensors_come_back_from_several_blocks)
{
    enum { COUNT = 3000 };
    const char *prefix = test_path("many");
    struct bundle_writer *writer = begin(prefix);
    char name[128], path[PATH_MAX];
    struct error err = {0};
    for (int i = 0; i < COUNT; i++) {
        float values[3] = {(float)i, (float)-i, 0.5f};
        tiny_name(i, name);
        put(writer, name, DTYPE_F32, SHAPE(i % 4), values);
    }
    finish(writer);
    char *index;
    size_t size;
    ASSERT_OK(bundle_index_path(prefix, path, &err), err);
    ASSERT_OK(file_read(path, 1 << 24, &index, &size, &err), err);
    ASSERT_INT(size, >, 262144); /* a block's limit */
    memory_free(index);
    struct bundle *bundle = open_bundle(prefix);
    ASSERT_INT(bundle_count(bundle), ==, COUNT);
    for (int i = 0; i < COUNT; i++) {
        float values[3] = {(float)i, (float)-i, 0.5f};
        tiny_name(i, name);
        expect(bundle, name, DTYPE_F32, SHAPE(i % 4), values);
    }
    bundle_close(bundle);
}

/* More than what is flushed at once, and pieces at every offset of the buffer. */
TEST(bundle, large_tensors_come_back)
{
    enum { LARGE = (20 << 20) + 123 };
    uint8_t *data = memory_allocate(LARGE);
    const char *prefix = test_path("large");
    for (size_t i = 0; i < LARGE; i++)
        data[i] = (uint8_t)(i * 2654435761u >> 24);
    struct bundle_writer *writer = begin(prefix);
    put(writer, "small", DTYPE_U8, SHAPE(5), data);
    put(writer, "large", DTYPE_U8, SHAPE(LARGE), data);
    put(writer, "fits", DTYPE_U8, SHAPE((1 << 20) - 128), data);
    put(writer, "piece", DTYPE_U8, SHAPE(1 << 20), data);
    put(writer, "more", DTYPE_U8, SHAPE(7, 1 << 19), data);
    finish(writer);
    struct bundle *bundle = open_bundle(prefix);
    expect(bundle, "small", DTYPE_U8, SHAPE(5), data);
    expect(bundle, "large", DTYPE_U8, SHAPE(LARGE), data);
    expect(bundle, "fits", DTYPE_U8, SHAPE((1 << 20) - 128), data);
    expect(bundle, "piece", DTYPE_U8, SHAPE(1 << 20), data);
    expect(bundle, "more", DTYPE_U8, SHAPE(7, 1 << 19), data);
    bundle_close(bundle);
    memory_free(data);
}

static void same_file(const char *theirs, const char *ours)
{
    char *a, *b;
    size_t a_bytes, b_bytes;
    struct error err = {0};
    ASSERT_OK(file_read(theirs, 1 << 24, &a, &a_bytes, &err), err);
    ASSERT_OK(file_read(ours, 1 << 24, &b, &b_bytes, &err), err);
    ASSERT_INT(b_bytes, ==, a_bytes);
    ASSERT_BYTES(b, a, a_bytes);
    memory_free(a);
    memory_free(b);
}

/* The entry that lies at `offset` or first behind it, or -1. */
static int next_in_file(const struct bundle *bundle, uint64_t offset)
{
    int next = -1;
    for (int i = 0; i < bundle_count(bundle); i++)
        if (bundle_entry(bundle, i)->offset >= offset &&
            (next < 0 || bundle_entry(bundle, i)->offset < bundle_entry(bundle, next)->offset))
            next = i;
    return next;
}

static void copy_tensor(const struct bundle *from, int index, struct bundle_writer *to)
{
    const struct bundle_entry *entry = bundle_entry(from, index);
    struct arena *arena = arena_create();
    struct tensor tensor;
    struct error err = {0};
    if (entry->dtype == DTYPE_STRING) {
        ASSERT_OK(bundle_read_strings(from, index, arena, &tensor, &err), err);
    } else {
        ASSERT_OK(tensor_create(arena, entry->dtype, entry->shape, &tensor, &err), err);
        ASSERT_OK(bundle_read(from, index, &tensor, &err), err);
    }
    ASSERT_OK(bundle_write_tensor(to, entry->name, &tensor, &err), err);
    arena_destroy(arena);
}

/* Tensors in the order in which they lie in the file. */
static void copy_bundle(const char *from, const char *to)
{
    struct bundle *bundle = open_bundle(from);
    struct bundle_writer *writer = begin(to);
    uint64_t offset = 0;
    for (int i = 0; i < bundle_count(bundle); i++) {
        int next = next_in_file(bundle, offset);
        ASSERT_INT(next, >=, 0);
        copy_tensor(bundle, next, writer);
        offset = bundle_entry(bundle, next)->offset + bundle_entry(bundle, next)->bytes;
    }
    bundle_close(bundle);
    finish(writer);
}

/* The prefix of test data, by the name of its index. */
static const char *data_prefix(const char *index_name)
{
    static char prefix[PATH_MAX];
    snprintf(prefix, sizeof prefix, "%s", test_data(index_name));
    prefix[strlen(prefix) - strlen(".index")] = '\0';
    return prefix;
}

TEST(bundle, has_the_bytes_that_tensorflow_writes)
{
    static const char *const names[] = {"tf-made/checkpoint-v2/ckpt.index",
                                        "tf-made/savedmodel-dense/1/variables/variables.index"};
    for (int i = 0; i < 2; i++) {
        const char *theirs = data_prefix(names[i]), *ours = test_path("ours%d", i);
        char a[PATH_MAX], b[PATH_MAX];
        struct error err = {0};
        copy_bundle(theirs, ours);
        ASSERT_OK(bundle_index_path(theirs, a, &err), err);
        ASSERT_OK(bundle_index_path(ours, b, &err), err);
        same_file(a, b);
        ASSERT_OK(bundle_data_path(theirs, 0, 1, a, &err), err);
        ASSERT_OK(bundle_data_path(ours, 0, 1, b, &err), err);
        same_file(a, b);
    }
}

TEST(bundle, what_we_have_no_dtype_for_is_listed_and_checked_but_not_read)
{
    struct error err = {0};
    struct tensor tensor = {.dtype = DTYPE_F32};
    struct bundle *bundle = open_bundle(data_prefix("tf-made/checkpoint-v1/model.ckpt-1234.index"));
    int half = bundle_find(bundle, "half");
    ASSERT_TEXT(bundle_entry(bundle, half)->unreadable, "its dtype is float16");
    ASSERT_OK(bundle_check(bundle, half, &err), err);
    ASSERT_FAILS(bundle_read(bundle, half, &tensor, &err), err, ERROR_FORMAT,
                 "'half' cannot be read: its dtype is float16");
    bundle_close(bundle);
}

/* ---- damage ---- */

/* Opens and reads all: 0 when everything is as it was, else -1 with the failure. */
static int try_small(const char *prefix, struct error *err)
{
    struct bundle *bundle;
    if (bundle_open(prefix, &bundle, err) < 0)
        return -1;
    int status = 0;
    for (int i = 0; i < bundle_count(bundle) && status == 0; i++)
        status = bundle_check(bundle, i, err);
    if (status == 0)
        expect_small(bundle);
    bundle_close(bundle);
    return status;
}

/* `of` as it is but for `length` of its bytes and one bit. */
static void rewrite(const char *path, const char *of, size_t length, size_t at, int bit)
{
    char *copy = memory_allocate(length);
    memcpy(copy, of, length);
    if (at < length)
        copy[at] ^= (char)(1 << bit);
    unlink(path);
    FILE *file = fopen(path, "wb");
    ASSERT_TRUE(file != NULL && fwrite(copy, 1, length, file) == length);
    fclose(file);
    memory_free(copy);
}

static int damage_everywhere(const char *prefix, const char *path)
{
    struct error err = {0};
    char *whole;
    size_t size;
    int seen = 0;
    ASSERT_OK(file_read(path, 1 << 20, &whole, &size, &err), err);
    for (size_t at = 0; at < size; at++) {
        for (int bit = 0; bit < 8; bit += 3) {
            rewrite(path, whole, size, at, bit);
            err = (struct error){0};
            if (try_small(prefix, &err) < 0) {
                ASSERT_INT(err.code, ==, ERROR_FORMAT);
                ASSERT_CONTAINS(err.message, path);
                seen++;
            }
        }
    }
    for (size_t length = 0; length < size; length++) {
        rewrite(path, whole, length, length, 0);
        ASSERT_FAILS(try_small(prefix, &err), err, ERROR_FORMAT, path);
    }
    rewrite(path, whole, size, size, 0);
    ASSERT_OK(try_small(prefix, &err), err);
    memory_free(whole);
    return seen;
}

TEST(bundle, damage_and_cuts_anywhere_are_seen_or_do_no_harm)
{
    char path[PATH_MAX];
    const char *prefix = test_path("damaged");
    struct error err = {0};
    write_small(prefix);
    ASSERT_OK(bundle_data_path(prefix, 0, 1, path, &err), err);
    ASSERT_INT(damage_everywhere(prefix, path), ==, 3 * (24 + 8 + 5 + 12));
    ASSERT_OK(bundle_index_path(prefix, path, &err), err);
    ASSERT_INT(damage_everywhere(prefix, path), >, 3 * 100);
}

TEST(bundle, a_damaged_tensor_is_named_with_its_place_and_the_others_are_read)
{
    char path[PATH_MAX];
    const char *prefix = test_path("one");
    struct error err = {0};
    float values[6];
    struct tensor tensor = {DTYPE_F32, SHAPE(2, 3), values};
    write_small(prefix);
    ASSERT_OK(bundle_data_path(prefix, 0, 1, path, &err), err);
    FILE *file = fopen(path, "r+b");
    ASSERT_TRUE(file && fseek(file, 7, SEEK_SET) == 0 && fputc('!', file) == '!');
    fclose(file);
    struct bundle *bundle = open_bundle(prefix);
    ASSERT_FAILS(bundle_read(bundle, bundle_find(bundle, "dense/kernel"), &tensor, &err), err,
                 ERROR_FORMAT,
                 "one.data-00000-of-00001: 'dense/kernel' at offset 0 (24 bytes) is damaged");
    expect(bundle, "a", DTYPE_U8, SHAPE(5), bytes);
    bundle_close(bundle);
}

TEST(bundle, damaged_strings_are_seen)
{
    static const struct text_view views[] = {{"abc", 3}, {"", 0}, {"long", 4}};
    const char *prefix = test_path("bad_strings");
    char path[PATH_MAX], *whole;
    size_t size;
    struct error err = {0};
    struct bundle_writer *writer = begin(prefix);
    put(writer, "s", DTYPE_STRING, SHAPE(3), views);
    finish(writer);
    ASSERT_OK(bundle_data_path(prefix, 0, 1, path, &err), err);
    ASSERT_OK(file_read(path, 1 << 20, &whole, &size, &err), err);
    for (size_t at = 0; at < size; at++) {
        for (int bit = 0; bit < 8; bit++) {
            rewrite(path, whole, size, at, bit);
            struct bundle *bundle = open_bundle(prefix);
            ASSERT_FAILS(bundle_check(bundle, 0, &err), err, ERROR_FORMAT, "'s' at offset 0");
            bundle_close(bundle);
        }
    }
    memory_free(whole);
}

/* ---- what cannot be ---- */

TEST(bundle, a_tensor_of_another_shape_or_dtype_is_refused_with_both)
{
    const char *prefix = test_path("shape");
    float values[6];
    struct tensor tensor = {DTYPE_F32, SHAPE(3, 2), values};
    struct error err = {0};
    write_small(prefix);
    struct bundle *bundle = open_bundle(prefix);
    int index = bundle_find(bundle, "dense/kernel");
    ASSERT_FAILS(bundle_read(bundle, index, &tensor, &err), err, ERROR_FORMAT,
                 "'dense/kernel' is float32 [2, 3], not float32 [3, 2]");
    tensor = (struct tensor){DTYPE_I32, SHAPE(2, 3), values};
    ASSERT_FAILS(bundle_read(bundle, index, &tensor, &err), err, ERROR_FORMAT, "not int32 [2, 3]");
    bundle_close(bundle);
}

TEST(bundle, names_come_once_and_are_not_empty)
{
    struct error err = {0};
    struct tensor tensor = {DTYPE_U8, SHAPE(5), (void *)bytes};
    struct bundle_writer *writer = begin(test_path("twice"));
    put(writer, "a", DTYPE_U8, SHAPE(5), bytes);
    put(writer, "b", DTYPE_U8, SHAPE(5), bytes);
    put(writer, "a", DTYPE_U8, SHAPE(5), bytes);
    ASSERT_FAILS(bundle_write_finish(writer, &err), err, ERROR_FORMAT,
                 "twice.index: the tensor 'a' was written twice");
    writer = begin(test_path("unnamed"));
    ASSERT_FAILS(bundle_write_tensor(writer, "", &tensor, &err), err, ERROR_FORMAT, "needs a name");
    bundle_write_drop(writer);
    writer = begin(test_path("batch"));
    tensor.shape.dim[0] = SHAPE_BATCH;
    ASSERT_FAILS(bundle_write_tensor(writer, "x", &tensor, &err), err, ERROR_FORMAT,
                 "unfinished shape [N]");
    bundle_write_drop(writer);
    bundle_write_drop(NULL);
}

TEST(bundle, files_that_are_there_are_not_overwritten)
{
    const char *prefix = test_path("there");
    struct bundle_writer *writer = NULL;
    struct error err = {0};
    write_small(prefix);
    ASSERT_FAILS(bundle_write_begin(prefix, &writer, &err), err, ERROR_IO,
                 "there.data-00000-of-00001: File exists");
    struct bundle *bundle = open_bundle(prefix);
    expect_small(bundle);
    bundle_close(bundle);
    ASSERT_FAILS(bundle_write_begin(test_path("no/such"), &writer, &err), err, ERROR_IO,
                 "No such file or directory");
}

TEST(bundle, files_that_are_missing_are_named)
{
    const char *prefix = test_path("missing");
    char path[PATH_MAX];
    struct bundle *bundle;
    struct error err = {0};
    ASSERT_FAILS(bundle_open(prefix, &bundle, &err), err, ERROR_IO, "missing.index: No such file");
    write_small(prefix);
    ASSERT_OK(bundle_data_path(prefix, 0, 1, path, &err), err);
    unlink(path);
    ASSERT_FAILS(bundle_open(prefix, &bundle, &err), err, ERROR_IO,
                 "missing.data-00000-of-00001: No such file");
}

/* A file-size limit fails as a full disk does, in the middle of a write. */
TEST(bundle, a_disk_that_is_full_is_reported_with_file_and_offset)
{
    enum { LIMIT = (3 << 20) + 4096, BYTES = 8 << 20 };
    struct rlimit before, limited;
    struct error err = {0};
    uint8_t *data = memory_allocate(BYTES);
    struct tensor tensor = {DTYPE_U8, SHAPE(BYTES), data};
    struct bundle_writer *writer = begin(test_path("full"));
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    limited = (struct rlimit){LIMIT, before.rlim_max};
    ASSERT_INT(setrlimit(RLIMIT_FSIZE, &limited), ==, 0);
    int status = bundle_write_tensor(writer, "x", &tensor, &err);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    ASSERT_INT(status, ==, -1);
    ASSERT_INT(err.code, ==, ERROR_IO);
    ASSERT_CONTAINS(err.message, "full.data-00000-of-00001: writing at offset 3149824: ");
    ASSERT_FAILS(bundle_write_tensor(writer, "y", &tensor, &err), err, ERROR_IO,
                 "an earlier write failed");
    ASSERT_FAILS(bundle_write_finish(writer, &err), err, ERROR_IO, "an earlier write failed");
    memory_free(data);
}

/* ---- indexes made by hand, with checksums that fit ---- */

struct hand_made {
    uint64_t shards, endianness, min_consumer;
    uint64_t data_type, offset, size, shard;
    int dims, slices;
    uint64_t dim;
    const char *complaint; /* NULL: it is fine */
};

static void put_by_hand(const struct hand_made *made, struct strbuf *header, struct strbuf *entry)
{
    proto_add_varint(header, 1, made->shards);
    proto_add_varint(header, 2, made->endianness);
    size_t version = proto_begin(header, 3);
    proto_add_varint(header, 1, 1);
    proto_add_varint(header, 2, made->min_consumer);
    proto_end(header, version);
    proto_add_varint(entry, 1, made->data_type);
    size_t shape = proto_begin(entry, 2);
    for (int i = 0; i < made->dims; i++) {
        size_t dim = proto_begin(entry, 2);
        proto_add_varint(entry, 1, made->dim);
        proto_end(entry, dim);
    }
    proto_end(entry, shape);
    proto_add_varint(entry, 3, made->shard);
    proto_add_varint(entry, 4, made->offset);
    proto_add_varint(entry, 5, made->size);
    for (int i = 0; i < made->slices; i++)
        proto_add_bytes(entry, 7, "", 0);
}

/* What bundle_index_read says of an index with the entry "x" and a slice's entry. */
static int read_by_hand(const struct hand_made *made, struct arena *arena, struct bundle_index *out,
                        struct error *err)
{
    struct table_writer writer;
    struct strbuf table, header, entry;
    strbuf_init(&table);
    strbuf_init(&header);
    strbuf_init(&entry);
    put_by_hand(made, &header, &entry);
    table_writer_init(&writer, &table);
    ASSERT_OK(table_writer_add(&writer, "", 0, header.text, header.length, err), *err);
    ASSERT_OK(table_writer_add(&writer, "\0x", 2, "", 0, err), *err);
    ASSERT_OK(table_writer_add(&writer, "x", 1, entry.text, entry.length, err), *err);
    ASSERT_OK(table_writer_finish(&writer, err), *err);
    int status = bundle_index_read("i", table.text, table.length, arena, out, err);
    table_writer_release(&writer);
    strbuf_release(&table);
    strbuf_release(&header);
    strbuf_release(&entry);
    return status;
}

TEST(bundle, an_index_that_lies_is_refused)
{
    static const struct hand_made cases[] = {
        {.shards = 1, .data_type = 1, .dims = 2, .dim = 3, .size = 36},
        {.shards = 3, .shard = 2, .data_type = 9, .size = 8},
        {.shards = 0, .complaint = "i: has 0 data files"},
        {.shards = 100000, .complaint = "has 100000 data files; from 1 to 256"},
        {.shards = 1, .endianness = 1, .complaint = "big-endian"},
        {.shards = 1, .min_consumer = 2, .complaint = "needs a reader of version 2"},
        {.shards = 1,
         .data_type = 1,
         .dims = 2,
         .dim = 3,
         .size = 35,
         .complaint = "i: 'x': float32 of shape [3, 3] cannot have 35 bytes"},
        {.shards = 1,
         .data_type = 1,
         .dims = 6,
         .dim = 1 << 16,
         .size = 0,
         .complaint = "cannot have 0 bytes"},
        {.shards = 1, .data_type = 1, .dims = 1, .dim = UINT64_MAX, .complaint = "is negative"},
        {.shards = 1,
         .data_type = 7,
         .dims = 1,
         .dim = 10,
         .size = 9,
         .complaint = "cannot have 9"},
        {.shards = 1, .data_type = 1, .size = 4, .shard = 1, .complaint = "is in data file 1 of 1"},
        {.shards = 1,
         .data_type = 1,
         .size = 4,
         .offset = UINT64_MAX - 3,
         .complaint = "cannot lie at offset"},
        {.shards = 1,
         .data_type = 1,
         .size = 4,
         .offset = INT64_MAX,
         .complaint = "cannot lie at offset"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena *arena = arena_create();
        struct bundle_index index;
        struct error err = {0};
        if (cases[i].complaint) {
            ASSERT_FAILS(read_by_hand(&cases[i], arena, &index, &err), err, ERROR_FORMAT,
                         cases[i].complaint);
        } else {
            ASSERT_OK(read_by_hand(&cases[i], arena, &index, &err), err);
            ASSERT_INT(index.count, ==, 1);
            ASSERT_TRUE(index.entries[0].unreadable == NULL);
        }
        arena_destroy(arena);
    }
}

TEST(bundle, an_entry_that_is_no_tensor_of_ours_says_why)
{
    static const struct {
        struct hand_made made;
        const char *reason;
        enum bundle_form form;
    } cases[] = {
        {{.shards = 1, .data_type = 2, .size = 8}, "its dtype is float64", BUNDLE_NUMBERS},
        {{.shards = 1, .data_type = 12, .size = 8},
         "its dtype is TensorFlow's number 12",
         BUNDLE_NUMBERS},
        {{.shards = 1, .data_type = 999, .size = 8},
         "its dtype is TensorFlow's number 999",
         BUNDLE_NUMBERS},
        {{.shards = 1, .data_type = 21, .size = 8}, "its dtype is variant", BUNDLE_UNCHECKED},
        {{.shards = 1, .data_type = 1, .dims = 9, .dim = 1, .size = 4},
         "it has 9 dimensions, and 6 are the most",
         BUNDLE_NUMBERS},
        {{.shards = 1, .data_type = 1, .dims = 1, .dim = 7, .slices = 2},
         "it is kept in slices, as a partitioned variable",
         BUNDLE_UNCHECKED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena *arena = arena_create();
        struct bundle_index index;
        struct error err = {0};
        ASSERT_OK(read_by_hand(&cases[i].made, arena, &index, &err), err);
        ASSERT_TEXT(index.entries[0].unreadable, cases[i].reason);
        ASSERT_INT(index.entries[0].form, ==, cases[i].form);
        arena_destroy(arena);
    }
}

TEST(bundle, a_table_of_something_else_is_refused)
{
    struct table_writer writer;
    struct strbuf table;
    struct bundle_index index;
    struct arena *arena = arena_create();
    struct error err = {0};
    strbuf_init(&table);
    table_writer_init(&writer, &table);
    ASSERT_OK(table_writer_add(&writer, "key", 3, "value", 5, &err), err);
    ASSERT_OK(table_writer_finish(&writer, &err), err);
    table_writer_release(&writer);
    ASSERT_FAILS(bundle_index_read("i", table.text, table.length, arena, &index, &err), err,
                 ERROR_FORMAT, "i: is a table, but not of a tensor bundle");
    strbuf_clear(&table);
    table_writer_init(&writer, &table);
    ASSERT_OK(table_writer_finish(&writer, &err), err);
    table_writer_release(&writer);
    ASSERT_FAILS(bundle_index_read("i", table.text, table.length, arena, &index, &err), err,
                 ERROR_FORMAT, "i: is an empty table");
    strbuf_release(&table);
    arena_destroy(arena);
}
