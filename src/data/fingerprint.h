/* FarmHash's Fingerprint64, the hash behind TensorFlow's to_hash_bucket_fast: the bucket of a text
 * is fingerprint64(text) % buckets, unsigned. */
#ifndef DATA_FINGERPRINT_H
#define DATA_FINGERPRINT_H

#include <stddef.h>
#include <stdint.h>

/* Of no text at all. In a categorical field it means that the value is missing. */
#define FINGERPRINT_MISSING UINT64_C(0x9ae16a3b2f90404f)

uint64_t fingerprint64(const void *bytes, size_t count);

/* The same of exactly eight bytes, given as a little-endian word: what categories mostly are. */
static inline uint64_t fingerprint64_of_word(uint64_t word)
{
    const uint64_t factor = FINGERPRINT_MISSING + 16;
    uint64_t a = word + FINGERPRINT_MISSING;
    uint64_t first = (word >> 37 | word << 27) * factor + a;
    uint64_t second = ((a >> 25 | a << 39) + word) * factor;
    uint64_t mixed = (first ^ second) * factor;
    mixed = (second ^ mixed ^ mixed >> 47) * factor;
    return (mixed ^ mixed >> 47) * factor;
}

#endif
