#include "data/shard_stream.h"

#include "base/error.h"
#include "base/memory.h"
#include "data/piece_reader.h"
#include "data/storage.h"
#include "wire/tfrecord.h"
#include "wire/unpack.h"

enum { PACKED_PIECE = 1 << 20 };

/* Pieces of plain bytes, wherever they come from. */
struct source {
    struct piece_reader reader;
    struct unpacker *unpacker; /* NULL: they lie there as they are */
    bool ended;
    struct error damage; /* of the packed data: the end, too */
};

struct shard_stream {
    struct storage *storage;
    int file;
    const char *name;
    struct source source;
    uint8_t *buffer;
    size_t capacity, head, count; /* the stretch is `count` bytes from `head` on */
    uint64_t offset;              /* of `head` among the plain bytes */
    bool end_known;
    uint64_t end;
};

static void source_close(struct source *source)
{
    unpacker_destroy(source->unpacker);
    piece_reader_close(&source->reader);
}

static int source_open(const struct shard_stream *stream, struct source *out, struct error *err)
{
    uint8_t head[TFRECORD_HEADER_BYTES];
    const struct storage_file *files;
    storage_files(stream->storage, &files);
    uint64_t bytes = files[stream->file].bytes;
    size_t head_bytes = bytes < sizeof head ? (size_t)bytes : sizeof head;
    *out = (struct source){0};
    if (storage_read(stream->storage, stream->file, 0, head_bytes, head, err) < 0)
        return -1;
    bool packed = tfrecord_packing_of(head, head_bytes) != TFRECORD_PLAIN;
    if (piece_reader_open(&out->reader, stream->storage, stream->file, packed ? PACKED_PIECE : 0,
                          err) < 0)
        return -1;
    return packed
               ? unpacker_create(stream->name, piece_reader_next, &out->reader, &out->unpacker, err)
               : 0;
}

/* *count is 0 at the end. */
static int source_next(struct source *source, const uint8_t **bytes, size_t *count,
                       struct error *err)
{
    struct error failure = {0};
    /* A little packed data may become very much. */
    if (storage_check_stop(source->reader.storage, err) < 0)
        return -1;
    int status = source->unpacker ? unpacker_next(source->unpacker, bytes, count, &failure)
                                  : piece_reader_next(&source->reader, bytes, count, &failure);
    if (status < 0 && (!source->unpacker || failure.code != ERROR_FORMAT))
        return error_set(err, failure.code, "%s", failure.message);
    if (status < 0) {
        source->damage = failure;
        *count = 0;
    }
    source->ended = *count == 0;
    return 0;
}

int shard_stream_open(struct storage *storage, int file, const char *name,
                      struct shard_stream **out, struct error *err)
{
    struct shard_stream *stream = memory_allocate(sizeof *stream);
    if (!stream)
        return error_set(err, ERROR_MEMORY, "%s: no memory to read it", name);
    stream->storage = storage;
    stream->file = file;
    stream->name = name;
    if (source_open(stream, &stream->source, err) < 0) {
        shard_stream_close(stream);
        return -1;
    }
    *out = stream;
    return 0;
}

void shard_stream_close(struct shard_stream *stream)
{
    if (!stream)
        return;
    source_close(&stream->source);
    memory_free(stream->buffer);
    memory_free(stream);
}

bool shard_stream_is_packed(const struct shard_stream *stream)
{
    return stream->source.unpacker != NULL;
}

static void let_go(struct shard_stream *stream, uint64_t offset)
{
    uint64_t before = offset - stream->offset;
    size_t gone = before < stream->count ? (size_t)before : stream->count;
    stream->head = gone < stream->count ? stream->head + gone : 0;
    stream->count -= gone;
    stream->offset += gone;
}

static int append(struct shard_stream *stream, const uint8_t *bytes, size_t count,
                  struct error *err)
{
    size_t needed = stream->count + count;
    if (stream->head + needed > stream->capacity && stream->head > 0) {
        memmove(stream->buffer, stream->buffer + stream->head, stream->count);
        stream->head = 0;
    }
    if (needed > stream->capacity) {
        uint8_t *larger = memory_resize(stream->buffer, needed + needed / 2);
        if (!larger)
            return error_set(err, ERROR_MEMORY, "%s: no memory for %zu bytes of it", stream->name,
                             needed);
        stream->buffer = larger;
        stream->capacity = needed + needed / 2;
    }
    memcpy(stream->buffer + stream->head + stream->count, bytes, count);
    stream->count += count;
    return 0;
}

int shard_stream_view(struct shard_stream *stream, uint64_t offset, size_t bytes,
                      const uint8_t **out, size_t *count, struct error *err)
{
    let_go(stream, offset);
    while ((stream->offset < offset || stream->count < bytes) && !stream->source.ended) {
        const uint8_t *piece;
        size_t piece_bytes;
        if (source_next(&stream->source, &piece, &piece_bytes, err) < 0)
            return -1;
        /* Nothing is kept of what is passed over. */
        uint64_t before = offset - stream->offset;
        size_t skipped = before < piece_bytes ? (size_t)before : piece_bytes;
        stream->offset += skipped;
        if (piece_bytes > skipped &&
            append(stream, piece + skipped, piece_bytes - skipped, err) < 0)
            return -1;
    }
    if (stream->source.ended && !stream->end_known) {
        stream->end = stream->offset + stream->count;
        stream->end_known = true;
    }
    *out = stream->buffer + stream->head;
    *count = stream->offset < offset ? 0 : stream->count;
    return 0;
}

/* Unpacks everything a second time, to nowhere. */
static int count_unpacked(const struct shard_stream *stream, uint64_t *out, struct error *err)
{
    struct source source;
    const uint8_t *piece;
    size_t count = 0;
    int status = source_open(stream, &source, err);
    for (*out = 0; status == 0 && !source.ended; *out += count)
        status = source_next(&source, &piece, &count, err);
    source_close(&source);
    return status;
}

int shard_stream_end(struct shard_stream *stream, uint64_t *out, struct error *err)
{
    if (!stream->end_known) {
        if (!shard_stream_is_packed(stream))
            stream->end = stream->source.reader.bytes;
        else if (count_unpacked(stream, &stream->end, err) < 0)
            return -1;
        stream->end_known = true;
    }
    *out = stream->end;
    return 0;
}

uint64_t shard_stream_taken(const struct shard_stream *stream)
{
    return stream->source.reader.next;
}

const char *shard_stream_damage(const struct shard_stream *stream)
{
    return stream->source.damage.code ? stream->source.damage.message : NULL;
}
