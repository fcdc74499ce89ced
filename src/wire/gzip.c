#include "wire/gzip.h"

#include <zlib.h>

#include "base/error.h"
#include "base/memory.h"

enum {
    GZIP_WINDOW = 15 + 16, /* the largest window; gzip's header, not zlib's */
    FIRST_CAPACITY = 64 * 1024,
    LARGEST_STEP = 1 << 30, /* zlib counts in 32 bits */
};

struct unpacked {
    char *data;
    size_t used, capacity, limit;
};

bool gzip_recognize(const void *bytes, size_t count)
{
    return count >= 2 && memcmp(bytes, "\x1f\x8b", 2) == 0;
}

/* The trailer's size (modulo 2^32) is only a hint, and is believed only as far as deflate's best
 * ratio allows: a file cannot ask for more memory than it could fill. */
static size_t size_hint(const unsigned char *bytes, size_t count, size_t limit)
{
    if (count < 18)
        return FIRST_CAPACITY;
    const unsigned char *t = bytes + count - 4;
    size_t hint = (size_t)t[0] | (size_t)t[1] << 8 | (size_t)t[2] << 16 | (size_t)t[3] << 24;
    size_t most = count <= limit / 1032 ? count * 1032 : limit;
    hint = hint < most ? hint : most;
    return hint > 0 ? hint : 1;
}

static int grow(struct unpacked *unpacked, const char *name, struct error *err)
{
    if (unpacked->capacity >= unpacked->limit)
        return error_set(err, ERROR_FORMAT, "%s: unpacks to more than the %zu bytes allowed", name,
                         unpacked->limit);
    size_t capacity =
        unpacked->capacity > unpacked->limit / 2 ? unpacked->limit : unpacked->capacity * 2;
    char *data = memory_resize(unpacked->data, capacity);
    if (!data)
        return error_set(err, ERROR_MEMORY, "%s: no memory for %zu unpacked bytes", name, capacity);
    unpacked->data = data;
    unpacked->capacity = capacity;
    return 0;
}

/* One call of inflate on what is left of both buffers. */
static int inflate_step(z_stream *stream, struct unpacked *unpacked, size_t input_left)
{
    size_t room = unpacked->capacity - unpacked->used;
    stream->avail_in = input_left < LARGEST_STEP ? (uInt)input_left : LARGEST_STEP;
    stream->avail_out = room < LARGEST_STEP ? (uInt)room : LARGEST_STEP;
    stream->next_out = (Bytef *)unpacked->data + unpacked->used;
    uInt offered = stream->avail_out;
    int code = inflate(stream, Z_NO_FLUSH);
    unpacked->used += offered - stream->avail_out;
    return code;
}

static int inflate_all(z_stream *stream, const char *name, const unsigned char *bytes, size_t count,
                       struct unpacked *unpacked, struct error *err)
{
    stream->next_in = (Bytef *)bytes; /* zlib reads it only, but its type says otherwise */
    for (;;) {
        size_t offset = (size_t)(stream->next_in - bytes);
        int code = inflate_step(stream, unpacked, count - offset);
        offset = (size_t)(stream->next_in - bytes);
        if (code == Z_STREAM_END) {
            if (offset == count)
                return 0;
            if (inflateReset(stream) != Z_OK) /* another member follows */
                return error_set(err, ERROR_FORMAT, "%s: zlib cannot start over", name);
        } else if (code == Z_MEM_ERROR) {
            return error_set(err, ERROR_MEMORY, "%s: no memory for unpacking", name);
        } else if (code != Z_OK && code != Z_BUF_ERROR) {
            return error_set(err, ERROR_FORMAT, "%s: damaged gzip data near offset %zu: %s", name,
                             offset, stream->msg ? stream->msg : "unexpected bytes");
        } else if (unpacked->used == unpacked->capacity) {
            if (grow(unpacked, name, err) < 0)
                return -1;
        } else if (offset == count) {
            return error_set(err, ERROR_FORMAT,
                             "%s: the gzip data ends too early, at offset %zu; is the file whole?",
                             name, offset);
        }
    }
}

int gzip_unpack(const char *name, const void *bytes, size_t count, size_t limit, char **out,
                size_t *out_bytes, struct error *err)
{
    if (!gzip_recognize(bytes, count))
        return error_set(err, ERROR_FORMAT, "%s: not gzip data: it does not start with 1f 8b",
                         name);
    struct unpacked unpacked = {.limit = limit, .capacity = size_hint(bytes, count, limit)};
    unpacked.data = memory_allocate(unpacked.capacity);
    z_stream stream = {0};
    if (!unpacked.data || inflateInit2(&stream, GZIP_WINDOW) != Z_OK) {
        memory_free(unpacked.data);
        return error_set(err, ERROR_MEMORY, "%s: no memory for unpacking", name);
    }
    int status = inflate_all(&stream, name, bytes, count, &unpacked, err);
    inflateEnd(&stream);
    if (status < 0) {
        memory_free(unpacked.data);
        return -1;
    }
    *out = unpacked.data;
    *out_bytes = unpacked.used;
    return 0;
}
