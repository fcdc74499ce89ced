#include "convert/face.h"

#include <inttypes.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "graph/graph.h"

enum { FORMAT = 1, MOST_COLUMNS = 4096, MOST_LABELS = 1 << 20 };

static int no_memory(struct error *err)
{
    return error_set(err, ERROR_MEMORY, "no memory for the names of columns and classes");
}

/* ---- completing ---- */

static int64_t columns_of(const struct graph *graph, const char *input)
{
    value_id value = graph_find_input(graph, input);
    const struct shape *shape = value >= 0 ? &graph_value(graph, value)->shape : NULL;
    return shape && shape->ndim == 2 ? shape->dim[1] : 0;
}

static int name_numbers(struct face *face, int64_t count, struct arena *arena, struct error *err)
{
    struct face_number *numbers = ARENA_ARRAY(arena, struct face_number, count + 1);
    for (int i = 0; numbers && i < count; i++) {
        numbers[i].name = arena_format(arena, "I%d", i + 1);
        numbers = numbers[i].name ? numbers : NULL;
    }
    if (!numbers)
        return no_memory(err);
    face->numbers = numbers;
    face->number_count = (int)count;
    return 0;
}

static int name_categories(struct face *face, int64_t count, struct arena *arena, struct error *err)
{
    const char **names = ARENA_ARRAY(arena, const char *, count + 1);
    for (int i = 0; names && i < count; i++) {
        names[i] = arena_format(arena, "C%d", i + 1);
        names = names[i] ? names : NULL;
    }
    if (!names)
        return no_memory(err);
    face->categories = names;
    face->category_count = (int)count;
    return 0;
}

static int64_t classes_of(const struct graph *graph)
{
    for (int i = 0; i < graph_output_count(graph); i++) {
        const struct shape *shape = &graph_value(graph, graph_output_value(graph, i))->shape;
        if (!strcmp(graph_output_name(graph, i), "logits") && shape->ndim == 2)
            return shape->dim[1] == 1 ? 2 : shape->dim[1];
    }
    return 0;
}

int face_complete(struct face *face, const struct graph *graph, struct arena *arena,
                  struct error *err)
{
    int64_t numbers = columns_of(graph, "numeric"), categories = columns_of(graph, "category");
    int64_t classes = classes_of(graph);
    if (!face->missing_category)
        face->missing_category = " "; /* as Criteo's rows are read */
    if (numbers && !face->numbers && name_numbers(face, numbers, arena, err) < 0)
        return -1;
    if (categories && !face->categories && name_categories(face, categories, arena, err) < 0)
        return -1;
    if (face->number_count != numbers || face->category_count != categories)
        return error_set(err, ERROR_FORMAT,
                         "%d numbers and %d categories have names; the network reads %" PRId64
                         " and %" PRId64,
                         face->number_count, face->category_count, numbers, categories);
    if (face->labels && face->label_count != classes)
        return error_set(err, ERROR_USAGE, "%d labels for a network of %" PRId64 " classes",
                         face->label_count, classes);
    return 0;
}

/* ---- as text ---- */

static struct json *describe_args(const struct model_args *args)
{
    struct json *json = json_object_create(), *hidden = json_array_create();
    json_set_integer(json, "classes", args->classes);
    json_set_integer(json, "image_size", args->image_size);
    json_set_integer(json, "embedding_rows", args->embedding_rows);
    json_set_integer(json, "embedding_dim", args->embedding_dim);
    json_set_integer(json, "numerics", args->numerics);
    json_set_integer(json, "categoricals", args->categoricals);
    for (int i = 0; i < MODEL_MAX_HIDDEN && args->hidden[i]; i++)
        json_append_integer(hidden, args->hidden[i]);
    json_set(json, "hidden", hidden);
    if (args->buckets) {
        struct json *buckets = json_array_create();
        for (int i = 0; i < args->categoricals; i++)
            json_append_integer(buckets, args->buckets[i]);
        json_set(json, "buckets", buckets);
    }
    return json;
}

static struct json *describe_numbers(const struct face *face)
{
    struct json *list = json_array_create();
    for (int i = 0; i < face->number_count; i++) {
        struct json *number = json_object_create();
        json_set_text(number, "name", face->numbers[i].name);
        json_set_bool(number, "logarithm", face->numbers[i].logarithm);
        json_append(list, number);
    }
    return list;
}

static struct json *describe_categories(const struct face *face)
{
    struct json *list = json_array_create();
    for (int i = 0; i < face->category_count; i++)
        json_append_text(list, face->categories[i]);
    return list;
}

int face_compose(const struct face *face, struct strbuf *out, struct error *err)
{
    struct json *json = json_object_create();
    json_set_integer(json, "lockstep_export", FORMAT);
    json_set_text(json, "version", LOCKSTEP_VERSION);
    json_set_text(json, "model", face->model);
    json_set_bool(json, "built_in", face->built_in);
    json_set(json, "args", describe_args(&face->args));
    json_set(json, "numbers", describe_numbers(face));
    json_set(json, "categories", describe_categories(face));
    json_set_text(json, "missing_category", face->missing_category);
    json_set_bool(json, "bytes_by_default", face->bytes_by_default);
    json_set(json, "files", export_files_describe(&face->files));
    char *text = json ? json_text(json, true) : NULL;
    if (text)
        strbuf_add(out, text);
    memory_free(text);
    json_release(json);
    return text && !out->failed ? 0 : no_memory(err);
}

/* ---- from text ---- */

static int parse_hidden(const struct json *list, int hidden[MODEL_MAX_HIDDEN])
{
    int count = json_count(list);
    if (count > MODEL_MAX_HIDDEN)
        return -1;
    for (int i = 0; i < count; i++) {
        int64_t units = json_as_integer(json_at(list, i), 0);
        if (units < 1 || units > 1 << 20)
            return -1;
        hidden[i] = (int)units;
    }
    return 0;
}

