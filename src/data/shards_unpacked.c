/* Where the plain bytes of packed shards are kept, since records are read in any order: of a
 * directory of this machine beside the index, of one far away in the cache for what comes from
 * there, whose size is bounded. */
#include <inttypes.h>

#include "base/error.h"
#include "data/shards_internal.h"
#include "data/storage.h"
#include "net/sha256.h"

static const uint8_t nothing[1];

static void local_name(const struct shards *shards, int shard, char text[NAME_MAX + 1])
{
    const char *name = shards->entries[shard].name, *slash = strrchr(name, '/');
    snprintf(text, NAME_MAX + 1, "%.200s.unpacked", slash ? slash + 1 : name);
}

/* What the cache calls it: it changes with the content, as the shard's own entry does. */
static void cache_name(const struct shards *shards, int shard, char out[SHA256_TEXT])
{
    char text[PATH_MAX + 100], place[PATH_MAX];
    const struct shard_entry *entry = &shards->entries[shard];
    storage_describe(shards->storage, shards->shards[shard].file, place, sizeof place);
    int length = snprintf(text, sizeof text, "unpacked\n%s\n%" PRIu64 "\n%" PRId64, place,
                          entry->bytes, entry->modified);
    sha256_text(text, (size_t)length, out);
}

/* ---- writing ---- */

static int begin_beside_index(const struct shards *shards, int shard, struct file_draft *out,
                              struct error *err)
{
    char file[NAME_MAX + 1], path[PATH_MAX + NAME_MAX + 2];
    if (!shards->home[0])
        return error_set(err, ERROR_IO,
                         "%s: is packed, and there is nowhere to unpack it: set XDG_CACHE_HOME to "
                         "a directory that can be written",
                         shards->entries[shard].name);
    local_name(shards, shard, file);
    snprintf(path, sizeof path, "%s/%s", shards->home, file);
    return file_draft_begin(path, out, err);
}

int shards_unpacked_begin(const struct shards *shards, int shard, struct unpacked_draft *out,
                          struct error *err)
{
    char name[SHA256_TEXT];
    *out = (struct unpacked_draft){.cached = &shards->shards[shard].unpacked,
                                   .file = {.descriptor = -1}};
    cached_release(out->cached);
    if (storage_is_local(shards->storage))
        return begin_beside_index(shards, shard, &out->file, err);
    cache_name(shards, shard, name);
    return cache_draft_begin(name, storage_stop(shards->storage), out->cached, &out->far, err);
}

int shards_unpacked_write(struct unpacked_draft *draft, const uint8_t *bytes, size_t count,
                          struct error *err)
{
    return draft->far ? cache_draft_write(draft->far, bytes, count, err)
                      : file_draft_write(&draft->file, bytes, count, err);
}

int shards_unpacked_finish(struct unpacked_draft *draft, struct error *err)
{
    return draft->far ? cache_draft_finish(draft->far, draft->cached, err)
                      : file_draft_finish(&draft->file, err);
}

void shards_unpacked_drop(struct unpacked_draft *draft)
{
    file_draft_drop(&draft->file);
    cache_draft_destroy(draft->far);
    draft->far = NULL;
}

/* ---- reading ---- */

static int map_beside_index(struct shards *shards, int shard, struct error *err)
{
    const struct shard_entry *entry = &shards->entries[shard];
    const struct storage_file *files;
    char name[NAME_MAX + 1];
    if (!shards->unpacked && storage_open(shards->home, NULL, &shards->unpacked, err) < 0)
        return -1;
    local_name(shards, shard, name);
    int file = storage_find(shards->unpacked, name);
    storage_files(shards->unpacked, &files);
    if (file < 0 || files[file].bytes != entry->plain_bytes)
        return error_set(err, ERROR_IO, "%s/%s: is not the unpacked form of %s", shards->home, name,
                         entry->name);
    return storage_map(shards->unpacked, file, &shards->shards[shard].map, err);
}

int shards_unpacked_map(struct shards *shards, int shard, struct error *err)
{
    const struct shard_entry *entry = &shards->entries[shard];
    struct shard *to = &shards->shards[shard];
    char name[SHA256_TEXT];
    if (storage_is_local(shards->storage))
        return map_beside_index(shards, shard, err);
    if (entry->plain_bytes == 0) {
        to->map = nothing;
        return 0;
    }
    cache_name(shards, shard, name);
    if (!to->unpacked.data && !cache_find(name, entry->plain_bytes, &to->unpacked))
        return error_set(err, ERROR_IO, "%s: its unpacked form is no longer in the cache",
                         entry->name);
    to->map = to->unpacked.data;
    return 0;
}
