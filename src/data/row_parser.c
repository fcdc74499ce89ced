#include "data/row_parser.h"

#include <assert.h>
#include <endian.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/memory.h"
#include "data/fingerprint.h"
#include "data/storage.h"
#include "wire/gzip.h"

/* Of what a packed file unpacks to, since it is held in memory. */
static const size_t UNPACKED_LIMIT = (size_t)1 << 30;

enum {
    SHOWN = 60, /* characters of a bad field in a message */
    ROWS_LOOKED_AT = 1000,
};

int row_parser_init(const struct table_description *description, struct arena *arena,
                    struct row_parser *out, struct error *err)
{
    struct row_parser parser = {.description = description};
    parser.numeric_columns = ARENA_ARRAY(arena, int, description->numeric_count + 1);
    parser.category_columns = ARENA_ARRAY(arena, int, description->categorical_count + 1);
    if (!parser.numeric_columns || !parser.category_columns)
        return error_set(err, ERROR_MEMORY, "no memory for the columns");
    int numerics = 0, categories = 0;
    for (int i = 0; i < description->column_count; i++) {
        const struct table_column *column = &description->columns[i];
        if (column->kind == TABLE_NUMERIC)
            parser.numeric_columns[numerics++] = i;
        else if (column->kind == TABLE_CATEGORICAL)
            parser.category_columns[categories++] = i;
        else if (column->kind == TABLE_LABEL)
            parser.label_column = i;
        parser.any_logarithm |= column->logarithm;
    }
    parser.empty_fingerprint =
        fingerprint64(description->empty_text, strlen(description->empty_text));
    *out = parser;
    return 0;
}

/* Puts the place of the row in front of what is wrong with it. Counts lines, since only a bad row
 * needs their number. */
static int bad_row(const struct row_text *text, const char *at, struct error *err)
{
    return err ? error_wrap(err, "%s: line %" PRId64, text->name, row_text_line(text, at)) : -1;
}

static int check_shape(const struct row_parser *parser, const struct row_text *text,
                       const struct csv_row *row, struct error *err)
{
    int expected = parser->description->column_count;
    if (row->end - row->start > CSV_MAX_ROW_BYTES)
        error_set(err, ERROR_FORMAT, "longer than %d bytes; is this a text file?",
                  CSV_MAX_ROW_BYTES);
    else if (row->open_quote)
        error_set(err, ERROR_FORMAT, "a quoted field has no closing quote on its line");
    else if (row->count != expected)
        error_set(err, ERROR_FORMAT, "%d field%s separated by %s; %d were expected", row->count,
                  row->count == 1 ? "" : "s", text->separator == '\t' ? "tabs" : "commas",
                  expected);
    else
        return 0;
    return -1;
}

/* The text of a field. Most need nothing done to them. */
static inline int field_text(const struct csv_row *row, int column, bool trim,
                             struct csv_scratch *scratch, const char **text, size_t *length,
                             struct error *err)
{
    *text = row->start + row->bounds[column];
    *length = row->bounds[column + 1] - row->bounds[column] - 1;
    if (*length == 0 || (!trim && **text > ' ' && **text != '"'))
        return 0;
    return csv_field(row, column, trim, scratch, text, length, err);
}

/* A field that starts and ends so has no quotes to take away and no blanks. */
static inline bool is_plain(char first, char last, bool trim)
{
    return (first > ' ') & (first != '"') & (!trim | (last > ' '));
}

/* Eight bytes from `at` on as a little-endian word; false when the text ends before. */
static inline bool take_word(const char *at, const char *end, uint64_t *word)
{
    if (end - at < (ptrdiff_t)sizeof *word)
        return false;
    memcpy(word, at, sizeof *word);
    *word = le64toh(*word);
    return true;
}

/* Up to seven digits, none included, without a branch on how many: first digit in the lowest byte,
 * zeros put in front, then pairs, fours and eights added up. Seven digits are exact as a float. */
static inline bool digits_of_word(uint64_t word, size_t length, float *out)
{
    const uint64_t zeros = UINT64_C(0x3030303030303030);
    word = word << 8 << (56 - 8 * length) | zeros >> (8 * length);
    uint64_t digits = word - zeros;
    if ((digits | (digits + UINT64_C(0x7676767676767676))) & UINT64_C(0x8080808080808080))
        return false;
    digits = digits * 10 + (digits >> 8);
    digits = ((digits & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x000f424000000064) +
              ((digits >> 16) & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x0000271000000001)) >>
             32;
    *out = (float)(uint32_t)digits;
    return true;
}

