/* One pass over all bytes of a set of shards: offsets, checksums, unpacking. */
#include <inttypes.h>
#include <stdatomic.h>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/piece_reader.h"
#include "data/shards_internal.h"
#include "data/storage.h"

enum {
    FIRST_CAPACITY = 1024,
    FRAME_BYTES = TFRECORD_HEADER_BYTES + TFRECORD_FOOTER_BYTES,
    MAX_WARNINGS = 10,
};

/* Unpacked pieces on their way to the scan are also written down. */
struct tee {
    const struct storage *storage; /* the packed one */
    struct unpacker *unpacker;
    struct unpacked_draft draft;
    const char *name;
};

static int tee_next(void *context, const uint8_t **bytes, size_t *count, struct error *err)
{
    struct tee *tee = context;
    if (storage_check_stop(tee->storage, err) < 0 ||
        unpacker_next(tee->unpacker, bytes, count, err) < 0)
        return -1;
    if (*count > 0 && shards_unpacked_write(&tee->draft, *bytes, *count, err) < 0)
        return error_wrap(err, "unpacking %s", tee->name);
    return 0;
}

/* What was unpacked earlier. */
static int cached_next(void *context, const uint8_t **bytes, size_t *count, struct error *err)
{
    struct cached *left = context;
    (void)err;
    *bytes = left->data;
    *count = left->bytes;
    left->bytes = 0;
    return 0;
}

/* What the scan of one shard finds. */
struct found {
    const char *name;
    struct shard_entry *entry;
    int64_t capacity;
};

static int add_record(void *context, uint64_t offset, uint64_t bytes, bool intact,
                      struct error *err)
{
    struct found *found = context;
    struct shard_entry *entry = found->entry;
    if (entry->count + 1 >= found->capacity) {
        int64_t capacity = found->capacity ? 2 * found->capacity : FIRST_CAPACITY;
        uint64_t *offsets =
            memory_resize(entry->offsets, (size_t)capacity * sizeof *entry->offsets);
        if (!offsets)
            return error_set(err, ERROR_MEMORY, "%s: no memory for the places of its records",
                             found->name);
        entry->offsets = offsets;
        found->capacity = capacity;
    }
    if (!intact && ++entry->damaged <= MAX_WARNINGS)
        log_line(LOG_WARNING, "%s: record %" PRId64 " at offset %" PRIu64 " is damaged%s",
                 found->name, entry->count, offset,
                 entry->damaged == MAX_WARNINGS ? "; more of this file are not named" : "");
    entry->offsets[entry->count++] = offset;
    entry->offsets[entry->count] = offset + bytes + FRAME_BYTES;
    return 0;
}

static int scan(const char *name, struct shard_entry *entry, piece_source *source, void *context,
                struct error *err)
{
    struct found found = {.name = name, .entry = entry};
    if (tfrecord_scan(name, source, context, add_record, &found, err) < 0)
        return err && err->code == ERROR_FORMAT ? error_wrap(err, "record %" PRId64, entry->count)
                                                : -1;
    if (!entry->offsets && !(entry->offsets = memory_allocate(sizeof *entry->offsets)))
        return error_set(err, ERROR_MEMORY, "%s: no memory for the places of its records", name);
    entry->plain_bytes = entry->offsets[entry->count];
    return 0;
}

static int scan_packed(const struct shards *shards, int shard, const char *name,
                       struct piece_reader *reader, struct error *err)
{
    int status = -1;
    struct shard_entry *entry = &shards->entries[shard];
    struct tee tee = {.storage = shards->storage, .name = name};
    if (shards_unpacked_begin(shards, shard, &tee.draft, err) == 0) {
        struct cached there = *tee.draft.cached;
        if (there.data)
            status = scan(name, entry, cached_next, &there, err);
        else if (unpacker_create(name, piece_reader_next, reader, &tee.unpacker, err) == 0 &&
                 scan(name, entry, tee_next, &tee, err) == 0)
            status = shards_unpacked_finish(&tee.draft, err);
    }
    shards_unpacked_drop(&tee.draft);
    unpacker_destroy(tee.unpacker);
    return status;
}

static int build_shard(const struct shards *shards, int shard, struct error *err)
{
    struct shard_entry *entry = &shards->entries[shard];
    int file = shards->shards[shard].file;
    uint8_t head[TFRECORD_HEADER_BYTES];
    size_t head_bytes = entry->bytes < sizeof head ? (size_t)entry->bytes : sizeof head;
    char name[PATH_MAX];
    storage_describe(shards->storage, file, name, sizeof name);
    struct piece_reader reader = {0};
    if (storage_read(shards->storage, file, 0, head_bytes, head, err) < 0 ||
        piece_reader_open(&reader, shards->storage, file, 0, err) < 0)
        return -1;
    entry->packing = tfrecord_packing_of(head, head_bytes);
    int status = entry->packing == TFRECORD_PLAIN
                     ? scan(name, entry, piece_reader_next, &reader, err)
                     : scan_packed(shards, shard, name, &reader, err);
    piece_reader_close(&reader);
    return status;
}

struct build {
    const struct shards *shards;
    _Atomic int next;     /* the first shard that nobody has taken */
    pthread_mutex_t lock; /* guards what follows */
    int failed;           /* the lowest shard that could not be read, or shard_count */
    struct error err;
};

/* Shards before a failed one are still read, so that the error is the same for any number of
 * threads. */
static void *build_some(void *context)
{
    struct build *build = context;
    for (;;) {
        int shard = atomic_fetch_add(&build->next, 1);
        pthread_mutex_lock(&build->lock);
        bool over = shard >= build->shards->shard_count || shard > build->failed;
        pthread_mutex_unlock(&build->lock);
        if (over)
            return NULL;
        struct error err = {0};
        if (build_shard(build->shards, shard, &err) == 0)
            continue;
        pthread_mutex_lock(&build->lock);
        if (shard < build->failed) {
            build->failed = shard;
            build->err = err;
        }
        pthread_mutex_unlock(&build->lock);
    }
}

int shards_build(struct shards *shards, int threads, struct error *err)
{
    struct build build = {.shards = shards, .failed = shards->shard_count};
    int helpers = (threads < shards->shard_count ? threads : shards->shard_count) - 1, started = 0;
    pthread_t *handles = helpers > 0 ? memory_allocate((size_t)helpers * sizeof *handles) : NULL;
    pthread_mutex_init(&build.lock, NULL);
    /* A thread that cannot be started is no failure: this one does the rest. */
    while (handles && started < helpers &&
           pthread_create(&handles[started], NULL, build_some, &build) == 0)
        started++;
    build_some(&build);
    for (int i = 0; i < started; i++)
        pthread_join(handles[i], NULL);
    pthread_mutex_destroy(&build.lock);
    memory_free(handles);
    return build.failed < shards->shard_count
               ? error_set(err, build.err.code, "%s", build.err.message)
               : 0;
}
