#include "wire/tfrecord.h"

#include <inttypes.h>
#include <zlib.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "wire/crc32c.h"

enum {
    LENGTH_BYTES = 8,
    BUFFER_BYTES = 1 << 20, /* of a writer */
    ZLIB_WINDOW = 15,
    GZIP_WINDOW = 15 + 16,
    LARGEST_STEP = 1 << 30, /* zlib counts in 32 bits */
};

static uint32_t get_u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void put_u32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static bool sum_fits(const uint8_t *bytes, size_t count, const uint8_t *stored)
{
    return crc32c_mask(crc32c(0, bytes, count)) == get_u32(stored);
}

enum tfrecord_packing tfrecord_packing_of(const void *bytes, size_t count)
{
    const uint8_t *first = bytes;
    if (count >= TFRECORD_HEADER_BYTES && sum_fits(first, LENGTH_BYTES, first + LENGTH_BYTES))
        return TFRECORD_PLAIN;
    if (count >= 2 && first[0] == 0x1f && first[1] == 0x8b)
        return TFRECORD_GZIP;
    /* Method 8, a window of at most 32 KiB, and the check of the two bytes. */
    if (count >= 2 && (first[0] & 0x0f) == 8 && first[0] >> 4 <= 7 &&
        (first[0] << 8 | first[1]) % 31 == 0)
        return TFRECORD_ZLIB;
    return TFRECORD_PLAIN;
}

int tfrecord_length(const char *name, uint64_t offset, const uint8_t header[TFRECORD_HEADER_BYTES],
                    uint64_t *out, struct error *err)
{
    if (!sum_fits(header, LENGTH_BYTES, header + LENGTH_BYTES))
        return error_set(err, ERROR_FORMAT,
                         "%s: the record at offset %" PRIu64
                         " has a damaged length (its checksum does not fit)%s",
                         name, offset, offset == 0 ? "; is this a TFRecord file?" : "");
    *out = (uint64_t)get_u32(header + 4) << 32 | get_u32(header);
    return 0;
}

static int cut_in_header(const char *name, uint64_t end, uint64_t offset, struct error *err)
{
    return error_set(err, ERROR_FORMAT,
                     "%s: ends at offset %" PRIu64
                     ", inside the header of the record at offset %" PRIu64,
                     name, end, offset);
}

static int cut_in_record(const char *name, uint64_t end, uint64_t length, uint64_t offset,
                         struct error *err)
{
    return error_set(err, ERROR_FORMAT,
                     "%s: ends at offset %" PRIu64 ", inside the record of %" PRIu64
                     " bytes at offset %" PRIu64,
                     name, end, length, offset);
}

/* The frame was found to lie inside the file. */
static int check_data(const char *name, uint64_t offset, const uint8_t *record, uint64_t length,
                      struct tfrecord *out, struct error *err)
{
    const uint8_t *data = record + TFRECORD_HEADER_BYTES;
    if (!sum_fits(data, (size_t)length, data + length))
        return error_set(err, ERROR_FORMAT,
                         "%s: the record of %" PRIu64 " bytes at offset %" PRIu64
                         " is damaged (its checksum does not fit)",
                         name, length, offset);
    *out = (struct tfrecord){.offset = offset, .data = data, .bytes = (size_t)length};
    return 0;
}

int tfrecord_check(const char *name, uint64_t offset, const uint8_t *record, size_t bytes,
                   struct tfrecord *out, struct error *err)
{
    uint64_t length;
    if (bytes < TFRECORD_HEADER_BYTES + TFRECORD_FOOTER_BYTES)
        return cut_in_header(name, offset + bytes, offset, err);
    if (tfrecord_length(name, offset, record, &length, err) < 0)
        return -1;
    uint64_t room = bytes - TFRECORD_HEADER_BYTES - TFRECORD_FOOTER_BYTES;
    if (length != room)
        return error_set(err, ERROR_FORMAT,
                         "%s: the record at offset %" PRIu64 " has %" PRIu64 " bytes where %" PRIu64
                         " were expected",
                         name, offset, length, room);
    return check_data(name, offset, record, length, out, err);
}

