#include "comm/half.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx,f16c"))) static size_t pack_f16c(const float *from, uint16_t *to,
                                                            size_t count)
{
    size_t at = 0;
    for (; at + 8 <= count; at += 8)
        _mm_storeu_si128((__m128i *)(to + at),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from + at), _MM_FROUND_TO_NEAREST_INT));
    return at;
}

__attribute__((target("avx,f16c"))) static size_t unpack_f16c(const uint16_t *from, float *to,
                                                              size_t count)
{
    size_t at = 0;
    for (; at + 8 <= count; at += 8)
        _mm256_storeu_ps(to + at, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + at))));
    return at;
}

static size_t pack_fast(const float *from, uint16_t *to, size_t count)
{
    return __builtin_cpu_supports("f16c") ? pack_f16c(from, to, count) : 0;
}

static size_t unpack_fast(const uint16_t *from, float *to, size_t count)
{
    return __builtin_cpu_supports("f16c") ? unpack_f16c(from, to, count) : 0;
}
#else
static size_t pack_fast(const float *from, uint16_t *to, size_t count)
{
    (void)from, (void)to, (void)count;
    return 0;
}

static size_t unpack_fast(const uint16_t *from, float *to, size_t count)
{
    (void)from, (void)to, (void)count;
    return 0;
}
#endif

/* As the instruction does it, bit by bit. */
static uint16_t pack_one(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) /* NaN, made quiet */
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= 0x477ff000) /* rounds to more than 65504 */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x33000001) /* at most half of the least */
        return (uint16_t)sign;
    int exponent = (int)(magnitude >> 23) - 127;
    uint32_t mantissa = (magnitude & 0x7fffff) | 0x800000;
    int shift = exponent < -14 ? -1 - exponent : 13; /* below -14 it has no leading one */
    uint32_t kept = mantissa >> shift, rest = mantissa & ((1U << shift) - 1);
    uint32_t halfway = 1U << (shift - 1);
    kept += rest > halfway || (rest == halfway && (kept & 1));
    if (exponent >= -14)
        kept += (uint32_t)(exponent + 14) << 10; /* the leading one adds the last 1 */
    return (uint16_t)(sign | kept);
}

static float unpack_one(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31;
    uint32_t mantissa = half & 0x3ff, bits;
    float value;
    if (exponent == 31) {
        bits = sign | 0x7f800000 | mantissa << 13 | (mantissa ? 0x400000 : 0);
    } else if (exponent) {
        bits = sign | (exponent + 112) << 23 | mantissa << 13;
    } else { /* a multiple of 2^-24 */
        value = (float)mantissa * 0x1p-24F;
        return sign ? -value : value;
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

void half_pack(const float *from, uint16_t *to, size_t count)
{
    for (size_t i = pack_fast(from, to, count); i < count; i++)
        to[i] = pack_one(from[i]);
}

void half_unpack(const uint16_t *from, float *to, size_t count)
{
    for (size_t i = unpack_fast(from, to, count); i < count; i++)
        to[i] = unpack_one(from[i]);
}
