/* Where the records of a set of shards lie. Kept in a file, which is checked like any other bytes
 * from outside: it may be old, damaged or made up. */
#ifndef DATA_SHARD_INDEX_H
#define DATA_SHARD_INDEX_H

#include <stdint.h>

#include "wire/tfrecord.h"

struct strbuf;

struct shard_entry {
    /* As listed now; an index made of other files than these is not taken. */
    const char *name; /* borrowed */
    uint64_t bytes;
    int64_t modified;
    /* What the index adds. */
    enum tfrecord_packing packing;
    uint64_t plain_bytes; /* unpacked; the same as `bytes` when it is not packed */
    int64_t damaged;      /* records whose data did not fit its checksum when it was read */
    int64_t count;
    uint64_t *offsets; /* [count + 1] of the records in the unpacked file, and its end; owned */
};

void shard_entry_release(struct shard_entry *entry);

/* Checks `out->failed`, once, is the caller's. */
void shard_index_encode(const struct shard_entry *entries, int count, struct strbuf *out);
/* Fills in what the index adds. Returns -1, with the entries as they were, when the bytes are no
 * index of exactly these files: wrong sum, other names, sizes or times, or records that do not
 * fill their files without gaps. */
int shard_index_decode(const void *bytes, size_t byte_count, struct shard_entry *entries,
                       int count);

#endif