int tfrecord_first(const char *name, uint64_t offset, const uint8_t *bytes, uint64_t count,
                   struct tfrecord *out, struct error *err)
{
    uint64_t length;
    if (count == 0)
        return 0;
    if (count < TFRECORD_HEADER_BYTES)
        return cut_in_header(name, offset + count, offset, err);
    if (tfrecord_length(name, offset, bytes, &length, err) < 0)
        return -1;
    uint64_t left = count - TFRECORD_HEADER_BYTES;
    if (left < TFRECORD_FOOTER_BYTES || length > left - TFRECORD_FOOTER_BYTES)
        return cut_in_record(name, offset + count, length, offset, err);
    return check_data(name, offset, bytes, length, out, err) < 0 ? -1 : 1;
}

int tfrecord_next(const char *name, const uint8_t *file, size_t count, uint64_t *offset,
                  struct tfrecord *out, struct error *err)
{
    uint64_t start = *offset;
    int found =
        tfrecord_first(name, start, file + start, start < count ? count - start : 0, out, err);
    if (found > 0)
        *offset = start + TFRECORD_HEADER_BYTES + out->bytes + TFRECORD_FOOTER_BYTES;
    return found;
}

/* What tfrecord_scan takes bytes from. */
struct pieces {
    piece_source *source;
    void *context;
    const uint8_t *at;
    size_t left;     /* of the current piece */
    uint64_t offset; /* in the file, of `at` */
};

/* Passes over `count` bytes, or as many as there are: into `out`, or through the checksum. Sets
 * *taken; less than `count` at the end of the file. */
static int pieces_take(struct pieces *pieces, uint64_t count, uint8_t *out, uint32_t *crc,
                       uint64_t *taken, struct error *err)
{
    *taken = 0;
    while (*taken < count) {
        if (pieces->left == 0 &&
            pieces->source(pieces->context, &pieces->at, &pieces->left, err) < 0)
            return -1;
        if (pieces->left == 0)
            return 0;
        size_t step = count - *taken < pieces->left ? (size_t)(count - *taken) : pieces->left;
        if (out)
            memcpy(out + *taken, pieces->at, step);
        else
            *crc = crc32c(*crc, pieces->at, step);
        *taken += step;
        pieces->at += step;
        pieces->left -= step;
        pieces->offset += step;
    }
    return 0;
}

/* Returns 1, 0 at the end of the file, -1. */
static int scan_record(const char *name, struct pieces *pieces, uint64_t *length, bool *intact,
                       struct error *err)
{
    uint8_t header[TFRECORD_HEADER_BYTES], footer[TFRECORD_FOOTER_BYTES];
    uint64_t start = pieces->offset, taken;
    uint32_t crc = 0;
    if (pieces_take(pieces, sizeof header, header, NULL, &taken, err) < 0)
        return -1;
    if (taken == 0)
        return 0;
    if (taken < sizeof header)
        return cut_in_header(name, pieces->offset, start, err);
    if (tfrecord_length(name, start, header, length, err) < 0 ||
        pieces_take(pieces, *length, NULL, &crc, &taken, err) < 0)
        return -1;
    if (taken == *length && pieces_take(pieces, sizeof footer, footer, NULL, &taken, err) < 0)
        return -1;
    if (pieces->offset - start - sizeof header < *length || taken < sizeof footer)
        return cut_in_record(name, pieces->offset, *length, start, err);
    *intact = crc32c_mask(crc) == get_u32(footer);
    return 1;
}

int tfrecord_scan(const char *name, piece_source *source, void *source_context,
                  tfrecord_visit *visit, void *visit_context, struct error *err)
{
    struct pieces pieces = {.source = source, .context = source_context};
    for (;;) {
        uint64_t start = pieces.offset, length;
        bool intact = false;
        int more = scan_record(name, &pieces, &length, &intact, err);
        if (more <= 0)
            return more;
        if (visit(visit_context, start, length, intact, err) < 0)
            return -1;
    }
}

void tfrecord_frame(const void *data, size_t bytes, uint8_t header[TFRECORD_HEADER_BYTES],
                    uint8_t footer[TFRECORD_FOOTER_BYTES])
{
    put_u32(header, (uint32_t)bytes);
    put_u32(header + 4, (uint32_t)((uint64_t)bytes >> 32));
    put_u32(header + LENGTH_BYTES, crc32c_mask(crc32c(0, header, LENGTH_BYTES)));
    put_u32(footer, crc32c_mask(crc32c(0, data, bytes)));
}

struct tfrecord_writer {
    struct file_draft draft;
    bool packed, failed;
    z_stream stream;
    size_t used; /* of `buffer`, when not packed */
    uint8_t buffer[BUFFER_BYTES];
};

