#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "store/bundle.h"
#include "store/bundle_index.h"
#include "wire/crc32c.h"
#include "wire/proto.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are written as they lie");

enum { BUFFER_BYTES = 1 << 20, FLUSH_BYTES = 8 << 20 };

struct bundle_writer {
    char data_path[PATH_MAX], index_path[PATH_MAX];
    int data, index;     /* descriptors, or -1 */
    struct arena *arena; /* names */
    struct bundle_entry *entries;
    int count, capacity;
    char *buffer; /* [BUFFER_BYTES], of which `used` are not yet in the file */
    size_t used;
    uint64_t written; /* bytes in the data file */
    uint64_t flushed; /* of those, started on their way to the disk */
    bool failed;
};

static int fail_at(const char *path, uint64_t offset, struct error *err)
{
    return error_set(err, ERROR_IO, "%s: writing at offset %" PRIu64 ": %s", path, offset,
                     strerror(errno));
}

static int create_file(const char *path, int *out, struct error *err)
{
    *out = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return *out < 0 ? error_set(err, ERROR_IO, "%s: %s", path, strerror(errno)) : 0;
}

static int prepare(struct bundle_writer *writer, const char *prefix, struct error *err)
{
    writer->arena = arena_create();
    writer->buffer = memory_allocate(BUFFER_BYTES);
    if (!writer->arena || !writer->buffer)
        return error_set(err, ERROR_MEMORY, "%s: no memory for writing", prefix);
    if (bundle_index_path(prefix, writer->index_path, err) < 0 ||
        bundle_data_path(prefix, 0, 1, writer->data_path, err) < 0 ||
        create_file(writer->data_path, &writer->data, err) < 0)
        return -1;
    return create_file(writer->index_path, &writer->index, err);
}

int bundle_write_begin(const char *prefix, struct bundle_writer **out, struct error *err)
{
    struct bundle_writer *writer = memory_allocate(sizeof *writer);
    if (!writer)
        return error_set(err, ERROR_MEMORY, "%s: no memory for writing", prefix);
    writer->data = writer->index = -1;
    if (prepare(writer, prefix, err) < 0) {
        bundle_write_drop(writer);
        return -1;
    }
    *out = writer;
    return 0;
}

void bundle_write_drop(struct bundle_writer *writer)
{
    if (!writer)
        return;
    if (writer->data >= 0)
        close(writer->data);
    if (writer->index >= 0)
        close(writer->index);
    arena_destroy(writer->arena);
    memory_free(writer->entries);
    memory_free(writer->buffer);
    memory_free(writer);
}

/* All of it at `offset`; `*offset` moves with what was written, also on failure. */
static int write_all(int file, const char *path, const char *bytes, size_t count, uint64_t *offset,
                     struct error *err)
{
    while (count > 0) {
        ssize_t written = pwrite(file, bytes, count, (off_t)*offset);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            errno = written < 0 ? errno : ENOSPC; /* POSIX allows 0; nothing else can be meant */
            return fail_at(path, *offset, err);
        }
        bytes += written;
        count -= (size_t)written;
        *offset += (uint64_t)written;
    }
    return 0;
}

/* One piece of the file, started on its way to the disk or waited for. A failure that is told here
 * may not be told again by fsync, so it counts; not to know the call is none. */
static int sync_piece(const struct bundle_writer *writer, uint64_t offset, unsigned how,
                      struct error *err)
{
    if (sync_file_range(writer->data, (off_t)offset, FLUSH_BYTES, how) == 0 || errno == ENOSYS ||
        errno == EINVAL || errno == ESPIPE)
        return 0;
    return fail_at(writer->data_path, offset, err);
}

/* Starts each full piece and waits for the one before it, so that no more than two are dirty: the
 * flush at the end is short, and the cache keeps what is trained on instead of what was written. */
static int flush_behind(struct bundle_writer *writer, struct error *err)
{
    static const unsigned wait =
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    for (; writer->written - writer->flushed >= FLUSH_BYTES; writer->flushed += FLUSH_BYTES) {
        if (sync_piece(writer, writer->flushed, SYNC_FILE_RANGE_WRITE, err) < 0)
            return -1;
        if (writer->flushed == 0)
            continue;
        uint64_t before = writer->flushed - FLUSH_BYTES;
        if (sync_piece(writer, before, wait, err) < 0)
            return -1;
        posix_fadvise(writer->data, (off_t)before, FLUSH_BYTES, POSIX_FADV_DONTNEED);
    }
    return 0;
}

static int write_out(struct bundle_writer *writer, const char *bytes, size_t count,
                     struct error *err)
{
    if (write_all(writer->data, writer->data_path, bytes, count, &writer->written, err) < 0)
        return -1;
    return flush_behind(writer, err);
}

static int flush_buffer(struct bundle_writer *writer, struct error *err)
{
    size_t used = writer->used;
    writer->used = 0;
    return write_out(writer, writer->buffer, used, err);
}

/* Whole buffers go out from where they lie, the rest is gathered. */
static int append(struct bundle_writer *writer, const void *bytes, size_t count, struct error *err)
{
    const char *at = bytes;
    while (count > 0) {
        size_t room = BUFFER_BYTES - writer->used, step = count < room ? count : room;
        if (step == BUFFER_BYTES) {
            if (write_out(writer, at, step, err) < 0)
                return -1;
        } else {
            memcpy(writer->buffer + writer->used, at, step);
            writer->used += step;
            if (writer->used == BUFFER_BYTES && flush_buffer(writer, err) < 0)
                return -1;
        }
        at += step;
        count -= step;
    }
    return 0;
}

