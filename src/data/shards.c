#include "data/shards.h"

#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "data/shard_names.h"
#include "data/shards_internal.h"
#include "data/storage.h"
#include "tensor/random.h"

enum { INDEX_LIMIT = 1 << 30 };

/* ---- opening ---- */

static int list_shards(struct shards *shards, const char *split, struct error *err)
{
    int *files = NULL;
    const struct storage_file *listed;
    int count = shard_names_find(shards->storage, split, &files, err);
    if (count < 0)
        return -1;
    shards->shards = memory_allocate((size_t)count * sizeof *shards->shards);
    shards->entries = memory_allocate((size_t)count * sizeof *shards->entries);
    if (!shards->shards || !shards->entries) {
        memory_free(files);
        return error_set(err, ERROR_MEMORY, "%s: no memory for the list of shards",
                         storage_name(shards->storage));
    }
    shards->shard_count = count;
    storage_files(shards->storage, &listed);
    for (int i = 0; i < count; i++) {
        const struct storage_file *file = &listed[files[i]];
        shards->shards[i] = (struct shard){.file = files[i], .unpacked = {.file = -1}};
        shards->entries[i] = (struct shard_entry){
            .name = file->name, .bytes = file->bytes, .modified = file->modified};
    }
    memory_free(files);
    return 0;
}

static bool can_write(const char *directory)
{
    return directory_make(directory, NULL) == 0 && access(directory, W_OK | X_OK) == 0;
}

/* Beside the data, where every machine that reads it finds it; else in the cache, under a name
 * made of the data's place. Without either, nothing is kept. */
static void choose_home(struct shards *shards, const char *split)
{
    const char *path = storage_name(shards->storage);
    char below[64], absolute[PATH_MAX];
    int length = 0;
    if (storage_is_local(shards->storage)) {
        length = snprintf(shards->home, sizeof shards->home, "%s/.lockstep", path);
        if (length < PATH_MAX && can_write(shards->home))
            goto found;
        path = realpath(path, absolute) ? absolute : path;
    }
    snprintf(below, sizeof below, "index/%016" PRIx64, random_key_text(0, path));
    if (directory_of_cache(below, shards->home, NULL) < 0 || !can_write(shards->home)) {
        shards->home[0] = '\0';
        return;
    }
found:
    length = snprintf(shards->index, sizeof shards->index, "%s/%s.index", shards->home, split);
    if (length >= PATH_MAX)
        shards->index[0] = '\0';
}

static int map_shard(struct shards *shards, int shard, struct error *err)
{
    struct shard *to = &shards->shards[shard];
    to->map = NULL;
    if (shards->entries[shard].packing != TFRECORD_PLAIN)
        return shards_unpacked_map(shards, shard, err);
    return storage_is_local(shards->storage) ? storage_map(shards->storage, to->file, &to->map, err)
                                             : 0;
}

/* Fails also when what the index says about unpacked files is not so. */
static int map_shards(struct shards *shards, struct error *err)
{
    storage_close(shards->unpacked);
    shards->unpacked = NULL;
    for (int i = 0; i < shards->shard_count; i++)
        if (map_shard(shards, i, err) < 0)
            return -1;
    return 0;
}

/* A made-up index with a good checksum: a look at the first and last record of each local file.
 * Every other record is compared with its header when it is read. */
static bool ends_fit(const struct shards *shards, int shard)
{
    const struct shard_entry *entry = &shards->entries[shard];
    const uint8_t *map = shards->shards[shard].map;
    for (int end = 0; map && entry->count > 0 && end < 2; end++) {
        const uint64_t *at = &entry->offsets[end ? entry->count - 1 : 0];
        uint64_t length;
        if (tfrecord_length("", at[0], map + at[0], &length, NULL) < 0 ||
            length != at[1] - at[0] - TFRECORD_HEADER_BYTES - TFRECORD_FOOTER_BYTES)
            return false;
    }
    return true;
}

static void forget(struct shards *shards)
{
    for (int i = 0; i < shards->shard_count; i++) {
        shard_entry_release(&shards->entries[i]);
        shards->entries[i].damaged = 0;
    }
}

