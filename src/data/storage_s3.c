/* s3://bucket/prefix. Reads are ranged requests, those that were announced ahead of time; a mapped
 * file is brought whole into the local cache. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/ahead.h"
#include "data/cache.h"
#include "data/storage_kind.h"
#include "net/s3.h"
#include "net/sha256.h"

enum { DOWNLOAD_THREADS = 4, DOWNLOAD_PART = 8 << 20 };

enum object_state { ELSEWHERE, COMING, HERE };

struct object {
    char *name; /* as in the list of files, which is sorted the same way */
    char *etag;
    enum object_state state;
    bool looked; /* in the cache, for reading */
    struct cached cached;
};

struct bucket {
    struct s3 *s3;
    char name[S3_BUCKET_BYTES], prefix[S3_KEY_BYTES]; /* prefix: "" or ending in a slash */
    struct object *objects;
    int count, capacity;
    pthread_mutex_t
        lock; /* guards state, looked and cached of all objects; not held over requests */
    pthread_cond_t arrived;
    struct ahead *ahead;
};

static int fetch_range(void *context, int file, uint64_t offset, size_t bytes, void *out,
                       struct error *err);

static int s3_storage_open(struct storage *storage, struct error *err)
{
    struct s3_settings settings;
    struct bucket *bucket = memory_allocate(sizeof *bucket);
    if (!bucket)
        return error_set(err, ERROR_MEMORY, "%s: no memory to open it", storage->name);
    storage->state = bucket;
    pthread_mutex_init(&bucket->lock, NULL);
    pthread_cond_init(&bucket->arrived, NULL);
    if (s3_parse(storage->name, bucket->name, bucket->prefix, err) < 0 ||
        s3_settings_read(&settings, err) < 0)
        return -1;
    settings.stop = storage->stop;
    if (s3_open(bucket->name, &settings, &bucket->s3, err) < 0)
        return -1;
    size_t length = strlen(bucket->prefix);
    if (length > 0 && length < S3_KEY_BYTES - 1)
        bucket->prefix[length] = '/';
    bucket->ahead = ahead_create(fetch_range, storage);
    return bucket->ahead ? 0
                         : error_set(err, ERROR_MEMORY, "%s: no memory to open it", storage->name);
}

static int join_key(const struct storage *storage, const char *name, char key[S3_KEY_BYTES],
                    struct error *err)
{
    const struct bucket *bucket = storage->state;
    if (snprintf(key, S3_KEY_BYTES, "%s%s", bucket->prefix, name) >= S3_KEY_BYTES)
        return error_set(err, ERROR_FORMAT, "%s: a key in it is longer than %d bytes",
                         storage->name, S3_KEY_BYTES - 1);
    return 0;
}

/* Folder markers, and what a directory of this machine would not show either. */
static bool hidden(const char *name)
{
    size_t length = strlen(name);
    return length == 0 || name[length - 1] == '/' || name[0] == '.' || strstr(name, "/.");
}

static int64_t number_of(const char *etag)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (; *etag; etag++)
        hash = (hash ^ (unsigned char)*etag) * 1099511628211u;
    return (int64_t)(hash >> 1);
}

static int grow(struct storage *storage, struct bucket *bucket, struct error *err)
{
    if (bucket->count < bucket->capacity)
        return 0;
    size_t capacity = bucket->capacity ? 2 * (size_t)bucket->capacity : 256;
    struct object *objects = memory_resize(bucket->objects, capacity * sizeof *objects);
    if (!objects)
        return error_set(err, ERROR_MEMORY, "%s: no memory for its list", storage->name);
    bucket->objects = objects;
    bucket->capacity = (int)capacity;
    return 0;
}

static int add_object(void *context, const struct s3_object *listed, struct error *err)
{
    struct storage *storage = context;
    struct bucket *bucket = storage->state;
    size_t skip = strlen(bucket->prefix);
    if (strncmp(listed->key, bucket->prefix, skip) != 0 || hidden(listed->key + skip))
        return 0;
    if (grow(storage, bucket, err) < 0)
        return -1;
    struct object *object = &bucket->objects[bucket->count];
    *object = (struct object){.name = memory_copy_text(listed->key + skip),
                              .etag = memory_copy_text(listed->etag),
                              .cached = {.file = -1}};
    bucket->count++;
    if (!object->name || !object->etag)
        return error_set(err, ERROR_MEMORY, "%s: no memory for its list", storage->name);
    return storage_add_file(storage, object->name, listed->bytes, number_of(listed->etag), err);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct object *)a)->name, ((const struct object *)b)->name);
}