/* Summed piece by piece just before it is written, while it is in the processor's cache. */
static int append_numbers(struct bundle_writer *writer, const void *bytes, size_t count,
                          uint32_t *crc, struct error *err)
{
    const char *at = bytes;
    while (count > 0) {
        size_t step = count < BUFFER_BYTES ? count : BUFFER_BYTES;
        *crc = crc32c(*crc, at, step);
        if (append(writer, at, step, err) < 0)
            return -1;
        at += step;
        count -= step;
    }
    return 0;
}

/* Varint lengths, the checksum of the lengths, the bytes of all. The sum takes lengths as numbers of
 * 4 bytes (of 8 when they need them), then the stored checksum and the bytes. */
static int append_strings(struct bundle_writer *writer, const struct tensor *tensor, uint32_t *crc,
                          struct error *err)
{
    const struct text_view *views = tensor->data;
    int64_t count = shape_count(&tensor->shape);
    struct strbuf lengths;
    strbuf_init(&lengths);
    for (int64_t i = 0; i < count; i++) {
        uint64_t length = views[i].count;
        proto_put_varint(&lengths, length);
        *crc = crc32c(*crc, &length, length <= UINT32_MAX ? sizeof(uint32_t) : sizeof length);
    }
    uint32_t masked = crc32c_mask(*crc);
    proto_put_fixed32(&lengths, masked);
    *crc = crc32c(*crc, &masked, sizeof masked);
    int status = lengths.failed
                     ? error_set(err, ERROR_MEMORY, "%s: no memory for %" PRId64 " strings",
                                 writer->data_path, count)
                     : append(writer, lengths.text, lengths.length, err);
    strbuf_release(&lengths);
    for (int64_t i = 0; i < count && status == 0; i++)
        status = append_numbers(writer, views[i].bytes, views[i].count, crc, err);
    return status;
}

static int check_tensor(const struct bundle_writer *writer, const char *name,
                        const struct tensor *tensor, struct error *err)
{
    char text[160];
    if (writer->failed)
        return error_set(err, ERROR_IO, "%s: an earlier write failed", writer->data_path);
    if (name[0] == '\0')
        return error_set(err, ERROR_FORMAT, "%s: a tensor needs a name", writer->data_path);
    for (int i = 0; i < tensor->shape.ndim; i++)
        if (tensor->shape.dim[i] < 0)
            return error_set(err, ERROR_FORMAT, "%s: '%s' has the unfinished shape %s",
                             writer->data_path, name,
                             shape_text(&tensor->shape, text, sizeof text));
    return 0;
}

/* The next entry, with a copy of the name; NULL when memory is short. */
static struct bundle_entry *add_entry(struct bundle_writer *writer, const char *name)
{
    if (writer->count == writer->capacity) {
        int capacity = writer->capacity ? 2 * writer->capacity : 256;
        void *larger = memory_resize(writer->entries, (size_t)capacity * sizeof *writer->entries);
        if (!larger)
            return NULL;
        writer->entries = larger;
        writer->capacity = capacity;
    }
    char *copy = arena_copy_text(writer->arena, name);
    if (!copy)
        return NULL;
    struct bundle_entry *entry = &writer->entries[writer->count++];
    *entry = (struct bundle_entry){.name = copy};
    return entry;
}

int bundle_write_tensor(struct bundle_writer *writer, const char *name, const struct tensor *tensor,
                        struct error *err)
{
    if (check_tensor(writer, name, tensor, err) < 0) {
        writer->failed = true;
        return -1;
    }
    struct bundle_entry *entry = add_entry(writer, name);
    if (!entry) {
        writer->failed = true;
        return error_set(err, ERROR_MEMORY, "%s: no memory for its names", writer->index_path);
    }
    uint32_t crc = 0;
    entry->dtype = tensor->dtype;
    entry->shape = tensor->shape;
    entry->offset = writer->written + writer->used;
    int status = tensor->dtype == DTYPE_STRING
                     ? append_strings(writer, tensor, &crc, err)
                     : append_numbers(writer, tensor->data, tensor_bytes(tensor), &crc, err);
    entry->bytes = writer->written + writer->used - entry->offset;
    entry->crc = crc32c_mask(crc);
    writer->failed = status < 0;
    return status;
}

static int write_index(struct bundle_writer *writer, struct error *err)
{
    struct strbuf index;
    uint64_t offset = 0;
    strbuf_init(&index);
    int status = bundle_index_write(writer->entries, writer->count, &index, err);
    if (status < 0)
        error_wrap(err, "%s", writer->index_path);
    else
        status =
            write_all(writer->index, writer->index_path, index.text, index.length, &offset, err);
    strbuf_release(&index);
    return status;
}

/* Also closes it: some network file systems tell only then that a write failed. */
static int flush_file(int *file, const char *path, struct error *err)
{
    int status = 0;
    if (fsync(*file) < 0)
        status = error_set(err, ERROR_IO, "%s: flushing to the disk: %s", path, strerror(errno));
    if (close(*file) < 0 && status == 0)
        status = error_set(err, ERROR_IO, "%s: closing: %s", path, strerror(errno));
    *file = -1;
    return status;
}

int bundle_write_finish(struct bundle_writer *writer, struct error *err)
{
    int status = writer->failed
                     ? error_set(err, ERROR_IO, "%s: an earlier write failed", writer->data_path)
                     : flush_buffer(writer, err);
    if (status == 0)
        status = flush_file(&writer->data, writer->data_path, err);
    if (status == 0)
        status = write_index(writer, err);
    if (status == 0)
        status = flush_file(&writer->index, writer->index_path, err);
    bundle_write_drop(writer);
    return status;
}
