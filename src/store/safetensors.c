#include "store/safetensors.h"

#include <inttypes.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/strbuf.h"

enum {
    LENGTH_BYTES = 8,
    HEADER_LIMIT = 100000000, /* the format's own */
    DATA_ALIGN = 8,
};

static const char metadata_key[] = "__metadata__";

static size_t element_bytes(const char *dtype)
{
    static const struct {
        const char *name;
        size_t bytes;
    } known[] = {{"F32", 4}, {"F64", 8}, {"F16", 2}, {"BF16", 2}, {"I64", 8},
                 {"I32", 4}, {"I16", 2}, {"I8", 1},  {"U64", 8},  {"U32", 4},
                 {"U16", 2}, {"U8", 1},  {"BOOL", 1}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, dtype) == 0)
            return known[i].bytes;
    return 0;
}

static int read_shape(const char *file, const char *name, const struct json *json,
                      struct shape *out, struct error *err)
{
    int ndim = json_count(json);
    if (!json || ndim > TENSOR_MAX_DIMS)
        return error_set(err, ERROR_FORMAT, "%s: '%s' has %s", file, name,
                         json ? "too many dimensions" : "no shape");
    out->ndim = ndim;
    for (int i = 0; i < ndim; i++) {
        out->dim[i] = json_as_integer(json_at(json, i), -1);
        if (out->dim[i] < 0)
            return error_set(err, ERROR_FORMAT, "%s: dimension %d of '%s' is not a count", file, i,
                             name);
    }
    return 0;
}

/* The shape's bytes must be those between the two offsets, which must lie inside the data. */
static int read_place(const char *file, const struct json *json, size_t data_bytes,
                      struct safetensors_entry *entry, struct error *err)
{
    int64_t first = json_as_integer(json_at(json, 0), -1);
    int64_t end = json_as_integer(json_at(json, 1), -1);
    if (json_count(json) == 2 && first >= 0 && end >= first && (uint64_t)end > data_bytes)
        return error_set(err, ERROR_FORMAT,
                         "%s: '%s' ends at byte %" PRId64
                         " of the numbers, but only %zu are there: "
                         "the file is cut off",
                         file, entry->name, end, data_bytes);
    if (json_count(json) != 2 || first < 0 || end < first)
        return error_set(err, ERROR_FORMAT,
                         "%s: '%s' lies at bytes %" PRId64 " to %" PRId64 " of %zu", file,
                         entry->name, first, end, data_bytes);
    size_t bytes = element_bytes(entry->dtype);
    bool overflow = false;
    for (int i = 0; i < entry->shape.ndim; i++)
        overflow |= __builtin_mul_overflow(bytes, (size_t)entry->shape.dim[i], &bytes);
    char text[160];
    if (overflow || bytes != (size_t)(end - first))
        return error_set(err, ERROR_FORMAT,
                         "%s: '%s' of shape %s has %" PRId64 " bytes, which do not fit", file,
                         entry->name, shape_text(&entry->shape, text, sizeof text), end - first);
    entry->first = (size_t)first;
    entry->bytes = bytes;
    return 0;
}

static int read_entry(const char *file, const char *name, const struct json *json,
                      size_t data_bytes, struct arena *arena, struct safetensors_entry *out,
                      struct error *err)
{
    const char *dtype = json_get_text(json, "dtype", "");
    if (element_bytes(dtype) == 0)
        return error_set(err, ERROR_FORMAT, "%s: '%s' has the unknown dtype '%.16s'", file, name,
                         dtype);
    out->name = arena_copy_text(arena, name);
    out->dtype = arena_copy_text(arena, dtype);
    if (!out->name || !out->dtype)
        return error_set(err, ERROR_MEMORY, "%s: no memory for the header", file);
    if (read_shape(file, name, json_get(json, "shape"), &out->shape, err) < 0)
        return -1;
    return read_place(file, json_get(json, "data_offsets"), data_bytes, out, err);
}

static int read_entries(const char *file, const struct json *header, struct arena *arena,
                        struct safetensors *out, struct error *err)
{
    out->entries = ARENA_ARRAY(arena, struct safetensors_entry, json_count(header) + 1);
    if (!out->entries)
        return error_set(err, ERROR_MEMORY, "%s: no memory for the header", file);
    void *state = NULL;
    const char *name;
    const char *model = json_get_text(json_get(header, metadata_key), "model", NULL);
    out->model = model ? arena_copy_text(arena, model) : NULL;
    for (const struct json *json; (json = json_next(header, &state, &name));) {
        if (strcmp(name, metadata_key) == 0)
            continue;
        struct safetensors_entry *entry = &out->entries[out->count++];
        if (read_entry(file, name, json, out->data_bytes, arena, entry, err) < 0)
            return -1;
    }
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const struct safetensors_entry *const *x = a, *const *y = b;
    if ((*x)->first != (*y)->first)
        return (*x)->first < (*y)->first ? -1 : 1;
    return ((*x)->bytes > (*y)->bytes) - ((*x)->bytes < (*y)->bytes); /* empty ones in front */
}

