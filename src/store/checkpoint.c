#include "store/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/memory.h"
#include "exec/params.h"
#include "store/bundle.h"
#include "store/checkpoints.h"
#include "store/checkpoints_names.h"
#include "wire/crc32c.h"

const char checkpoint_step_tensor[] = "global_step";
const char checkpoint_optimizer_folder[] = "optimizer/";

static const char bundle_name[] = "model", manifest_name[] = "manifest.json";

enum { MOST_INDEX_BYTES = 256 << 20 };

/* --- writing -------------------------------------------------------------------------------- */

static int write_tensors(const char *prefix, const struct checkpoint_tensors *tensors,
                         struct error *err)
{
    struct bundle_writer *writer;
    if (bundle_write_begin(prefix, &writer, err) < 0)
        return -1;
    for (int i = 0; i < tensors->count; i++) {
        const char *name;
        struct tensor tensor;
        if (tensors->get(tensors->context, i, &name, &tensor, err) < 0 ||
            bundle_write_tensor(writer, name, &tensor, err) < 0) {
            bundle_write_drop(writer);
            return -1;
        }
    }
    return bundle_write_finish(writer, err);
}

/* Sizes and checksum of the bundle's files as they are on the disk. */
static int measure(const char *path, struct manifest *manifest, struct error *err)
{
    char file[PATH_MAX];
    char *index;
    size_t bytes;
    struct stat info;
    snprintf(file, sizeof file, "%s/%s.data-00000-of-00001", path, bundle_name);
    if (stat(file, &info) < 0)
        return error_set(err, ERROR_IO, "%s: %s", file, strerror(errno));
    snprintf(file, sizeof file, "%s/%s.index", path, bundle_name);
    if (file_read(file, MOST_INDEX_BYTES, &index, &bytes, err) < 0)
        return -1;
    manifest->data_bytes = (uint64_t)info.st_size;
    manifest->index_bytes = bytes;
    manifest->index_crc = crc32c(0, index, bytes);
    memory_free(index);
    return 0;
}

static int write_manifest(const char *path, const struct manifest *manifest, struct error *err)
{
    char file[PATH_MAX];
    char *text;
    if (manifest_compose(manifest, &text, err) < 0)
        return -1;
    snprintf(file, sizeof file, "%s/%s", path, manifest_name);
    int status = file_write_atomic(file, text, strlen(text), err);
    memory_free(text);
    return status;
}

static int fill(const char *path, const struct manifest *manifest,
                const struct checkpoint_tensors *tensors, struct error *err)
{
    char prefix[PATH_MAX];
    struct manifest complete = *manifest;
    snprintf(prefix, sizeof prefix, "%s/%s", path, bundle_name);
    if (write_tensors(prefix, tensors, err) < 0 || measure(path, &complete, err) < 0 ||
        write_manifest(path, &complete, err) < 0)
        return -1;
    return directory_flush(path, err);
}

/* It is swept away later, so the new one counts. */
static void remove_earlier(const char *path)
{
    struct error failure = {0};
    if (directory_remove(path, &failure) < 0)
        log_line(LOG_WARNING, "a checkpoint that was replaced cannot be removed: %s",
                 failure.message);
}

/* NFS cannot exchange names. In between there is none of that name; checkpoints_sweep puts the
 * earlier one back. */
static int replace_in_two_acts(const char *directory, int64_t step, const char *from,
                               const char *to, struct error *err)
{
    char was[PATH_MAX];
    if (checkpoints_spare_path(directory, CHECKPOINTS_WAS, step, was, err) < 0)
        return -1;
    if (rename(to, was) < 0)
        return error_set(err, ERROR_IO, "%s: %s", to, strerror(errno));
    if (rename(from, to) < 0) {
        error_set(err, ERROR_IO, "%s: %s", to, strerror(errno));
        rename(was, to);
        return -1;
    }
    remove_earlier(was);
    return 0;
}

/* An earlier one of that name changes places with the new in one act, so that there is always one. */
static int put_in_place(const char *directory, int64_t step, const char *from, const char *to,
                        struct error *err)
{
    if (rename(from, to) == 0)
        return 0;
    if (errno != EEXIST && errno != ENOTEMPTY)
        return error_set(err, ERROR_IO, "%s: %s", to, strerror(errno));
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) < 0)
        return replace_in_two_acts(directory, step, from, to, err);
    remove_earlier(from);
    return 0;
}