static int wrap_column(const struct row_parser *parser, int column, struct error *err)
{
    return error_wrap(err, "column %.60s", parser->description->columns[column].name);
}

static int bad_number(const struct row_parser *parser, int column, const char *text, size_t length,
                      enum csv_number what, struct error *err)
{
    int shown = length > SHOWN ? SHOWN : (int)length;
    error_set(err, ERROR_FORMAT, "'%.*s' is %s", shown, text,
              what == CSV_NUMBER_TOO_LARGE ? "larger than a 32-bit number can be"
                                           : "not a decimal number");
    return wrap_column(parser, column, err);
}

/* An empty field is 0. */
static inline int parse_number(const struct row_parser *parser, const struct csv_row *row,
                               const char *end, int column, float *out, struct error *err)
{
    struct csv_scratch scratch;
    uint64_t word;
    const char *text = row->start + row->bounds[column];
    size_t length = row->bounds[column + 1] - row->bounds[column] - 1;
    if (length < sizeof word && take_word(text, end, &word) && digits_of_word(word, length, out))
        return 0;
    *out = 0;
    if (field_text(row, column, parser->description->trim, &scratch, &text, &length, err) < 0)
        return wrap_column(parser, column, err);
    if (length == 0)
        return 0;
    enum csv_number what = csv_parse_float(text, length, out);
    return what == CSV_NUMBER ? 0 : bad_number(parser, column, text, length, what, err);
}

static void take_logarithms(const struct row_parser *parser, float *numeric)
{
    for (int i = 0; i < parser->description->numeric_count; i++)
        if (parser->description->columns[parser->numeric_columns[i]].logarithm)
            numeric[i] = copysignf(log1pf(fabsf(numeric[i])), numeric[i]);
}

static int parse_numerics(const struct row_parser *parser, const struct csv_row *row,
                          const char *end, float *numeric, struct error *err)
{
    for (int i = 0; i < parser->description->numeric_count; i++)
        if (parse_number(parser, row, end, parser->numeric_columns[i], &numeric[i], err) < 0)
            return -1;
    if (parser->any_logarithm)
        take_logarithms(parser, numeric);
    return 0;
}

/* Of eight characters, or of none: chosen by masks and not by a branch, since which is chance and
 * a branch that is guessed wrong costs more than the hash. */
static inline uint64_t word_or_empty(uint64_t word, size_t length, uint64_t empty)
{
    uint64_t all = UINT64_C(0) - (uint64_t)(length >> 3);
    return (fingerprint64_of_word(word) & all) | (empty & ~all);
}

static int parse_categories(const struct row_parser *parser, const struct csv_row *row,
                            const char *end, int64_t *category, struct error *err)
{
    bool trim = parser->description->trim;
    struct csv_scratch scratch;
    for (int i = 0; i < parser->description->categorical_count; i++) {
        int column = parser->category_columns[i];
        const char *text = row->start + row->bounds[column];
        size_t length = row->bounds[column + 1] - row->bounds[column] - 1;
        uint64_t word;
        if ((length & ~(size_t)8) == 0 && take_word(text, end, &word) &&
            ((length == 0) | is_plain(text[0], text[7], trim))) {
            category[i] = (int64_t)word_or_empty(word, length, parser->empty_fingerprint);
            continue;
        }
        if (field_text(row, column, trim, &scratch, &text, &length, err) < 0)
            return wrap_column(parser, column, err);
        category[i] =
            (int64_t)(length > 0 ? fingerprint64(text, length) : parser->empty_fingerprint);
    }
    return 0;
}

