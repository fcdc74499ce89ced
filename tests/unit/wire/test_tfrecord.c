#include "wire/tfrecord.h"

#include <unistd.h>
#include <zlib.h>

#include "base/files.h"
#include "base/memory.h"
#include "support/test.h"
#include "wire/crc32c.h"
#include "wire/gzip.h"

enum { FILE_LIMIT = 1 << 24 };

static const char *const records[] = {"", "a", "two words", "0123456789abcdef0123456789abcdef"};
enum { RECORDS = sizeof records / sizeof records[0] };

struct bytes {
    char *data;
    size_t count;
};

static const char *write_records(const char *name, enum tfrecord_packing packing)
{
    struct error err = {0};
    const char *path = test_path("%s", name);
    struct tfrecord_writer *writer;
    ASSERT_OK(tfrecord_writer_create(path, packing, &writer, &err), err);
    for (int i = 0; i < RECORDS; i++)
        ASSERT_OK(tfrecord_writer_add(writer, records[i], strlen(records[i]), &err), err);
    ASSERT_TRUE(access(path, F_OK) != 0);
    ASSERT_OK(tfrecord_writer_finish(writer, &err), err);
    tfrecord_writer_destroy(writer);
    return path;
}

static struct bytes read_whole(const char *path)
{
    struct bytes file;
    struct error err = {0};
    ASSERT_OK(file_read(path, FILE_LIMIT, &file.data, &file.count, &err), err);
    return file;
}

static int count_records(const char *data, size_t count, struct error *err)
{
    uint64_t offset = 0;
    struct tfrecord record;
    int found = 0, more;
    while ((more = tfrecord_next("file", (const uint8_t *)data, count, &offset, &record, err)) > 0)
        found++;
    return more < 0 ? -1 : found;
}

static void expect_records(const char *data, size_t count)
{
    uint64_t offset = 0;
    struct error err = {0};
    struct tfrecord record;
    for (int i = 0; i < RECORDS; i++) {
        uint64_t before = offset;
        int more = tfrecord_next("file", (const uint8_t *)data, count, &offset, &record, &err);
        if (more != 1)
            FAIL("record %d: %s", i, err.message);
        ASSERT_INT(record.offset, ==, before);
        ASSERT_INT(record.bytes, ==, strlen(records[i]));
        ASSERT_BYTES(record.data, records[i], record.bytes);
    }
    ASSERT_INT(tfrecord_next("file", (const uint8_t *)data, count, &offset, &record, &err), ==, 0);
}

TEST(tfrecord, what_is_written_is_read)
{
    struct bytes file = read_whole(write_records("plain", TFRECORD_PLAIN));
    ASSERT_INT(tfrecord_packing_of(file.data, file.count), ==, TFRECORD_PLAIN);
    expect_records(file.data, file.count);
    memory_free(file.data);
}

TEST(tfrecord, gzip_and_zlib_files_unpack_to_the_same)
{
    struct error err = {0};
    struct bytes gzip = read_whole(write_records("gzip", TFRECORD_GZIP)), plain;
    ASSERT_INT(tfrecord_packing_of(gzip.data, gzip.count), ==, TFRECORD_GZIP);
    ASSERT_OK(
        gzip_unpack("gzip", gzip.data, gzip.count, FILE_LIMIT, &plain.data, &plain.count, &err),
        err);
    expect_records(plain.data, plain.count);
    struct bytes zlib = read_whole(write_records("zlib", TFRECORD_ZLIB));
    ASSERT_INT(tfrecord_packing_of(zlib.data, zlib.count), ==, TFRECORD_ZLIB);
    Bytef unpacked[1024];
    uLongf unpacked_bytes = sizeof unpacked;
    ASSERT_INT(uncompress(unpacked, &unpacked_bytes, (Bytef *)zlib.data, zlib.count), ==, Z_OK);
    ASSERT_INT(unpacked_bytes, ==, plain.count);
    ASSERT_BYTES(unpacked, plain.data, plain.count);
    memory_free(gzip.data);
    memory_free(plain.data);
    memory_free(zlib.data);
}

/* Lengths whose first two bytes are those of gzip (1f 8b) and zlib (78 9c). */
TEST(tfrecord, a_length_that_looks_packed_is_still_plain)
{
    static const uint64_t lengths[] = {0x8b1f, 0x9c78};
    struct error err = {0};
    char *data = memory_allocate(0x9c78);
    for (int i = 0; i < 2; i++) {
        struct tfrecord_writer *writer;
        const char *path = test_path("looks%d", i);
        ASSERT_OK(tfrecord_writer_create(path, TFRECORD_PLAIN, &writer, &err), err);
        ASSERT_OK(tfrecord_writer_add(writer, data, lengths[i], &err), err);
        ASSERT_OK(tfrecord_writer_finish(writer, &err), err);
        tfrecord_writer_destroy(writer);
        struct bytes file = read_whole(path);
        ASSERT_INT(tfrecord_packing_of(file.data, file.count), ==, TFRECORD_PLAIN);
        memory_free(file.data);
    }
    memory_free(data);
}

