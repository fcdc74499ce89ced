/* Sets a table's checksums and magic number right, so that what is behind them is reached. */
#ifndef FUZZ_MEND_TABLE_H
#define FUZZ_MEND_TABLE_H

#include "wire/crc32c.h"
#include "wire/proto.h"
#include "wire/table_format.h"

static inline void mend_u32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static inline bool mend_block(uint8_t *bytes, size_t count, uint64_t offset, uint64_t size)
{
    if (count < TABLE_TRAILER_BYTES || offset > count - TABLE_TRAILER_BYTES ||
        size > count - TABLE_TRAILER_BYTES - offset)
        return false;
    bytes[offset + size] = TABLE_PLAIN;
    mend_u32(bytes + offset + size + 1, crc32c_mask(crc32c(0, bytes + offset, (size_t)size + 1)));
    return true;
}

/* Blocks that an index of unshared keys names. */
static inline void mend_named(uint8_t *bytes, size_t count, uint64_t offset, uint64_t size)
{
    struct proto_reader at;
    uint64_t shared, own, value, block, block_bytes;
    proto_open(&at, bytes + offset, (size_t)size);
    while (proto_take_varint(&at, &shared) && proto_take_varint(&at, &own) &&
           proto_take_varint(&at, &value) && own <= (uint64_t)(at.end - at.at)) {
        at.at += own;
        if (!proto_take_varint(&at, &block) || !proto_take_varint(&at, &block_bytes) ||
            !mend_block(bytes, count, block, block_bytes))
            return;
    }
}

static inline void mend_table(uint8_t *bytes, size_t count)
{
    struct proto_reader footer;
    uint64_t ignored, offset, size;
    if (count < TABLE_FOOTER_BYTES)
        return;
    mend_u32(bytes + count - 8, (uint32_t)TABLE_MAGIC);
    mend_u32(bytes + count - 4, (uint32_t)(TABLE_MAGIC >> 32));
    proto_open(&footer, bytes + count - TABLE_FOOTER_BYTES, TABLE_FOOTER_BYTES - 8);
    if (!proto_take_varint(&footer, &ignored) || !proto_take_varint(&footer, &ignored) ||
        !proto_take_varint(&footer, &offset) || !proto_take_varint(&footer, &size) ||
        !mend_block(bytes, count - TABLE_FOOTER_BYTES, offset, size))
        return;
    mend_named(bytes, count - TABLE_FOOTER_BYTES, offset, size);
    mend_block(bytes, count - TABLE_FOOTER_BYTES, offset, size);
}

#endif
