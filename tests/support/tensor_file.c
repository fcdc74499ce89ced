#include "support/tensor_file.h"

#include <errno.h>
#include <inttypes.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"

/* Largest file: the parameters of VGG16 at 224x224 with room to spare. */
static const size_t file_limit = (size_t)4 << 30;

static const struct {
    enum dtype dtype;
    const char *name;
} dtype_names[] = {
    {DTYPE_F32, "F32"},
    {DTYPE_U8, "U8"},
    {DTYPE_I32, "I32"},
    {DTYPE_I64, "I64"},
};
enum { DTYPE_NAMES = sizeof dtype_names / sizeof dtype_names[0] };

static int dtype_from_name(const char *name, enum dtype *out)
{
    for (int i = 0; i < DTYPE_NAMES; i++) {
        if (strcmp(name, dtype_names[i].name) == 0) {
            *out = dtype_names[i].dtype;
            return 0;
        }
    }
    return -1;
}

static const char *dtype_to_name(enum dtype dtype)
{
    for (int i = 0; i < DTYPE_NAMES; i++) {
        if (dtype_names[i].dtype == dtype)
            return dtype_names[i].name;
    }
    return NULL;
}

static int read_entry(const struct json *entry, const char *name, char *data, size_t data_bytes,
                      struct named_tensor *out, struct error *err)
{
    struct tensor tensor = {0};
    const struct json *dims = json_get(entry, "shape"), *place = json_get(entry, "data_offsets");
    if (dtype_from_name(json_get_text(entry, "dtype", ""), &tensor.dtype) < 0 || !dims || !place)
        return error_set(err, ERROR_FORMAT, "tensor '%s': bad header", name);
    tensor.shape.ndim = json_count(dims);
    if (tensor.shape.ndim > TENSOR_MAX_DIMS)
        return error_set(err, ERROR_FORMAT, "tensor '%s': %d dimensions", name, tensor.shape.ndim);
    for (int i = 0; i < tensor.shape.ndim; i++)
        tensor.shape.dim[i] = json_as_integer(json_at(dims, i), 0);
    int64_t first = json_as_integer(json_at(place, 0), -1);
    int64_t end = json_as_integer(json_at(place, 1), -1);
    if (first < 0 || end < first || (size_t)end > data_bytes ||
        (size_t)(end - first) != tensor_bytes(&tensor))
        return error_set(err, ERROR_FORMAT, "tensor '%s': its bytes do not fit its shape", name);
    tensor.data = data + first;
    *out = (struct named_tensor){name, tensor};
    return 0;
}

static int read_entries(struct tensor_file *file, char *data, size_t data_bytes, struct error *err)
{
    file->tensors = ARENA_ARRAY(file->arena, struct named_tensor, json_count(file->header) + 1);
    if (!file->tensors)
        return error_set(err, ERROR_MEMORY, "no memory for tensor names");
    void *state = NULL;
    const char *name;
    const struct json *entry;
    while ((entry = json_next(file->header, &state, &name)) != NULL) {
        if (strcmp(name, "__metadata__") == 0)
            continue;
        if (read_entry(entry, arena_copy_text(file->arena, name), data, data_bytes,
                       &file->tensors[file->count], err) < 0)
            return -1;
        file->count++;
    }
    return 0;
}

static int read_whole(const char *path, struct tensor_file *file, struct error *err)
{
    size_t bytes;
    if (file_read(path, file_limit, &file->bytes, &bytes, err) < 0)
        return -1;
    uint64_t header_bytes = 0;
    if (bytes >= 8)
        memcpy(&header_bytes, file->bytes, 8);
    if (bytes < 8 || header_bytes > bytes - 8)
        return error_set(err, ERROR_FORMAT, "%s: no safetensors header", path);
    if (json_parse(file->bytes + 8, (size_t)header_bytes, &file->header, err) < 0)
        return error_wrap(err, "%s", path);
    file->arena = arena_create();
    if (!file->arena)
        return error_set(err, ERROR_MEMORY, "no memory for an arena");
    return read_entries(file, file->bytes + 8 + header_bytes, bytes - 8 - (size_t)header_bytes,
                        err);
}

int tensor_file_read(const char *path, struct tensor_file *out, struct error *err)
{
    struct tensor_file file = {0};
    if (read_whole(path, &file, err) < 0) {
        tensor_file_release(&file);
        return -1;
    }
    *out = file;
    return 0;
}

void tensor_file_release(struct tensor_file *file)
{
    arena_destroy(file->arena);
    json_release(file->header);
    memory_free(file->bytes);
    *file = (struct tensor_file){0};
}

const struct tensor *tensor_file_find(const struct tensor_file *file, const char *name)
{
    for (int i = 0; i < file->count; i++) {
        if (strcmp(file->tensors[i].name, name) == 0)
            return &file->tensors[i].tensor;
    }
    return NULL;
}

const char *tensor_file_note(const struct tensor_file *file, const char *key, const char *missing)
{
    const struct json *notes = json_get(file->header, "__metadata__");
    return notes ? json_get_text(notes, key, missing) : missing;
}

static struct json *describe(const struct named_tensor *named, size_t first)
{
    struct json *entry = json_object_create(), *dims = json_array_create(),
                *place = json_array_create();
    json_set_text(entry, "dtype", dtype_to_name(named->tensor.dtype));
    for (int i = 0; i < named->tensor.shape.ndim; i++)
        json_append_integer(dims, named->tensor.shape.dim[i]);
    json_set(entry, "shape", dims);
    json_append_integer(place, (int64_t)first);
    json_append_integer(place, (int64_t)(first + tensor_bytes(&named->tensor)));
    json_set(entry, "data_offsets", place);
    return entry;
}

static int write_all(FILE *out, const char *header, const struct named_tensor *tensors, int count)
{
    uint64_t header_bytes = strlen(header);
    if (fwrite(&header_bytes, 8, 1, out) != 1 || fputs(header, out) < 0)
        return -1;
    for (int i = 0; i < count; i++) {
        size_t bytes = tensor_bytes(&tensors[i].tensor);
        if (bytes > 0 && fwrite(tensors[i].tensor.data, bytes, 1, out) != 1)
            return -1;
    }
    return 0;
}

int tensor_file_write(const char *path, const struct named_tensor *tensors, int count,
                      struct error *err)
{
    struct json *header = json_object_create();
    size_t at = 0;
    for (int i = 0; i < count; i++) {
        json_set(header, tensors[i].name, describe(&tensors[i], at));
        at += tensor_bytes(&tensors[i].tensor);
    }
    char *text = json_text(header, false);
    json_release(header);
    FILE *out = fopen(path, "wb");
    int status = out && text ? write_all(out, text, tensors, count) : -1;
    if (out && fclose(out) != 0)
        status = -1;
    memory_free(text);
    return status == 0 ? 0 : error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
}
