/* The Criteo click logs, as Wide & Deep is trained on them: clicked, I1..I13, C1..C26. */
#include <limits.h>

#include "base/arena.h"
#include "base/error.h"
#include "data/dataset.h"
#include "data/storage.h"
#include "data/table.h"

enum { NUMBERS = 13, CATEGORIES = 26, COLUMNS = 1 + NUMBERS + CATEGORIES };

static bool make_columns(struct table_description *description)
{
    struct table_column *columns = ARENA_ARRAY(description->arena, struct table_column, COLUMNS);
    if (!columns)
        return false;
    for (int i = 0; i < COLUMNS; i++) {
        bool number = i <= NUMBERS;
        columns[i].kind = i == 0 ? TABLE_LABEL : number ? TABLE_NUMERIC : TABLE_CATEGORICAL;
        columns[i].buckets = number ? 0 : TABLE_DEFAULT_BUCKETS;
        columns[i].name = i == 0 ? "clicked"
                                 : arena_format(description->arena, number ? "I%d" : "C%d",
                                                number ? i : i - NUMBERS);
        if (!columns[i].name)
            return false;
    }
    description->columns = columns;
    return true;
}

/* NAME.csv, or NAME.txt as in the archive of the Kaggle contest; NULL when there is neither. */
static const char *find_file(const char *directory, const struct storage *storage,
                             const char *const names[2], struct arena *arena)
{
    for (int i = 0; i < 2; i++)
        if (storage_find(storage, names[i]) >= 0)
            return arena_format(arena, "%s/%s", directory, names[i]);
    return NULL;
}

static int find_files(const char *directory, const atomic_int *stop,
                      struct table_description *description, struct error *err)
{
    static const char *const names[] = {"train.csv", "train.txt", "eval.csv", "eval.txt"};
    struct storage *storage;
    if (storage_open_files(directory, names, 4, stop, &storage, err) < 0)
        return -1;
    description->files[SPLIT_TRAIN] = find_file(directory, storage, names, description->arena);
    description->files[SPLIT_EVALUATE] =
        find_file(directory, storage, names + 2, description->arena);
    storage_close(storage);
    return 0;
}

/* An empty category is one blank, as in the record defaults of the original; so it has a bucket
 * of its own and is not missing. */
static int criteo_open(const struct dataset_request *request, struct dataset **out,
                       struct error *err)
{
    if (!request->path)
        return error_set(err, ERROR_USAGE,
                         "criteo needs the directory of train.csv and eval.csv: --data criteo:DIR");
    struct table_description description = {.arena = arena_create(),
                                            .column_count = COLUMNS,
                                            .numeric_count = NUMBERS,
                                            .categorical_count = CATEGORIES,
                                            .empty_text = " "};
    if (!description.arena || !make_columns(&description)) {
        table_description_release(&description);
        return error_set(err, ERROR_MEMORY, "no memory for the columns");
    }
    if (find_files(request->path, request->stop, &description, err) < 0) {
        table_description_release(&description);
        return -1;
    }
    if (!description.files[request->split]) {
        table_description_release(&description);
        return error_set(err, ERROR_ABSENT, "%s holds no %s.csv", request->path,
                         request->split == SPLIT_TRAIN ? "train" : "eval");
    }
    return table_open(request, &description, out, err);
}

const struct dataset_kind dataset_criteo = {
    .name = "criteo",
    .summary = "criteo:DIR: clicks with 13 numbers and 26 categories, train.csv and eval.csv",
    .open = criteo_open,
    .count = table_count,
    .fields = table_fields,
    .read = table_read,
    .read_rows = table_read_rows,
    .statistics = table_statistics,
    .locate = table_locate,
    .close = table_close,
    .caches = true,
};
