/* What the writer and the reader of tables both know. */
#ifndef WIRE_TABLE_FORMAT_H
#define WIRE_TABLE_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define TABLE_MAGIC UINT64_C(0xdb4775248b80fb57)

enum { TABLE_FOOTER_BYTES = 48, TABLE_TRAILER_BYTES = 5 };
enum { TABLE_PLAIN = 0, TABLE_SNAPPY = 1 }; /* a block's packing */

/* As memcmp, the shorter of two that begin alike first. */
static inline int table_compare(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    size_t common = a_bytes < b_bytes ? a_bytes : b_bytes;
    int order = common > 0 ? memcmp(a, b, common) : 0;
    return order ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

#endif
