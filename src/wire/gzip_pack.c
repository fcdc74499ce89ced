#include <zlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "wire/gzip.h"

enum { GZIP_WINDOW = 15 + 16, LARGEST_STEP = 1 << 30 };

/* zlib counts in 32 bits, so large inputs go in by steps. */
static int deflate_all(z_stream *stream, size_t count, size_t capacity)
{
    int code = Z_OK;
    size_t left = count, room = capacity;
    while (code == Z_OK) {
        uInt in = left < LARGEST_STEP ? (uInt)left : LARGEST_STEP;
        uInt space = room < LARGEST_STEP ? (uInt)room : LARGEST_STEP;
        stream->avail_in = in;
        stream->avail_out = space;
        code = deflate(stream, left == in ? Z_FINISH : Z_NO_FLUSH);
        left -= in - stream->avail_in;
        room -= space - stream->avail_out;
    }
    return code;
}

int gzip_pack(const void *bytes, size_t count, char **out, size_t *out_bytes, struct error *err)
{
    z_stream stream = {0};
    if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        return error_set(err, ERROR_MEMORY, "no memory for packing");
    size_t capacity = deflateBound(&stream, count);
    char *packed = memory_allocate(capacity);
    stream.next_in = (Bytef *)bytes; /* zlib reads it only, but its type says otherwise */
    stream.next_out = (Bytef *)packed;
    int code = packed ? deflate_all(&stream, count, capacity) : Z_MEM_ERROR;
    size_t used = stream.total_out;
    deflateEnd(&stream);
    if (code != Z_STREAM_END) {
        memory_free(packed);
        return error_set(err, ERROR_MEMORY, "no memory for %zu packed bytes", capacity);
    }
    *out = packed;
    *out_bytes = used;
    return 0;
}
