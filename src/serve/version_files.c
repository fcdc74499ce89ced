#include "serve/version_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "convert/imported.h"
#include "convert/version_name.h"

static int falling(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

void version_files_path(const char *directory, int64_t version, char out[PATH_MAX])
{
    char name[NAME_MAX + 1];
    if (imported_is_file(directory)) {
        snprintf(out, PATH_MAX, "%s", directory);
        return;
    }
    version_name_find(directory, version, name);
    snprintf(out, PATH_MAX, "%s/%s", directory, name);
}

/* FNV-1a. Of one entry, so that the order in which a directory is read does not matter. */
static const uint64_t mix_start = 0xcbf29ce484222325u;
static uint64_t mix(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * 0x100000001b3u;
    return hash;
}

/* Directories are looked at again and again, and the log would be full of it. */
static bool was_said(const char *directory, int64_t version)
{
    enum { REMEMBERED = 64 };
    static _Atomic uint64_t said[REMEMBERED];
    uint64_t hash = mix(mix_start, directory, strlen(directory));
    hash = mix(hash, &version, sizeof version) | 1;
    for (int i = 0; i < REMEMBERED; i++) {
        uint64_t before = 0;
        if (atomic_compare_exchange_strong(&said[i], &before, hash))
            return false;
        if (before == hash)
            return true;
    }
    return true;
}

static int drop_repeated(const char *directory, int64_t *numbers, int count)
{
    int kept = 0;
    for (int i = 0; i < count; i++) {
        if (kept == 0 || numbers[i] != numbers[kept - 1]) {
            numbers[kept++] = numbers[i];
            continue;
        }
        char name[NAME_MAX + 1];
        version_name_find(directory, numbers[i], name);
        if (!was_said(directory, numbers[i]))
            log_line(LOG_WARNING,
                     "%s: several directories are version %" PRId64 "; %s is taken, being the "
                     "shortest name",
                     directory, numbers[i], name);
    }
    return kept;
}

int version_files_list(const char *directory, int64_t *out, struct error *err)
{
    if (imported_is_file(directory)) {
        out[0] = 1;
        return 1;
    }
    DIR *entries = opendir(directory);
    if (!entries)
        return error_set(err, ERROR_IO, "%s: %s", directory, strerror(errno));
    int count = 0;
    const struct dirent *entry;
    while (count < VERSION_FILES_MAX && (entry = readdir(entries))) {
        struct stat info;
        if (version_name_read(entry->d_name, &out[count]) &&
            fstatat(dirfd(entries), entry->d_name, &info, 0) == 0 && S_ISDIR(info.st_mode))
            count++;
    }
    closedir(entries);
    qsort(out, (size_t)count, sizeof *out, falling);
    return drop_repeated(directory, out, count);
}

static uint64_t mix_file(uint64_t hash, const struct stat *info)
{
    hash = mix(hash, &info->st_size, sizeof info->st_size);
    return mix(hash, &info->st_mtim, sizeof info->st_mtim);
}

enum { STAMP_DEPTH = 4, STAMP_ENTRIES = 10000 };

static uint64_t stamp_below(int parent, const char *name, int depth, int *left)
{
    uint64_t sum = 0;
    int descriptor = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = descriptor >= 0 ? fdopendir(descriptor) : NULL;
    if (!entries) {
        if (descriptor >= 0)
            close(descriptor);
        return 1;
    }
    const struct dirent *entry;
    while ((entry = readdir(entries)) && (*left)-- > 0) {
        struct stat info;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            fstatat(dirfd(entries), entry->d_name, &info, 0) < 0)
            continue;
        uint64_t hash = mix(mix_start, entry->d_name, strlen(entry->d_name));
        hash = mix_file(hash, &info);
        if (S_ISDIR(info.st_mode) && depth < STAMP_DEPTH) {
            uint64_t below = stamp_below(dirfd(entries), entry->d_name, depth + 1, left);
            hash = mix(hash, &below, sizeof below);
        }
        sum += hash;
    }
    closedir(entries);
    return sum;
}

uint64_t version_files_stamp(const char *directory)
{
    int left = STAMP_ENTRIES;
    struct stat info;
    if (stat(directory, &info) == 0 && S_ISREG(info.st_mode))
        return mix_file(0, &info);
    return stamp_below(AT_FDCWD, directory, 0, &left);
}
