#include "base/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"

static int fail(const char *path, struct error *err)
{
    return error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
}

static int too_long(const char *path, size_t limit, struct error *err)
{
    return error_set(err, ERROR_FORMAT, "%s: holds more than the %zu bytes allowed for it", path,
                     limit);
}

int file_open(const char *path, struct error *err)
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return fail(path, err);
    /* Only the opening must not wait: a pipe's writer may be slow. */
    int flags = fcntl(file, F_GETFL);
    if (flags >= 0)
        fcntl(file, F_SETFL, flags & ~O_NONBLOCK);
    return file;
}

/* Reads to the end of `file`. The size of a pipe is not known ahead, so the block grows. */
static int read_all(int file, const char *path, size_t expected, size_t limit, char **out,
                    size_t *bytes, struct error *err)
{
    size_t capacity = expected + 1, used = 0;
    char *text = memory_allocate(capacity);
    while (text) {
        if (used + 1 >= capacity) {
            char *larger = memory_resize(text, capacity = 2 * capacity + 4096);
            if (!larger)
                break;
            text = larger;
        }
        ssize_t got = read(file, text + used, capacity - 1 - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 || used + (size_t)got > limit) {
            memory_free(text);
            return got < 0 ? fail(path, err) : too_long(path, limit, err);
        }
        used += (size_t)got;
        text[used] = '\0';
        if (got == 0) {
            *out = text;
            *bytes = used;
            return 0;
        }
    }
    memory_free(text);
    return error_set(err, ERROR_MEMORY, "%s: no memory for its %zu bytes", path, capacity);
}

int file_read(const char *path, size_t limit, char **out, size_t *bytes, struct error *err)
{
    int file = file_open(path, err);
    if (file < 0)
        return -1;
    int status = -1;
    struct stat info;
    if (fstat(file, &info) < 0) {
        fail(path, err);
        goto out;
    }
    size_t size = S_ISREG(info.st_mode) ? (size_t)info.st_size : 0;
    if (size > limit) {
        error_set(err, ERROR_FORMAT, "%s: holds %zu bytes, %zu are allowed for it", path, size,
                  limit);
        goto out;
    }
    status = read_all(file, path, size + 1, limit, out, bytes, err);
out:
    close(file);
    return status;
}

static int write_all(int file, const char *path, const void *data, size_t bytes, struct error *err)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t written = write(file, at, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return fail(path, err);
        at += written;
        bytes -= (size_t)written;
    }
    return 0;
}

/* A pipe or a device cannot be replaced by a rename, and must not be. */
static int write_in_place(const char *path, const void *data, size_t bytes, struct error *err)
{
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return fail(path, err);
    int status = write_all(file, path, data, bytes, err);
    if (close(file) < 0 && status == 0)
        status = fail(path, err);
    return status;
}

/* A rename survives a power cut only once its directory is on the disk. */
static int flush_directory_of(const char *path, struct error *err)
{
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int length = slash == path ? 1 : slash ? (int)(slash - path) : 1;
    snprintf(parent, sizeof parent, "%.*s", length, slash ? path : ".");
    return directory_flush(parent, err);
}

enum { DRAFT_DIGITS = 16 };
static const char draft_ending[] = ".part";

