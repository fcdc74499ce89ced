#include "cli/stored_weights.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "store/checkpoint.h"
#include "store/checkpoints.h"
#include "store/weights.h"

static bool is_checkpoint(const char *path)
{
    char weights[PATH_MAX];
    struct stat info;
    snprintf(weights, sizeof weights, "%s/weights.safetensors", path);
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode) && access(weights, F_OK) < 0;
}

static int find_in_manifest(const char *path, struct arena *arena, struct stored_weights *out,
                            struct error *err)
{
    static const char *const names[] = {"classes",       "image-size", "embedding-rows",
                                        "embedding-dim", "hidden",     "dropout"};
    char checkpoint[PATH_MAX];
    struct manifest manifest;
    if (checkpoints_resolve(path, checkpoint, err) < 0 ||
        checkpoint_read_manifest(checkpoint, arena, &manifest, err) < 0)
        return -1;
    out->model = manifest.model;
    out->data = manifest_setting(&manifest, "data");
    for (size_t i = 0; out->recipe && i < sizeof names / sizeof *names; i++) {
        const char *value = manifest_setting(&manifest, names[i]);
        if (value)
            out->recipe = arena_format(arena, "%s --%s=%s", out->recipe, names[i], value);
    }
    return out->recipe ? 0 : error_set(err, ERROR_MEMORY, "no memory for the network's options");
}

int stored_weights_find(const char *path, struct arena *arena, struct stored_weights *out,
                        struct error *err)
{
    *out = (struct stored_weights){.recipe = ""};
    if (is_checkpoint(path))
        return find_in_manifest(path, arena, out, err);
    return weights_model(path, arena, &out->model, err);
}

int stored_weights_load(const char *path, struct params *params, struct error *err)
{
    char checkpoint[PATH_MAX];
    if (!is_checkpoint(path))
        return weights_load(path, params, err);
    if (checkpoints_resolve(path, checkpoint, err) < 0)
        return -1;
    return checkpoint_load(checkpoint, params, NULL, err);
}
