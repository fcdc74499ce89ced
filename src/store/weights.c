#include "store/weights.h"

#include <limits.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/file_map.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "exec/params.h"
#include "store/safetensors.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are written as they lie");

static const char default_name[] = "weights.safetensors";

/* One entry per parameter, one after the other. */
static void make_entries(const struct params *params, struct safetensors_entry *entries)
{
    size_t used = 0;
    for (int i = 0; i < params_count(params); i++) {
        struct param_range range = params_range(params, i);
        entries[i] = (struct safetensors_entry){
            .name = params_name(params, i),
            .dtype = "F32",
            .shape = range.shape,
            .first = used,
            .bytes = (size_t)shape_count(&range.shape) * sizeof(float),
        };
        used += entries[i].bytes;
    }
}

/* Every parameter in plain order. Those that are stored so, as large tables are, go out from where
 * they lie; `room` holds the largest of the others. */
static int write_params(struct file_draft *draft, const struct params *params,
                        const struct safetensors_entry *entries, void *room, struct error *err)
{
    for (int i = 0; i < params_count(params); i++) {
        const void *data = params_plain(params, i);
        struct tensor plain = {.dtype = DTYPE_F32, .shape = entries[i].shape, .data = room};
        if (!data && params_read(params, i, &plain, err) < 0)
            return -1;
        if (file_draft_write(draft, data ? data : room, entries[i].bytes, err) < 0)
            return -1;
    }
    return 0;
}

static int write_file(const char *path, const struct params *params,
                      const struct safetensors_entry *entries, const struct strbuf *header,
                      void *room, struct error *err)
{
    struct file_draft draft;
    if (file_draft_begin(path, &draft, err) < 0)
        return -1;
    if (file_draft_write(&draft, header->text, header->length, err) < 0 ||
        write_params(&draft, params, entries, room, err) < 0) {
        file_draft_drop(&draft);
        return -1;
    }
    return file_draft_finish(&draft, err);
}

static size_t largest_reordered(const struct params *params,
                                const struct safetensors_entry *entries)
{
    size_t largest = 0;
    for (int i = 0; i < params_count(params); i++)
        if (!params_plain(params, i) && entries[i].bytes > largest)
            largest = entries[i].bytes;
    return largest;
}

int weights_save(const char *path, const char *model, const struct params *params,
                 struct error *err)
{
    int status = -1;
    struct strbuf header;
    strbuf_init(&header);
    int count = params_count(params);
    struct safetensors_entry *entries = memory_allocate((size_t)count * sizeof *entries);
    struct slab room = {0};
    if (!entries) {
        error_set(err, ERROR_MEMORY, "no memory for the header");
        goto out;
    }
    make_entries(params, entries);
    if (safetensors_header(entries, count, model, &header, err) < 0 ||
        slab_create(largest_reordered(params, entries), "weights in plain order", &room, err) < 0)
        goto out;
    status = write_file(path, params, entries, &header, room.data, err);
out:
    slab_release(&room);
    memory_free(entries);
    strbuf_release(&header);
    if (status < 0)
        error_wrap(err, "saving weights");
    return status;
}

static int resolve_path(const char *path, char resolved[PATH_MAX], struct error *err)
{
    struct stat info;
    bool directory = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    int length = directory ? snprintf(resolved, PATH_MAX, "%s/%s", path, default_name)
                           : snprintf(resolved, PATH_MAX, "%s", path);
    if (length >= PATH_MAX)
        return error_set(err, ERROR_IO, "a path of %d bytes is too long", length);
    return 0;
}

/* Something is wrong with `count` parameters, of which `name` is the first. */
static int mismatch(const char *path, const char *what, const char *name, int count,
                    const char *detail, struct error *err)
{
    char others[48] = "";
    if (count > 1)
        snprintf(others, sizeof others, " (and %d others)", count - 1);
    return error_set(err, ERROR_FORMAT, "%s: %s '%s'%s%s", path, what, name, others, detail);
}

