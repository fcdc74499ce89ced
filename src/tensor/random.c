/* Counter-based random numbers. Number i of a stream is a hash of (key, i), so arrays are filled
 * by any number of threads with the same bits. The clones below leave out FMA on purpose, and the
 * Makefile forbids it for this file: with it the compiler would round differently from the baseline's
 * code, and the same seed would give other weights on another processor. */
#include "tensor/random.h"

#include <assert.h>
#include <math.h>

/* Sanitizers instrument the function that picks a clone, which runs before they are ready. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx2", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif
#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Numbers made at a time: a constant, so that the loops vectorise without a scalar rest; small
 * enough for the first-level cache. */
enum { BLOCK = 1024 };

/* Steele, Lea, Flood: "Fast splittable pseudorandom number generators" (2014). */
static const uint64_t golden = 0x9e3779b97f4a7c15;

ALWAYS_INLINE uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

uint64_t random_key(uint64_t key, uint64_t stream)
{
    return mix(mix(key + golden) ^ (stream * golden + 1));
}

uint64_t random_key_text(uint64_t key, const char *name)
{
    uint64_t hash = 0xcbf29ce484222325; /* FNV-1a, 64 bits */
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3;
    return random_key(key, hash);
}

uint64_t random_at(uint64_t key, uint64_t index)
{
    return mix(key + (index + 1) * golden);
}

uint64_t random_next(struct random *random)
{
    return random_at(random->key, random->index++);
}

/* 24 bits, so that every value is exact and 1 is never reached. */
ALWAYS_INLINE float uniform_from(uint32_t bits)
{
    return (float)(int32_t)(bits >> 8) * 0x1p-24f;
}

/* Natural logarithm of a positive normal number, error below 2 units in the last place
 * (Cephes, logf). Branches are written as choices: the loops around it vectorise. */
ALWAYS_INLINE float log_positive(float x)
{
    union {
        float number;
        int32_t bits;
    } parts = {.number = x};
    /* Mantissa in [sqrt(1/2), sqrt(2)): 0x3f3504f3 is the former. */
    int32_t shifted = parts.bits - 0x3f3504f3;
    float exponent = (float)(shifted >> 23);
    parts.bits = (shifted & 0x007fffff) + 0x3f3504f3;
    float m = parts.number - 1.0f;
    float z = m * m;
    float p = 7.0376836292e-2f;
    p = p * m - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    float tail = p * m * z - 2.12194440e-4f * exponent - 0.5f * z;
    return m + tail + 0.693359375f * exponent;
}

/* sqrt(2) * erfinv(x) from x and w = -log(1 - x^2), for w < 5 (|x| < 0.9966).
 * Giles: "Approximating the erfinv function" (2010), single precision. */
ALWAYS_INLINE float normal_centre(float x, float w)
{
    w -= 2.5f;
    float p = 2.81022636e-08f;
    p = p * w + 3.43273939e-07f;
    p = p * w - 3.5233877e-06f;
    p = p * w - 4.39150654e-06f;
    p = p * w + 0.00021858087f;
    p = p * w - 0.00125372503f;
    p = p * w - 0.00417768164f;
    p = p * w + 0.246640727f;
    p = p * w + 1.50140941f;
    return 1.41421356f * p * x;
}

/* The same for w >= 5. */
ALWAYS_INLINE float normal_tail(float x, float w)
{
    w = sqrtf(w) - 3.0f;
    float p = -0.000200214257f;
    p = p * w + 0.000100950558f;
    p = p * w + 0.00134934322f;
    p = p * w - 0.00367342844f;
    p = p * w + 0.00573950773f;
    p = p * w - 0.0076224613f;
    p = p * w + 0.00943887047f;
    p = p * w + 1.00167406f;
    p = p * w + 2.83297682f;
    return 1.41421356f * p * x;
}

/* Standard normal by the inverse distribution function. The smaller of the two tail
 * probabilities is what is kept, so that 1 - x^2 = 4t(1 - t) has full precision far out. */
ALWAYS_INLINE float normal_from(uint32_t bits)
{
    int32_t value = (int32_t)bits;
    int32_t folded = value ^ (value >> 31); /* 0 .. 2^31 - 1; 0 is the middle */
    /* |x| in (0, 1], and the tail probability in (0, 1/2] */
    float middle = ((float)folded + 0.5f) * 0x1p-31f;
    float t = ((float)(0x7fffffff - folded) + 0.5f) * 0x1p-32f;
    float x = value < 0 ? -middle : middle;
    float w = -log_positive(4.0f * t * (1.0f - t));
    float centre = normal_centre(x, w), tail = normal_tail(x, w < 5.0f ? 5.0f : w);
    return w < 5.0f ? centre : tail;
}

