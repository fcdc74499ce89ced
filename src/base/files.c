#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/mman.h>
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
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return fail(path, err);
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

static int write_pieces(int file, const char *path, file_piece_fn *next, void *context,
                        struct error *err)
{
    const void *data;
    size_t bytes;
    for (int more; (more = next(context, &data, &bytes, err)) != 0;)
        if (more < 0 || write_all(file, path, data, bytes, err) < 0)
            return -1;
    return 0;
}

/* A pipe or a device cannot be replaced by a rename, and must not be. */
static int write_in_place(const char *path, file_piece_fn *next, void *context, struct error *err)
{
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return fail(path, err);
    int status = write_pieces(file, path, next, context, err);
    if (close(file) < 0 && status == 0)
        status = fail(path, err);
    return status;
}

static int write_flushed(const char *path, file_piece_fn *next, void *context, struct error *err)
{
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0)
        return fail(path, err);
    int status = write_pieces(file, path, next, context, err);
    if (status == 0 && fsync(file) < 0)
        status = fail(path, err);
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
    int directory = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return fail(parent, err);
    /* Some network file systems cannot flush a directory and say EINVAL. */
    int status = fsync(directory) < 0 && errno != EINVAL ? fail(parent, err) : 0;
    close(directory);
    return status;
}

int file_write_pieces(const char *path, file_piece_fn *next, void *context, struct error *err)
{
    char target[PATH_MAX], beside[PATH_MAX + 32];
    struct stat info;
    bool exists = stat(path, &info) == 0;
    if (exists && S_ISDIR(info.st_mode))
        return error_set(err, ERROR_IO, "%s: is a directory", path);
    if (exists && !S_ISREG(info.st_mode))
        return write_in_place(path, next, context, err);
    /* What a link points at is replaced, not the link. */
    if (!exists || !realpath(path, target)) {
        if (strlen(path) >= sizeof target)
            return error_set(err, ERROR_IO, "%s: %s", path, strerror(ENAMETOOLONG));
        snprintf(target, sizeof target, "%s", path);
    }
    snprintf(beside, sizeof beside, "%s.%ld.part", target, (long)getpid());
    unlink(beside); /* left by a process of the same number that was killed */
    if (write_flushed(beside, next, context, err) < 0) {
        unlink(beside);
        return -1;
    }
    if (rename(beside, target) < 0) {
        fail(target, err);
        unlink(beside);
        return -1;
    }
    return flush_directory_of(target, err);
}

struct whole {
    const void *data;
    size_t bytes;
    bool given;
};

static int give_whole(void *context, const void **data, size_t *bytes, struct error *err)
{
    struct whole *whole = context;
    (void)err;
    if (whole->given)
        return 0;
    *data = whole->data;
    *bytes = whole->bytes;
    whole->given = true;
    return 1;
}

int file_write_atomic(const char *path, const void *data, size_t bytes, struct error *err)
{
    struct whole whole = {.data = data, .bytes = bytes};
    return file_write_pieces(path, give_whole, &whole, err);
}

int file_map(const char *path, char **out, size_t *bytes, struct error *err)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return fail(path, err);
    struct stat info;
    int status = 0;
    if (fstat(file, &info) < 0)
        status = fail(path, err);
    else if (!S_ISREG(info.st_mode) || info.st_size == 0)
        status = error_set(err, ERROR_FORMAT, "%s: %s", path,
                           S_ISREG(info.st_mode) ? "is empty" : "is not a regular file");
    if (status == 0) {
        void *mapped =
            mmap(NULL, (size_t)info.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
        if (mapped == MAP_FAILED)
            status = fail(path, err);
        else {
            *out = mapped;
            *bytes = (size_t)info.st_size;
        }
    }
    close(file);
    return status;
}

void file_unmap(char *bytes, size_t count)
{
    if (bytes)
        munmap(bytes, count);
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
