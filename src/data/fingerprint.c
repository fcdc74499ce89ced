/* Written after the published description of FarmHash (G. Pike, 2014); the constants are primes
 * that belong to the format. Reads little-endian words wherever it runs. */
#include "data/fingerprint.h"

#include <endian.h>
#include <string.h>

static const uint64_t PRIME_A = UINT64_C(0xc3a5c85c97cb3127);
static const uint64_t PRIME_B = UINT64_C(0xb492b66fbe98f273);
static const uint64_t PRIME_C = FINGERPRINT_MISSING;

enum { SEED = 81 };

struct pair {
    uint64_t first, second;
};

static inline uint64_t word64(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return le64toh(word);
}

static inline uint32_t word32(const uint8_t *at)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return le32toh(word);
}

static inline uint64_t rotate(uint64_t value, int bits)
{
    return value >> bits | value << (64 - bits);
}

static inline uint64_t fold(uint64_t value)
{
    return value ^ value >> 47;
}

static inline uint64_t mix(uint64_t first, uint64_t second, uint64_t factor)
{
    uint64_t a = fold((first ^ second) * factor);
    return fold((second ^ a) * factor) * factor;
}

static inline uint64_t factor_of(size_t count)
{
    return PRIME_C + count * 2;
}

static inline uint64_t hash_to_16(const uint8_t *at, size_t count)
{
    uint64_t factor = factor_of(count);
    if (count >= 8) {
        uint64_t a = word64(at) + PRIME_C, b = word64(at + count - 8);
        return mix(rotate(b, 37) * factor + a, (rotate(a, 25) + b) * factor, factor);
    }
    if (count >= 4)
        return mix(count + ((uint64_t)word32(at) << 3), word32(at + count - 4), factor);
    if (count == 0)
        return FINGERPRINT_MISSING;
    uint32_t low = at[0] + ((uint32_t)at[count >> 1] << 8);
    uint32_t high = (uint32_t)count + ((uint32_t)at[count - 1] << 2);
    return fold(low * PRIME_C ^ high * PRIME_A) * PRIME_C;
}

static uint64_t hash_to_32(const uint8_t *at, size_t count)
{
    uint64_t factor = factor_of(count);
    uint64_t a = word64(at) * PRIME_B, b = word64(at + 8);
    uint64_t c = word64(at + count - 8) * factor, d = word64(at + count - 16) * PRIME_C;
    return mix(rotate(a + b, 43) + rotate(c, 30) + d, a + rotate(b + PRIME_C, 18) + c, factor);
}

static uint64_t hash_to_64(const uint8_t *at, size_t count)
{
    uint64_t factor = factor_of(count);
    uint64_t a = word64(at) * PRIME_C, b = word64(at + 8);
    uint64_t c = word64(at + count - 8) * factor, d = word64(at + count - 16) * PRIME_C;
    uint64_t y = rotate(a + b, 43) + rotate(c, 30) + d;
    uint64_t z = mix(y, a + rotate(b + PRIME_C, 18) + c, factor);
    uint64_t e = word64(at + 16) * factor, f = word64(at + 24);
    uint64_t g = (y + word64(at + count - 32)) * factor, h = (z + word64(at + count - 24)) * factor;
    return mix(rotate(e + f, 43) + rotate(g, 30) + h, e + rotate(f + a, 18) + g, factor);
}

static inline struct pair mix_32_bytes(const uint8_t *at, uint64_t a, uint64_t b)
{
    uint64_t last = word64(at + 24);
    a += word64(at);
    b = rotate(b + a + last, 21);
    uint64_t before = a;
    a += word64(at + 8) + word64(at + 16);
    return (struct pair){a + last, b + rotate(a, 44) + before};
}

struct state {
    uint64_t x, y, z;
    struct pair v, w;
};

/* One round over 64 bytes. In the last one `factor` is no longer the prime and two terms weigh 9
 * times as much. */
static inline void take_64_bytes(struct state *state, const uint8_t *at, uint64_t factor,
                                 uint64_t weight)
{
    struct state s = *state;
    s.x = rotate(s.x + s.y + s.v.first + word64(at + 8), 37) * factor;
    s.y = rotate(s.y + s.v.second + word64(at + 48), 42) * factor;
    s.x ^= s.w.second * weight;
    s.y += s.v.first * weight + word64(at + 40);
    s.z = rotate(s.z + s.w.first, 33) * factor;
    s.v = mix_32_bytes(at, s.v.second * factor, s.x + s.w.first);
    s.w = mix_32_bytes(at + 32, s.z + s.w.second, s.y + word64(at + 16));
    *state = (struct state){s.z, s.y, s.x, s.v, s.w};
}

static uint64_t hash_long(const uint8_t *at, size_t count)
{
    const uint8_t *last_block = at + (count - 1) / 64 * 64;
    const uint8_t *last_64 = at + count - 64;
    struct state state = {.x = SEED * PRIME_C + word64(at), .y = SEED * PRIME_B + 113};
    state.z = fold(state.y * PRIME_C + 113) * PRIME_C;
    for (; at != last_block; at += 64)
        take_64_bytes(&state, at, PRIME_B, 1);
    uint64_t factor = PRIME_B + ((state.z & 0xff) << 1);
    state.w.first += (count - 1) & 63;
    state.v.first += state.w.first;
    state.w.first += state.v.first;
    take_64_bytes(&state, last_64, factor, 9);
    return mix(mix(state.v.first, state.w.first, factor) + fold(state.y) * PRIME_A + state.z,
               mix(state.v.second, state.w.second, factor) + state.x, factor);
}

uint64_t fingerprint64(const void *bytes, size_t count)
{
    if (count <= 16)
        return hash_to_16(bytes, count);
    if (count <= 32)
        return hash_to_32(bytes, count);
    if (count <= 64)
        return hash_to_64(bytes, count);
    return hash_long(bytes, count);
}
