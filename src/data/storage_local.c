/* Directories of this machine. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/stop.h"
#include "data/storage_kind.h"

struct local {
    int directory;        /* what was opened stays the same when the path is renamed */
    pthread_mutex_t lock; /* guards `maps` */
    uint8_t **maps;       /* [file_count] or NULL; an entry is set once */
};

/* A directory on the way down, to notice a link that leads back up. */
struct level {
    const struct level *above;
    dev_t device;
    ino_t inode;
};

static int fail(const struct storage *storage, const char *name, struct error *err)
{
    return error_set(err, ERROR_IO, "%s%s%s: %s", storage->name, *name ? "/" : "", name,
                     strerror(errno));
}

static int local_open(struct storage *storage, struct error *err)
{
    struct local *local = memory_allocate(sizeof *local);
    if (!local)
        return error_set(err, ERROR_MEMORY, "%s: no memory to open it", storage->name);
    storage->state = local;
    pthread_mutex_init(&local->lock, NULL);
    /* O_PATH: known files can be reached through a directory that cannot be listed. */
    local->directory = open(storage->name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return local->directory < 0 ? fail(storage, "", err) : 0;
}

static bool leads_back_up(const struct level *level)
{
    for (const struct level *l = level->above; l; l = l->above)
        if (l->device == level->device && l->inode == level->inode)
            return true;
    return false;
}

static int list_directory(struct storage *storage, int parent, const char *name, char *path,
                          const struct level *above, struct error *err);

static int add_file(struct storage *storage, const char *path, const struct stat *info,
                    struct error *err)
{
    return storage_add_file(storage, path, (uint64_t)info->st_size,
                            (int64_t)info->st_mtim.tv_sec * 1000000000 + info->st_mtim.tv_nsec,
                            err);
}

/* `path` is the entry's name below the storage; `name` is its last part. */
static int list_entry(struct storage *storage, int parent, const char *name, char *path,
                      const struct level *above, struct error *err)
{
    struct stat info;
    if (fstatat(parent, name, &info, 0) < 0) {
        if (errno == ENOENT || errno == ELOOP)
            return 0; /* a link to nowhere, or gone since it was listed */
        return fail(storage, path, err);
    }
    if (S_ISREG(info.st_mode))
        return add_file(storage, path, &info, err);
    /* A file system's own folder, which only root can read. */
    if (!S_ISDIR(info.st_mode) || strcmp(name, "lost+found") == 0)
        return 0;
    struct level level = {above, info.st_dev, info.st_ino};
    return leads_back_up(&level) ? 0 : list_directory(storage, parent, name, path, &level, err);
}

/* Appends to `path` (PATH_MAX bytes) while it works, and leaves it as it was. */
static int list_directory(struct storage *storage, int parent, const char *name, char *path,
                          const struct level *above, struct error *err)
{
    int status = -1;
    size_t length = strlen(path);
    int directory = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = directory < 0 ? NULL : fdopendir(directory);
    if (!entries) {
        fail(storage, path, err);
        if (directory >= 0)
            close(directory);
        return -1;
    }
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(entries);
        if (!entry) {
            status = errno ? fail(storage, path, err) : 0;
            break;
        }
        if (entry->d_name[0] == '.')
            continue;
        int more =
            snprintf(path + length, PATH_MAX - length, "%s%s", length ? "/" : "", entry->d_name);
        if (length + (size_t)more >= PATH_MAX) {
            path[length] = '\0';
            error_set(err, ERROR_IO, "%s/%.100s: a name below it is longer than %d bytes",
                      storage->name, path, PATH_MAX);
            break;
        }
        if (stop_check(storage->stop, err) < 0 ||
            list_entry(storage, directory, entry->d_name, path, above, err) < 0)
            break;
    }
    path[length] = '\0';
    closedir(entries);
    return status;
}

static int local_list(struct storage *storage, struct error *err)
{
    struct local *local = storage->state;
    struct stat info;
    if (fstat(local->directory, &info) < 0)
        return fail(storage, "", err);
    struct level level = {NULL, info.st_dev, info.st_ino};
    char path[PATH_MAX] = "";
    return list_directory(storage, local->directory, ".", path, &level, err);
}

