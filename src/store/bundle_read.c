#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "store/bundle.h"
#include "store/bundle_index.h"
#include "wire/crc32c.h"
#include "wire/proto.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are read as they lie");

enum {
    PIECE_BYTES = 1 << 20,
    INDEX_LIMIT = 64 << 20, /* 3,000 tensors have 200 KiB */
};

/* A data file. */
struct shard {
    const char *path;
    int file; /* or -1 */
    uint64_t bytes;
};

struct bundle {
    struct arena *arena; /* all below */
    struct bundle_index index;
    struct shard *shards; /* [index.shards] */
};

static int read_index(const char *prefix, struct bundle *bundle, struct error *err)
{
    char path[PATH_MAX], *bytes;
    size_t count;
    if (bundle_index_path(prefix, path, err) < 0 ||
        file_read(path, INDEX_LIMIT, &bytes, &count, err) < 0)
        return -1;
    int status = bundle_index_read(path, bytes, count, bundle->arena, &bundle->index, err);
    memory_free(bytes);
    return status;
}

static int open_shard(const char *prefix, int number, struct bundle *bundle, struct error *err)
{
    struct shard *shard = &bundle->shards[number];
    char path[PATH_MAX];
    struct stat info;
    if (bundle_data_path(prefix, number, bundle->index.shards, path, err) < 0)
        return -1;
    shard->path = arena_copy_text(bundle->arena, path);
    if (!shard->path)
        return error_set(err, ERROR_MEMORY, "%s: no memory", path);
    shard->file = file_open(path, err);
    if (shard->file < 0)
        return -1;
    if (fstat(shard->file, &info) < 0)
        return error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return error_set(err, ERROR_FORMAT, "%s: is not a regular file", path);
    shard->bytes = (uint64_t)info.st_size;
    return 0;
}

static int open_shards(const char *prefix, struct bundle *bundle, struct error *err)
{
    bundle->shards = ARENA_ARRAY(bundle->arena, struct shard, bundle->index.shards);
    if (!bundle->shards)
        return error_set(err, ERROR_MEMORY, "%s: no memory", prefix);
    for (int i = 0; i < bundle->index.shards; i++)
        bundle->shards[i].file = -1;
    for (int i = 0; i < bundle->index.shards; i++)
        if (open_shard(prefix, i, bundle, err) < 0)
            return -1;
    return 0;
}

static int check_ranges(const struct bundle *bundle, struct error *err)
{
    for (int i = 0; i < bundle->index.count; i++) {
        const struct bundle_entry *entry = &bundle->index.entries[i];
        const struct shard *shard = &bundle->shards[entry->shard];
        /* bundle_index_read made sure that the sum is a number. */
        if (entry->offset + entry->bytes > shard->bytes)
            return error_set(err, ERROR_FORMAT,
                             "%s: holds %" PRIu64 " bytes, but '%.200s' ends at %" PRIu64
                             ": the file is cut off, or of another bundle",
                             shard->path, shard->bytes, entry->name, entry->offset + entry->bytes);
    }
    return 0;
}

int bundle_open(const char *prefix, struct bundle **out, struct error *err)
{
    struct bundle *bundle = memory_allocate(sizeof *bundle);
    if (!bundle || !(bundle->arena = arena_create())) {
        memory_free(bundle);
        return error_set(err, ERROR_MEMORY, "%s: no memory", prefix);
    }
    if (read_index(prefix, bundle, err) < 0 || open_shards(prefix, bundle, err) < 0 ||
        check_ranges(bundle, err) < 0) {
        bundle_close(bundle);
        return -1;
    }
    *out = bundle;
    return 0;
}

void bundle_close(struct bundle *bundle)
{
    if (!bundle)
        return;
    for (int i = 0; bundle->shards && i < bundle->index.shards; i++)
        if (bundle->shards[i].file >= 0)
            close(bundle->shards[i].file);
    arena_destroy(bundle->arena);
    memory_free(bundle);
}

int bundle_count(const struct bundle *bundle)
{
    return bundle->index.count;
}

const struct bundle_entry *bundle_entry(const struct bundle *bundle, int index)
{
    return &bundle->index.entries[index];
}

int bundle_find(const struct bundle *bundle, const char *name)
{
    int first = 0, end = bundle->index.count;
    while (first < end) {
        int middle = first + (end - first) / 2;
        int order = strcmp(name, bundle->index.entries[middle].name);
        if (order == 0)
            return middle;
        if (order < 0)
            end = middle;
        else
            first = middle + 1;
    }
    return -1;
}

