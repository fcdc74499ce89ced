#include <inttypes.h>

#include "base/error.h"
#include "wire/crc32c.h"
#include "wire/proto.h"
#include "wire/table.h"
#include "wire/table_format.h"

/* One block's records, walked with the key of the last one put together. */
struct records {
    struct proto_reader at; /* its offsets are the file's */
    struct strbuf key;
    const uint8_t *value;
    size_t value_bytes;
};

struct walk {
    const uint8_t *bytes;
    size_t count;
    table_visit *visit;
    void *context;
    uint64_t end; /* of the last block: the next may not lie before it */
    struct strbuf last_key;
    bool started;
};

static uint32_t get_u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static bool take_place(struct proto_reader *from, struct table_place *out)
{
    return proto_take_varint(from, &out->offset) && proto_take_varint(from, &out->bytes);
}

/* The block lies in the file, its checksum fits, it is not packed. */
static int check_block(const struct walk *walk, struct table_place place, struct error *err)
{
    size_t room = walk->count - TABLE_FOOTER_BYTES;
    if (place.bytes > room || room - place.bytes < TABLE_TRAILER_BYTES ||
        place.offset > room - place.bytes - TABLE_TRAILER_BYTES)
        return error_set(err, ERROR_FORMAT,
                         "a block of %" PRIu64 " bytes at offset %" PRIu64
                         " is not in the file of %zu",
                         place.bytes, place.offset, walk->count);
    const uint8_t *block = walk->bytes + place.offset, *behind = block + place.bytes;
    if (crc32c_mask(crc32c(0, block, (size_t)place.bytes + 1)) != get_u32(behind + 1))
        return error_set(err, ERROR_FORMAT,
                         "the block at offset %" PRIu64 " (%" PRIu64
                         " bytes) is damaged: its checksum does not fit",
                         place.offset, place.bytes);
    if (*behind != TABLE_PLAIN)
        return error_set(err, ERROR_FORMAT,
                         "the block at offset %" PRIu64
                         " is packed with %s, and only plain ones are read; write the table again "
                         "without compression",
                         place.offset, *behind == TABLE_SNAPPY ? "snappy" : "an unknown method");
    return 0;
}

/* `out->key` must be initialized. */
static int open_block(const struct walk *walk, struct table_place place, struct records *out,
                      struct error *err)
{
    if (check_block(walk, place, err) < 0)
        return -1;
    const uint8_t *block = walk->bytes + place.offset;
    uint64_t restarts = place.bytes >= 4 ? get_u32(block + place.bytes - 4) : UINT32_MAX;
    if (place.bytes < 4 || 4 * restarts > place.bytes - 4)
        return error_set(err, ERROR_FORMAT,
                         "the block at offset %" PRIu64 " has no room for its list of restarts",
                         place.offset);
    out->at = (struct proto_reader){
        .at = block, .end = block + place.bytes - 4 - 4 * restarts, .outermost = walk->bytes};
    out->key.length = 0;
    return 0;
}

static int broken_record(size_t offset, const char *why, struct error *err)
{
    return error_set(err, ERROR_FORMAT, "the record at offset %zu %s", offset, why);
}

/* Returns 1, 0 at the block's end. Leaves the key in `records->key`. */
static int next_record(struct records *records, struct error *err)
{
    struct proto_reader *at = &records->at;
    size_t offset = proto_offset(at);
    uint64_t shared, own, value_bytes;
    if (at->at == at->end)
        return 0;
    if (!proto_take_varint(at, &shared) || !proto_take_varint(at, &own) ||
        !proto_take_varint(at, &value_bytes))
        return broken_record(offset, "is cut off", err);
    uint64_t left = (uint64_t)(at->end - at->at);
    if (own > left || value_bytes > left - own)
        return broken_record(offset, "is longer than its block", err);
    if (shared > records->key.length)
        return broken_record(offset, "shares more than the key before it has", err);
    records->key.length = (size_t)shared;
    strbuf_add_bytes(&records->key, at->at, (size_t)own);
    if (records->key.failed)
        return error_set(err, ERROR_MEMORY, "no memory for a key of %" PRIu64 " bytes",
                         shared + own);
    records->value = at->at + own;
    records->value_bytes = (size_t)value_bytes;
    at->at += own + value_bytes;
    return 1;
}

