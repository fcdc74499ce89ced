/* Column files: which files a table has and what each of their columns means. docs/tables.md
 * describes the format. */
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "data/storage.h"
#include "data/table.h"

enum {
    FILE_LIMIT = 1 << 20, /* bytes of a column file */
    MAX_WORDS = 3 + TABLE_MAX_LABEL_VALUES,
    MAX_SKIPPED_LINES = 1000000,
};

static const int64_t MAX_BUCKETS = INT64_C(1) << 40;

struct parser {
    const char *name; /* of the column file, for messages */
    const char *directory;
    int line;
    struct table_description *out;
    int column_capacity;
    int words;
    const char *word[MAX_WORDS]; /* of this line, in the description's arena */
};

__attribute__((format(printf, 3, 4))) static int
complain(const struct parser *parser, struct error *err, const char *format, ...)
{
    char text[400];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    return error_set(err, ERROR_FORMAT, "%s: line %d: %s", parser->name, parser->line, text);
}

static int no_memory(struct error *err)
{
    return error_set(err, ERROR_MEMORY, "no memory for the columns");
}

/* "word 'x'; did you mean 'y'?" for a word that should be one of a list. */
static int unknown_word(const struct parser *parser, const char *word, const char *const *known,
                        const char *expected, struct error *err)
{
    struct nearest nearest;
    nearest_start(&nearest, word);
    for (; *known; known++)
        nearest_offer(&nearest, *known);
    return complain(parser, err, "'%.60s' where %s was expected%s%s%s", word, expected,
                    nearest.best ? "; did you mean '" : "", nearest.best ? nearest.best : "",
                    nearest.best ? "'?" : "");
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Takes one word from the line, quoted or not; *word is NULL when there is no more. */
static int take_word(struct parser *parser, const char **at, const char *end, const char **word,
                     struct error *err)
{
    while (*at < end && is_blank(**at))
        ++*at;
    *word = NULL;
    if (*at == end || **at == '#')
        return 0;
    bool quoted = **at == '"';
    const char *start = *at + quoted, *stop = start;
    while (stop < end && (quoted ? *stop != '"' : !is_blank(*stop)))
        stop++;
    if (quoted && (stop == end || (stop + 1 < end && !is_blank(stop[1]))))
        return complain(parser, err, "a quoted word must end in a quote and a blank");
    *at = stop + quoted;
    *word = arena_format(parser->out->arena, "%.*s", (int)(stop - start), start);
    return *word ? 0 : no_memory(err);
}

static int take_words(struct parser *parser, const char *at, const char *end, struct error *err)
{
    parser->words = 0;
    if (memchr(at, '\0', (size_t)(end - at)))
        return complain(parser, err, "a NUL character; this is not a column file");
    for (;;) {
        const char *word;
        if (take_word(parser, &at, end, &word, err) < 0)
            return -1;
        if (!word)
            return 0;
        if (parser->words == MAX_WORDS)
            return complain(parser, err, "more than %d words", MAX_WORDS);
        parser->word[parser->words++] = word;
    }
}

static int whole_number(const struct parser *parser, const char *word, int64_t least,
                        int64_t greatest, const char *what, int64_t *out, struct error *err)
{
    char *end;
    long long value = strtoll(word, &end, 10);
    if (end == word || *end || value < least || value > greatest)
        return complain(parser, err,
                        "'%.60s' %s; a whole number from %" PRId64 " to %" PRId64 " was expected",
                        word, what, least, greatest);
    *out = value;
    return 0;
}

static const char *full_path(struct parser *parser, const char *name)
{
    if (name[0] == '/' || strstr(name, "://"))
        return name;
    return arena_format(parser->out->arena, "%s/%s", parser->directory, name);
}

/* file train|eval NAME [skip LINES] */
static int parse_file(struct parser *parser, struct error *err)
{
    static const char *const splits[] = {"train", "eval", NULL};
    if (parser->words != 3 && parser->words != 5)
        return complain(parser, err, "expected: file train|eval NAME [skip LINES]");
    int split = 0;
    while (splits[split] && strcmp(splits[split], parser->word[1]) != 0)
        split++;
    if (!splits[split])
        return unknown_word(parser, parser->word[1], splits, "train or eval", err);
    if (parser->out->files[split])
        return complain(parser, err, "a second '%s' file", splits[split]);
    if (!parser->word[2][0])
        return complain(parser, err, "the file has no name");
    if (parser->words == 5) {
        int64_t lines;
        static const char *const skip[] = {"skip", NULL};
        if (strcmp(parser->word[3], "skip") != 0)
            return unknown_word(parser, parser->word[3], skip, "skip", err);
        if (whole_number(parser, parser->word[4], 0, MAX_SKIPPED_LINES, "lines to skip", &lines,
                         err) < 0)
            return -1;
        parser->out->skip_lines[split] = (int)lines;
    }
    parser->out->files[split] = full_path(parser, parser->word[2]);
    return parser->out->files[split] ? 0 : no_memory(err);
}

static int add_column(struct parser *parser, struct table_column column, struct error *err)
{
    struct table_description *out = parser->out;
    if (!column.name[0])
        return complain(parser, err, "the column has no name");
    for (int i = 0; i < out->column_count; i++)
        if (strcmp(out->columns[i].name, column.name) == 0)
            return complain(parser, err, "a second column called '%.60s'", column.name);
    if (out->column_count == TABLE_MAX_COLUMNS)
        return complain(parser, err, "more than %d columns", TABLE_MAX_COLUMNS);
    if (out->column_count == parser->column_capacity) {
        int capacity = parser->column_capacity > 0 ? parser->column_capacity * 2 : 64;
        struct table_column *grown = ARENA_ARRAY(out->arena, struct table_column, capacity);
        if (!grown)
            return no_memory(err);
        if (out->column_count > 0)
            memcpy(grown, out->columns, sizeof *grown * (size_t)out->column_count);
        out->columns = grown;
        parser->column_capacity = capacity;
    }
    out->numeric_count += column.kind == TABLE_NUMERIC;
    out->categorical_count += column.kind == TABLE_CATEGORICAL;
    out->columns[out->column_count++] = column;
    return 0;
}

/* column NAME numeric [log] | categorical [BUCKETS] | ignore */
static int parse_column(struct parser *parser, struct error *err)
{
    static const char *const kinds[] = {"numeric", "categorical", "ignore", NULL};
    static const char *const log[] = {"log", NULL};
    if (parser->words < 3)
        return complain(parser, err,
                        "expected: column NAME numeric [log] | categorical [BUCKETS] | ignore");
    const char *kind = parser->word[2];
    const char *more = parser->words > 3 ? parser->word[3] : NULL;
    struct table_column column = {.name = parser->word[1]};
    int words = 4;
    if (strcmp(kind, "numeric") == 0) {
        column.kind = TABLE_NUMERIC;
        column.logarithm = more != NULL;
        if (more && strcmp(more, "log") != 0)
            return unknown_word(parser, more, log, "log or nothing", err);
    } else if (strcmp(kind, "categorical") == 0) {
        column.kind = TABLE_CATEGORICAL;
        column.buckets = TABLE_DEFAULT_BUCKETS;
        if (more && whole_number(parser, more, 1, MAX_BUCKETS, "buckets", &column.buckets, err) < 0)
            return -1;
    } else if (strcmp(kind, "ignore") == 0) {
        words = 3;
    } else {
        return unknown_word(parser, kind, kinds, "numeric, categorical or ignore", err);
    }
    if (parser->words > words)
        return complain(parser, err, "'%.60s' is one word too many", parser->word[words]);
    return add_column(parser, column, err);
}

/* label NAME [VALUE...] */
static int parse_label(struct parser *parser, struct error *err)
{
    struct table_description *out = parser->out;
    if (parser->words < 2)
        return complain(parser, err, "expected: label NAME [VALUE THAT COUNTS AS 1]...");
    for (int i = 0; i < out->column_count; i++)
        if (out->columns[i].kind == TABLE_LABEL)
            return complain(parser, err, "a second label; the first is '%.60s'",
                            out->columns[i].name);
    if (parser->words - 2 > TABLE_MAX_LABEL_VALUES)
        return complain(parser, err, "more than %d values of the label", TABLE_MAX_LABEL_VALUES);
    for (int i = 2; i < parser->words; i++)
        out->label_values[out->label_value_count++] = parser->word[i];
    return add_column(parser, (struct table_column){.name = parser->word[1], .kind = TABLE_LABEL},
                      err);
}

static int parse_line(struct parser *parser, const char *at, const char *end, struct error *err)
{
    static const char *const directives[] = {"file", "column", "label", NULL};
    if (take_words(parser, at, end, err) < 0)
        return -1;
    if (parser->words == 0)
        return 0;
    if (strcmp(parser->word[0], "file") == 0)
        return parse_file(parser, err);
    if (strcmp(parser->word[0], "column") == 0)
        return parse_column(parser, err);
    if (strcmp(parser->word[0], "label") == 0)
        return parse_label(parser, err);
    return unknown_word(parser, parser->word[0], directives, "file, column or label", err);
}

static int check_whole(const struct parser *parser, struct error *err)
{
    const struct table_description *out = parser->out;
    bool label = false;
    for (int i = 0; i < out->column_count; i++)
        label |= out->columns[i].kind == TABLE_LABEL;
    if (!out->files[SPLIT_TRAIN])
        return error_set(err, ERROR_FORMAT, "%s: names no file; add a line: file train NAME",
                         parser->name);
    if (!label)
        return error_set(err, ERROR_FORMAT, "%s: names no label; add a line: label NAME [VALUE]",
                         parser->name);
    if (out->numeric_count + out->categorical_count == 0)
        return error_set(err, ERROR_FORMAT,
                         "%s: has no numeric or categorical column to learn from", parser->name);
    return 0;
}

int table_describe_text(const char *name, const char *directory, const char *text, size_t bytes,
                        struct table_description *out, struct error *err)
{
    struct table_description description = {.trim = true, .names_matter = true, .empty_text = ""};
    struct parser parser = {.name = name, .directory = directory, .out = &description};
    description.arena = arena_create();
    if (!description.arena)
        return no_memory(err);
    const char *end = text + bytes;
    for (const char *at = text; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *line_end = newline ? newline : end;
        parser.line++;
        if (parse_line(&parser, at, line_end, err) < 0)
            goto fail;
        at = newline ? newline + 1 : end;
    }
    if (check_whole(&parser, err) < 0)
        goto fail;
    *out = description;
    return 0;
fail:
    table_description_release(&description);
    return -1;
}

void table_description_release(struct table_description *description)
{
    arena_destroy(description->arena);
    *description = (struct table_description){0};
}

/* Takes "DIR/NAME" apart; NAME may be left out. */
static int place_of(const char *path, char directory[PATH_MAX], const char **file,
                    struct error *err)
{
    if (file_name_ends(path, ".columns") || file_name_ends(path, ".txt"))
        return (*file = storage_split(path, directory, err)) ? 0 : -1;
    *file = "columns.txt";
    if (snprintf(directory, PATH_MAX, "%s", path) >= PATH_MAX)
        return error_set(err, ERROR_USAGE, "the path of the columns is longer than %d bytes",
                         PATH_MAX);
    return 0;
}

int table_describe(const char *path, const atomic_int *stop, struct table_description *out,
                   struct error *err)
{
    char directory[PATH_MAX], described[PATH_MAX];
    const char *name = NULL;
    struct storage *storage = NULL;
    char *text = NULL;
    int status = -1;
    if (place_of(path, directory, &name, err) < 0 ||
        storage_open_files(directory, &name, 1, stop, &storage, err) < 0)
        goto out;
    int file = storage_find(storage, name);
    if (file < 0) {
        error_set(err, ERROR_IO, "%s holds no %s, which says what the columns mean", directory,
                  name);
        goto out;
    }
    const struct storage_file *files;
    storage_files(storage, &files);
    storage_describe(storage, file, described, sizeof described);
    if (files[file].bytes > FILE_LIMIT) {
        error_set(err, ERROR_FORMAT, "%s: %" PRIu64 " bytes; a column file has at most %d",
                  described, files[file].bytes, FILE_LIMIT);
        goto out;
    }
    text = memory_allocate(files[file].bytes + 1);
    if (!text) {
        no_memory(err);
        goto out;
    }
    if (storage_read(storage, file, 0, files[file].bytes, text, err) == 0)
        status = table_describe_text(described, directory, text, files[file].bytes, out, err);
out:
    memory_free(text);
    storage_close(storage);
    return status;
}