/* A label of given texts, or else the number 0 or 1. */
static int parse_label(const struct row_parser *parser, const struct csv_row *row, const char *end,
                       float *label, struct error *err)
{
    const struct table_description *description = parser->description;
    const char *text;
    size_t length;
    struct csv_scratch scratch;
    int column = parser->label_column;
    /* The original's Criteo reader takes an empty label for 0; in a table it is a mistake. */
    bool may_be_empty = *description->empty_text && description->label_value_count == 0;
    if (!may_be_empty) {
        if (field_text(row, column, description->trim, &scratch, &text, &length, err) < 0)
            return wrap_column(parser, column, err);
        if (length == 0) {
            error_set(err, ERROR_FORMAT, "the label is missing");
            return wrap_column(parser, column, err);
        }
    }
    if (description->label_value_count == 0) {
        if (parse_number(parser, row, end, column, label, err) < 0)
            return -1;
        if (*label == 0 || *label == 1)
            return 0;
        error_set(err, ERROR_FORMAT, "%g is neither 0 nor 1", (double)*label);
        return wrap_column(parser, column, err);
    }
    *label = 0;
    for (int i = 0; i < description->label_value_count; i++)
        if (strlen(description->label_values[i]) == length &&
            memcmp(description->label_values[i], text, length) == 0)
            *label = 1;
    return 0;
}

int row_parse(const struct row_parser *parser, const struct row_text *text, const char *at,
              float *numeric, int64_t *category, float *label, const char **next, struct error *err)
{
    struct csv_row row;
    csv_split(at, text->end, text->separator, parser->description->column_count, &row);
    *next = row.next;
    if (check_shape(parser, text, &row, err) < 0 ||
        parse_label(parser, &row, text->end, label, err) < 0 ||
        parse_numerics(parser, &row, text->end, numeric, err) < 0 ||
        parse_categories(parser, &row, text->end, category, err) < 0)
        return bad_row(text, at, err);
    return 0;
}

/* ---- the file ---- */

int row_text_find(const struct table_description *description, enum dataset_split split,
                  const atomic_int *stop, struct row_text *out, struct error *err)
{
    struct row_text text = {.stop = stop};
    const char *path = description->files[split];
    if (!path)
        return error_set(err, ERROR_ABSENT, "the column file names no 'eval' file");
    char directory[PATH_MAX];
    const char *name = storage_split(path, directory, err);
    if (!name)
        return -1;
    if (snprintf(text.name, sizeof text.name, "%s", path) >= PATH_MAX)
        return error_set(err, ERROR_USAGE, "the path of the data is longer than %d bytes",
                         PATH_MAX);
    if (storage_open_files(directory, &name, 1, stop, &text.storage, err) < 0)
        return -1;
    text.file = storage_find(text.storage, name);
    if (text.file < 0) {
        storage_close(text.storage);
        return error_set(err, ERROR_IO, "%s holds no %s", directory, name);
    }
    const struct storage_file *files;
    storage_files(text.storage, &files);
    text.file_bytes = files[text.file].bytes;
    text.file_modified = files[text.file].modified;
    *out = text;
    return 0;
}

static int map_text(struct row_text *text, struct error *err)
{
    const uint8_t *bytes = NULL;
    size_t count = (size_t)text->file_bytes;
    if (count == 0)
        return error_set(err, ERROR_FORMAT, "%s: is empty", text->name);
    if (storage_map(text->storage, text->file, &bytes, err) < 0)
        return -1;
    if (gzip_recognize(bytes, count)) {
        if (gzip_unpack(text->name, bytes, count, UNPACKED_LIMIT, &text->unpacked, &count, err) < 0)
            return error_wrap(err, "a packed table is held in memory; unpack it first");
        bytes = (const uint8_t *)text->unpacked;
    }
    text->start = (const char *)bytes;
    text->end = text->start + count;
    return 0;
}

/* A file may have many bad rows: each is counted from the last one that was, on either side. */
struct line_memo {
    pthread_mutex_t lock; /* guards all below */
    const char *at;
    int64_t line; /* of `at` */
};

static struct line_memo *create_memo(const struct row_text *text)
{
    struct line_memo *memo = memory_allocate(sizeof *memo);
    if (!memo)
        return NULL;
    pthread_mutex_init(&memo->lock, NULL);
    memo->at = text->start;
    memo->line = 1;
    return memo;
}

int64_t row_text_line(const struct row_text *text, const char *at)
{
    struct line_memo *memo = text->lines;
    if (!memo)
        return csv_count_lines(text->start, at) + 1;
    pthread_mutex_lock(&memo->lock);
    memo->line += at < memo->at ? -csv_count_lines(at, memo->at) : csv_count_lines(memo->at, at);
    memo->at = at;
    int64_t line = memo->line;
    pthread_mutex_unlock(&memo->lock);
    return line;
}

