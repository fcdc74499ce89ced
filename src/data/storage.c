#include "data/storage.h"

#include <inttypes.h>
#include <limits.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/stop.h"
#include "data/storage_kind.h"

/* The first whose prefix fits; the local one takes the rest. */
static const struct storage_kind *const kinds[] = {&storage_kind_s3, &storage_kind_local};

static const struct storage_kind *kind_of(const char *path)
{
    size_t i = 0;
    while (strncmp(path, kinds[i]->prefix, strlen(kinds[i]->prefix)) != 0)
        i++;
    return kinds[i];
}

int storage_add_file(struct storage *storage, const char *name, uint64_t bytes, int64_t modified,
                     struct error *err)
{
    if (storage->file_count == storage->file_capacity) {
        int capacity = storage->file_capacity ? storage->file_capacity : 64;
        struct storage_file *files = NULL;
        if (capacity <= INT_MAX / 2)
            files = memory_resize(storage->files, 2 * (size_t)capacity * sizeof *files);
        if (!files)
            return error_set(err, ERROR_MEMORY, "%s: no memory for a list of more than %d files",
                             storage->name, storage->file_count);
        storage->files = files;
        storage->file_capacity = 2 * capacity;
    }
    char *copy = memory_copy_text(name);
    if (!copy)
        return error_set(err, ERROR_MEMORY, "%s: no memory for the names of its files",
                         storage->name);
    storage->files[storage->file_count++] =
        (struct storage_file){.name = copy, .bytes = bytes, .modified = modified};
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct storage_file *)a)->name, ((const struct storage_file *)b)->name);
}

/* `names` NULL: all that is there. */
static int open_some(const char *path, const char *const *names, int count, const atomic_int *stop,
                     struct storage **out, struct error *err)
{
    int status = -1;
    struct storage *storage = memory_allocate(sizeof *storage);
    if (!storage || !(storage->name = memory_copy_text(path))) {
        error_set(err, ERROR_MEMORY, "%s: no memory to open it", path);
        goto out;
    }
    storage->kind = kind_of(path);
    storage->stop = stop;
    if (storage->kind->open(storage, err) < 0 ||
        (names ? storage->kind->find(storage, names, count, err)
               : storage->kind->list(storage, err)) < 0)
        goto out;
    if (storage->file_count > 0)
        qsort(storage->files, (size_t)storage->file_count, sizeof *storage->files, by_name);
    *out = storage;
    storage = NULL;
    status = 0;
out:
    storage_close(storage);
    return status;
}

int storage_open(const char *path, const atomic_int *stop, struct storage **out, struct error *err)
{
    return open_some(path, NULL, 0, stop, out, err);
}

int storage_open_files(const char *path, const char *const *names, int count,
                       const atomic_int *stop, struct storage **out, struct error *err)
{
    return open_some(path, names, count, stop, out, err);
}

const char *storage_split(const char *path, char directory[PATH_MAX], struct error *err)
{
    const char *slash = strrchr(path, '/');
    int length = slash ? (int)(slash - path) : 1;
    if (length >= PATH_MAX) {
        error_set(err, ERROR_USAGE, "%.200s...: the path is longer than %d bytes", path, PATH_MAX);
        return NULL;
    }
    snprintf(directory, PATH_MAX, "%.*s", length > 0 ? length : 1, slash ? path : ".");
    return slash ? slash + 1 : path;
}

void storage_close(struct storage *storage)
{
    if (!storage)
        return;
    if (storage->kind)
        storage->kind->close(storage);
    for (int i = 0; i < storage->file_count; i++)
        memory_free((char *)storage->files[i].name); /* our copy, const for everyone else */
    memory_free(storage->files);
    memory_free(storage->name);
    memory_free(storage);
}

const char *storage_name(const struct storage *storage)
{
    return storage->name;
}

bool storage_is_local(const struct storage *storage)
{
    return storage->kind->local;
}

int storage_files(const struct storage *storage, const struct storage_file **out)
{
    *out = storage->files;
    return storage->file_count;
}

int storage_find(const struct storage *storage, const char *name)
{
    struct storage_file wanted = {.name = name};
    if (storage->file_count == 0)
        return -1;
    const struct storage_file *found = bsearch(&wanted, storage->files, (size_t)storage->file_count,
                                               sizeof *storage->files, by_name);
    return found ? (int)(found - storage->files) : -1;
}

const char *storage_describe(const struct storage *storage, int file, char *text, size_t bytes)
{
    size_t length = strlen(storage->name);
    const char *between = length > 0 && storage->name[length - 1] == '/' ? "" : "/";
    snprintf(text, bytes, "%s%s%s", storage->name, between, storage->files[file].name);
    return text;
}

const atomic_int *storage_stop(const struct storage *storage)
{
    return storage->stop;
}

int storage_check_stop(const struct storage *storage, struct error *err)
{
    return stop_check(storage->stop, err);
}

int storage_read(struct storage *storage, int file, uint64_t offset, size_t bytes, void *out,
                 struct error *err)
{
    uint64_t size = storage->files[file].bytes;
    if (offset > size || bytes > size - offset) {
        char name[PATH_MAX];
        return error_set(err, ERROR_FORMAT,
                         "%s: %zu bytes at offset %" PRIu64 " were wanted, but it ends at %" PRIu64,
                         storage_describe(storage, file, name, sizeof name), bytes, offset, size);
    }
    if (stop_check(storage->stop, err) < 0)
        return -1;
    return bytes > 0 ? storage->kind->read(storage, file, offset, bytes, out, err) : 0;
}

int storage_map(struct storage *storage, int file, const uint8_t **out, struct error *err)
{
    static const uint8_t nothing[1];
    if (storage->files[file].bytes == 0) {
        *out = nothing;
        return 0;
    }
    if (stop_check(storage->stop, err) < 0)
        return -1;
    return storage->kind->map(storage, file, out, err);
}

void storage_expect(struct storage *storage, int file, uint64_t offset, size_t bytes)
{
    uint64_t size = storage->files[file].bytes;
    if (offset < size && bytes > 0)
        storage->kind->expect(storage, file, offset,
                              bytes < size - offset ? bytes : (size_t)(size - offset));
}
