#include "wire/crc32c.h"

#include <pthread.h>
#if defined(__x86_64__)
#include <nmmintrin.h>
#include <wmmintrin.h>
#endif

enum { SLICES = 8 };
static const uint32_t polynomial = 0x82f63b78; /* Castagnoli's, the lowest bit first */

/* tables[k][b]: the checksum of byte b followed by k zero bytes. */
static uint32_t tables[SLICES][256];
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static void make_tables(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ polynomial : crc >> 1;
        tables[0][b] = crc;
    }
    for (uint32_t b = 0; b < 256; b++)
        for (int k = 1; k < SLICES; k++)
            tables[k][b] = tables[k - 1][b] >> 8 ^ tables[0][tables[k - 1][b] & 0xff];
}

uint32_t crc32c_portable(uint32_t crc, const void *bytes, size_t count)
{
    pthread_once(&tables_once, make_tables);
    const uint8_t *at = bytes;
    crc = ~crc;
    for (; count >= SLICES; count -= SLICES, at += SLICES) {
        crc ^=
            (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
        crc = tables[7][crc & 0xff] ^ tables[6][crc >> 8 & 0xff] ^ tables[5][crc >> 16 & 0xff] ^
              tables[4][crc >> 24] ^ tables[3][at[4]] ^ tables[2][at[5]] ^ tables[1][at[6]] ^
              tables[0][at[7]];
    }
    for (; count > 0; count--, at++)
        crc = crc >> 8 ^ tables[0][(crc ^ *at) & 0xff];
    return ~crc;
}

#if defined(__x86_64__)
#define HARDWARE __attribute__((target("sse4.2,pclmul")))

/* The instruction takes three cycles but one can start in each, so three neighbouring blocks are
 * summed side by side and the sums then moved behind each other: past n bytes by a multiplication
 * with x^(8n - 33) modulo the polynomial (the product comes out one place too high and the
 * instruction itself adds 32). */
enum { LINE_BYTES = 64, PREFETCH_BYTES = 6144 };
struct block {
    size_t bytes;                /* of one of the three, a multiple of 8 */
    uint32_t past_one, past_two; /* x^(8 bytes - 33), x^(16 bytes - 33) */
};
static const struct block long_block = {2048, 0xa51b6135, 0x82f89c77};
static const struct block short_block = {128, 0x0d3b6092, 0xb9e02b86};

HARDWARE static inline uint64_t load(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

HARDWARE static inline uint64_t product(uint32_t a, uint32_t b)
{
    return (uint64_t)_mm_cvtsi128_si64(
        _mm_clmulepi64_si128(_mm_cvtsi64_si128(a), _mm_cvtsi64_si128(b), 0));
}

HARDWARE static inline uint32_t sum_three(uint32_t crc, const uint8_t *at,
                                          const struct block *block)
{
    uint64_t first = crc, second = 0, third = 0;
    const uint8_t *end = at + block->bytes;
    size_t bytes = block->bytes;
    while (at < end) {
        /* The next three blocks; the processor's own guess stops at each page's end. */
        _mm_prefetch((const char *)at + PREFETCH_BYTES, _MM_HINT_T0);
        _mm_prefetch((const char *)at + PREFETCH_BYTES + bytes, _MM_HINT_T0);
        _mm_prefetch((const char *)at + PREFETCH_BYTES + 2 * bytes, _MM_HINT_T0);
        for (const uint8_t *line_end = at + LINE_BYTES; at < line_end; at += 8) {
            first = _mm_crc32_u64(first, load(at));
            second = _mm_crc32_u64(second, load(at + bytes));
            third = _mm_crc32_u64(third, load(at + 2 * bytes));
        }
    }
    uint64_t moved =
        product((uint32_t)first, block->past_two) ^ product((uint32_t)second, block->past_one);
    return (uint32_t)(_mm_crc32_u64(0, moved) ^ third);
}

HARDWARE static uint32_t crc32c_hardware(uint32_t crc, const void *bytes, size_t count)
{
    const uint8_t *at = bytes;
    crc = ~crc;
    for (; count >= 3 * long_block.bytes; count -= 3 * long_block.bytes, at += 3 * long_block.bytes)
        crc = sum_three(crc, at, &long_block);
    for (; count >= 3 * short_block.bytes;
         count -= 3 * short_block.bytes, at += 3 * short_block.bytes)
        crc = sum_three(crc, at, &short_block);
    uint64_t wide = crc;
    for (; count >= 8; count -= 8, at += 8)
        wide = _mm_crc32_u64(wide, load(at));
    crc = (uint32_t)wide;
    for (; count > 0; count--, at++)
        crc = _mm_crc32_u8(crc, *at);
    return ~crc;
}

uint32_t crc32c(uint32_t crc, const void *bytes, size_t count)
{
    if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul"))
        return crc32c_hardware(crc, bytes, count);
    return crc32c_portable(crc, bytes, count);
}
#else
uint32_t crc32c(uint32_t crc, const void *bytes, size_t count)
{
    return crc32c_portable(crc, bytes, count);
}
#endif

uint32_t crc32c_mask(uint32_t crc)
{
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}