/* Between -2 and 2: x covers (-erf(sqrt 2), erf(sqrt 2)). */
ALWAYS_INLINE float truncated_normal_from(uint32_t bits)
{
    float x = ((float)((int32_t)bits >> 8) + 0.5f) * (0x1p-23f * 0.954499736f);
    return normal_centre(x, -log_positive(1.0f - x * x));
}

float random_uniform(struct random *random)
{
    return uniform_from((uint32_t)(random_next(random) >> 32));
}

float random_between(struct random *random, float low, float high)
{
    return low + random_uniform(random) * (high - low);
}

float random_normal(struct random *random)
{
    return normal_from((uint32_t)(random_next(random) >> 32));
}

/* Lemire: "Fast random integer generation in an interval" (2019). */
int64_t random_below(struct random *random, int64_t limit)
{
    assert(limit > 0);
    uint64_t range = (uint64_t)limit;
    unsigned __int128 product = (unsigned __int128)random_next(random) * range;
    uint64_t biased_below = -range % range;
    while ((uint64_t)product < biased_below)
        product = (unsigned __int128)random_next(random) * range;
    return (int64_t)(product >> 64);
}

/* The upper halves of numbers first .. first + BLOCK - 1. */
ALWAYS_INLINE void block_bits(uint64_t key, uint64_t first, uint32_t bits[BLOCK])
{
    uint64_t start = key + (first + 1) * golden;
    for (int i = 0; i < BLOCK; i++)
        bits[i] = (uint32_t)(mix(start + (uint64_t)i * golden) >> 32);
}

FOR_EACH_PROCESSOR static void block_uniform(uint64_t key, uint64_t first, float low, float high,
                                             float *restrict out)
{
    uint32_t bits[BLOCK];
    block_bits(key, first, bits);
    for (int i = 0; i < BLOCK; i++)
        out[i] = low + uniform_from(bits[i]) * (high - low);
}

FOR_EACH_PROCESSOR static void block_normal(uint64_t key, uint64_t first, float deviation,
                                            float unused, float *restrict out)
{
    (void)unused;
    uint32_t bits[BLOCK];
    block_bits(key, first, bits);
    for (int i = 0; i < BLOCK; i++)
        out[i] = deviation * normal_from(bits[i]);
}

FOR_EACH_PROCESSOR static void block_truncated_normal(uint64_t key, uint64_t first, float deviation,
                                                      float unused, float *restrict out)
{
    (void)unused;
    uint32_t bits[BLOCK];
    block_bits(key, first, bits);
    for (int i = 0; i < BLOCK; i++)
        out[i] = deviation * truncated_normal_from(bits[i]);
}

typedef void block_fn(uint64_t key, uint64_t first, float a, float b, float *restrict out);

static void fill(block_fn *block, uint64_t key, float a, float b, float *out, size_t count)
{
    size_t whole = count / BLOCK;
#pragma omp parallel for schedule(static) if (whole > 16)
    for (size_t i = 0; i < whole; i++)
        block(key, i * BLOCK, a, b, out + i * BLOCK);
    if (count % BLOCK) {
        float rest[BLOCK];
        block(key, whole * BLOCK, a, b, rest);
        memcpy(out + whole * BLOCK, rest, count % BLOCK * sizeof *out);
    }
}

void random_fill_uniform(uint64_t key, float low, float high, float *out, size_t count)
{
    fill(block_uniform, key, low, high, out, count);
}

void random_fill_normal(uint64_t key, float deviation, float *out, size_t count)
{
    fill(block_normal, key, deviation, 0, out, count);
}

void random_fill_truncated_normal(uint64_t key, float deviation, float *out, size_t count)
{
    fill(block_truncated_normal, key, deviation, 0, out, count);
}

enum { PERMUTE_ROUNDS = 8 };

/* A Feistel cipher on the next power of two; the halves differ by a bit when it is odd. */
static uint64_t encipher(uint64_t key, int bits, uint64_t x)
{
    int low_bits = bits / 2;
    uint64_t low_mask = ((uint64_t)1 << low_bits) - 1;
    uint64_t high_mask = ((uint64_t)1 << (bits - low_bits)) - 1;
    uint64_t low = x & low_mask, high = x >> low_bits;
    for (int round = 0; round < PERMUTE_ROUNDS; round++) {
        if (round % 2)
            low ^= random_at(key + (uint64_t)round, high) & low_mask;
        else
            high ^= random_at(key + (uint64_t)round, low) & high_mask;
    }
    return high << low_bits | low;
}

int64_t random_permute(uint64_t key, int64_t count, int64_t index)
{
    assert(count > 0 && index >= 0 && index < count);
    int bits = count > 1 ? 64 - __builtin_clzll((uint64_t)count - 1) : 0;
    uint64_t x = (uint64_t)index;
    do
        x = encipher(key, bits, x);
    while (x >= (uint64_t)count); /* walk the cycle back inside; fewer than 2 on average */
    return (int64_t)x;
}
