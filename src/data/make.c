#include "data/make.h"

#include <sys/stat.h>

#include "base/error.h"
#include "data/destination.h"

static const struct maker *const makers[] = {&maker_imagenet, &maker_criteo, &maker_mnist, NULL};

const struct maker *const *maker_list(void)
{
    return makers;
}

int make_check_absent(const struct destination *destination, const char *name,
                      const struct make_settings *settings, struct error *err)
{
    if (settings->force || !destination_has(destination, name))
        return 0;
    return error_set(err, ERROR_USAGE, "%s/%s is there already; --force replaces it",
                     settings->directory, name);
}

uint64_t make_file_bytes(const struct destination *destination, const char *name)
{
    char path[PATH_MAX];
    struct stat info;
    destination_place(destination, name, path);
    return stat(path, &info) == 0 ? (uint64_t)info.st_size : 0;
}
