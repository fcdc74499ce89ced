/* All networks; the list is written by the build from the file names. */
#include "models/registry.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "convert/onnx_read.h"

#define MODEL(name) extern const struct model model_##name;
#include "models.list"
#undef MODEL

static const struct model *const all[] = {
#define MODEL(name) &model_##name,
#include "models.list"
#undef MODEL
    NULL,
};

const struct model *const *model_list(void)
{
    return all;
}

const struct model *model_find(const char *name)
{
    for (const struct model *const *model = all; *model; model++)
        if (strcmp((*model)->name, name) == 0)
            return *model;
    return NULL;
}

static bool looks_like_path(const char *name)
{
    size_t length = strlen(name);
    return strchr(name, '/') || (length > 3 && strcmp(name + length - 3, ".so") == 0);
}

/* dlopen searches the library path for names without a slash; a user means the file. */
static int load(const char *path, const struct model **out, struct error *err)
{
    char place[4096];
    snprintf(place, sizeof place, "%s%s", strchr(path, '/') ? "" : "./", path);
    if (access(place, R_OK) < 0)
        return error_set(err, ERROR_USAGE, "%s: no such file, or not readable", path);
    struct stat info; /* dlopen would wait for a FIFO's other end */
    if (stat(place, &info) < 0 || !S_ISREG(info.st_mode))
        return error_set(err, ERROR_USAGE, "%s is not a regular file", path);
    void *library = dlopen(place, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return error_set(err, ERROR_USAGE, "%s is not a shared object this program can load: %s",
                         path, dlerror());
    const struct model *model = dlsym(library, "model_user");
    if (model && model->size != sizeof *model) {
        dlclose(library);
        return error_set(
            err, ERROR_USAGE,
            "%s was made for another version of lockstep, or its model has no `.size = "
            "sizeof(struct model)`; compile it again",
            path);
    }
    if (!model || !model->name || !model->build) {
        dlclose(library);
        return error_set(err, ERROR_USAGE,
                         "%s defines no model: it needs `LOCKSTEP_API const struct model "
                         "model_user` with a size, a name and a build function (see "
                         "docs/adding-a-model.md)",
                         path);
    }
    *out = model;
    return 0;
}

int model_open(const char *name_or_path, const struct model **out, struct error *err)
{
    const struct model *known = model_find(name_or_path);
    if (known) {
        *out = known;
        return 0;
    }
    if (onnx_is_file(name_or_path))
        return onnx_model_open(name_or_path, out, err);
    if (looks_like_path(name_or_path))
        return load(name_or_path, out, err);
    return error_set(err, ERROR_USAGE, "there is no model \"%s\"", name_or_path);
}

void model_close(const struct model *model)
{
    onnx_model_close(model);
}
