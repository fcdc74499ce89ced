#include "data/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/stop.h"

static const uint64_t usual_limit = (uint64_t)32 << 30;
static const double lock_wait_seconds = 0.01;

struct entry {
    char name[NAME_MAX + 1];
    uint64_t bytes;
    struct timespec used;
};

struct entries {
    struct entry *list;
    size_t count, capacity;
    uint64_t bytes;
};

static int fail(const char *path, struct error *err)
{
    return error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
}

static void directory_path(char path[PATH_MAX])
{
    const char *given = getenv("LOCKSTEP_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    if (given && *given)
        snprintf(path, PATH_MAX, "%s/s3", given);
    else if (xdg && *xdg)
        snprintf(path, PATH_MAX, "%s/lockstep/s3", xdg);
    else
        snprintf(path, PATH_MAX, "%s/.cache/lockstep/s3", home && *home ? home : "/tmp");
}

static int read_limit(uint64_t *out, struct error *err)
{
    static const char units[] = "KMGT";
    const char *text = getenv("LOCKSTEP_CACHE_BYTES");
    *out = usual_limit;
    if (!text || !*text)
        return 0;
    char *end;
    double value = strtod(text, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    for (const char *at = units; unit && at <= unit; at++)
        value *= 1024;
    if (end == text || (*end && (!unit || end[1])) || !(value >= 0) || value > 1e18)
        return error_set(err, ERROR_USAGE,
                         "LOCKSTEP_CACHE_BYTES=%s: a number of bytes, or one with K, M, G or T, "
                         "was expected",
                         text);
    *out = (uint64_t)value;
    return 0;
}

/* Locks the file and sees that it is still the one of that name: it may have been evicted between
 * the opening and the lock. */
static bool lock_entry(int file)
{
    struct stat info;
    while (flock(file, LOCK_SH) < 0)
        if (errno != EINTR)
            return false;
    return fstat(file, &info) == 0 && info.st_nlink > 0;
}

static bool map_entry(int file, size_t bytes, struct cached *out)
{
    struct stat info;
    if (fstat(file, &info) < 0 || (uint64_t)info.st_size != bytes)
        return false;
    void *data = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
    if (data == MAP_FAILED)
        return false;
    *out = (struct cached){.file = file, .data = data, .bytes = bytes};
    futimens(file, NULL); /* used now; on a read-only disk it just ages */
    return true;
}

static bool find_at(int directory, const char *name, size_t bytes, struct cached *out)
{
    for (int i = 0; i < 3; i++) {
        int file = openat(directory, name, O_RDONLY | O_CLOEXEC);
        if (file < 0)
            break;
        if (lock_entry(file) && map_entry(file, bytes, out))
            return true;
        close(file);
    }
    *out = (struct cached){.file = -1};
    return false;
}

static int open_directory(const char *path)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

bool cache_find(const char *name, size_t bytes, struct cached *out)
{
    char path[PATH_MAX];
    directory_path(path);
    *out = (struct cached){.file = -1};
    int directory = open_directory(path);
    if (directory < 0)
        return false;
    bool found = find_at(directory, name, bytes, out);
    close(directory);
    return found;
}

void cached_release(struct cached *cached)
{
    if (cached->data)
        munmap((void *)(uintptr_t)cached->data, cached->bytes);
    if (cached->file >= 0 && cached->data)
        close(cached->file);
    *cached = (struct cached){.file = -1};
}

/* ---- making room ---- */

static bool add_entry(struct entries *entries, const char *name, const struct stat *info)
{
    if (entries->count == entries->capacity) {
        size_t capacity = entries->capacity ? 2 * entries->capacity : 64;
        struct entry *list = memory_resize(entries->list, capacity * sizeof *list);
        if (!list)
            return false;
        entries->list = list;
        entries->capacity = capacity;
    }
    struct entry *entry = &entries->list[entries->count++];
    snprintf(entry->name, sizeof entry->name, "%s", name);
    entry->bytes = (uint64_t)info->st_size;
    entry->used = info->st_mtim;
    entries->bytes += entry->bytes;
    return true;
}

static int by_age(const void *a, const void *b)
{
    const struct timespec *x = &((const struct entry *)a)->used;
    const struct timespec *y = &((const struct entry *)b)->used;
    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

static int scan(int directory, const char *path, struct entries *out, struct error *err)
{
    int again = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *names = again < 0 ? NULL : fdopendir(again);
    if (!names) {
        if (again >= 0)
            close(again);
        return fail(path, err);
    }
    int status = 0;
    for (const struct dirent *at; status == 0 && (at = readdir(names));) {
        struct stat info;
        if (at->d_name[0] == '.' ||
            fstatat(directory, at->d_name, &info, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISREG(info.st_mode))
            continue;
        if (!add_entry(out, at->d_name, &info))
            status = error_set(err, ERROR_MEMORY, "%s: no memory to list it", path);
    }
    closedir(names);
    if (out->count)
        qsort(out->list, out->count, sizeof *out->list, by_age);
    return status;
}

/* Nobody reads what can be locked alone; a part file can be when whoever wrote it is dead. */
static bool evict(int directory, const char *name)
{
    int file = openat(directory, name, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return errno == ENOENT;
    bool gone = flock(file, LOCK_EX | LOCK_NB) == 0 && unlinkat(directory, name, 0) == 0;
    close(file);
    return gone;
}

static int make_room(int directory, const char *path, uint64_t bytes, struct error *err)
{
    struct entries entries = {0};
    struct statvfs disk;
    uint64_t limit;
    int status = -1;
    if (read_limit(&limit, err) < 0 || scan(directory, path, &entries, err) < 0)
        goto out;
    if (fstatvfs(directory, &disk) < 0) {
        fail(path, err);
        goto out;
    }
    uint64_t half = ((uint64_t)disk.f_bavail * disk.f_frsize + entries.bytes) / 2;
    if (limit > half)
        limit = half;
    for (size_t i = 0; i < entries.count && bytes <= limit && entries.bytes > limit - bytes; i++)
        if (evict(directory, entries.list[i].name))
            entries.bytes -= entries.list[i].bytes;
    if (bytes > limit || entries.bytes > limit - bytes)
        error_set(err, ERROR_IO,
                  "%s: no room for %" PRIu64 " bytes: %" PRIu64 " are allowed (the less of "
                  "LOCKSTEP_CACHE_BYTES and half of the free disk), %" PRIu64 " of them in use; "
                  "allow more, or set LOCKSTEP_CACHE_DIR to a larger disk",
                  path, bytes, limit, entries.bytes);
    else
        status = 0;
out:
    memory_free(entries.list);
    return status;
}

/* ---- bringing ---- */

/* A file that is locked while it exists, so that one process at a time does what it stands for. */
static int lock_file(int directory, const char *path, const char *name, const atomic_int *stop,
                     struct error *err)
{
    for (;;) {
        struct stat ours, there;
        int file = openat(directory, name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (file < 0)
            return fail(path, err);
        while (flock(file, LOCK_EX | LOCK_NB) < 0) {
            if (errno == EWOULDBLOCK ? stop_wait(stop, lock_wait_seconds, err) == 0
                                     : errno == EINTR || fail(path, err) == 0)
                continue;
            close(file);
            return -1;
        }
        if (fstat(file, &ours) == 0 && fstatat(directory, name, &there, 0) == 0 &&
            ours.st_ino == there.st_ino)
            return file;
        close(file); /* its owner removed it while we waited */
    }
}

/* Room, and a file of that size which counts from now on, under one lock for the directory. */
static int reserve(int directory, const char *path, const char *part, size_t bytes,
                   struct error *err)
{
    int lock = lock_file(directory, path, ".lock", NULL, err), file = -1, failed;
    if (lock < 0)
        return -1;
    if (make_room(directory, path, bytes, err) < 0)
        goto out;
    file = openat(directory, part, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0) {
        fail(path, err);
    } else if (flock(file, LOCK_SH) < 0 || (failed = posix_fallocate(file, 0, (off_t)bytes)) != 0) {
        error_set(err, ERROR_IO, "%s: no %zu bytes on the disk", path, bytes);
        unlinkat(directory, part, 0);
        close(file);
        file = -1;
    }
out:
    close(lock);
    return file;
}

static int fill_file(int file, const char *path, size_t bytes, cache_fill *fill, void *context,
                     struct error *err)
{
    void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (data == MAP_FAILED)
        return fail(path, err);
    int status = fill(context, data, err);
    munmap(data, bytes);
    /* On the disk before it has its name: after a power cut it would else be whole only in size. */
    if (status == 0 && fsync(file) < 0)
        status = fail(path, err);
    return status;
}

static int make_entry(int directory, const char *path, const char *name, size_t bytes,
                      cache_fill *fill, void *context, struct error *err)
{
    char part[NAME_MAX + 1];
    snprintf(part, sizeof part, "%s.part", name);
    int file = reserve(directory, path, part, bytes, err);
    if (file < 0)
        return -1;
    int status = fill_file(file, path, bytes, fill, context, err);
    if (status == 0 && renameat(directory, part, directory, name) < 0)
        status = fail(path, err);
    if (status < 0)
        unlinkat(directory, part, 0);
    close(file);
    return status;
}

int cache_bring(const char *name, size_t bytes, cache_fill *fill, void *context,
                const atomic_int *stop, struct cached *out, struct error *err)
{
    char path[PATH_MAX], lock_name[NAME_MAX + 1];
    directory_path(path);
    *out = (struct cached){.file = -1};
    if (directory_make(path, err) < 0)
        return -1;
    int directory = open_directory(path), lock = -1, status = -1;
    if (directory < 0)
        return fail(path, err);
    if (find_at(directory, name, bytes, out)) {
        status = 0;
        goto out;
    }
    snprintf(lock_name, sizeof lock_name, ".%s.lock", name);
    lock = lock_file(directory, path, lock_name, stop, err);
    if (lock < 0)
        goto out;
    if (find_at(directory, name, bytes, out)) /* another process was faster */
        status = 0;
    else if (make_entry(directory, path, name, bytes, fill, context, err) < 0)
        status = -1;
    else if (find_at(directory, name, bytes, out))
        status = 0;
    else
        error_set(err, ERROR_IO, "%s: what was just brought there is gone or cannot be mapped",
                  path);
    unlinkat(directory, lock_name, 0);
out:
    if (lock >= 0)
        close(lock);
    close(directory);
    return status;
}
