/* One file of a table, and how one of its rows becomes numbers. */
#ifndef DATA_ROW_PARSER_H
#define DATA_ROW_PARSER_H

#include <limits.h>

#include "data/csv.h"
#include "data/table.h"

struct arena;
struct storage;

/* The text of one split. */
struct row_text {
    char name[PATH_MAX]; /* for messages */
    uint64_t file_bytes; /* as it lies there, packed or not */
    int64_t file_modified;
    struct storage *storage;
    int file;
    const atomic_int *stop;         /* as in storage_open */
    bool keep_bad;                  /* as in struct dataset_request */
    char *unpacked;                 /* NULL unless the file was packed */
    const char *start, *rows, *end; /* `rows`: behind skipped lines and the header */
    char separator;
    struct line_memo *lines; /* where the last line was counted; NULL: nothing is remembered */
};

/* A description made ready for the inner loop: which columns go where. */
struct row_parser {
    const struct table_description *description;
    int *numeric_columns, *category_columns; /* [numeric_count], [categorical_count] */
    int label_column;
    bool any_logarithm;
    uint64_t empty_fingerprint; /* of a category without text */
};

/* Finds the file of a split without reading it: name, size and time are set. `stop` as in
 * storage_open; passes over all rows heed it, too. */
int row_text_find(const struct table_description *description, enum dataset_split split,
                  const atomic_int *stop, struct row_text *out, struct error *err);
/* Brings its bytes into memory, mapped or unpacked, and looks at its first lines. */
int row_text_open(const struct row_parser *parser, enum dataset_split split, struct row_text *text,
                  struct error *err);
/* The second half of that: finds the separator, and the first row behind skipped lines and a
 * header. */
int row_text_look(const struct row_parser *parser, enum dataset_split split, struct row_text *text,
                  struct error *err);
void row_text_release(struct row_text *text); /* accepts a zeroed one */
/* The number of the line that has this byte, from 1. Any number of threads. */
int64_t row_text_line(const struct row_text *text, const char *at);

int row_parser_init(const struct table_description *description, struct arena *arena,
                    struct row_parser *out, struct error *err);
/* Parses the row that starts at `at` into numeric [numeric_count], category [categorical_count]
 * and one label; *next is where the next row may start, also when it fails, with the file, the
 * line and the column. Any number of threads. */
int row_parse(const struct row_parser *parser, const struct row_text *text, const char *at,
              float *numeric, int64_t *category, float *label, const char **next,
              struct error *err);

#endif
