#include "convert/version_name.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

bool version_name_read(const char *name, int64_t *out)
{
    if (!*name || name[strspn(name, "0123456789")])
        return false;
    errno = 0;
    *out = strtoll(name, NULL, 10);
    return errno == 0;
}

static bool is_directory(int parent, const char *name)
{
    struct stat info;
    return fstatat(parent, name, &info, 0) == 0 && S_ISDIR(info.st_mode);
}

void version_name_find(const char *directory, int64_t version, char out[NAME_MAX + 1])
{
    snprintf(out, NAME_MAX + 1, "%" PRId64, version);
    DIR *entries = opendir(directory);
    if (!entries || is_directory(dirfd(entries), out)) {
        if (entries)
            closedir(entries);
        return;
    }
    size_t shortest = SIZE_MAX;
    for (const struct dirent *entry; (entry = readdir(entries));) {
        int64_t number;
        size_t length = strlen(entry->d_name);
        if (length < shortest && version_name_read(entry->d_name, &number) && number == version &&
            is_directory(dirfd(entries), entry->d_name)) {
            snprintf(out, NAME_MAX + 1, "%s", entry->d_name);
            shortest = length;
        }
    }
    closedir(entries);
}
