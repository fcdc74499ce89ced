#include "wire/proto.h"

#include <math.h>

#include "base/memory.h"
#include "base/strbuf.h"
#include "support/test.h"

TEST(proto, every_kind_of_field_comes_back)
{
    struct strbuf out;
    struct error err = {0};
    strbuf_init(&out);
    proto_add_varint(&out, 1, UINT64_MAX);
    proto_add_fixed32(&out, 2, 0xdeadbeef);
    proto_add_fixed64(&out, 3, 0x0123456789abcdef);
    proto_add_float(&out, 4, NAN);
    proto_add_text(&out, (1 << 29) - 1, "text");
    struct proto_reader reader;
    struct proto_field field;
    proto_open(&reader, out.text, out.length);
    ASSERT_INT(proto_next(&reader, &field, &err), ==, 1);
    ASSERT_TRUE(field.number == 1 && field.wire == PROTO_VARINT && field.value == UINT64_MAX);
    ASSERT_INT(proto_unzigzag(field.value), ==, INT64_MIN);
    ASSERT_INT(proto_next(&reader, &field, &err), ==, 1);
    ASSERT_TRUE(field.number == 2 && field.wire == PROTO_FIXED32 && field.value == 0xdeadbeef);
    ASSERT_INT(proto_next(&reader, &field, &err), ==, 1);
    ASSERT_TRUE(field.wire == PROTO_FIXED64 && field.value == 0x0123456789abcdef);
    ASSERT_INT(proto_next(&reader, &field, &err), ==, 1);
    ASSERT_TRUE(isnan(proto_float((uint32_t)field.value)));
    ASSERT_FAILS(proto_expect(&reader, &field, PROTO_VARINT, &err), err, ERROR_FORMAT,
                 "field 4 is 32 bits, not a varint");
    ASSERT_INT(proto_next(&reader, &field, &err), ==, 1);
    ASSERT_INT(field.number, ==, (1 << 29) - 1);
    ASSERT_INT(field.count, ==, 4);
    ASSERT_BYTES(field.bytes, "text", 4);
    ASSERT_INT(proto_next(&reader, &field, &err), ==, 0);
    ASSERT_NUMBER(proto_double(0x3ff8000000000000), ==, 1.5);
    strbuf_release(&out);
}

/* Lengths of one, two and three bytes, inside each other. */
TEST(proto, nested_messages_get_the_shortest_length)
{
    static const size_t sizes[] = {0, 127, 128, 16383, 16384, 100000};
    char *content = memory_allocate(100000);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct strbuf nested, flat, inner;
        strbuf_init(&nested);
        strbuf_init(&flat);
        strbuf_init(&inner);
        size_t first = proto_begin(&nested, 1), second = proto_begin(&nested, 2);
        proto_add_bytes(&nested, 3, content, sizes[i]);
        proto_end(&nested, second);
        proto_end(&nested, first);
        struct strbuf innermost;
        strbuf_init(&innermost);
        proto_add_bytes(&innermost, 3, content, sizes[i]);
        proto_add_bytes(&inner, 2, innermost.text, innermost.length);
        proto_add_bytes(&flat, 1, inner.text, inner.length);
        ASSERT_INT(nested.length, ==, flat.length);
        ASSERT_BYTES(nested.text, flat.text, flat.length);
        strbuf_release(&innermost);
        strbuf_release(&nested);
        strbuf_release(&flat);
        strbuf_release(&inner);
    }
    memory_free(content);
}

TEST(proto, nesting_has_a_limit)
{
    struct strbuf out;
    struct error err = {0};
    size_t starts[PROTO_MAX_DEPTH + 1];
    strbuf_init(&out);
    for (int i = 0; i <= PROTO_MAX_DEPTH; i++)
        starts[i] = proto_begin(&out, 1);
    for (int i = PROTO_MAX_DEPTH; i >= 0; i--)
        proto_end(&out, starts[i]);
    struct proto_reader reader, inner;
    struct proto_field field;
    proto_open(&reader, out.text, out.length);
    for (int i = 0; i < PROTO_MAX_DEPTH; i++) {
        ASSERT_INT(proto_next(&reader, &field, &err), ==, 1);
        ASSERT_OK(proto_enter(&reader, &field, &inner, &err), err);
        reader = inner;
    }
    ASSERT_INT(proto_next(&reader, &field, &err), ==, 1);
    ASSERT_FAILS(proto_enter(&reader, &field, &inner, &err), err, ERROR_FORMAT, "deeper than 100");
    strbuf_release(&out);
}

static void expect_refused(const char *bytes, size_t count, const char *part)
{
    struct proto_reader reader;
    struct proto_field field;
    struct error err;
    proto_open(&reader, bytes, count);
    ASSERT_FAILS(proto_next(&reader, &field, &err), err, ERROR_FORMAT, part);
}

TEST(proto, what_is_no_field_is_refused_with_its_offset)
{
    expect_refused("\x0a\x05"
                   "1234",
                   6, "offset 1: field 1 claims 5 bytes");
    expect_refused("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11,
                   "18446744073709551615 bytes");
    expect_refused("\x0a", 1, "a length that does not end");
    expect_refused("\x80", 1, "a field's tag that does not end");
    expect_refused("\x00\x01", 2, "0 is no field number");
    expect_refused("\x0b\x0c", 2, "wire type 3");
    expect_refused("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, "the number of field 1");
    expect_refused("\x0d\x01\x02\x03", 4, "the number of field 1 is cut off");
    expect_refused("\x09\x01\x02\x03\x04\x05\x06\x07", 8, "the number of field 1 is cut off");
    expect_refused("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10, "is no field number");
}

TEST(proto, an_empty_message_has_no_fields)
{
    struct proto_reader reader;
    struct proto_field field;
    proto_open(&reader, NULL, 0);
    ASSERT_INT(proto_next(&reader, &field, NULL), ==, 0);
}