static int local_find(struct storage *storage, const char *const *names, int count,
                      struct error *err)
{
    const struct local *local = storage->state;
    for (int i = 0; i < count; i++) {
        struct stat info;
        if (fstatat(local->directory, names[i], &info, 0) < 0) {
            if (errno == ENOENT || errno == ENOTDIR)
                continue;
            return fail(storage, names[i], err);
        }
        if (S_ISREG(info.st_mode) && add_file(storage, names[i], &info, err) < 0)
            return -1;
    }
    return 0;
}

/* Opened for each read: a folder may have more pictures than a process may have open files. */
static int local_read(struct storage *storage, int file, uint64_t offset, size_t bytes, void *out,
                      struct error *err)
{
    const struct local *local = storage->state;
    const char *name = storage->files[file].name;
    int descriptor = openat(local->directory, name, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return fail(storage, name, err);
    char *to = out;
    while (bytes > 0) {
        errno = 0; /* stays 0 at the end of the file */
        ssize_t got = pread(descriptor, to, bytes, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        to += got;
        offset += (uint64_t)got;
        bytes -= (size_t)got;
    }
    int status = 0;
    if (bytes > 0)
        status = errno ? fail(storage, name, err)
                       : error_set(err, ERROR_IO,
                                   "%s/%s: ends at offset %" PRIu64 ", but had %" PRIu64
                                   " bytes when it was listed; did it change?",
                                   storage->name, name, offset, storage->files[file].bytes);
    close(descriptor);
    return status;
}

static int map_file(struct storage *storage, int file, uint8_t **out, struct error *err)
{
    const struct local *local = storage->state;
    const struct storage_file *listed = &storage->files[file];
    int descriptor = openat(local->directory, listed->name, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return fail(storage, listed->name, err);
    int status = -1;
    struct stat info;
    if (fstat(descriptor, &info) < 0) {
        fail(storage, listed->name, err);
        goto out;
    }
    if ((uint64_t)info.st_size != listed->bytes) {
        error_set(err, ERROR_IO,
                  "%s/%s: has %" PRIu64 " bytes, but had %" PRIu64
                  " when it was listed; did it change?",
                  storage->name, listed->name, (uint64_t)info.st_size, listed->bytes);
        goto out;
    }
    void *address = mmap(NULL, listed->bytes, PROT_READ, MAP_SHARED, descriptor, 0);
    if (address == MAP_FAILED) {
        fail(storage, listed->name, err);
        goto out;
    }
    *out = address;
    status = 0;
out:
    close(descriptor);
    return status;
}

static int local_map(struct storage *storage, int file, const uint8_t **out, struct error *err)
{
    struct local *local = storage->state;
    int status = -1;
    pthread_mutex_lock(&local->lock);
    if (!local->maps)
        local->maps = memory_allocate((size_t)storage->file_count * sizeof *local->maps);
    if (!local->maps)
        error_set(err, ERROR_MEMORY, "%s: no memory to map its files", storage->name);
    else if (local->maps[file] || map_file(storage, file, &local->maps[file], err) == 0)
        status = 0;
    if (status == 0)
        *out = local->maps[file];
    pthread_mutex_unlock(&local->lock);
    return status;
}

static void local_expect(struct storage *storage, int file, uint64_t offset, size_t bytes)
{
    struct local *local = storage->state;
    pthread_mutex_lock(&local->lock);
    uint8_t *map = local->maps ? local->maps[file] : NULL;
    pthread_mutex_unlock(&local->lock);
    if (map) {
        uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
        uintptr_t first = ((uintptr_t)map + offset) & ~(page - 1);
        madvise((void *)first, (uintptr_t)map + offset + bytes - first, MADV_WILLNEED);
        return;
    }
    int descriptor = openat(local->directory, storage->files[file].name, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return; /* whoever reads it will say why */
    posix_fadvise(descriptor, (off_t)offset, (off_t)bytes, POSIX_FADV_WILLNEED);
    close(descriptor);
}

static void local_close(struct storage *storage)
{
    struct local *local = storage->state;
    if (!local)
        return;
    for (int i = 0; local->maps && i < storage->file_count; i++)
        if (local->maps[i])
            munmap(local->maps[i], storage->files[i].bytes);
    memory_free(local->maps);
    if (local->directory >= 0)
        close(local->directory);
    pthread_mutex_destroy(&local->lock);
    memory_free(local);
}

const struct storage_kind storage_kind_local = {
    .prefix = "",
    .local = true,
    .open = local_open,
    .list = local_list,
    .find = local_find,
    .read = local_read,
    .map = local_map,
    .expect = local_expect,
    .close = local_close,
};