/* Whatever is wrong with a kept index, it is only a reason to make a new one. */
static bool load_index(struct shards *shards)
{
    char *bytes;
    size_t count;
    if (!shards->index[0] || file_read(shards->index, INDEX_LIMIT, &bytes, &count, NULL) < 0)
        return false;
    bool good = shard_index_decode(bytes, count, shards->entries, shards->shard_count) == 0;
    memory_free(bytes);
    if (good && map_shards(shards, NULL) < 0)
        good = false;
    for (int i = 0; good && i < shards->shard_count; i++)
        good = ends_fit(shards, i);
    if (!good)
        forget(shards);
    return good;
}

static void save_index(const struct shards *shards)
{
    struct strbuf out;
    struct error err = {0};
    if (!shards->index[0])
        return;
    strbuf_init(&out);
    shard_index_encode(shards->entries, shards->shard_count, &out);
    if (out.failed)
        log_line(LOG_WARNING, "no memory to keep the index of %s", storage_name(shards->storage));
    else if (file_write_atomic(shards->index, out.text, out.length, &err) < 0)
        log_line(LOG_WARNING, "the index cannot be kept, next time it is made again: %s",
                 err.message);
    strbuf_release(&out);
}

static int number_records(struct shards *shards, struct error *err)
{
    for (int i = 0; i < shards->shard_count; i++) {
        shards->shards[i].first = shards->record_count;
        shards->record_count += shards->entries[i].count;
    }
    if (shards->record_count == 0)
        return error_set(err, ERROR_FORMAT, "%s: its %d shards hold no records",
                         storage_name(shards->storage), shards->shard_count);
    return 0;
}

static int fill(struct shards *shards, const char *split, int threads, struct error *err)
{
    if (list_shards(shards, split, err) < 0)
        return -1;
    choose_home(shards, split);
    if (!load_index(shards)) {
        if (shards->home[0])
            file_drafts_sweep(shards->home); /* of runs that were killed while they unpacked */
        if (shards_build(shards, threads, err) < 0)
            return -1;
        save_index(shards);
        if (map_shards(shards, err) < 0)
            return -1;
    }
    return number_records(shards, err);
}

int shards_open_storage(struct storage *storage, const char *split, int threads,
                        struct shards **out, struct error *err)
{
    struct shards *shards = memory_allocate(sizeof *shards);
    if (!shards) {
        storage_close(storage);
        return error_set(err, ERROR_MEMORY, "no memory to open the shards");
    }
    shards->storage = storage;
    pthread_mutex_init(&shards->lock, NULL);
    if (fill(shards, split, threads, err) < 0) {
        shards_close(shards);
        return -1;
    }
    if (shards_damaged(shards) > 0)
        log_line(LOG_WARNING, "%s: %" PRId64 " of %" PRId64 " records are damaged",
                 storage_name(storage), shards_damaged(shards), shards->record_count);
    *out = shards;
    return 0;
}

int shards_open(const char *path, const char *split, int threads, const atomic_int *stop,
                struct shards **out, struct error *err)
{
    struct storage *storage;
    return storage_open(path, stop, &storage, err) < 0
               ? -1
               : shards_open_storage(storage, split, threads, out, err);
}

void shards_close(struct shards *shards)
{
    if (!shards)
        return;
    forget(shards);
    for (int i = 0; i < shards->shard_count; i++)
        cached_release(&shards->shards[i].unpacked);
    while (shards->buffers) {
        struct shard_buffer *buffer = shards->buffers;
        shards->buffers = buffer->next;
        memory_free(buffer->bytes);
        memory_free(buffer);
    }
    memory_free(shards->shards);
    memory_free(shards->entries);
    storage_close(shards->unpacked);
    storage_close(shards->storage);
    pthread_mutex_destroy(&shards->lock);
    memory_free(shards);
}

int64_t shards_count(const struct shards *shards)
{
    return shards->record_count;
}

int shards_file_count(const struct shards *shards)
{
    return shards->shard_count;
}

int64_t shards_damaged(const struct shards *shards)
{
    int64_t damaged = 0;
    for (int i = 0; i < shards->shard_count; i++)
        damaged += shards->entries[i].damaged;
    return damaged;
}

/* ---- reading ---- */

/* Sets where the record is; its bytes are not looked at. */
static void locate(const struct shards *shards, int64_t index, struct shard_record *out,
                   size_t *frame_bytes)
{
    int low = 0, high = shards->shard_count; /* shards[low].first <= index < shards[high].first */
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (shards->shards[middle].first <= index)
            low = middle;
        else
            high = middle;
    }
    int64_t number = index - shards->shards[low].first;
    const uint64_t *at = &shards->entries[low].offsets[number];
    *out = (struct shard_record){.shard = low, .number = number, .offset = at[0]};
    *frame_bytes = (size_t)(at[1] - at[0]);
}