/* The first line is a header when none of its fields that should be numbers is one; in a table
 * without numbers, when its fields are the columns' names. */
static bool is_header(const struct row_parser *parser, const struct csv_row *row)
{
    const struct table_description *description = parser->description;
    int numbers = 0, others = 0, names = 0;
    for (int i = 0; i < description->column_count; i++) {
        const char *text;
        size_t length;
        struct csv_scratch scratch;
        const struct table_column *column = &description->columns[i];
        if (csv_field(row, i, true, &scratch, &text, &length, NULL) < 0)
            return false;
        names += strlen(column->name) == length && memcmp(column->name, text, length) == 0;
        bool number = column->kind == TABLE_NUMERIC ||
                      (column->kind == TABLE_LABEL && description->label_value_count == 0);
        float value;
        if (!number || length == 0)
            continue;
        if (csv_parse_float(text, length, &value) == CSV_NOT_A_NUMBER)
            others++;
        else
            numbers++;
    }
    return (numbers == 0 && others > 0) || names == description->column_count;
}

static int check_names(const struct row_parser *parser, const struct row_text *text,
                       const struct csv_row *row, struct error *err)
{
    for (int i = 0; i < parser->description->column_count; i++) {
        const char *field;
        size_t length;
        struct csv_scratch scratch;
        const char *name = parser->description->columns[i].name;
        if (csv_field(row, i, true, &scratch, &field, &length, err) < 0)
            return bad_row(text, row->start, err);
        if (strlen(name) != length || strncasecmp(name, field, length) != 0) {
            error_set(err, ERROR_FORMAT,
                      "the header calls column %d '%.*s', the column file '%.60s'", i + 1,
                      length > SHOWN ? SHOWN : (int)length, field, name);
            return bad_row(text, row->start, err);
        }
    }
    return 0;
}

/* The first row is bad, but bad rows are wanted: one of the next that is not tells how fields are
 * separated. */
static bool learn_from_others(const struct row_parser *parser, struct row_text *text)
{
    const char *at = text->rows;
    for (int i = 0; i < ROWS_LOOKED_AT && at < text->end; i++) {
        struct csv_row row;
        text->separator = csv_find_separator(at, text->end);
        csv_split(at, text->end, text->separator, parser->description->column_count, &row);
        if (check_shape(parser, text, &row, NULL) == 0)
            return true;
        at = csv_row_start(row.next, text->end);
    }
    return false;
}

int row_text_look(const struct row_parser *parser, enum dataset_split split, struct row_text *text,
                  struct error *err)
{
    int skip_lines = parser->description->skip_lines[split];
    const char *at = text->start;
    for (int i = 0; i < skip_lines && at < text->end; i++) {
        at = csv_line_end(at, text->end);
        at += at < text->end;
    }
    text->rows = at = csv_row_start(at, text->end);
    if (at == text->end)
        return error_set(err, ERROR_FORMAT, "%s: has no rows", text->name);
    text->separator = csv_find_separator(at, text->end);
    struct csv_row row;
    csv_split(at, text->end, text->separator, parser->description->column_count, &row);
    if (check_shape(parser, text, &row, err) < 0)
        return text->keep_bad && learn_from_others(parser, text) ? 0 : bad_row(text, at, err);
    if (!is_header(parser, &row))
        return 0;
    if (parser->description->names_matter && check_names(parser, text, &row, err) < 0)
        return -1;
    text->rows = csv_row_start(row.next, text->end);
    if (text->rows == text->end)
        return error_set(err, ERROR_FORMAT, "%s: has a header but no rows", text->name);
    return 0;
}

int row_text_open(const struct row_parser *parser, enum dataset_split split, struct row_text *text,
                  struct error *err)
{
    if (map_text(text, err) < 0)
        return -1;
    if (text->keep_bad && !(text->lines = create_memo(text)))
        return error_set(err, ERROR_MEMORY, "no memory to count lines");
    return row_text_look(parser, split, text, err);
}

void row_text_release(struct row_text *text)
{
    if (text->lines)
        pthread_mutex_destroy(&text->lines->lock);
    memory_free(text->lines);
    memory_free(text->unpacked);
    storage_close(text->storage);
    *text = (struct row_text){0};
}
