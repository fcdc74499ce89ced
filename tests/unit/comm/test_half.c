#include "comm/half.h"

#include <math.h>

#include "support/test.h"

/* One at a time goes the portable way, eight at a time the processor's own. */
static uint16_t pack_alone(float value)
{
    uint16_t half;
    half_pack(&value, &half, 1);
    return half;
}

TEST(half, every_number_of_16_bits_comes_back)
{
    for (uint32_t bits = 0; bits < 65536; bits++) {
        uint16_t half = (uint16_t)bits, again;
        float value, eight[8];
        uint16_t halves[8];
        half_unpack(&half, &value, 1);
        if (isnan(value))
            continue;
        half_pack(&value, &again, 1);
        ASSERT_INT(again, ==, half);
        for (int i = 0; i < 8; i++)
            halves[i] = half;
        half_unpack(halves, eight, 8);
        ASSERT_TRUE(eight[3] == value);
    }
}

TEST(half, both_ways_to_round_agree)
{
    uint32_t state = 1;
    for (int round = 0; round < 200000; round++) {
        float values[8];
        uint16_t halves[8];
        for (int i = 0; i < 8; i++) {
            state = state * 1664525 + 1013904223;
            uint32_t exponent = 90 + (state >> 8) % 60; /* from far below the least to too large */
            uint32_t bits =
                (state & 0x80000000) | exponent << 23 | (state * 2654435761U & 0x7fffff);
            memcpy(&values[i], &bits, sizeof bits);
        }
        half_pack(values, halves, 8);
        for (int i = 0; i < 8; i++)
            ASSERT_INT(pack_alone(values[i]), ==, halves[i]);
    }
}

TEST(half, rounds_to_even_and_overflows_to_infinity)
{
    ASSERT_INT(pack_alone(1.0F), ==, 0x3c00);
    ASSERT_INT(pack_alone(1.0F + 0x1p-11F), ==, 0x3c00);
    ASSERT_INT(pack_alone(1.0F + 3 * 0x1p-11F), ==, 0x3c02);
    ASSERT_INT(pack_alone(65504.0F), ==, 0x7bff);
    ASSERT_INT(pack_alone(65520.0F), ==, 0x7c00);
    ASSERT_INT(pack_alone(-1e9F), ==, 0xfc00);
    ASSERT_INT(pack_alone(0x1p-25F), ==, 0);
    ASSERT_INT(pack_alone(0x1.8p-25F), ==, 1);
    ASSERT_TRUE((pack_alone(NAN) & 0x7fff) > 0x7c00);
}