/* One that was given back, grown to `bytes`, or a new one. NULL: no memory. */
static struct shard_buffer *take_buffer(struct shards *shards, size_t bytes)
{
    pthread_mutex_lock(&shards->lock);
    struct shard_buffer *buffer = shards->buffers;
    if (buffer)
        shards->buffers = buffer->next;
    pthread_mutex_unlock(&shards->lock);
    if (!buffer && !(buffer = memory_allocate(sizeof *buffer)))
        return NULL;
    if (buffer->capacity < bytes) {
        memory_free(buffer->bytes);
        buffer->bytes = memory_allocate(bytes + bytes / 2);
        buffer->capacity = buffer->bytes ? bytes + bytes / 2 : 0;
    }
    if (buffer->bytes)
        return buffer;
    memory_free(buffer);
    return NULL;
}

void shards_give(struct shards *shards, struct shard_record *record)
{
    if (!record->buffer)
        return;
    pthread_mutex_lock(&shards->lock);
    record->buffer->next = shards->buffers;
    shards->buffers = record->buffer;
    pthread_mutex_unlock(&shards->lock);
    record->buffer = NULL;
}

static int fetch_frame(struct shards *shards, struct shard_record *record, size_t frame_bytes,
                       const uint8_t **out, struct error *err)
{
    const struct shard *shard = &shards->shards[record->shard];
    if (shard->map) {
        /* One request for the whole record, not one per page, when it is not in memory yet. */
        if (shards->entries[record->shard].packing == TFRECORD_PLAIN)
            storage_expect(shards->storage, shard->file, record->offset, frame_bytes);
        *out = shard->map + record->offset;
        return 0;
    }
    record->buffer = take_buffer(shards, frame_bytes);
    if (!record->buffer)
        return error_set(err, ERROR_MEMORY, "no memory for a record of %zu bytes", frame_bytes);
    *out = record->buffer->bytes;
    return storage_read(shards->storage, shard->file, record->offset, frame_bytes,
                        record->buffer->bytes, err);
}

const char *shards_describe(const struct shards *shards, const struct shard_record *record,
                            char *text, size_t bytes)
{
    char name[PATH_MAX];
    storage_describe(shards->storage, shards->shards[record->shard].file, name, sizeof name);
    snprintf(text, bytes, "%s: record %" PRId64 " at offset %" PRIu64, name, record->number,
             record->offset);
    return text;
}

/* The header contradicts the index: file or index changed. Without the index the next start reads
 * everything again, and then either all is well or the damaged place is named. */
static int refuse_frame(struct shards *shards, int64_t number, struct error *err)
{
    if (shards->index[0])
        unlink(shards->index);
    error_wrap(err, "record %" PRId64 " is not where the index says; start again to index anew",
               number);
    return -1;
}

int shards_take(struct shards *shards, int64_t index, struct shard_record *out, struct error *err)
{
    struct shard_record record;
    struct tfrecord frame;
    size_t frame_bytes;
    const uint8_t *bytes = NULL;
    uint64_t length;
    char name[PATH_MAX];
    locate(shards, index, &record, &frame_bytes);
    if (fetch_frame(shards, &record, frame_bytes, &bytes, err) < 0)
        goto failed;
    storage_describe(shards->storage, shards->shards[record.shard].file, name, sizeof name);
    if (tfrecord_check(name, record.offset, bytes, frame_bytes, &frame, err) < 0) {
        if (tfrecord_length(name, 0, bytes, &length, NULL) < 0 ||
            length != frame_bytes - TFRECORD_HEADER_BYTES - TFRECORD_FOOTER_BYTES)
            refuse_frame(shards, record.number, err);
        else
            error_wrap(err, "record %" PRId64, record.number);
        goto failed;
    }
    record.data = frame.data;
    record.bytes = frame.bytes;
    *out = record;
    return 0;
failed:
    shards_give(shards, &record);
    return -1;
}

void shards_expect(struct shards *shards, int64_t index)
{
    struct shard_record record;
    size_t frame_bytes;
    locate(shards, index, &record, &frame_bytes);
    if (shards->entries[record.shard].packing == TFRECORD_PLAIN)
        storage_expect(shards->storage, shards->shards[record.shard].file, record.offset,
                       frame_bytes);
}
