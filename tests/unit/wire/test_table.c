#include "base/files.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "support/test.h"
#include "wire/crc32c.h"
#include "wire/proto.h"
#include "wire/table.h"

/* What a walk gave: keys and values with their lengths, one behind the other. */
struct seen {
    struct strbuf text;
    int count;
};

static int see(void *context, const uint8_t *key, size_t key_bytes, const uint8_t *value,
               size_t value_bytes, struct error *err)
{
    struct seen *seen = context;
    (void)err;
    strbuf_addf(&seen->text, "%zu:", key_bytes);
    strbuf_add_bytes(&seen->text, key, key_bytes);
    strbuf_addf(&seen->text, "=%zu:", value_bytes);
    strbuf_add_bytes(&seen->text, value, value_bytes);
    seen->count++;
    return 0;
}

static int look(const void *bytes, size_t count, struct seen *seen, struct error *err)
{
    strbuf_clear(&seen->text);
    seen->count = 0;
    return table_walk("t", bytes, count, see, seen, err);
}

static void add(struct table_writer *writer, const char *key, const char *value)
{
    struct error err = {0};
    ASSERT_OK(table_writer_add(writer, key, strlen(key), value, strlen(value), &err), err);
}

/* A small table with shared beginnings, an empty key and a key that is the beginning of the next. */
static void make_small(struct strbuf *out)
{
    struct table_writer writer;
    struct error err = {0};
    table_writer_init(&writer, out);
    add(&writer, "", "header");
    add(&writer, "conv", "");
    add(&writer, "conv/bias", "1");
    add(&writer, "conv/kernel", "22");
    add(&writer, "\377\377", "last");
    ASSERT_OK(table_writer_finish(&writer, &err), err);
    table_writer_release(&writer);
}

TEST(table, records_come_back_in_order)
{
    struct strbuf table;
    struct seen seen = {0};
    struct error err = {0};
    strbuf_init(&table);
    strbuf_init(&seen.text);
    make_small(&table);
    ASSERT_OK(look(table.text, table.length, &seen, &err), err);
    ASSERT_TEXT(seen.text.text,
                "0:=6:header4:conv=0:9:conv/bias=1:111:conv/kernel=2:222:\377\377=4:last");
    strbuf_release(&seen.text);
    strbuf_release(&table);
}

TEST(table, may_be_empty)
{
    struct table_writer writer;
    struct strbuf table;
    struct seen seen = {0};
    struct error err = {0};
    strbuf_init(&table);
    strbuf_init(&seen.text);
    table_writer_init(&writer, &table);
    ASSERT_OK(table_writer_finish(&writer, &err), err);
    table_writer_release(&writer);
    ASSERT_OK(look(table.text, table.length, &seen, &err), err);
    ASSERT_INT(seen.count, ==, 0);
    strbuf_release(&seen.text);
    strbuf_release(&table);
}

TEST(table, has_several_blocks_when_it_is_large)
{
    enum { RECORDS = 9000, HUGE_BYTES = 600000 };
    struct table_writer writer;
    struct strbuf table, expected;
    struct seen seen = {0};
    struct error err = {0};
    char *huge = memory_allocate(HUGE_BYTES);
    strbuf_init(&table);
    strbuf_init(&expected);
    strbuf_init(&seen.text);
    table_writer_init(&writer, &table);
    for (int i = 0; i < RECORDS; i++) {
        char key[128], value[128];
        snprintf(key, sizeof key, "%06d/%08x/a_name_of_some_length", i, (unsigned)i * 2654435761u);
        snprintf(value, sizeof value, "%050d", i);
        /* One is larger than a block may be and has one of its own. */
        size_t bytes = i == RECORDS / 2 ? HUGE_BYTES : strlen(value);
        const char *from = i == RECORDS / 2 ? huge : value;
        ASSERT_OK(table_writer_add(&writer, key, strlen(key), from, bytes, &err), err);
        strbuf_addf(&expected, "%zu:%s=%zu:", strlen(key), key, bytes);
        strbuf_add_bytes(&expected, from, bytes);
    }
    ASSERT_OK(table_writer_finish(&writer, &err), err);
    table_writer_release(&writer);
    ASSERT_INT(table.length, >, HUGE_BYTES + 2 * 262144);
    ASSERT_OK(look(table.text, table.length, &seen, &err), err);
    ASSERT_INT(seen.count, ==, RECORDS);
    ASSERT_INT(seen.text.length, ==, expected.length);
    ASSERT_BYTES(seen.text.text, expected.text, expected.length);
    strbuf_release(&seen.text);
    strbuf_release(&expected);
    strbuf_release(&table);
    memory_free(huge);
}