static int nothing_there(const struct storage *storage, struct error *err)
{
    const struct bucket *bucket = storage->state;
    return error_set(err, ERROR_IO, "%s: there is nothing with this prefix in the bucket at %s",
                     storage->name, s3_endpoint(bucket->s3));
}

static int s3_storage_list(struct storage *storage, struct error *err)
{
    struct bucket *bucket = storage->state;
    if (s3_list(bucket->s3, bucket->prefix, add_object, storage, err) < 0)
        return -1;
    if (bucket->count == 0)
        return nothing_there(storage, err);
    qsort(bucket->objects, (size_t)bucket->count, sizeof *bucket->objects, by_name);
    return 0;
}

static int see_one(void *context, const struct s3_object *object, struct error *err)
{
    (void)object, (void)err;
    *(bool *)context = true;
    return -1; /* one is enough */
}

/* A HEAD has no body that would say why: a list of the first page has. */
static int explain_absence(struct storage *storage, struct error *err)
{
    struct bucket *bucket = storage->state;
    bool seen = false;
    int status = s3_list(bucket->s3, bucket->prefix, see_one, &seen, err);
    return seen ? 0 : status < 0 ? -1 : nothing_there(storage, err);
}

static int s3_storage_find(struct storage *storage, const char *const *names, int count,
                           struct error *err)
{
    struct bucket *bucket = storage->state;
    for (int i = 0; i < count; i++) {
        char key[S3_KEY_BYTES];
        struct s3_object object;
        bool found;
        struct error refusal = {0};
        if (join_key(storage, names[i], key, err) < 0)
            return -1;
        if (s3_find(bucket->s3, key, &found, &object, &refusal) < 0)
            return explain_absence(storage, err) < 0
                       ? -1
                       : error_set(err, refusal.code, "%s", refusal.message);
        if (found && add_object(storage, &object, err) < 0)
            return -1;
    }
    if (bucket->count == 0)
        return explain_absence(storage, err);
    qsort(bucket->objects, (size_t)bucket->count, sizeof *bucket->objects, by_name);
    return 0;
}

static int fetch_range(void *context, int file, uint64_t offset, size_t bytes, void *out,
                       struct error *err)
{
    struct storage *storage = context;
    struct bucket *bucket = storage->state;
    char key[S3_KEY_BYTES];
    if (join_key(storage, bucket->objects[file].name, key, err) < 0)
        return -1;
    return s3_read(bucket->s3, key, bucket->objects[file].etag, offset, bytes, out, err);
}

/* ---- whole objects ---- */

struct download {
    struct storage *storage;
    int file;
    uint8_t *into;
    size_t bytes;
    atomic_size_t next; /* offset of the first part nobody has taken */
    atomic_bool failed;
    pthread_mutex_t lock; /* guards err */
    struct error err;     /* the first one's */
};

static void *download_parts(void *context)
{
    struct download *download = context;
    while (!atomic_load(&download->failed)) {
        size_t offset = atomic_fetch_add(&download->next, DOWNLOAD_PART);
        if (offset >= download->bytes)
            break;
        size_t left = download->bytes - offset;
        struct error err = {0};
        if (fetch_range(download->storage, download->file, offset,
                        left < DOWNLOAD_PART ? left : DOWNLOAD_PART, download->into + offset,
                        &err) == 0)
            continue;
        pthread_mutex_lock(&download->lock);
        if (!atomic_exchange(&download->failed, true))
            download->err = err;
        pthread_mutex_unlock(&download->lock);
    }
    return NULL;
}

static int download_whole(void *context, uint8_t *into, struct error *err)
{
    struct download *download = context;
    pthread_t threads[DOWNLOAD_THREADS];
    int started = 0;
    download->into = into;
    pthread_mutex_init(&download->lock, NULL);
    while (started < DOWNLOAD_THREADS - 1 &&
           (size_t)(started + 1) * DOWNLOAD_PART < download->bytes &&
           pthread_create(&threads[started], NULL, download_parts, download) == 0)
        started++;
    download_parts(download);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&download->lock);
    if (!atomic_load(&download->failed))
        return 0;
    if (err)
        *err = download->err;
    return -1;
}

