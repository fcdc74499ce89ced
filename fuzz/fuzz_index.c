/* The kept index of shards: whatever the bytes, records that fill their files without gaps, or it is
 * not taken. */
#include <assert.h>

#include "base/memory.h"
#include "base/strbuf.h"
#include "data/shard_index.h"
#include "wire/crc32c.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void decode(const uint8_t *bytes, size_t count)
{
    struct shard_entry entries[] = {{.name = "train-00000-of-00002", .bytes = 100, .modified = 7},
                                    {.name = "train-00001-of-00002", .bytes = 32, .modified = -1}};
    if (shard_index_decode(bytes, count, entries, 2) < 0) {
        assert(!entries[0].offsets && !entries[1].offsets);
        return;
    }
    for (int s = 0; s < 2; s++) {
        const struct shard_entry *entry = &entries[s];
        assert(entry->offsets[0] == 0 && entry->offsets[entry->count] == entry->plain_bytes);
        for (int64_t r = 0; r < entry->count; r++)
            assert(entry->offsets[r + 1] >= entry->offsets[r] + 16);
        assert(entry->packing != TFRECORD_PLAIN || entry->plain_bytes == entry->bytes);
    }
    /* What was taken is written and taken again. */
    struct strbuf out;
    strbuf_init(&out);
    shard_index_encode(entries, 2, &out);
    shard_entry_release(&entries[0]);
    shard_entry_release(&entries[1]);
    assert(out.failed || shard_index_decode(out.text, out.length, entries, 2) == 0);
    strbuf_release(&out);
    shard_entry_release(&entries[0]);
    shard_entry_release(&entries[1]);
}

/* Once as it is, once with the right sum behind it, so that what the sum covers is reached. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    decode(bytes, count);
    uint8_t *summed = memory_allocate(count + 4);
    if (count > 0)
        memcpy(summed, bytes, count);
    uint32_t sum = crc32c(0, bytes, count);
    for (int i = 0; i < 4; i++)
        summed[count + (size_t)i] = (uint8_t)(sum >> 8 * i);
    decode(summed, count + 4);
    memory_free(summed);
    return 0;
}
