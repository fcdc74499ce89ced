#include "cli/libraries.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* By the names under which the loader knows them; versions are in the names of the files behind. */
static const struct {
    const char *name, *file, *use;
} known[] = {
    {"libmpi", "libmpi.so.40", "ranks"},
    {"libjpeg", "libjpeg.so.62", "pictures"},
    {"libpng", "libpng16.so.16", "pictures"},
    {"zlib", "libz.so.1", "packed files"},
    {"libyaml", "libyaml-0.so.2", "Kubernetes"},
    {"libevent", "libevent_core-2.1.so.7", "HTTP"},
    {"libgomp", "libgomp.so.1", "threads"},
    {"libssl", "libssl.so.3", "TLS"},
    {"libcurl", "libcurl.so.4", "S3, MLflow"},
    {"libgrpc", "libgrpc.so.29", "gRPC clients"},
    {"libnghttp2", "libnghttp2.so.14", "gRPC"},
};
_Static_assert(sizeof known / sizeof *known <= LIBRARIES_MAX, "room for all");

/* The version is what stands behind ".so.": 62.3.0, say. A file without it tells none. */
static void take_version(const char *path, char version[48])
{
    char place[PATH_MAX];
    const char *file = realpath(path, place) ? place : path;
    const char *behind = strstr(file, ".so.");
    snprintf(version, 48, "%s", behind ? behind + strlen(".so.") : "found");
}

static void find_version(const char *file, char version[48])
{
    struct link_map *map = NULL;
    void *library = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
    if (library && dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map)
        take_version(map->l_name, version);
    if (library)
        dlclose(library);
}

int libraries_find(struct library out[LIBRARIES_MAX])
{
    int count = (int)(sizeof known / sizeof *known);
    for (int i = 0; i < count; i++) {
        out[i] = (struct library){.name = known[i].name, .use = known[i].use};
        find_version(known[i].file, out[i].version);
    }
    return count;
}