static int copy_record(void *context, const uint8_t *key, size_t key_bytes, const uint8_t *value,
                       size_t value_bytes, struct error *err)
{
    return table_writer_add(context, key, key_bytes, value, value_bytes, err);
}

TEST(table, has_the_bytes_that_tensorflow_writes)
{
    static const char *const names[] = {"tf-made/checkpoint-v1/model.ckpt-1234.index",
                                        "tf-made/checkpoint-v2/ckpt.index"};
    for (int i = 0; i < 2; i++) {
        struct table_writer writer;
        struct strbuf table;
        struct error err = {0};
        char *theirs;
        size_t bytes;
        ASSERT_OK(file_read(test_data(names[i]), 1 << 20, &theirs, &bytes, &err), err);
        strbuf_init(&table);
        table_writer_init(&writer, &table);
        ASSERT_OK(table_walk("theirs", theirs, bytes, copy_record, &writer, &err), err);
        ASSERT_OK(table_writer_finish(&writer, &err), err);
        table_writer_release(&writer);
        ASSERT_INT(table.length, ==, bytes);
        ASSERT_BYTES(table.text, theirs, bytes);
        strbuf_release(&table);
        memory_free(theirs);
    }
}

TEST(table, keys_that_do_not_ascend_are_not_written)
{
    struct table_writer writer;
    struct strbuf table;
    struct error err = {0};
    strbuf_init(&table);
    table_writer_init(&writer, &table);
    add(&writer, "b", "");
    ASSERT_FAILS(table_writer_add(&writer, "b", 1, "", 0, &err), err, ERROR_FORMAT,
                 "key 'b' does not come behind 'b'");
    ASSERT_FAILS(table_writer_add(&writer, "", 0, "", 0, &err), err, ERROR_FORMAT,
                 "does not come behind 'b'");
    ASSERT_OK(table_writer_add(&writer, "b\0", 2, "", 0, &err), err);
    table_writer_release(&writer);
    strbuf_release(&table);
}

TEST(table, a_visitor_ends_the_walk_and_its_message_gets_the_file)
{
    struct strbuf table;
    struct error err = {0};
    struct table_writer unused;
    struct strbuf out;
    strbuf_init(&table);
    strbuf_init(&out);
    make_small(&table);
    table_writer_init(&unused, &out);
    add(&unused, "b", "");
    ASSERT_FAILS(table_walk("file.index", table.text, table.length, copy_record, &unused, &err),
                 err, ERROR_FORMAT, "file.index: a table's key");
    table_writer_release(&unused);
    strbuf_release(&out);
    strbuf_release(&table);
}

/* Only what nobody reads, the metadata block and the zeros before the magic number, may change
 * unseen. */
TEST(table, damage_anywhere_is_seen_or_does_no_harm)
{
    struct strbuf table;
    struct seen whole = {0}, seen = {0};
    struct error err = {0};
    int harmless = 0;
    strbuf_init(&table);
    strbuf_init(&whole.text);
    strbuf_init(&seen.text);
    make_small(&table);
    ASSERT_OK(look(table.text, table.length, &whole, &err), err);
    for (size_t i = 0; i < table.length; i++) {
        for (int bit = 0; bit < 8; bit++) {
            table.text[i] ^= (char)(1 << bit);
            err = (struct error){0};
            if (look(table.text, table.length, &seen, &err) == 0) {
                ASSERT_TEXT(seen.text.text, whole.text.text);
                harmless++;
            } else {
                ASSERT_INT(err.code, ==, ERROR_FORMAT);
                ASSERT_CONTAINS(err.message, "t: ");
            }
            table.text[i] ^= (char)(1 << bit);
        }
    }
    ASSERT_INT(harmless, <=, 8 * (13 + 48));
    strbuf_release(&seen.text);
    strbuf_release(&whole.text);
    strbuf_release(&table);
}