int checkpoint_write(const char *directory, const struct manifest *manifest,
                     const struct checkpoint_tensors *tensors, char path[PATH_MAX],
                     struct error *err)
{
    char draft[PATH_MAX];
    struct error ignored = {0};
    if (checkpoints_spare_path(directory, CHECKPOINTS_DRAFT, manifest->step, draft, err) < 0 ||
        checkpoints_path(directory, manifest->step, path, err) < 0)
        return -1;
    if (mkdir(draft, 0777) < 0)
        return error_set(err, ERROR_IO, "%s: %s", draft, strerror(errno));
    if (fill(draft, manifest, tensors, err) < 0 ||
        put_in_place(directory, manifest->step, draft, path, err) < 0) {
        directory_remove(draft, &ignored);
        return -1;
    }
    return directory_flush(directory, err);
}

/* --- reading -------------------------------------------------------------------------------- */

static int check_files(const char *path, const struct manifest *manifest, struct error *err)
{
    struct manifest found;
    if (measure(path, &found, err) < 0)
        return -1;
    if (found.index_bytes != manifest->index_bytes || found.index_crc != manifest->index_crc)
        return error_set(err, ERROR_FORMAT,
                         "%s/%s.index is damaged: it is not the file its manifest tells of", path,
                         bundle_name);
    if (found.data_bytes != manifest->data_bytes)
        return error_set(err, ERROR_FORMAT,
                         "%s/%s.data-00000-of-00001 is damaged: it has %" PRIu64
                         " bytes, by its manifest %" PRIu64,
                         path, bundle_name, found.data_bytes, manifest->data_bytes);
    return 0;
}

int checkpoint_read_manifest(const char *path, struct arena *arena, struct manifest *out,
                             struct error *err)
{
    char file[PATH_MAX];
    char *text;
    size_t bytes;
    struct stat info;
    if (snprintf(file, sizeof file, "%s/%s", path, manifest_name) >= PATH_MAX)
        return error_set(err, ERROR_IO, "%s: %s", path, strerror(ENAMETOOLONG));
    if (stat(file, &info) == 0 && !S_ISREG(info.st_mode)) /* a pipe would be waited for */
        return error_set(err, ERROR_FORMAT, "%s: is not a regular file", file);
    if (file_read(file, MANIFEST_MOST_BYTES, &text, &bytes, err) < 0)
        return -1;
    int status = manifest_parse(file, text, bytes, arena, out, err);
    memory_free(text);
    return status < 0 ? -1 : check_files(path, out, err);
}

int checkpoint_open_bundle(const char *path, struct bundle **out, struct error *err)
{
    char prefix[PATH_MAX];
    if (snprintf(prefix, sizeof prefix, "%s/%s", path, bundle_name) >= PATH_MAX)
        return error_set(err, ERROR_IO, "%s: %s", path, strerror(ENAMETOOLONG));
    return bundle_open(prefix, out, err);
}

int checkpoint_verify(const char *path, struct error *err)
{
    struct manifest manifest;
    struct bundle *bundle = NULL;
    struct arena *arena = arena_create();
    int status = arena ? 0 : error_set(err, ERROR_MEMORY, "no memory for a manifest");
    if (status == 0)
        status = checkpoint_read_manifest(path, arena, &manifest, err);
    if (status == 0)
        status = checkpoint_open_bundle(path, &bundle, err);
    for (int i = 0; status == 0 && i < bundle_count(bundle); i++)
        status = bundle_check(bundle, i, err);
    bundle_close(bundle);
    arena_destroy(arena);
    return status;
}

/* --- loading -------------------------------------------------------------------------------- */

struct load {
    const char *path;
    struct bundle *bundle;
    struct params *params;
    const struct checkpoint_slots *slots;
    struct slab room; /* for the largest parameter */
};