/* In the order of their places each tensor must start where the one before it ends. */
static int check_places(const char *file, const struct safetensors *parsed, struct arena *arena,
                        struct error *err)
{
    const struct safetensors_entry **sorted =
        ARENA_ARRAY(arena, const struct safetensors_entry *, parsed->count + 1);
    if (!sorted)
        return error_set(err, ERROR_MEMORY, "%s: no memory for the header", file);
    for (int i = 0; i < parsed->count; i++)
        sorted[i] = &parsed->entries[i];
    qsort(sorted, (size_t)parsed->count, sizeof *sorted, by_place);
    size_t end = 0;
    for (int i = 0; i < parsed->count; i++) {
        if (sorted[i]->first != end)
            return error_set(err, ERROR_FORMAT,
                             "%s: '%s' starts at byte %zu of the data, %s byte %zu where the "
                             "tensor before it ends",
                             file, sorted[i]->name, sorted[i]->first,
                             sorted[i]->first < end ? "inside what ends at" : "behind a gap from",
                             end);
        end += sorted[i]->bytes;
    }
    if (end != parsed->data_bytes)
        return error_set(err, ERROR_FORMAT,
                         "%s: the tensors end at byte %zu of the data, the file at %zu", file, end,
                         parsed->data_bytes);
    return 0;
}

int safetensors_parse(const char *name, const void *bytes, size_t count, struct arena *arena,
                      struct safetensors *out, struct error *err)
{
    const unsigned char *start = bytes;
    uint64_t length = 0;
    if (count < LENGTH_BYTES)
        return error_set(err, ERROR_FORMAT, "%s: only %zu bytes, too short for safetensors", name,
                         count);
    for (int i = 0; i < LENGTH_BYTES; i++)
        length |= (uint64_t)start[i] << 8 * i;
    if (length > HEADER_LIMIT || length > count - LENGTH_BYTES)
        return error_set(err, ERROR_FORMAT,
                         "%s: promises a header of %" PRIu64 " bytes, but %zu follow; not a "
                         "safetensors file, or cut off",
                         name, length, count - LENGTH_BYTES);
    const char *text = (const char *)start + LENGTH_BYTES;
    struct json *header;
    if (json_parse(text, (size_t)length, &header, err) < 0)
        return error_wrap(err, "%s: header", name);
    struct safetensors parsed = {.data = text + length,
                                 .data_bytes = count - LENGTH_BYTES - (size_t)length};
    int status = read_entries(name, header, arena, &parsed, err);
    json_release(header);
    if (status < 0 || check_places(name, &parsed, arena, err) < 0)
        return -1;
    *out = parsed;
    return 0;
}

const struct safetensors_entry *safetensors_find(const struct safetensors *file, const char *name)
{
    for (int i = 0; i < file->count; i++)
        if (strcmp(file->entries[i].name, name) == 0)
            return &file->entries[i];
    return NULL;
}

static struct json *entry_json(const struct safetensors_entry *entry)
{
    struct json *json = json_object_create(), *shape = json_array_create(),
                *place = json_array_create();
    for (int i = 0; i < entry->shape.ndim; i++)
        json_append_integer(shape, entry->shape.dim[i]);
    json_append_integer(place, (int64_t)entry->first);
    json_append_integer(place, (int64_t)(entry->first + entry->bytes));
    json_set_text(json, "dtype", entry->dtype);
    json_set(json, "shape", shape);
    json_set(json, "data_offsets", place);
    return json;
}

int safetensors_header(const struct safetensors_entry *entries, int count, const char *model,
                       struct strbuf *out, struct error *err)
{
    struct json *header = json_object_create(), *metadata = json_object_create();
    json_set_text(metadata, "format", "pt");
    json_set_text(metadata, "model", model);
    json_set(header, metadata_key, metadata);
    for (int i = 0; i < count; i++)
        json_set(header, entries[i].name, entry_json(&entries[i]));
    char *text = json_text(header, false);
    json_release(header);
    if (!text)
        return error_set(err, ERROR_MEMORY, "no memory for the header");
    size_t bytes = strlen(text) - 1; /* without the newline */
    size_t padded = (bytes + DATA_ALIGN - 1) / DATA_ALIGN * DATA_ALIGN;
    for (int i = 0; i < LENGTH_BYTES; i++)
        strbuf_add_char(out, (char)(padded >> 8 * i));
    strbuf_add_bytes(out, text, bytes);
    for (; bytes < padded; bytes++)
        strbuf_add_char(out, ' ');
    memory_free(text);
    return out->failed ? error_set(err, ERROR_MEMORY, "no memory for the header") : 0;
}
