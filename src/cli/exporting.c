#include "cli/exporting.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "cli/saving.h"
#include "cli/session.h"
#include "convert/face.h"
#include "data/gather.h"
#include "data/table.h"

enum { MOST_LABEL_BYTES = 64 << 20 };

static int read_labels(const char *path, struct arena *arena, struct face *face, struct error *err)
{
    char *text;
    size_t bytes;
    if (file_read(path, MOST_LABEL_BYTES, &text, &bytes, err) < 0)
        return error_wrap(err, "--labels");
    int status =
        face_parse_labels(path, text, bytes, arena, &face->labels, &face->label_count, err);
    memory_free(text);
    return status;
}

int exporting_check(const struct exporting_settings *settings, struct error *err)
{
    struct face ignored = {0};
    if (!settings->directory)
        return settings->labels || settings->image_bytes
                   ? error_set(err, ERROR_USAGE, "--%s would change nothing without --export-dir",
                               settings->labels ? "labels" : "image-bytes-as-serving-input")
                   : 0;
    if (saving_refuse_bucket("export-dir", settings->directory, err) < 0)
        return -1;
    struct arena *arena = arena_create();
    int status = arena ? 0 : error_set(err, ERROR_MEMORY, "no memory for the labels");
    if (status == 0 && settings->labels)
        status = read_labels(settings->labels, arena, &ignored, err);
    arena_destroy(arena);
    if (status == 0 && export_prepare(settings->directory, err) < 0)
        status = error_wrap(err, "--export-dir");
    return status;
}

/* The part behind "KIND:", or NULL when the data is of another kind. */
static const char *path_of(const char *spec, const char *kind)
{
    size_t length = strlen(kind);
    return spec && !strncmp(spec, kind, length) && spec[length] == ':' ? spec + length + 1 : NULL;
}

static int name_columns(const char *path, const atomic_int *stop, struct arena *arena,
                        struct face *face, struct error *err)
{
    struct table_description table = {0};
    if (table_describe(path, stop, &table, err) < 0)
        return -1;
    struct face_number *numbers = ARENA_ARRAY(arena, struct face_number, table.column_count + 1);
    const char **categories = ARENA_ARRAY(arena, const char *, table.column_count + 1);
    bool whole = numbers && categories;
    for (int i = 0; whole && i < table.column_count; i++) {
        const struct table_column *column = &table.columns[i];
        const char *name = arena_copy_text(arena, column->name);
        whole = name;
        if (column->kind == TABLE_NUMERIC)
            numbers[face->number_count++] = (struct face_number){name, column->logarithm};
        if (column->kind == TABLE_CATEGORICAL)
            categories[face->category_count++] = name;
    }
    face->numbers = numbers;
    face->categories = categories;
    face->missing_category = arena_copy_text(arena, table.empty_text ? table.empty_text : "");
    table_description_release(&table);
    return whole && face->missing_category
               ? 0
               : error_set(err, ERROR_MEMORY, "no memory for the names of columns");
}

/* Folders that hold fewer classes than the network tells apart name only some of them. */
static int name_classes(const char *path, const struct session *session, struct arena *arena,
                        struct face *face, struct error *err)
{
    struct gathering *gathering;
    if (gather_folders(path, session->stop, &gathering, err) < 0)
        return -1;
    int count = gathering->class_count;
    const char **labels =
        count == session->args.classes ? ARENA_ARRAY(arena, const char *, count) : NULL;
    for (int i = 0; labels && i < count; i++) {
        labels[i] = arena_copy_text(arena, gathering->classes[i]);
        labels = labels[i] ? labels : NULL;
    }
    face->labels = labels;
    face->label_count = labels ? count : 0;
    gathering_destroy(gathering);
    return 0;
}

static int make_face(const struct exporting_settings *settings, const struct session *session,
                     const char *data, struct arena *arena, struct face *out, struct error *err)
{
    const char *table = path_of(data, "table"), *folders = path_of(data, "images");
    *out = (struct face){.model = session->model->name,
                         .built_in = model_find(session->model->name) == session->model,
                         .args = session->args,
                         .bytes_by_default = settings->image_bytes};
    if (table && name_columns(table, session->stop, arena, out, err) < 0)
        return -1;
    if (settings->labels)
        return read_labels(settings->labels, arena, out, err);
    return folders ? name_classes(folders, session, arena, out, err) : 0;
}

int exporting_write(const struct exporting_settings *settings, const struct session *session,
                    const char *data, const struct params *params, struct export_result *out,
                    struct error *err)
{
    struct face face;
    struct arena *arena = arena_create();
    if (!arena)
        return error_set(err, ERROR_MEMORY, "no memory for the export");
    int status = make_face(settings, session, data, arena, &face, err);
    if (status == 0)
        status = export_write(settings->directory, session->graph, params, &face, out, err);
    arena_destroy(arena);
    return status;
}
