#include "wire/crc32c.h"

#include "support/test.h"
#include "tensor/random.h"

/* RFC 3720, B.4; and the usual check value. */
TEST(crc32c, gives_the_known_values)
{
    uint8_t bytes[32] = {0};
    ASSERT_INT(crc32c(0, bytes, 32), ==, 0x8a9136aa);
    ASSERT_INT(crc32c_portable(0, bytes, 32), ==, 0x8a9136aa);
    memset(bytes, 0xff, 32);
    ASSERT_INT(crc32c(0, bytes, 32), ==, 0x62a8ab43);
    for (int i = 0; i < 32; i++)
        bytes[i] = (uint8_t)i;
    ASSERT_INT(crc32c(0, bytes, 32), ==, 0x46dd794e);
    for (int i = 0; i < 32; i++)
        bytes[i] = (uint8_t)(31 - i);
    ASSERT_INT(crc32c(0, bytes, 32), ==, 0x113fdb5c);
    ASSERT_INT(crc32c(0, "123456789", 9), ==, 0xe3069283);
    ASSERT_INT(crc32c_portable(0, "123456789", 9), ==, 0xe3069283);
    ASSERT_INT(crc32c(0, NULL, 0), ==, 0);
    ASSERT_INT(crc32c_mask(0), ==, 0xa282ead8);
}

static uint32_t bit_by_bit(uint32_t crc, const uint8_t *bytes, size_t count)
{
    crc = ~crc;
    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    }
    return ~crc;
}

TEST(crc32c, is_the_same_for_every_length_and_alignment_whatever_computes_it)
{
    static uint8_t bytes[20000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)random_at(7, i);
    uint32_t slow = 0;
    for (size_t count = 0; count <= 14000; count++) {
        if (count > 0)
            slow = bit_by_bit(slow, bytes + 3 + count - 1, 1);
        if (crc32c(0, bytes + 3, count) != slow || crc32c_portable(0, bytes + 3, count) != slow)
            FAIL("length %zu", count);
    }
    for (size_t start = 0; start < 16; start++)
        ASSERT_INT(crc32c(5, bytes + start, 19000), ==, bit_by_bit(5, bytes + start, 19000));
}

TEST(crc32c, goes_on_where_it_stopped)
{
    static uint8_t bytes[9000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)random_at(8, i);
    uint32_t whole = crc32c(0, bytes, sizeof bytes);
    for (size_t cut = 0; cut <= sizeof bytes; cut += 37)
        ASSERT_INT(crc32c(crc32c(0, bytes, cut), bytes + cut, sizeof bytes - cut), ==, whole);
}