/* Keys ascend within a block and from block to block. */
static int check_order(struct walk *walk, const struct records *records, size_t offset,
                       struct error *err)
{
    struct strbuf *last = &walk->last_key;
    if (walk->started &&
        table_compare(records->key.text, records->key.length, last->text, last->length) <= 0)
        return broken_record(offset, "has a key that does not come behind the one before", err);
    walk->started = true;
    last->length = 0;
    strbuf_add_bytes(last, records->key.text, records->key.length);
    return last->failed ? error_set(err, ERROR_MEMORY, "no memory for a key") : 0;
}

static int walk_block(struct walk *walk, struct table_place place, struct error *err)
{
    struct records records = {0};
    strbuf_init(&records.key);
    int status = open_block(walk, place, &records, err);
    while (status == 0) {
        size_t offset = proto_offset(&records.at);
        int more = next_record(&records, err);
        if (more <= 0 || check_order(walk, &records, offset, err) < 0) {
            status = more == 0 ? 0 : -1;
            break;
        }
        status = walk->visit(walk->context, (const uint8_t *)records.key.text, records.key.length,
                             records.value, records.value_bytes, err);
    }
    strbuf_release(&records.key);
    return status;
}

/* A data block named by the index. In the order of the file, so that a small file cannot name one
 * block a million times. */
static int walk_named(struct walk *walk, const struct records *index, struct error *err)
{
    struct proto_reader value;
    struct table_place place;
    proto_open(&value, index->value, index->value_bytes);
    if (!take_place(&value, &place))
        return error_set(err, ERROR_FORMAT, "the index names a block without a place");
    if (place.offset < walk->end)
        return error_set(err, ERROR_FORMAT,
                         "the index names a block at offset %" PRIu64
                         ", before the end of the last one at %" PRIu64,
                         place.offset, walk->end);
    int status = walk_block(walk, place, err);
    walk->end = place.offset + place.bytes + TABLE_TRAILER_BYTES;
    return status;
}

static int read_footer(const struct walk *walk, struct table_place *index, struct error *err)
{
    struct proto_reader footer;
    struct table_place metadata;
    uint64_t magic = 0;
    if (walk->count < TABLE_FOOTER_BYTES)
        return error_set(err, ERROR_FORMAT, "only %zu bytes, too short for a table", walk->count);
    const uint8_t *end = walk->bytes + walk->count;
    proto_open(&footer, end - sizeof magic, sizeof magic);
    proto_take_fixed64(&footer, &magic);
    if (magic != TABLE_MAGIC)
        return error_set(err, ERROR_FORMAT,
                         "does not end as a table does: it is cut off, or something else");
    proto_open(&footer, end - TABLE_FOOTER_BYTES, TABLE_FOOTER_BYTES - sizeof magic);
    if (!take_place(&footer, &metadata) || !take_place(&footer, index))
        return error_set(err, ERROR_FORMAT, "the last %d bytes name no index", TABLE_FOOTER_BYTES);
    return 0;
}

int table_walk(const char *name, const void *bytes, size_t count, table_visit *visit, void *context,
               struct error *err)
{
    struct walk walk = {.bytes = bytes, .count = count, .visit = visit, .context = context};
    struct table_place place = {0};
    struct records index = {0};
    strbuf_init(&walk.last_key);
    strbuf_init(&index.key);
    int status = read_footer(&walk, &place, err);
    if (status == 0)
        status = open_block(&walk, place, &index, err);
    while (status == 0) {
        int more = next_record(&index, err);
        if (more <= 0) {
            status = more;
            break;
        }
        status = walk_named(&walk, &index, err);
    }
    strbuf_release(&index.key);
    strbuf_release(&walk.last_key);
    return status < 0 ? error_wrap(err, "%s", name) : status;
}
