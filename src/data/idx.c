#include "data/idx.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "data/storage.h"
#include "wire/gzip.h"

enum {
    IDX_UNSIGNED_BYTE = 0x08,
    IDX_LIMIT = 1 << 30, /* bytes of a file, and of what it unpacks to */
};

struct cursor {
    const uint8_t *start, *at, *end;
};

static bool take_u32(struct cursor *in, uint32_t *out)
{
    if (in->end - in->at < 4)
        return false;
    *out = (uint32_t)in->at[0] << 24 | (uint32_t)in->at[1] << 16 | (uint32_t)in->at[2] << 8 |
           in->at[3];
    in->at += 4;
    return true;
}

static int parse_header(const char *name, struct cursor *in, struct idx *out, struct error *err)
{
    uint32_t magic;
    if (!take_u32(in, &magic))
        return error_set(err, ERROR_FORMAT, "%s: only %td bytes, too short for an idx file", name,
                         in->end - in->start);
    uint32_t type = magic >> 8, ndim = magic & 0xff;
    if (type != IDX_UNSIGNED_BYTE || ndim < 1 || ndim > IDX_MAX_DIMS)
        return error_set(err, ERROR_FORMAT,
                         "%s: starts with %08" PRIx32 "; an idx file of bytes starts with "
                         "00000801 (labels) or 00000803 (images)",
                         name, magic);
    out->ndim = (int)ndim;
    for (int i = 0; i < out->ndim; i++) {
        uint32_t dim;
        if (!take_u32(in, &dim))
            return error_set(err, ERROR_FORMAT,
                             "%s: ends at offset %td, inside its header of %d dimensions", name,
                             in->end - in->start, out->ndim);
        out->dim[i] = dim;
    }
    return 0;
}

int idx_parse(const char *name, const void *bytes, size_t count, struct idx *out, struct error *err)
{
    struct idx idx = {0};
    struct cursor in = {bytes, bytes, (const uint8_t *)bytes + count};
    if (parse_header(name, &in, &idx, err) < 0)
        return -1;
    uint64_t promised = 1, there = (uint64_t)(in.end - in.at);
    bool overflow = false;
    for (int i = 0; i < idx.ndim; i++)
        overflow |= __builtin_mul_overflow(promised, (uint64_t)idx.dim[i], &promised);
    if (overflow || promised != there)
        return error_set(err, ERROR_FORMAT,
                         "%s: the header promises %s%" PRIu64 " bytes of numbers, but %" PRIu64
                         " follow it at offset %td; the file is %s",
                         name, overflow ? "more than " : "", overflow ? UINT64_MAX : promised,
                         there, in.at - in.start,
                         overflow || promised > there ? "cut off or its header wrong"
                                                      : "too long or its header wrong");
    idx.values = in.at;
    *out = idx;
    return 0;
}

static int read_whole(struct storage *storage, int file, const char *name, char **out,
                      size_t *count, struct error *err)
{
    const struct storage_file *files;
    storage_files(storage, &files);
    if (files[file].bytes > IDX_LIMIT)
        return error_set(err, ERROR_FORMAT, "%s: holds %" PRIu64 " bytes, %d are allowed for it",
                         name, files[file].bytes, IDX_LIMIT);
    *count = (size_t)files[file].bytes;
    *out = memory_allocate(*count + 1);
    if (!*out)
        return error_set(err, ERROR_MEMORY, "%s: no memory for its %zu bytes", name, *count);
    if (storage_read(storage, file, 0, *count, *out, err) == 0)
        return 0;
    memory_free(*out);
    return -1;
}

int idx_read(struct storage *storage, int file, struct idx *out, struct error *err)
{
    char name[PATH_MAX], *bytes;
    size_t count;
    storage_describe(storage, file, name, sizeof name);
    if (read_whole(storage, file, name, &bytes, &count, err) < 0)
        return -1;
    if (gzip_recognize(bytes, count) || file_name_ends(name, ".gz")) {
        char *packed = bytes;
        int status = gzip_unpack(name, packed, count, IDX_LIMIT, &bytes, &count, err);
        memory_free(packed);
        if (status < 0)
            return -1;
    }
    if (idx_parse(name, bytes, count, out, err) < 0) {
        memory_free(bytes);
        return -1;
    }
    out->owned = bytes;
    return 0;
}

void idx_release(struct idx *idx)
{
    memory_free(idx->owned);
    *idx = (struct idx){0};
}
