#include "cli/client_data.h"

#include <inttypes.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/file_map.h"
#include "base/files.h"
#include "base/memory.h"
#include "data/csv.h"
#include "data/dataset.h"

enum { NUMBERS = 13, CATEGORIES = 26, COLUMNS = 1 + NUMBERS + CATEGORIES };

struct client_data {
    int64_t count;
    /* Rows of text: */
    const char *path;
    char *text;
    size_t bytes;
    char separator;
    uint64_t *starts; /* [count], offsets in the text */
    /* Pictures: */
    const struct dataset_kind *kind;
    struct dataset *dataset;
    struct client_form form;
};

bool client_data_is_rows(const char *spec)
{
    struct stat info;
    return file_name_ends(spec, ".csv") || file_name_ends(spec, ".txt") ||
           (stat(spec, &info) == 0 && S_ISREG(info.st_mode));
}

void client_data_close(struct client_data *data)
{
    if (!data)
        return;
    if (data->dataset)
        data->kind->close(data->dataset);
    file_unmap(data->text, data->bytes);
    memory_free(data->starts);
    memory_free(data);
}

/* ---- rows ----------------------------------------------------------------------------------- */

static int find_rows(struct client_data *data, struct error *err)
{
    const char *end = data->text + data->bytes;
    int64_t room = 0;
    for (const char *at = csv_row_start(data->text, end); at < end;
         at = csv_skip_rows(at, end, 1)) {
        if (data->count == room) {
            room = room ? 2 * room : 1024;
            uint64_t *starts = memory_resize(data->starts, (size_t)room * sizeof *starts);
            if (!starts)
                return error_set(err, ERROR_MEMORY, "no memory for the rows of %s", data->path);
            data->starts = starts;
        }
        data->starts[data->count++] = (uint64_t)(at - data->text);
    }
    if (data->count == 0)
        return error_set(err, ERROR_FORMAT, "%s has no rows", data->path);
    data->separator = csv_find_separator(data->text + data->starts[0], end);
    return 0;
}

static const char *column_name(struct arena *arena, int column)
{
    return arena_format(arena, column <= NUMBERS ? "I%d" : "C%d",
                        column <= NUMBERS ? column : column - NUMBERS);
}

static int make_columns(int rows, struct arena *arena, struct client_batch *out, struct error *err)
{
    out->inputs = COLUMNS - 1;
    for (int i = 0; i < out->inputs; i++) {
        enum dtype dtype = i < NUMBERS ? DTYPE_F32 : DTYPE_STRING;
        out->names[i] = column_name(arena, i + 1);
        if (!out->names[i])
            return error_set(err, ERROR_MEMORY, "no memory for the request");
        if (tensor_create(arena, dtype, SHAPE(rows), &out->tensors[i], err) < 0)
            return -1;
    }
    return 0;
}

static int take_number(const char *text, size_t length, float *out, struct error *err)
{
    *out = 0; /* of an empty field */
    if (length > 0 && csv_parse_float(text, length, out) != CSV_NUMBER)
        return error_set(err, ERROR_FORMAT, "'%.*s' is no number", length < 40 ? (int)length : 40,
                         text);
    return 0;
}

/* A text that lies in the scratch goes before the next field is read. */
static int take_text(const struct csv_scratch *scratch, const char *text, size_t length,
                     struct arena *arena, struct text_view *out, struct error *err)
{
    bool moves = text >= scratch->text && text < scratch->text + sizeof scratch->text;
    if (length == 0) {
        *out = (struct text_view){" ", 1}; /* as the original's defaults have it */
        return 0;
    }
    char *copy = moves ? arena_take(arena, length) : NULL;
    if (moves && !copy)
        return error_set(err, ERROR_MEMORY, "no memory for the request");
    *out = (struct text_view){moves ? memcpy(copy, text, length) : text, length};
    return 0;
}

static int take_field(const struct csv_row *split, int column, int row, struct arena *arena,
                      struct client_batch *out, struct error *err)
{
    struct csv_scratch scratch;
    const char *text;
    size_t length;
    float label;
    if (csv_field(split, column, false, &scratch, &text, &length, err) < 0)
        return -1;
    if (column > NUMBERS)
        return take_text(&scratch, text, length, arena,
                         (struct text_view *)out->tensors[column - 1].data + row, err);
    if (column > 0)
        return take_number(text, length, (float *)out->tensors[column - 1].data + row, err);
    if (take_number(text, length, &label, err) < 0)
        return -1;
    out->labels[row] = label != 0;
    return 0;
}

