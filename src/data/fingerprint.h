/* FarmHash's Fingerprint64, the hash behind TensorFlow's to_hash_bucket_fast: the bucket of a text
 * is fingerprint64(text) % buckets, unsigned. */
#ifndef DATA_FINGERPRINT_H
#define DATA_FINGERPRINT_H

#include <stddef.h>
#include <stdint.h>

/* Of no text at all. In a categorical field it means that the value is missing. */
#define FINGERPRINT_MISSING UINT64_C(0x9ae16a3b2f90404f)

uint64_t fingerprint64(const void *bytes, size_t count);

#endif
