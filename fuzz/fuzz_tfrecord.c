/* TFRecord files, plain or packed: whatever the bytes, records that lie inside them or an error, and
 * the same ones whether the file comes at once or in pieces. */
#include <assert.h>

#include "base/error.h"
#include "base/memory.h"
#include "wire/crc32c.h"
#include "wire/tfrecord.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

enum { MAX_RECORDS = 4096, MAX_UNPACKED = 1 << 22 };

struct input {
    const uint8_t *bytes;
    size_t count, at, step;
};

static int next_piece(void *context, const uint8_t **bytes, size_t *count, struct error *err)
{
    struct input *input = context;
    size_t left = input->count - input->at;
    (void)err;
    *bytes = input->bytes + input->at;
    *count = left < input->step ? left : input->step;
    input->at += *count;
    return 0;
}

/* A small input may unpack to gigabytes. */
struct limited {
    struct unpacker *unpacker;
    size_t given;
};

static int next_unpacked(void *context, const uint8_t **bytes, size_t *count, struct error *err)
{
    struct limited *limited = context;
    if (unpacker_next(limited->unpacker, bytes, count, err) < 0)
        return -1;
    limited->given += *count;
    return limited->given > MAX_UNPACKED ? error_set(err, ERROR_FORMAT, "large enough") : 0;
}

struct record {
    uint64_t offset, bytes;
    bool intact;
};

struct list {
    struct record records[MAX_RECORDS];
    int count;
};

static int keep(void *context, uint64_t offset, uint64_t bytes, bool intact, struct error *err)
{
    struct list *list = context;
    if (list->count == MAX_RECORDS)
        return error_set(err, ERROR_FORMAT, "many enough");
    list->records[list->count++] = (struct record){offset, bytes, intact};
    return 0;
}

static void scan_plain(const uint8_t *bytes, size_t count)
{
    static struct list list;
    struct error err = {0}, scan_err = {0};
    struct input input = {bytes, count, 0, 1 + count / 7};
    list.count = 0;
    int status = tfrecord_scan("input", next_piece, &input, keep, &list, &scan_err);
    assert(status == 0 || scan_err.message[0]);
    uint64_t offset = 0;
    struct tfrecord record;
    for (int i = 0; i < list.count; i++) {
        int more = tfrecord_next("input", bytes, count, &offset, &record, &err);
        assert(more == (list.records[i].intact ? 1 : -1));
        if (more < 0)
            return;
        assert(record.offset == list.records[i].offset && record.bytes == list.records[i].bytes);
        assert(record.data >= bytes && record.data + record.bytes + 4 <= bytes + count);
    }
}

static void scan_packed(const uint8_t *bytes, size_t count)
{
    static struct list list;
    struct error err = {0};
    struct limited limited = {0};
    struct input input = {bytes, count, 0, 1 + count / 3};
    list.count = 0;
    if (unpacker_create("input", next_piece, &input, &limited.unpacker, &err) < 0)
        return;
    int status = tfrecord_scan("input", next_unpacked, &limited, keep, &list, &err);
    assert(status == 0 || err.message[0]);
    unpacker_destroy(limited.unpacker);
}

/* Mended sums, so that what is behind them is reached. */
static void mend(uint8_t *bytes, size_t count)
{
    for (size_t at = 0; at + 16 <= count;) {
        uint32_t sum = crc32c_mask(crc32c(0, bytes + at, 8));
        for (int i = 0; i < 4; i++)
            bytes[at + 8 + (size_t)i] = (uint8_t)(sum >> 8 * i);
        size_t length = bytes[at] | (size_t)bytes[at + 1] << 8;
        if (length > count - at - 16)
            return;
        at += 16 + length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    tfrecord_packing_of(bytes, count);
    scan_plain(bytes, count);
    scan_packed(bytes, count);
    uint8_t *copy = memory_allocate(count);
    if (count > 0)
        memcpy(copy, bytes, count);
    mend(copy, count);
    scan_plain(copy, count);
    memory_free(copy);
    return 0;
}