static int read_tensor(struct load *load, const char *name, const struct shape *shape,
                       struct tensor *out, struct error *err)
{
    int index = bundle_find(load->bundle, name);
    char theirs[96], ours[96];
    if (index < 0)
        return error_set(err, ERROR_FORMAT,
                         "%s lacks '%s'; was it saved from another model or with another "
                         "optimizer?",
                         load->path, name);
    const struct bundle_entry *entry = bundle_entry(load->bundle, index);
    if (!shape_equal(&entry->shape, shape))
        return error_set(err, ERROR_FORMAT, "%s: '%s' has shape %s, the model's has %s", load->path,
                         name, shape_text(&entry->shape, theirs, sizeof theirs),
                         shape_text(shape, ours, sizeof ours));
    *out = (struct tensor){.dtype = DTYPE_F32, .shape = *shape, .data = load->room.data};
    return bundle_read(load->bundle, index, out, err);
}

static int load_slot(struct load *load, int param, int slot, struct error *err)
{
    struct param_range range = params_range(load->params, param);
    struct tensor tensor;
    float initial = 0;
    char name[512];
    const char *word = load->slots->describe(load->slots->context, param, slot, &initial);
    if (!word)
        return 0;
    snprintf(name, sizeof name, "%s%s/%s", checkpoint_optimizer_folder, range.name, word);
    if (read_tensor(load, name, &range.shape, &tensor, err) < 0)
        return -1;
    return params_write_slot(load->params, param, slot, &tensor, initial, err);
}

static int load_param(struct load *load, int param, struct error *err)
{
    struct param_range range = params_range(load->params, param);
    struct tensor tensor;
    if (read_tensor(load, range.name, &range.shape, &tensor, err) < 0 ||
        params_write(load->params, param, &tensor, err) < 0)
        return -1;
    for (int slot = 0; load->slots && slot < params_slots(load->params); slot++)
        if (load_slot(load, param, slot, err) < 0)
            return -1;
    return 0;
}

/* "optimizer/PARAMETER/SLOT" of one that the run keeps. */
static bool is_slot(const struct load *load, const char *name)
{
    char param[512];
    const char *first = name + strlen(checkpoint_optimizer_folder), *last = strrchr(first, '/');
    if (!last || (size_t)(last - first) >= sizeof param)
        return false;
    snprintf(param, sizeof param, "%.*s", (int)(last - first), first);
    int index = params_find(load->params, param);
    for (int slot = 0; index >= 0 && slot < params_slots(load->params); slot++) {
        float initial;
        const char *word = load->slots->describe(load->slots->context, index, slot, &initial);
        if (word && !strcmp(word, last + 1))
            return true;
    }
    return false;
}

static bool is_expected(const struct load *load, const char *name)
{
    if (!strncmp(name, checkpoint_optimizer_folder, strlen(checkpoint_optimizer_folder)))
        return !load->slots || is_slot(load, name);
    return params_find(load->params, name) >= 0 || !strcmp(name, checkpoint_step_tensor);
}

/* A tensor that there is no place for would be lost without a word. */
static int refuse_left_over(const struct load *load, struct error *err)
{
    for (int i = 0; i < bundle_count(load->bundle); i++) {
        const char *name = bundle_entry(load->bundle, i)->name;
        if (!is_expected(load, name))
            return error_set(err, ERROR_FORMAT,
                             "%s has '%s', for which there is no place; was it saved from another "
                             "model or with another optimizer?",
                             load->path, name);
    }
    return 0;
}

static size_t largest_param(const struct params *params)
{
    size_t largest = 0;
    for (int i = 0; i < params_count(params); i++) {
        struct shape shape = params_range(params, i).shape;
        size_t bytes = (size_t)shape_count(&shape) * sizeof(float);
        largest = bytes > largest ? bytes : largest;
    }
    return largest;
}

int checkpoint_load(const char *path, struct params *params, const struct checkpoint_slots *slots,
                    struct error *err)
{
    struct load load = {.path = path, .params = params, .slots = slots};
    if (checkpoint_open_bundle(path, &load.bundle, err) < 0)
        return -1;
    int status = refuse_left_over(&load, err);
    if (status == 0)
        status = slab_create(largest_param(params), "reading a checkpoint", &load.room, err);
    for (int i = 0; status == 0 && i < params_count(params); i++)
        status = load_param(&load, i, err);
    slab_release(&load.room);
    bundle_close(load.bundle);
    return status;
}