/* Makes a file of a name that nobody has yet, and locks it. 1: somebody swept it away in between. */
static int open_draft(struct file_draft *draft, struct error *err)
{
    /* Not the process's number: on a shared disk there are others, in containers all are 1. */
    uint64_t random = 0;
    struct stat info;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return fail(draft->target, err);
    snprintf(draft->beside, sizeof draft->beside, "%s.%0*" PRIx64 "%s", draft->target, DRAFT_DIGITS,
             random, draft_ending);
    draft->descriptor = open(draft->beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (draft->descriptor < 0)
        return fail(draft->target, err);
    while (flock(draft->descriptor, LOCK_EX) < 0 && errno == EINTR)
        ; /* a file system without locks is none of our business: nothing is swept there */
    if (fstat(draft->descriptor, &info) == 0 && info.st_nlink > 0)
        return 0;
    close(draft->descriptor);
    draft->descriptor = -1;
    return 1;
}

int file_draft_begin(const char *path, struct file_draft *out, struct error *err)
{
    struct stat info;
    bool exists = stat(path, &info) == 0;
    out->descriptor = -1;
    if (exists && !S_ISREG(info.st_mode))
        return error_set(err, ERROR_IO, "%s: is a directory or a device", path);
    /* What a link points at is replaced, not the link. */
    if (!exists || !realpath(path, out->target)) {
        if (strlen(path) >= sizeof out->target)
            return error_set(err, ERROR_IO, "%s: %s", path, strerror(ENAMETOOLONG));
        snprintf(out->target, sizeof out->target, "%s", path);
    }
    int status;
    do
        status = open_draft(out, err);
    while (status > 0);
    return status;
}

int file_draft_write(struct file_draft *draft, const void *data, size_t bytes, struct error *err)
{
    return write_all(draft->descriptor, draft->beside, data, bytes, err);
}

int file_draft_finish(struct file_draft *draft, struct error *err)
{
    int status = fsync(draft->descriptor) < 0 ? fail(draft->beside, err) : 0;
    if (close(draft->descriptor) < 0 && status == 0)
        status = fail(draft->beside, err);
    draft->descriptor = -1;
    if (status == 0 && rename(draft->beside, draft->target) < 0)
        status = fail(draft->target, err);
    if (status < 0)
        unlink(draft->beside);
    return status < 0 ? -1 : flush_directory_of(draft->target, err);
}

void file_draft_drop(struct file_draft *draft)
{
    if (draft->descriptor < 0)
        return;
    close(draft->descriptor);
    unlink(draft->beside);
    draft->descriptor = -1;
}

static bool is_draft(const char *name)
{
    size_t length = strlen(name), ending = DRAFT_DIGITS + strlen(draft_ending);
    return length > ending + 1 && name[length - ending - 1] == '.' &&
           strspn(name + length - ending, "0123456789abcdef") == DRAFT_DIGITS &&
           strcmp(name + length - ending + DRAFT_DIGITS, draft_ending) == 0;
}

void file_drafts_sweep(const char *directory)
{
    DIR *entries = opendir(directory);
    if (!entries)
        return;
    for (const struct dirent *entry; (entry = readdir(entries));) {
        int file = is_draft(entry->d_name)
                       ? openat(dirfd(entries), entry->d_name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC)
                       : -1;
        if (file < 0)
            continue;
        if (flock(file, LOCK_EX | LOCK_NB) == 0)
            unlinkat(dirfd(entries), entry->d_name, 0);
        close(file);
    }
    closedir(entries);
}

int file_write_atomic(const char *path, const void *data, size_t bytes, struct error *err)
{
    struct file_draft draft;
    struct stat info;
    bool exists = stat(path, &info) == 0;
    if (exists && S_ISDIR(info.st_mode))
        return error_set(err, ERROR_IO, "%s: is a directory", path);
    if (exists && !S_ISREG(info.st_mode))
        return write_in_place(path, data, bytes, err);
    if (file_draft_begin(path, &draft, err) < 0)
        return -1;
    if (file_draft_write(&draft, data, bytes, err) < 0) {
        file_draft_drop(&draft);
        return -1;
    }
    return file_draft_finish(&draft, err);
}

bool file_name_ends(const char *name, const char *ending)
{
    size_t length = strlen(name), ending_length = strlen(ending);
    return length >= ending_length && strcasecmp(name + length - ending_length, ending) == 0;
}

int directory_make(const char *path, struct error *err)
{
    char part[PATH_MAX];
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof part)
        return error_set(err, ERROR_IO, "'%s': %s", path, strerror(length ? ENAMETOOLONG : ENOENT));
    memcpy(part, path, length + 1);
    for (size_t i = 1; i <= length; i++) {
        if (part[i] != '/' && part[i] != '\0')
            continue;
        part[i] = '\0';
        if (mkdir(part, 0777) < 0 && errno != EEXIST)
            return fail(part, err);
        part[i] = path[i];
    }
    struct stat info;
    if (stat(path, &info) < 0)
        return fail(path, err);
    if (!S_ISDIR(info.st_mode))
        return error_set(err, ERROR_IO, "%s: is not a directory", path);
    return 0;
}

int directory_flush(const char *path, struct error *err)
{
    int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return fail(path, err);
    /* Some network file systems cannot flush a directory and say EINVAL. */
    int status = fsync(directory) < 0 && errno != EINVAL ? fail(path, err) : 0;
    close(directory);
    return status;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

int directory_remove(const char *path, struct error *err)
{
    enum { OPEN_AT_ONCE = 16 };
    return nftw(path, remove_entry, OPEN_AT_ONCE, FTW_DEPTH | FTW_PHYS) < 0 ? fail(path, err) : 0;
}

int directory_of_cache(const char *below, char path[PATH_MAX], struct error *err)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool named = cache && cache[0] == '/'; /* the specification ignores relative ones */
    if (!named && (!home || !home[0]))
        return error_set(err, ERROR_IO,
                         "no cache directory: neither XDG_CACHE_HOME nor HOME is set");
    int length = snprintf(path, PATH_MAX, "%s%s/lockstep/%s", named ? cache : home,
                          named ? "" : "/.cache", below);
    if (length >= PATH_MAX)
        return error_set(err, ERROR_IO, "the cache directory's path is longer than %d bytes",
                         PATH_MAX);
    return directory_make(path, err);
}