/* `count` bytes of the file at `offset`. */
static int read_all(const struct shard *shard, uint64_t offset, char *out, size_t count,
                    struct error *err)
{
    while (count > 0) {
        ssize_t got = pread(shard->file, out, count, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set(err, ERROR_IO, "%s: reading at offset %" PRIu64 ": %s", shard->path,
                             offset, strerror(errno));
        if (got == 0)
            return error_set(err, ERROR_FORMAT,
                             "%s: ends at offset %" PRIu64 ", earlier than when it was opened",
                             shard->path, offset);
        out += got;
        offset += (uint64_t)got;
        count -= (size_t)got;
    }
    return 0;
}

static int damaged(const struct bundle *bundle, const struct bundle_entry *entry, const char *what,
                   struct error *err)
{
    return error_set(
        err, ERROR_FORMAT, "%s: '%.200s' at offset %" PRIu64 " (%" PRIu64 " bytes) is damaged: %s",
        bundle->shards[entry->shard].path, entry->name, entry->offset, entry->bytes, what);
}

/* Reads in pieces that are summed while they are in the processor's cache; to `out` one behind the
 * other, or all to the start of it when `keep` is false. */
static int read_numbers(const struct bundle *bundle, const struct bundle_entry *entry, char *out,
                        bool keep, struct error *err)
{
    uint32_t crc = 0;
    for (uint64_t done = 0; done < entry->bytes;) {
        uint64_t left = entry->bytes - done;
        size_t step = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
        char *place = keep ? out + done : out;
        if (read_all(&bundle->shards[entry->shard], entry->offset + done, place, step, err) < 0)
            return error_wrap(err, "'%.200s'", entry->name);
        crc = crc32c(crc, place, step);
        done += step;
    }
    return crc32c_mask(crc) == entry->crc
               ? 0
               : damaged(bundle, entry, "its checksum does not fit", err);
}

static int refuse(const struct bundle *bundle, const struct bundle_entry *entry, const char *why,
                  struct error *err)
{
    return error_set(err, ERROR_FORMAT, "%s: '%.200s' cannot be read: %s",
                     bundle->shards[entry->shard].path, entry->name, why);
}

int bundle_read(const struct bundle *bundle, int index, struct tensor *out, struct error *err)
{
    const struct bundle_entry *entry = &bundle->index.entries[index];
    char stored[160], wanted[160];
    if (entry->unreadable)
        return refuse(bundle, entry, entry->unreadable, err);
    if (entry->dtype == DTYPE_STRING)
        return refuse(bundle, entry, "it holds strings, not numbers", err);
    if (entry->dtype != out->dtype || !shape_equal(&entry->shape, &out->shape))
        return error_set(err, ERROR_FORMAT, "%s: '%.200s' is %s %s, not %s %s",
                         bundle->shards[entry->shard].path, entry->name, dtype_name(entry->dtype),
                         shape_text(&entry->shape, stored, sizeof stored), dtype_name(out->dtype),
                         shape_text(&out->shape, wanted, sizeof wanted));
    return read_numbers(bundle, entry, out->data, true, err);
}

/* Takes the lengths apart: `*crc` becomes their sum, `*text` where the strings themselves start. */
static int take_lengths(const char *bytes, size_t size, struct text_view *views, int64_t count,
                        uint32_t *crc, size_t *text)
{
    struct proto_reader at;
    uint64_t total = 0;
    uint32_t sum = 0;
    proto_open(&at, bytes, size);
    for (int64_t i = 0; i < count; i++) {
        uint64_t length;
        if (!proto_take_varint(&at, &length) || length > size)
            return -1;
        *crc = crc32c(*crc, &length, length <= UINT32_MAX ? sizeof(uint32_t) : sizeof length);
        views[i].count = (size_t)length;
        total += length;
        if (total > size)
            return -1;
    }
    if (!proto_take_fixed32(&at, &sum) || sum != crc32c_mask(*crc) ||
        total != (uint64_t)(at.end - at.at))
        return -1;
    *crc = crc32c(*crc, &sum, sizeof sum);
    *text = proto_offset(&at);
    return 0;
}

int bundle_read_strings(const struct bundle *bundle, int index, struct arena *arena,
                        struct tensor *out, struct error *err)
{
    const struct bundle_entry *entry = &bundle->index.entries[index];
    if (entry->unreadable || entry->dtype != DTYPE_STRING)
        return refuse(bundle, entry, entry->unreadable ? entry->unreadable : "it holds no strings",
                      err);
    int64_t count = shape_count(&entry->shape); /* not more than it has bytes */
    struct text_view *views = ARENA_ARRAY(arena, struct text_view, count);
    char *bytes = arena_take(arena, (size_t)entry->bytes);
    size_t text = 0;
    uint32_t crc = 0;
    if (!views || !bytes)
        return error_set(err, ERROR_MEMORY, "no memory for the strings of '%.200s'", entry->name);
    if (read_all(&bundle->shards[entry->shard], entry->offset, bytes, (size_t)entry->bytes, err) <
        0)
        return error_wrap(err, "'%.200s'", entry->name);
    if (take_lengths(bytes, (size_t)entry->bytes, views, count, &crc, &text) < 0)
        return damaged(bundle, entry, "its strings' lengths do not fit", err);
    if (crc32c_mask(crc32c(crc, bytes + text, (size_t)entry->bytes - text)) != entry->crc)
        return damaged(bundle, entry, "its checksum does not fit", err);
    for (int64_t i = 0; i < count; i++) {
        views[i].bytes = bytes + text;
        text += views[i].count;
    }
    *out = (struct tensor){.dtype = DTYPE_STRING, .shape = entry->shape, .data = views};
    return 0;
}

static int check_strings(const struct bundle *bundle, int index, struct error *err)
{
    struct tensor strings;
    struct arena *arena = arena_create();
    if (!arena)
        return error_set(err, ERROR_MEMORY, "no memory to check strings");
    int status = bundle_read_strings(bundle, index, arena, &strings, err);
    arena_destroy(arena);
    return status;
}

int bundle_check(const struct bundle *bundle, int index, struct error *err)
{
    const struct bundle_entry *entry = &bundle->index.entries[index];
    if (entry->form == BUNDLE_UNCHECKED)
        return 0;
    if (entry->form == BUNDLE_STRINGS)
        return check_strings(bundle, index, err);
    char *room = memory_allocate(PIECE_BYTES);
    if (!room)
        return error_set(err, ERROR_MEMORY, "no memory to check '%.200s'", entry->name);
    int status = read_numbers(bundle, entry, room, false, err);
    memory_free(room);
    return status;
}