static int start_packing(struct tfrecord_writer *writer, enum tfrecord_packing packing,
                         struct error *err)
{
    int window = packing == TFRECORD_GZIP ? GZIP_WINDOW : ZLIB_WINDOW;
    if (deflateInit2(&writer->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, window, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        return error_set(err, ERROR_MEMORY, "%s: no memory for packing", writer->draft.target);
    writer->packed = true;
    return 0;
}

int tfrecord_writer_create(const char *path, enum tfrecord_packing packing,
                           struct tfrecord_writer **out, struct error *err)
{
    struct tfrecord_writer *writer = memory_allocate(sizeof *writer);
    if (!writer)
        return error_set(err, ERROR_MEMORY, "%s: no memory for writing", path);
    if (file_draft_begin(path, &writer->draft, err) < 0 ||
        (packing != TFRECORD_PLAIN && start_packing(writer, packing, err) < 0)) {
        tfrecord_writer_destroy(writer);
        return -1;
    }
    *out = writer;
    return 0;
}

static int flush_buffer(struct tfrecord_writer *writer, struct error *err)
{
    size_t used = writer->used;
    writer->used = 0;
    return used > 0 ? file_draft_write(&writer->draft, writer->buffer, used, err) : 0;
}

static int write_plain(struct tfrecord_writer *writer, const void *bytes, size_t count,
                       struct error *err)
{
    if (count > BUFFER_BYTES - writer->used && flush_buffer(writer, err) < 0)
        return -1;
    if (count > BUFFER_BYTES)
        return file_draft_write(&writer->draft, bytes, count, err);
    memcpy(writer->buffer + writer->used, bytes, count);
    writer->used += count;
    return 0;
}

/* Packs `count` bytes and writes what comes out; all that is still inside when `flush` ends. */
static int write_packed(struct tfrecord_writer *writer, const void *bytes, size_t count, int flush,
                        struct error *err)
{
    z_stream *stream = &writer->stream;
    stream->next_in = (Bytef *)bytes; /* zlib reads it only, but its type says otherwise */
    stream->avail_in = (uInt)count;
    do {
        stream->next_out = writer->buffer;
        stream->avail_out = BUFFER_BYTES;
        if (deflate(stream, flush) == Z_STREAM_ERROR)
            return error_set(err, ERROR_FORMAT, "%s: zlib refuses to pack", writer->draft.target);
        writer->used = BUFFER_BYTES - stream->avail_out;
        if (flush_buffer(writer, err) < 0)
            return -1;
    } while (stream->avail_out == 0);
    return 0;
}

static int write_bytes(struct tfrecord_writer *writer, const void *bytes, size_t count,
                       struct error *err)
{
    if (!writer->packed)
        return write_plain(writer, bytes, count, err);
    const uint8_t *at = bytes;
    while (count > 0) {
        size_t step = count < LARGEST_STEP ? count : LARGEST_STEP;
        if (write_packed(writer, at, step, Z_NO_FLUSH, err) < 0)
            return -1;
        at += step;
        count -= step;
    }
    return 0;
}

static int refuse_failed(const struct tfrecord_writer *writer, struct error *err)
{
    return error_set(err, ERROR_IO, "%s: an earlier write failed", writer->draft.target);
}

int tfrecord_writer_add(struct tfrecord_writer *writer, const void *data, size_t bytes,
                        struct error *err)
{
    uint8_t header[TFRECORD_HEADER_BYTES], footer[TFRECORD_FOOTER_BYTES];
    if (writer->failed)
        return refuse_failed(writer, err);
    tfrecord_frame(data, bytes, header, footer);
    writer->failed = write_bytes(writer, header, sizeof header, err) < 0 ||
                     (bytes > 0 && write_bytes(writer, data, bytes, err) < 0) ||
                     write_bytes(writer, footer, sizeof footer, err) < 0;
    return writer->failed ? -1 : 0;
}

int tfrecord_writer_finish(struct tfrecord_writer *writer, struct error *err)
{
    if (writer->failed)
        return refuse_failed(writer, err);
    writer->failed = true; /* nothing may follow */
    if ((writer->packed ? write_packed(writer, NULL, 0, Z_FINISH, err)
                        : flush_buffer(writer, err)) < 0)
        return -1;
    return file_draft_finish(&writer->draft, err);
}

void tfrecord_writer_destroy(struct tfrecord_writer *writer)
{
    if (!writer)
        return;
    if (writer->packed)
        deflateEnd(&writer->stream);
    file_draft_drop(&writer->draft);
    memory_free(writer);
}
