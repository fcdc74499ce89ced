/* The file is a protobuf message and the checksum of it in four bytes:
 *   1: version   2 (one per shard, in order): { 1: name  2: bytes  3: modified  4: packing
 *   5: bytes unpacked  6: damaged records  7: lengths of the records, packed }
 * Lengths rather than offsets: they are small, and cannot overlap or leave gaps. */
#include "data/shard_index.h"

#include "base/memory.h"
#include "base/strbuf.h"
#include "wire/crc32c.h"
#include "wire/proto.h"

enum { VERSION = 1, FIELD_VERSION = 1, FIELD_SHARD = 2, SUM_BYTES = 4 };
enum { NAME = 1, BYTES, MODIFIED, PACKING, PLAIN_BYTES, DAMAGED, LENGTHS };
enum { FRAME_BYTES = TFRECORD_HEADER_BYTES + TFRECORD_FOOTER_BYTES };

void shard_entry_release(struct shard_entry *entry)
{
    memory_free(entry->offsets);
    entry->offsets = NULL;
    entry->count = 0;
}

void shard_index_encode(const struct shard_entry *entries, int count, struct strbuf *out)
{
    strbuf_clear(out);
    proto_add_varint(out, FIELD_VERSION, VERSION);
    for (int i = 0; i < count; i++) {
        const struct shard_entry *entry = &entries[i];
        size_t shard = proto_begin(out, FIELD_SHARD);
        proto_add_text(out, NAME, entry->name);
        proto_add_varint(out, BYTES, entry->bytes);
        proto_add_varint(out, MODIFIED, (uint64_t)entry->modified);
        proto_add_varint(out, PACKING, (uint64_t)entry->packing);
        proto_add_varint(out, PLAIN_BYTES, entry->plain_bytes);
        proto_add_varint(out, DAMAGED, (uint64_t)entry->damaged);
        size_t lengths = proto_begin(out, LENGTHS);
        for (int64_t r = 0; r < entry->count; r++)
            proto_put_varint(out, entry->offsets[r + 1] - entry->offsets[r] - FRAME_BYTES);
        proto_end(out, lengths);
        proto_end(out, shard);
    }
    proto_put_fixed32(out, crc32c(0, out->text, out->length));
}

static int64_t count_lengths(struct proto_reader lengths)
{
    int64_t count = 0;
    uint64_t length;
    while (proto_take_varint(&lengths, &length))
        count++;
    return lengths.at == lengths.end ? count : -1;
}

/* The records must fill the file to its last byte. */
static int decode_lengths(struct proto_reader lengths, struct shard_entry *entry)
{
    int64_t count = count_lengths(lengths);
    uint64_t *offsets = count < 0 ? NULL : memory_allocate(((size_t)count + 1) * sizeof *offsets);
    if (!offsets)
        return -1;
    for (int64_t r = 0; r < count; r++) {
        uint64_t length = 0, left = entry->plain_bytes - offsets[r];
        proto_take_varint(&lengths, &length);
        if (left < FRAME_BYTES || length > left - FRAME_BYTES) {
            memory_free(offsets);
            return -1;
        }
        offsets[r + 1] = offsets[r] + length + FRAME_BYTES;
    }
    entry->count = count;
    entry->offsets = offsets;
    return offsets[count] == entry->plain_bytes ? 0 : -1;
}

static bool fits(const struct shard_entry *entry, const struct proto_field *name,
                 const uint64_t *numbers)
{
    bool plain = numbers[PACKING] == TFRECORD_PLAIN;
    return name->count == strlen(entry->name) &&
           memcmp(name->bytes, entry->name, name->count) == 0 && numbers[BYTES] == entry->bytes &&
           numbers[MODIFIED] == (uint64_t)entry->modified && numbers[PACKING] <= TFRECORD_ZLIB &&
           (!plain || numbers[PLAIN_BYTES] == entry->bytes);
}

static int decode_shard(struct proto_reader shard, struct shard_entry *entry)
{
    uint64_t numbers[LENGTHS + 1] = {0};
    struct proto_field field, name = {.bytes = (const uint8_t *)""},
                              lengths = {.bytes = name.bytes};
    struct proto_reader values;
    int more;
    while ((more = proto_next(&shard, &field, NULL)) > 0) {
        if (field.number == NAME && field.wire == PROTO_BYTES)
            name = field;
        else if (field.number == LENGTHS && field.wire == PROTO_BYTES)
            lengths = field;
        else if (field.number < LENGTHS && field.wire == PROTO_VARINT)
            numbers[field.number] = field.value;
        else
            return -1;
    }
    if (more < 0 || !fits(entry, &name, numbers))
        return -1;
    entry->packing = (enum tfrecord_packing)numbers[PACKING];
    entry->plain_bytes = numbers[PLAIN_BYTES];
    proto_open(&values, lengths.bytes, lengths.count);
    if (decode_lengths(values, entry) < 0)
        return -1;
    entry->damaged = (int64_t)numbers[DAMAGED];
    return entry->damaged >= 0 && entry->damaged <= entry->count ? 0 : -1;
}

/* Fills entries from the first on; *done says how many it touched. */
static int decode_shards(struct proto_reader message, struct shard_entry *entries, int count,
                         int *done)
{
    struct proto_field field;
    int more;
    bool version = false;
    while ((more = proto_next(&message, &field, NULL)) > 0) {
        struct proto_reader shard;
        if (field.number == FIELD_VERSION && field.wire == PROTO_VARINT) {
            version = field.value == VERSION;
            continue;
        }
        if (field.number != FIELD_SHARD || !version || *done == count ||
            proto_enter(&message, &field, &shard, NULL) < 0 ||
            decode_shard(shard, &entries[(*done)++]) < 0)
            return -1;
    }
    return more == 0 && *done == count ? 0 : -1;
}

int shard_index_decode(const void *bytes, size_t byte_count, struct shard_entry *entries, int count)
{
    struct proto_reader message, sum;
    uint32_t stored = 0;
    int done = 0;
    if (byte_count < SUM_BYTES)
        return -1;
    proto_open(&message, bytes, byte_count - SUM_BYTES);
    proto_open(&sum, (const uint8_t *)bytes + byte_count - SUM_BYTES, SUM_BYTES);
    proto_take_fixed32(&sum, &stored);
    if (crc32c(0, bytes, byte_count - SUM_BYTES) != stored)
        return -1;
    if (decode_shards(message, entries, count, &done) == 0)
        return 0;
    for (int i = 0; i < done; i++) {
        shard_entry_release(&entries[i]);
        entries[i].packing = TFRECORD_PLAIN;
        entries[i].plain_bytes = 0;
        entries[i].damaged = 0;
    }
    return -1;
}