TEST(table, a_table_that_is_cut_off_is_refused_at_every_length)
{
    struct strbuf table;
    struct seen seen = {0};
    struct error err = {0};
    strbuf_init(&table);
    strbuf_init(&seen.text);
    make_small(&table);
    for (size_t length = 0; length < table.length; length++) {
        char *copy = memory_allocate(length); /* so that reading behind it is seen */
        memcpy(copy, table.text, length);
        ASSERT_FAILS(look(copy, length, &seen, &err), err, ERROR_FORMAT, "t: ");
        memory_free(copy);
    }
    strbuf_release(&seen.text);
    strbuf_release(&table);
}

/* ---- tables made by hand, with checksums that fit ---- */

static struct table_place put_block(struct strbuf *out, const char *records, size_t bytes,
                                    uint32_t restarts, char packing)
{
    struct table_place place = {out->length, bytes + 8};
    strbuf_add_bytes(out, records, bytes);
    proto_put_fixed32(out, 0);
    proto_put_fixed32(out, restarts);
    strbuf_add_char(out, packing);
    proto_put_fixed32(out, crc32c_mask(crc32c(0, out->text + place.offset, place.bytes + 1)));
    return place;
}

/* A data block of these records, named `times` times by the index. */
static void make_by_hand(struct strbuf *out, const char *records, size_t bytes, uint32_t restarts,
                         char packing, int times)
{
    strbuf_clear(out);
    put_block(out, records, bytes, restarts, packing);
    char index[64] = {0};
    size_t used = 0;
    for (int i = 0; i < times; i++) {
        const char record[] = {0, 1, 2, (char)('x' + i), 0, (char)(bytes + 8)};
        memcpy(index + used, record, sizeof record);
        used += sizeof record;
    }
    struct table_place place = put_block(out, index, used, 1, 0);
    size_t end = out->length + 40;
    proto_put_varint(out, 0);
    proto_put_varint(out, 0);
    proto_put_varint(out, place.offset);
    proto_put_varint(out, place.bytes);
    while (out->length < end)
        strbuf_add_char(out, 0);
    proto_put_fixed64(out, UINT64_C(0xdb4775248b80fb57));
}

TEST(table, lies_with_good_checksums_are_refused)
{
#define RECORDS(text) text, sizeof text - 1
    static const struct {
        const char *records;
        size_t bytes;
        uint32_t restarts;
        char packing;
        int times;
        const char *complaint;
    } cases[] = {
        {RECORDS("\1\1\1ab"), 1, 0, 1, "shares more than the key before it has"},
        {RECORDS("\0\1\1ab\2\1\1ab"), 1, 0, 1, "record at offset 5 shares more"},
        {RECORDS("\0\1\2ab"), 1, 0, 1, "longer than its block"},
        {RECORDS("\0\1\377\377\377\377\377\377\377\377\377\1a"), 1, 0, 1, "longer than its block"},
        {RECORDS("\0\1"), 1, 0, 1, "is cut off"},
        {RECORDS("\0\1\1ab\0\1\1ab"), 1, 0, 1, "does not come behind"},
        {RECORDS("\0\1\1ab"), 3, 0, 1, "no room for its list of restarts"},
        {RECORDS("\0\1\1ab"), 0xffffffff, 0, 1, "no room for its list of restarts"},
        {RECORDS("\0\1\1ab"), 1, 1, 1, "offset 0 is packed with snappy"},
        {RECORDS("\0\1\1ab"), 1, 7, 1, "packed with an unknown method"},
        {RECORDS(""), 1, 0, 2, "before the end of the last one at 13"},
    };
    struct strbuf table;
    struct seen seen = {0};
    struct error err = {0};
    strbuf_init(&table);
    strbuf_init(&seen.text);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_by_hand(&table, cases[i].records, cases[i].bytes, cases[i].restarts, cases[i].packing,
                     cases[i].times);
        ASSERT_FAILS(look(table.text, table.length, &seen, &err), err, ERROR_FORMAT,
                     cases[i].complaint);
    }
    make_by_hand(&table, RECORDS("\0\1\1ab\1\1\1cd"), 1, 0, 1);
    ASSERT_OK(look(table.text, table.length, &seen, &err), err);
    ASSERT_TEXT(seen.text.text, "1:a=1:b2:ac=1:d");
    strbuf_release(&seen.text);
    strbuf_release(&table);
}
