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
    if (fstat(file, &info) < 0 || (bytes > 0 && (uint64_t)info.st_size != bytes))
        return false;
    bytes = (size_t)info.st_size;
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

/* Makes the file longer by so many bytes, which count from now on, when there is room: under one
 * lock for the directory. */
static int reserve(int directory, const char *path, int file, size_t from, size_t bytes,
                   struct error *err)
{
    int lock = lock_file(directory, path, ".lock", NULL, err);
    if (lock < 0)
        return -1;
    int status = make_room(directory, path, bytes, err);
    if (status == 0 && posix_fallocate(file, (off_t)from, (off_t)bytes) != 0)
        status = error_set(err, ERROR_IO, "%s: no %zu bytes on the disk", path, bytes);
    close(lock);
    return status;
}

/* The shared lock says that its writer lives; whoever makes room has the directory's. */
static int open_part(int directory, const char *path, const char *part, struct error *err)
{
    int lock = lock_file(directory, path, ".lock", NULL, err);
    if (lock < 0)
        return -1;
    int file = openat(directory, part, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0)
        fail(path, err);
    else
        flock(file, LOCK_SH); /* cannot fail where the other lock did not, or be waited for */
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
    int file = open_part(directory, path, part, err);
    if (file < 0)
        return -1;
    int status = reserve(directory, path, file, 0, bytes, err);
    if (status == 0)
        status = fill_file(file, path, bytes, fill, context, err);
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

/* ---- entries that grow ---- */

enum { GROWTH = 64 << 20 };

struct cache_draft {
    char path[PATH_MAX], name[NAME_MAX + 1], part[NAME_MAX + 1], lock_name[NAME_MAX + 1];
    int directory, lock, file;
    size_t used, reserved;
};

void cache_draft_destroy(struct cache_draft *draft)
{
    if (!draft)
        return;
    if (draft->file >= 0) {
        unlinkat(draft->directory, draft->part, 0);
        close(draft->file);
    }
    if (draft->lock >= 0) {
        unlinkat(draft->directory, draft->lock_name, 0);
        close(draft->lock);
    }
    if (draft->directory >= 0)
        close(draft->directory);
    memory_free(draft);
}

static int open_draft(struct cache_draft *draft, const char *name, const atomic_int *stop,
                      struct cached *found, struct error *err)
{
    directory_path(draft->path);
    snprintf(draft->name, sizeof draft->name, "%s", name);
    snprintf(draft->part, sizeof draft->part, "%s.part", name);
    snprintf(draft->lock_name, sizeof draft->lock_name, ".%s.lock", name);
    if (directory_make(draft->path, err) < 0)
        return -1;
    draft->directory = open_directory(draft->path);
    if (draft->directory < 0)
        return fail(draft->path, err);
    draft->lock = lock_file(draft->directory, draft->path, draft->lock_name, stop, err);
    if (draft->lock < 0)
        return -1;
    if (find_at(draft->directory, name, 0, found))
        return 0;
    draft->file = open_part(draft->directory, draft->path, draft->part, err);
    return draft->file < 0 ? -1 : 0;
}

int cache_draft_begin(const char *name, const atomic_int *stop, struct cached *found,
                      struct cache_draft **out, struct error *err)
{
    struct cache_draft *draft = memory_allocate(sizeof *draft);
    *found = (struct cached){.file = -1};
    *out = NULL;
    if (!draft)
        return error_set(err, ERROR_MEMORY, "no memory for an entry of the cache");
    draft->directory = draft->lock = draft->file = -1;
    int status = open_draft(draft, name, stop, found, err);
    if (status == 0 && !found->data)
        *out = draft;
    else
        cache_draft_destroy(draft);
    return status;
}

/* In large steps where there is room for them. */
static int grow(struct cache_draft *draft, size_t count, struct error *err)
{
    size_t wanted = draft->used + count - draft->reserved;
    size_t steps[] = {wanted < GROWTH ? GROWTH : wanted, wanted};
    for (int i = 0; i < 2; i++) {
        if (reserve(draft->directory, draft->path, draft->file, draft->reserved, steps[i],
                    i == 0 ? NULL : err) < 0)
            continue;
        draft->reserved += steps[i];
        return 0;
    }
    return -1;
}

int cache_draft_write(struct cache_draft *draft, const void *bytes, size_t count, struct error *err)
{
    if (draft->used + count > draft->reserved && grow(draft, count, err) < 0)
        return -1;
    for (const char *at = bytes; count > 0;) {
        ssize_t written = pwrite(draft->file, at, count, (off_t)draft->used);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return fail(draft->path, err);
        at += written;
        count -= (size_t)written;
        draft->used += (size_t)written;
    }
    return 0;
}

int cache_draft_finish(struct cache_draft *draft, struct cached *out, struct error *err)
{
    *out = (struct cached){.file = -1};
    if (draft->used == 0)
        return 0;
    if (ftruncate(draft->file, (off_t)draft->used) < 0 || fsync(draft->file) < 0 ||
        renameat(draft->directory, draft->part, draft->directory, draft->name) < 0)
        return fail(draft->path, err);
    if (!find_at(draft->directory, draft->name, draft->used, out))
        return error_set(err, ERROR_IO, "%s: what was just written there is gone", draft->path);
    close(draft->file);
    draft->file = -1;
    return 0;
}
