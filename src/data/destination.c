#include "data/destination.h"

#include <dirent.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"

enum { SMALL_FILE_LIMIT = 1 << 20 };

struct destination {
    char *directory;
};

int destination_open(const char *path, struct destination **out, struct error *err)
{
    struct destination *destination = memory_allocate(sizeof *destination);
    if (!destination || !(destination->directory = memory_copy_text(path))) {
        destination_close(destination);
        return error_set(err, ERROR_MEMORY, "no memory for the destination");
    }
    if (directory_make(path, err) < 0) {
        destination_close(destination);
        return -1;
    }
    *out = destination;
    return 0;
}

void destination_close(struct destination *destination)
{
    if (!destination)
        return;
    memory_free(destination->directory);
    memory_free(destination);
}

void destination_place(const struct destination *destination, const char *name, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%s", destination->directory, name);
}

bool destination_has(const struct destination *destination, const char *name)
{
    char path[PATH_MAX];
    destination_place(destination, name, path);
    return access(path, F_OK) == 0;
}

int destination_deliver(struct destination *destination, const char *name, struct error *err)
{
    (void)destination; /* it was written where it belongs */
    (void)name;
    (void)err;
    return 0;
}

int destination_write(struct destination *destination, const char *name, const void *bytes,
                      size_t count, struct error *err)
{
    char path[PATH_MAX];
    destination_place(destination, name, path);
    return file_write_atomic(path, bytes, count, err) < 0
               ? -1
               : destination_deliver(destination, name, err);
}

int destination_read(const struct destination *destination, const char *name, char **out,
                     size_t *count, struct error *err)
{
    char path[PATH_MAX];
    destination_place(destination, name, path);
    return file_read(path, SMALL_FILE_LIMIT, out, count, err);
}

void destination_sweep(struct destination *destination, const char *prefix)
{
    DIR *directory = opendir(destination->directory);
    if (!directory)
        return;
    for (struct dirent *entry; (entry = readdir(directory));) {
        size_t length = strlen(entry->d_name);
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 && length > 5 &&
            strcmp(entry->d_name + length - 5, ".part") == 0)
            unlinkat(dirfd(directory), entry->d_name, 0);
    }
    closedir(directory);
}
