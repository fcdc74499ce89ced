/* Sorted string tables: LevelDB's file format as TensorFlow writes it for the index of a tensor
 * bundle. Blocks of records whose keys leave out what they share with the one before, an index of
 * the blocks, a footer; a checksum behind each block. Ours have the bytes that TensorFlow's have.
 *
 * A block:  records, offsets of the records that stand alone (u32 each), their count (u32);
 *           behind it one byte for its packing and the masked checksum of both.
 * A record: varints shared, own, value; the key's own bytes; the value.
 * The file: data blocks, an empty block for metadata, the index, and 48 bytes: the places of the
 *           last two as varints, zeros, the magic number. All numbers lowest byte first. */
#ifndef WIRE_TABLE_H
#define WIRE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

struct error;

struct table_block {
    struct strbuf records, restarts, last_key;
    int restart_interval, since_restart;
};

struct table_place {
    uint64_t offset, bytes; /* of a block, without what is behind it */
};

/* Storage of the caller's; release it whether it was finished or not. */
struct table_writer {
    struct strbuf *out; /* the file, borrowed */
    struct table_block data, index;
    /* The index names a block by a short key between its last and the next one's first, so its
     * record waits for that. */
    struct strbuf last_key;
    struct table_place waiting;
    bool has_waiting, has_key;
};

/* Appends to `out`, which must be empty: places count from its start. */
void table_writer_init(struct table_writer *writer, struct strbuf *out);
/* Keys come in ascending order of their bytes, each once; fails with ERROR_FORMAT otherwise. */
int table_writer_add(struct table_writer *writer, const void *key, size_t key_bytes,
                     const void *value, size_t value_bytes, struct error *err);
/* Fails when there was not enough memory at any time. */
int table_writer_finish(struct table_writer *writer, struct error *err);
void table_writer_release(struct table_writer *writer);

/* Gets each record in order. The views are valid during the call. Nonzero ends the walk. */
typedef int table_visit(void *context, const uint8_t *key, size_t key_bytes, const uint8_t *value,
                        size_t value_bytes, struct error *err);

/* Walks through a whole table in memory. Fails with ERROR_FORMAT, `name` and the offset when a
 * checksum does not fit, keys do not ascend, a block is packed or anything lies outside; records
 * before that were given to `visit`. Returns what `visit` returned when that was not zero; `name`
 * comes in front of its message too. */
int table_walk(const char *name, const void *bytes, size_t count, table_visit *visit, void *context,
               struct error *err);

#endif
