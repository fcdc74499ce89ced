#include "base/error.h"
#include "wire/crc32c.h"
#include "wire/proto.h"
#include "wire/table.h"
#include "wire/table_format.h"

/* TensorFlow's choices; with others the table would be as good but not byte for byte the same. */
enum { BLOCK_BYTES = 256 << 10, RESTART_INTERVAL = 16, INDEX_RESTART_INTERVAL = 1 };

static void block_init(struct table_block *block, int restart_interval)
{
    *block = (struct table_block){.restart_interval = restart_interval};
    strbuf_init(&block->records);
    strbuf_init(&block->restarts);
    strbuf_init(&block->last_key);
    proto_put_fixed32(&block->restarts, 0);
}

static void block_release(struct table_block *block)
{
    strbuf_release(&block->records);
    strbuf_release(&block->restarts);
    strbuf_release(&block->last_key);
}

/* Empties it, but does not forget that memory was short. */
static void block_restart(struct table_block *block)
{
    block->records.length = block->restarts.length = block->last_key.length = 0;
    block->since_restart = 0;
    proto_put_fixed32(&block->restarts, 0);
}

static size_t common_bytes(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    size_t common = 0;
    while (common < a_bytes && common < b_bytes && a[common] == b[common])
        common++;
    return common;
}

static void set_bytes(struct strbuf *buffer, const void *bytes, size_t count)
{
    buffer->length = 0;
    strbuf_add_bytes(buffer, bytes, count);
}

static void block_add(struct table_block *block, const char *key, size_t key_bytes,
                      const void *value, size_t value_bytes)
{
    size_t shared = 0;
    if (block->since_restart < block->restart_interval) {
        shared = common_bytes(block->last_key.text, block->last_key.length, key, key_bytes);
    } else {
        proto_put_fixed32(&block->restarts, (uint32_t)block->records.length);
        block->since_restart = 0;
    }
    proto_put_varint(&block->records, shared);
    proto_put_varint(&block->records, key_bytes - shared);
    proto_put_varint(&block->records, value_bytes);
    strbuf_add_bytes(&block->records, key + shared, key_bytes - shared);
    strbuf_add_bytes(&block->records, value, value_bytes);
    set_bytes(&block->last_key, key, key_bytes);
    block->since_restart++;
}

static size_t block_bytes(const struct table_block *block)
{
    return block->records.length + block->restarts.length + sizeof(uint32_t);
}

/* Appends the block and what is behind it to the file. */
static struct table_place write_block(struct strbuf *out, struct table_block *block)
{
    static const char plain = TABLE_PLAIN;
    struct table_place place = {out->length, block_bytes(block)};
    strbuf_add_bytes(out, block->records.text, block->records.length);
    strbuf_add_bytes(out, block->restarts.text, block->restarts.length);
    proto_put_fixed32(out, (uint32_t)(block->restarts.length / sizeof(uint32_t)));
    strbuf_add_bytes(out, &plain, 1);
    out->failed |= block->records.failed || block->restarts.failed || block->last_key.failed;
    if (!out->failed)
        proto_put_fixed32(
            out, crc32c_mask(crc32c(0, out->text + place.offset, (size_t)place.bytes + 1)));
    block_restart(block);
    return place;
}

static void put_place(struct strbuf *out, struct table_place place)
{
    proto_put_varint(out, place.offset);
    proto_put_varint(out, place.bytes);
}

void table_writer_init(struct table_writer *writer, struct strbuf *out)
{
    *writer = (struct table_writer){.out = out};
    block_init(&writer->data, RESTART_INTERVAL);
    block_init(&writer->index, INDEX_RESTART_INTERVAL);
    strbuf_init(&writer->last_key);
}

void table_writer_release(struct table_writer *writer)
{
    block_release(&writer->data);
    block_release(&writer->index);
    strbuf_release(&writer->last_key);
}

/* Makes the last key of a block shorter, but not less, and still less than `next`. */
static void shorten_before(struct strbuf *last, const char *next, size_t next_bytes)
{
    size_t at = common_bytes(last->text, last->length, next, next_bytes);
    if (at == last->length || at == next_bytes)
        return;
    if ((uint8_t)last->text[at] + 1 < (uint8_t)next[at]) {
        last->text[at]++;
        last->length = at + 1;
    }
}

/* The same when nothing follows. */
static void shorten_last(struct strbuf *last)
{
    for (size_t i = 0; i < last->length; i++) {
        if ((uint8_t)last->text[i] != 0xff) {
            last->text[i]++;
            last->length = i + 1;
            return;
        }
    }
}

/* The waiting block's record in the index, under the shortened last key. */
static void index_waiting(struct table_writer *writer)
{
    struct strbuf place;
    strbuf_init(&place);
    put_place(&place, writer->waiting);
    block_add(&writer->index, writer->last_key.text, writer->last_key.length, place.text,
              place.length);
    writer->index.records.failed |= place.failed;
    strbuf_release(&place);
    writer->has_waiting = false;
}

static void end_block(struct table_writer *writer)
{
    if (writer->data.records.length == 0)
        return;
    writer->waiting = write_block(writer->out, &writer->data);
    writer->has_waiting = true;
}

int table_writer_add(struct table_writer *writer, const void *key, size_t key_bytes,
                     const void *value, size_t value_bytes, struct error *err)
{
    struct strbuf *last = &writer->last_key;
    if (writer->has_key && table_compare(key, key_bytes, last->text, last->length) <= 0)
        return error_set(err, ERROR_FORMAT, "a table's key '%.*s' does not come behind '%.*s'",
                         (int)(key_bytes < 200 ? key_bytes : 200), (const char *)key,
                         (int)(last->length < 200 ? last->length : 200), last->text);
    if (writer->has_key && key_bytes + value_bytes >= 2 * (size_t)BLOCK_BYTES)
        end_block(writer);
    if (writer->has_waiting) {
        shorten_before(last, key, key_bytes);
        index_waiting(writer);
    }
    set_bytes(last, key, key_bytes);
    writer->has_key = true;
    block_add(&writer->data, key, key_bytes, value, value_bytes);
    if (block_bytes(&writer->data) >= BLOCK_BYTES)
        end_block(writer);
    return 0;
}

int table_writer_finish(struct table_writer *writer, struct error *err)
{
    struct strbuf *out = writer->out;
    end_block(writer);
    struct table_place metadata = write_block(out, &writer->data);
    if (writer->has_waiting) {
        shorten_last(&writer->last_key);
        index_waiting(writer);
    }
    struct table_place index = write_block(out, &writer->index);
    size_t end = out->length + TABLE_FOOTER_BYTES;
    put_place(out, metadata);
    put_place(out, index);
    while (!out->failed && out->length < end - sizeof(uint64_t))
        strbuf_add_char(out, 0);
    proto_put_fixed64(out, TABLE_MAGIC);
    if (out->failed || writer->last_key.failed)
        return error_set(err, ERROR_MEMORY, "no memory for a table of %zu bytes", out->length);
    return 0;
}
