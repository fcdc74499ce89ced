/* Rows of text as numbers: what a table's columns mean, and random access to its parsed rows.
 * Behind the dataset kinds `criteo` (columns built in) and `table` (columns from a file). */
#ifndef DATA_TABLE_H
#define DATA_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "data/dataset.h"

struct error;

enum {
    TABLE_MAX_COLUMNS = 4096,
    TABLE_DEFAULT_BUCKETS = 1000,
    TABLE_MAX_LABEL_VALUES = 16,
};

enum table_column_kind { TABLE_IGNORED, TABLE_NUMERIC, TABLE_CATEGORICAL, TABLE_LABEL };

struct table_column {
    const char *name;
    enum table_column_kind kind;
    bool logarithm;  /* numeric: sign(x) * log(1 + |x|) is given instead of x */
    int64_t buckets; /* categorical: how many the model is to hash into */
};

/* What a column file says. `columns` stand in the order of the file's fields, the label among
 * them; numeric column n is element n of the field "numeric", categorical column n is element n of
 * "category". */
struct table_description {
    struct arena *arena;  /* everything below lives in it */
    const char *files[2]; /* paths by enum dataset_split; the second is NULL where there is none */
    int skip_lines[2];    /* at the start of each file */
    struct table_column *columns;
    int column_count, numeric_count, categorical_count;
    /* Texts of the label that count as 1, all others being 0; none: the label is 0 or 1. */
    const char *label_values[TABLE_MAX_LABEL_VALUES];
    int label_value_count;
    bool trim;              /* blanks around a field do not belong to it */
    bool names_matter;      /* a header line must have the columns' names */
    const char *empty_text; /* an empty category is this; "" means missing */
};

/* Reads the column file `path`, or `path`/columns.txt when `path` does not end in .columns or .txt.
 * Fails with file, line and what was expected; `stop` as in storage_open. Release with table_description_release. */
int table_describe(const char *path, const atomic_int *stop, struct table_description *out,
                   struct error *err);
void table_description_release(struct table_description *description); /* accepts a zeroed one */

/* The same for a text in memory; relative file names get `directory` in front. */
int table_describe_text(const char *name, const char *directory, const char *text, size_t bytes,
                        struct table_description *out, struct error *err);

/* ---- the rows of one split; what dataset kinds are made of ---- */

enum table_field { TABLE_FIELD_NUMERIC, TABLE_FIELD_CATEGORY, TABLE_FIELD_LABEL };

/* Maps the file of the request's split and walks through it once, in parallel: every row is
 * checked, counted and, every few rows, its place noted; the least and greatest numbers are kept.
 * With request->cache the parsed rows are written beside the file, or taken from there when the
 * file has not changed since. Takes the description over, also when it fails.
 * The fields, those without columns left out: "numeric" f32 [N, numeric_count]; "category" i64
 * [N, categorical_count], the 64-bit fingerprint of the text (FINGERPRINT_MISSING: no text);
 * "label" f32 [N], 0 or 1. */
int table_open(const struct dataset_request *request, struct table_description *description,
               struct dataset **out, struct error *err);
void table_close(struct dataset *table); /* accepts NULL */
int64_t table_count(const struct dataset *table);
int table_fields(const struct dataset *table, const struct dataset_field **out);
int table_read(struct dataset *table, int64_t index, uint64_t random, struct tensor *batch, int row,
               struct error *err);
int table_read_rows(struct dataset *table, const int64_t *indices, int count, struct tensor *batch,
                    int first_row, struct error *err);
struct dataset_place table_locate(const struct dataset *table, int64_t index);
/* Over both splits: the other one's file is walked through at the first call. */
int table_statistics(struct dataset *table, int field, struct column_statistics *out,
                     struct error *err);

#endif