static int check_missing(const char *path, const struct safetensors *file,
                         const struct params *params, struct error *err)
{
    int missing = 0, first = 0;
    for (int i = params_count(params) - 1; i >= 0; i--) {
        if (!safetensors_find(file, params_name(params, i))) {
            missing++;
            first = i;
        }
    }
    return missing ? mismatch(path, "lacks the model's parameter", params_name(params, first),
                              missing, "; was it saved from another model?", err)
                   : 0;
}

static int check_left_over(const char *path, const struct safetensors *file,
                           const struct params *params, struct error *err)
{
    int extra = 0, first = 0;
    for (int i = file->count - 1; i >= 0; i--) {
        if (params_find(params, file->entries[i].name) < 0) {
            extra++;
            first = i;
        }
    }
    return extra ? mismatch(path, "has a tensor that the model lacks:", file->entries[first].name,
                            extra, "; was it saved from another model?", err)
                 : 0;
}

static int check_shapes(const char *path, const struct safetensors *file,
                        const struct params *params, struct error *err)
{
    for (int i = 0; i < params_count(params); i++) {
        struct param_range range = params_range(params, i);
        const struct safetensors_entry *entry = safetensors_find(file, range.name);
        char theirs[96], ours[96];
        if (strcmp(entry->dtype, "F32") != 0)
            return error_set(err, ERROR_FORMAT, "%s: '%s' is %s; only F32 is read", path,
                             range.name, entry->dtype);
        if (!shape_equal(&entry->shape, &range.shape))
            return error_set(err, ERROR_FORMAT, "%s: '%s' has shape %s, the model's has %s", path,
                             range.name, shape_text(&entry->shape, theirs, sizeof theirs),
                             shape_text(&range.shape, ours, sizeof ours));
    }
    return 0;
}

/* All is checked before the first number is written. */
static int apply(const char *path, char *bytes, size_t count, struct arena *arena,
                 struct params *params, struct error *err)
{
    struct safetensors file;
    if (safetensors_parse(path, bytes, count, arena, &file, err) < 0 ||
        check_missing(path, &file, params, err) < 0 ||
        check_left_over(path, &file, params, err) < 0 || check_shapes(path, &file, params, err) < 0)
        return -1;
    /* Writers before version 0.3 of the format did not align the data. */
    char *data = bytes + (file.data - bytes);
    if ((uintptr_t)data % _Alignof(float) != 0)
        data = memmove(bytes, data, file.data_bytes);
    for (int i = 0; i < params_count(params); i++) {
        const struct safetensors_entry *entry = safetensors_find(&file, params_name(params, i));
        struct tensor plain = {
            .dtype = DTYPE_F32, .shape = entry->shape, .data = data + entry->first};
        if (params_write(params, i, &plain, err) < 0)
            return -1;
    }
    return 0;
}

int weights_load(const char *path, struct params *params, struct error *err)
{
    char resolved[PATH_MAX];
    char *bytes;
    size_t count;
    if (resolve_path(path, resolved, err) < 0 || file_map(resolved, &bytes, &count, err) < 0)
        return error_wrap(err, "loading weights");
    struct arena *arena = arena_create();
    int status = arena ? apply(resolved, bytes, count, arena, params, err)
                       : error_set(err, ERROR_MEMORY, "no memory for the header");
    if (file_map_check(resolved, bytes, err) < 0)
        status = -1;
    arena_destroy(arena);
    file_unmap(bytes, count);
    if (status < 0)
        error_wrap(err, "loading weights");
    return status;
}

int weights_model(const char *path, struct arena *arena, const char **out, struct error *err)
{
    char resolved[PATH_MAX];
    char *bytes;
    size_t count;
    struct safetensors file;
    if (resolve_path(path, resolved, err) < 0 || file_map(resolved, &bytes, &count, err) < 0)
        return -1;
    int status = safetensors_parse(resolved, bytes, count, arena, &file, err);
    if (file_map_check(resolved, bytes, err) < 0)
        status = -1;
    *out = status == 0 ? file.model : NULL;
    file_unmap(bytes, count);
    return status;
}
