#include "wire/unpack.h"

#include <inttypes.h>
#include <stdbool.h>
#include <zlib.h>

#include "base/error.h"
#include "base/memory.h"

enum {
    ANY_WINDOW = 15 + 32, /* the largest window; gzip's or zlib's header */
    PIECE_BYTES = 1 << 20,
    LARGEST_STEP = 1 << 30, /* zlib counts in 32 bits */
};

struct unpacker {
    const char *name;
    piece_source *source;
    void *context;
    z_stream stream;
    const uint8_t *packed; /* of the current piece, what zlib has not been given */
    size_t packed_bytes;
    uint64_t taken; /* packed bytes given to zlib so far, for messages */
    bool source_ended, between_members;
    uint8_t piece[PIECE_BYTES];
};

int unpacker_create(const char *name, piece_source *source, void *context, struct unpacker **out,
                    struct error *err)
{
    struct unpacker *unpacker = memory_allocate(sizeof *unpacker);
    if (!unpacker || inflateInit2(&unpacker->stream, ANY_WINDOW) != Z_OK) {
        memory_free(unpacker);
        return error_set(err, ERROR_MEMORY, "%s: no memory for unpacking", name);
    }
    unpacker->name = name;
    unpacker->source = source;
    unpacker->context = context;
    *out = unpacker;
    return 0;
}

void unpacker_destroy(struct unpacker *unpacker)
{
    if (!unpacker)
        return;
    inflateEnd(&unpacker->stream);
    memory_free(unpacker);
}

/* Gives zlib more of the current piece, or of the next one. */
static int feed(struct unpacker *unpacker, struct error *err)
{
    if (unpacker->packed_bytes == 0 && !unpacker->source_ended) {
        if (unpacker->source(unpacker->context, &unpacker->packed, &unpacker->packed_bytes, err) <
            0)
            return -1;
        unpacker->source_ended = unpacker->packed_bytes == 0;
    }
    size_t step =
        unpacker->packed_bytes < LARGEST_STEP ? unpacker->packed_bytes : (size_t)LARGEST_STEP;
    unpacker->stream.next_in = (Bytef *)unpacker->packed; /* only read; zlib's type is older */
    unpacker->stream.avail_in = (uInt)step;
    unpacker->packed += step;
    unpacker->packed_bytes -= step;
    unpacker->taken += step;
    return 0;
}

static int refuse(const struct unpacker *unpacker, int code, struct error *err)
{
    uint64_t offset = unpacker->taken - unpacker->stream.avail_in;
    if (code == Z_MEM_ERROR)
        return error_set(err, ERROR_MEMORY, "%s: no memory for unpacking", unpacker->name);
    if (code == Z_OK || code == Z_BUF_ERROR)
        return error_set(err, ERROR_FORMAT,
                         "%s: the packed data ends too early, at offset %" PRIu64
                         "; is the file whole?",
                         unpacker->name, offset);
    return error_set(err, ERROR_FORMAT, "%s: damaged packed data near offset %" PRIu64 ": %s",
                     unpacker->name, offset,
                     unpacker->stream.msg ? unpacker->stream.msg : "unexpected bytes");
}

int unpacker_next(void *context, const uint8_t **bytes, size_t *count, struct error *err)
{
    struct unpacker *unpacker = context;
    z_stream *stream = &unpacker->stream;
    stream->next_out = unpacker->piece;
    stream->avail_out = PIECE_BYTES;
    while (stream->avail_out > 0) {
        if (stream->avail_in == 0 && feed(unpacker, err) < 0)
            return -1;
        bool ended = stream->avail_in == 0;
        if (ended && unpacker->between_members)
            break;
        if (unpacker->between_members && inflateReset(stream) != Z_OK)
            return refuse(unpacker, Z_STREAM_ERROR, err);
        unpacker->between_members = false;
        int code = inflate(stream, Z_NO_FLUSH);
        unpacker->between_members = code == Z_STREAM_END;
        bool stuck = ended && stream->avail_out > 0 && code != Z_STREAM_END;
        if (stuck || (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR))
            return refuse(unpacker, code, err);
    }
    *bytes = unpacker->piece;
    *count = PIECE_BYTES - stream->avail_out;
    return 0;
}