static bool take_int(const struct json *json, const char *key, int64_t most, int *out)
{
    int64_t value = json_get_integer(json, key, 0);
    *out = (int)value;
    return value >= 0 && value <= most;
}

static int parse_buckets(const struct json *list, int columns, struct arena *arena,
                         const int64_t **out)
{
    int64_t *buckets = ARENA_ARRAY(arena, int64_t, columns + 1);
    if (!buckets || json_count(list) != columns)
        return -1;
    for (int i = 0; i < columns; i++) {
        buckets[i] = json_as_integer(json_at(list, i), 0);
        if (buckets[i] < 1)
            return -1;
    }
    *out = buckets;
    return 0;
}

static bool parse_args(const struct json *json, struct arena *arena, struct model_args *args)
{
    const struct json *buckets = json_get(json, "buckets");
    bool right = take_int(json, "classes", MOST_LABELS, &args->classes) &&
                 take_int(json, "image_size", 1 << 13, &args->image_size) &&
                 take_int(json, "embedding_rows", INT32_MAX, &args->embedding_rows) &&
                 take_int(json, "embedding_dim", 1 << 16, &args->embedding_dim) &&
                 take_int(json, "numerics", MOST_COLUMNS, &args->numerics) &&
                 take_int(json, "categoricals", MOST_COLUMNS, &args->categoricals) &&
                 parse_hidden(json_get(json, "hidden"), args->hidden) == 0;
    return right &&
           (!buckets || parse_buckets(buckets, args->categoricals, arena, &args->buckets) == 0);
}

static bool parse_numbers(const struct json *list, struct arena *arena, struct face *face)
{
    int count = json_count(list);
    struct face_number *numbers =
        count <= MOST_COLUMNS ? ARENA_ARRAY(arena, struct face_number, count + 1) : NULL;
    for (int i = 0; numbers && i < count; i++) {
        const char *name = json_get_text(json_at(list, i), "name", NULL);
        numbers[i].name = name ? arena_copy_text(arena, name) : NULL;
        numbers[i].logarithm = json_get_bool(json_at(list, i), "logarithm", false);
        numbers = numbers[i].name ? numbers : NULL;
    }
    face->numbers = numbers;
    face->number_count = count;
    return numbers;
}

static bool parse_categories(const struct json *list, struct arena *arena, struct face *face)
{
    int count = json_count(list);
    const char **names = count <= MOST_COLUMNS ? ARENA_ARRAY(arena, const char *, count + 1) : NULL;
    for (int i = 0; names && i < count; i++) {
        const char *name = json_as_text(json_at(list, i), NULL);
        names[i] = name ? arena_copy_text(arena, name) : NULL;
        names = names[i] ? names : NULL;
    }
    face->categories = names;
    face->category_count = count;
    return names;
}

static int fill(const char *name, const struct json *json, struct arena *arena, struct face *out,
                struct error *err)
{
    const char *model = json_get_text(json, "model", NULL);
    const char *missing = json_get_text(json, "missing_category", " ");
    int64_t format = json_get_integer(json, "lockstep_export", 0);
    if (format != FORMAT)
        return error_set(err, ERROR_FORMAT,
                         "%s: an export of form %" PRId64 "; this version reads form %d", name,
                         format, FORMAT);
    out->model = model ? arena_copy_text(arena, model) : NULL;
    out->missing_category = arena_copy_text(arena, missing);
    out->built_in = json_get_bool(json, "built_in", false);
    out->bytes_by_default = json_get_bool(json, "bytes_by_default", false);
    if (!out->model || !out->missing_category ||
        !parse_args(json_get(json, "args"), arena, &out->args) ||
        !parse_numbers(json_get(json, "numbers"), arena, out) ||
        !parse_categories(json_get(json, "categories"), arena, out))
        return error_set(err, ERROR_FORMAT, "%s: its model, arguments or columns are not right",
                         name);
    if (export_files_parse(json_get(json, "files"), arena, &out->files, err) < 0)
        return error_wrap(err, "%s", name);
    if (out->number_count == 0)
        out->numbers = NULL;
    if (out->category_count == 0)
        out->categories = NULL;
    return 0;
}

int face_parse(const char *name, const char *text, size_t bytes, struct arena *arena,
               struct face *out, struct error *err)
{
    struct json *json;
    *out = (struct face){0};
    if (json_parse(text, bytes, &json, err) < 0)
        return error_wrap(err, "%s", name);
    int status = fill(name, json, arena, out, err);
    json_release(json);
    return status;
}

int face_parse_labels(const char *name, const char *text, size_t bytes, struct arena *arena,
                      const char *const **labels, int *count, struct error *err)
{
    const char *end = text + bytes;
    int64_t lines = 0, used = 0;
    for (const char *at = text; at < end; at++)
        lines += *at == '\n';
    lines += bytes > 0 && end[-1] != '\n';
    if (lines < 1 || lines > MOST_LABELS || memchr(text, '\0', bytes))
        return error_set(err, ERROR_FORMAT,
                         "%s: expected the name of a class on each of at most %d lines", name,
                         MOST_LABELS);
    const char **list = ARENA_ARRAY(arena, const char *, lines);
    for (const char *at = text; list && at < end && used < lines;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((stop ? stop : end) - at);
        size_t shown = length > 0 && at[length - 1] == '\r' ? length - 1 : length;
        list[used] = arena_format(arena, "%.*s", (int)shown, at);
        list = list[used++] ? list : NULL;
        at += length + 1;
    }
    if (!list)
        return no_memory(err);
    *labels = list;
    *count = (int)used;
    return 0;
}