/* What the cache calls it: the same object at the same place, and of the same content. */
static void cache_name(const struct storage *storage, int file, char out[SHA256_TEXT])
{
    const struct bucket *bucket = storage->state;
    char text[2048];
    int length =
        snprintf(text, sizeof text, "%s\n%s\n%s%s\n%s", s3_endpoint(bucket->s3), bucket->name,
                 bucket->prefix, bucket->objects[file].name, bucket->objects[file].etag);
    sha256_text(text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1, out);
}

static int bring(struct storage *storage, int file, struct cached *out, struct error *err)
{
    char name[SHA256_TEXT];
    size_t bytes = storage->files[file].bytes;
    struct download download = {.storage = storage, .file = file, .bytes = bytes};
    cache_name(storage, file, name);
    return cache_bring(name, bytes, download_whole, &download, storage->stop, out, err);
}

static int s3_storage_map(struct storage *storage, int file, const uint8_t **out, struct error *err)
{
    struct bucket *bucket = storage->state;
    struct object *object = &bucket->objects[file];
    int status = 0;
    pthread_mutex_lock(&bucket->lock);
    while (object->state == COMING)
        pthread_cond_wait(&bucket->arrived, &bucket->lock);
    if (object->state == ELSEWHERE) {
        struct cached cached;
        object->state = COMING;
        pthread_mutex_unlock(&bucket->lock);
        status = bring(storage, file, &cached, err);
        pthread_mutex_lock(&bucket->lock);
        object->state = status == 0 ? HERE : ELSEWHERE;
        if (status == 0)
            object->cached = cached;
        pthread_cond_broadcast(&bucket->arrived);
    }
    *out = object->cached.data;
    pthread_mutex_unlock(&bucket->lock);
    return status;
}

/* The object's bytes where they are on this machine, else NULL. The cache is asked once. */
static const uint8_t *local_bytes(struct storage *storage, int file)
{
    struct bucket *bucket = storage->state;
    struct object *object = &bucket->objects[file];
    pthread_mutex_lock(&bucket->lock);
    if (object->state == ELSEWHERE && !object->looked) {
        char name[SHA256_TEXT];
        cache_name(storage, file, name);
        object->looked = true;
        if (cache_find(name, storage->files[file].bytes, &object->cached))
            object->state = HERE;
    }
    const uint8_t *data = object->state == HERE ? object->cached.data : NULL;
    pthread_mutex_unlock(&bucket->lock);
    return data;
}

static int s3_storage_read(struct storage *storage, int file, uint64_t offset, size_t bytes,
                           void *out, struct error *err)
{
    struct bucket *bucket = storage->state;
    const uint8_t *data = local_bytes(storage, file);
    if (data) {
        memcpy(out, data + offset, bytes);
        return 0;
    }
    size_t there = ahead_take(bucket->ahead, file, offset, bytes, out);
    return there == bytes ? 0
                          : fetch_range(storage, file, offset + there, bytes - there,
                                        (char *)out + there, err);
}

static void s3_storage_expect(struct storage *storage, int file, uint64_t offset, size_t bytes)
{
    struct bucket *bucket = storage->state;
    if (!local_bytes(storage, file))
        ahead_expect(bucket->ahead, file, offset, bytes);
}

static void s3_storage_close(struct storage *storage)
{
    struct bucket *bucket = storage->state;
    if (!bucket)
        return;
    ahead_destroy(bucket->ahead);
    for (int i = 0; i < bucket->count; i++) {
        cached_release(&bucket->objects[i].cached);
        memory_free(bucket->objects[i].name);
        memory_free(bucket->objects[i].etag);
    }
    memory_free(bucket->objects);
    s3_close(bucket->s3);
    pthread_cond_destroy(&bucket->arrived);
    pthread_mutex_destroy(&bucket->lock);
    memory_free(bucket);
}

const struct storage_kind storage_kind_s3 = {
    .prefix = "s3://",
    .local = false,
    .open = s3_storage_open,
    .list = s3_storage_list,
    .find = s3_storage_find,
    .read = s3_storage_read,
    .map = s3_storage_map,
    .expect = s3_storage_expect,
    .close = s3_storage_close,
};