static int take_row(const struct client_data *data, int64_t index, int row, struct arena *arena,
                    struct client_batch *out, struct error *err)
{
    struct csv_row split;
    const char *at = data->text + data->starts[index];
    csv_split(at, data->text + data->bytes, data->separator, COLUMNS, &split);
    if (split.open_quote || split.count != COLUMNS)
        return error_set(err, ERROR_FORMAT,
                         "%s: line %" PRId64 " has %d fields; clicked, I1..I13 and C1..C26 are %d",
                         data->path, csv_count_lines(data->text, at) + 1, split.count, COLUMNS);
    for (int column = 0; column < COLUMNS; column++)
        if (take_field(&split, column, row, arena, out, err) < 0)
            return error_wrap(err, "%s: line %" PRId64 ", field %d", data->path,
                              csv_count_lines(data->text, at) + 1, column + 1);
    return 0;
}

/* ---- pictures ------------------------------------------------------------------------------- */

static int open_pictures(const char *spec, const struct client_form *form, const atomic_int *stop,
                         struct client_data *data, struct error *err)
{
    struct dataset_request request = {.split = SPLIT_EVALUATE,
                                      .seed = 1,
                                      .classes = form->classes,
                                      .stop = stop,
                                      .field_count = 2};
    const struct dataset_field *fields;
    request.fields[0] =
        (struct dataset_field){.name = "image", .dtype = DTYPE_F32, .shape = form->shape};
    request.fields[1] =
        (struct dataset_field){.name = "label", .dtype = DTYPE_I32, .shape = SHAPE(SHAPE_BATCH)};
    if (dataset_find(spec, &data->kind, &request.path, err) < 0 ||
        data->kind->open(&request, &data->dataset, err) < 0)
        return -1;
    data->count = data->kind->count(data->dataset);
    int count = data->kind->fields(data->dataset, &fields);
    if (count != 2 || strcmp(fields[0].name, "image") != 0 || fields[1].dtype != DTYPE_I32)
        return error_set(err, ERROR_USAGE,
                         "'%s' holds no pictures with labels; give a file of rows or a dataset of "
                         "pictures (see `lockstep datasets`)",
                         spec);
    char has[80], wanted[80];
    if (!shape_equal(&fields[0].shape, &form->shape))
        return error_set(err, ERROR_USAGE, "'%s' has pictures of %s, but the model takes %s", spec,
                         shape_text(&fields[0].shape, has, sizeof has),
                         shape_text(&form->shape, wanted, sizeof wanted));
    return 0;
}

static int take_pictures(struct client_data *data, int64_t first, int rows, struct arena *arena,
                         struct client_batch *out, struct error *err)
{
    struct tensor tensors[2];
    if (tensor_create(arena, DTYPE_F32, shape_with_batch(data->form.shape, rows), &tensors[0],
                      err) < 0)
        return -1;
    tensors[1] = (struct tensor){DTYPE_I32, SHAPE(rows), out->labels};
    for (int row = 0; row < rows; row++)
        if (data->kind->read(data->dataset, (first + row) % data->count, 0, tensors, row, err) < 0)
            return -1;
    out->inputs = 1;
    out->names[0] = data->form.input;
    out->tensors[0] = tensors[0];
    return 0;
}

/* ---- both ----------------------------------------------------------------------------------- */

int client_data_open(const char *spec, const struct client_form *form, const atomic_int *stop,
                     struct client_data **out, struct error *err)
{
    struct client_data *data = memory_allocate(sizeof *data);
    if (!data)
        return error_set(err, ERROR_MEMORY, "no memory for the data");
    int status;
    data->path = spec;
    if (client_data_is_rows(spec)) {
        status = file_map(spec, &data->text, &data->bytes, err);
        if (status == 0)
            status = find_rows(data, err);
        if (file_map_check(spec, data->text, err) < 0)
            status = -1;
    } else {
        data->form = *form;
        status = open_pictures(spec, form, stop, data, err);
    }
    if (status < 0) {
        client_data_close(data);
        return -1;
    }
    *out = data;
    return 0;
}

int64_t client_data_count(const struct client_data *data)
{
    return data->count;
}

int client_data_batch(struct client_data *data, int64_t first, int rows, struct arena *arena,
                      struct client_batch *out, struct error *err)
{
    *out = (struct client_batch){.rows = rows, .labels = ARENA_ARRAY(arena, int32_t, rows)};
    if (!out->labels)
        return error_set(err, ERROR_MEMORY, "no memory for the request");
    if (data->dataset)
        return take_pictures(data, first, rows, arena, out, err);
    if (make_columns(rows, arena, out, err) < 0)
        return -1;
    for (int row = 0; row < rows; row++)
        if (take_row(data, (first + row) % data->count, row, arena, out, err) < 0)
            return -1;
    return file_map_check(data->path, data->text, err);
}