/* Every bit of a file belongs to a length, its sum, data or its sum: none may change unseen. */
TEST(tfrecord, every_flipped_bit_is_found_and_named_with_its_record)
{
    struct bytes file = read_whole(write_records("flip", TFRECORD_PLAIN));
    for (size_t bit = 0; bit < 8 * file.count; bit++) {
        struct error err = {0};
        file.data[bit / 8] ^= (char)(1 << bit % 8);
        if (count_records(file.data, file.count, &err) >= 0)
            FAIL("bit %zu was not missed", bit);
        ASSERT_INT(err.code, ==, ERROR_FORMAT);
        ASSERT_CONTAINS(err.message, "file: ");
        ASSERT_CONTAINS(err.message, "at offset ");
        file.data[bit / 8] ^= (char)(1 << bit % 8);
    }
    memory_free(file.data);
}

TEST(tfrecord, a_file_cut_anywhere_but_between_records_is_refused)
{
    struct bytes file = read_whole(write_records("cut", TFRECORD_PLAIN));
    size_t ends[RECORDS + 1] = {0};
    for (int i = 0; i < RECORDS; i++)
        ends[i + 1] = ends[i] + TFRECORD_HEADER_BYTES + strlen(records[i]) + TFRECORD_FOOTER_BYTES;
    ASSERT_INT(ends[RECORDS], ==, file.count);
    int whole = 0;
    for (size_t cut = 0; cut <= file.count; cut++) {
        struct error err = {0};
        /* In its own block, so that a sanitizer sees a read behind the end. */
        char *copy = memory_allocate(cut);
        memcpy(copy, file.data, cut);
        int found = count_records(copy, cut, &err);
        memory_free(copy);
        if (cut == ends[whole]) {
            ASSERT_INT(found, ==, whole++);
            continue;
        }
        ASSERT_INT(found, ==, -1);
        ASSERT_CONTAINS(err.message, "ends at offset");
    }
    ASSERT_INT(whole, ==, RECORDS + 1);
    memory_free(file.data);
}

/* A length near 2^64 whose sum is right must not wrap around. */
TEST(tfrecord, a_huge_length_does_not_overflow)
{
    uint8_t file[TFRECORD_HEADER_BYTES + TFRECORD_FOOTER_BYTES + 8] = {0};
    for (uint64_t less = 0; less < 40; less++) {
        uint64_t length = UINT64_MAX - less;
        for (int i = 0; i < 8; i++)
            file[i] = (uint8_t)(length >> 8 * i);
        uint32_t sum = crc32c_mask(crc32c(0, file, 8));
        for (int i = 0; i < 4; i++)
            file[8 + i] = (uint8_t)(sum >> 8 * i);
        struct error err = {0};
        ASSERT_INT(count_records((char *)file, sizeof file, &err), ==, -1);
        ASSERT_CONTAINS(err.message, "inside the record");
    }
}

TEST(tfrecord, large_records_pass_through_the_buffer)
{
    enum { LARGE = 3000000 };
    struct error err = {0};
    char *data = memory_allocate(LARGE);
    for (int i = 0; i < LARGE; i++)
        data[i] = (char)(i * 31 >> 3);
    for (int packing = TFRECORD_PLAIN; packing <= TFRECORD_GZIP; packing++) {
        const char *path = test_path("large%d", packing);
        struct tfrecord_writer *writer;
        ASSERT_OK(tfrecord_writer_create(path, (enum tfrecord_packing)packing, &writer, &err), err);
        ASSERT_OK(tfrecord_writer_add(writer, "first", 5, &err), err);
        ASSERT_OK(tfrecord_writer_add(writer, data, LARGE, &err), err);
        ASSERT_OK(tfrecord_writer_add(writer, "last", 4, &err), err);
        ASSERT_OK(tfrecord_writer_finish(writer, &err), err);
        tfrecord_writer_destroy(writer);
        struct bytes file = read_whole(path);
        if (packing == TFRECORD_GZIP) {
            struct bytes packed = file;
            ASSERT_OK(gzip_unpack("large", packed.data, packed.count, FILE_LIMIT, &file.data,
                                  &file.count, &err),
                      err);
            memory_free(packed.data);
        }
        ASSERT_INT(count_records(file.data, file.count, &err), ==, 3);
        ASSERT_BYTES(file.data + 16 + 5 + TFRECORD_HEADER_BYTES, data, LARGE);
        memory_free(file.data);
    }
    memory_free(data);
}

TEST(tfrecord, an_unfinished_file_leaves_nothing)
{
    struct error err = {0};
    struct tfrecord_writer *writer;
    const char *path = test_path("unfinished");
    ASSERT_OK(tfrecord_writer_create(path, TFRECORD_ZLIB, &writer, &err), err);
    ASSERT_OK(tfrecord_writer_add(writer, "data", 4, &err), err);
    tfrecord_writer_destroy(writer);
    ASSERT_TRUE(access(path, F_OK) != 0);
    ASSERT_FAILS(tfrecord_writer_create(test_path("no/such/folder"), TFRECORD_PLAIN, &writer, &err),
                 err, ERROR_IO, "No such file");
    tfrecord_writer_destroy(NULL);
}

TEST(tfrecord, nothing_can_be_added_after_the_end)
{
    struct error err = {0};
    struct tfrecord_writer *writer;
    ASSERT_OK(tfrecord_writer_create(test_path("ended"), TFRECORD_PLAIN, &writer, &err), err);
    ASSERT_OK(tfrecord_writer_finish(writer, &err), err);
    ASSERT_FAILS(tfrecord_writer_add(writer, "x", 1, &err), err, ERROR_IO, "earlier write");
    tfrecord_writer_destroy(writer);
}
