#include "wire/text_proto.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>

#include "base/arena.h"
#include "base/error.h"

struct reader {
    const char *file;
    const char *at, *end, *line_start;
    int line, fields;
    struct arena *arena;
    struct error *err;
};

static int column_of(const struct reader *reader)
{
    return (int)(reader->at - reader->line_start) + 1;
}

static int fail_here(const struct reader *reader, const char *what)
{
    return error_set(reader->err, ERROR_FORMAT, "%s:%d:%d: %s", reader->file, reader->line,
                     column_of(reader), what);
}

static int no_memory(const struct reader *reader)
{
    return error_set(reader->err, ERROR_MEMORY, "no memory for %s", reader->file);
}

static void skip_blanks(struct reader *reader)
{
    while (reader->at < reader->end) {
        char c = *reader->at;
        if (c == '#') {
            while (reader->at < reader->end && *reader->at != '\n')
                reader->at++;
        } else if (c == '\n') {
            reader->line++;
            reader->line_start = ++reader->at;
        } else if (c == ' ' || c == '\t' || c == '\r') {
            reader->at++;
        } else {
            return;
        }
    }
}

/* What comes next that is no blank; 0 at the end. */
static char peek(struct reader *reader)
{
    skip_blanks(reader);
    return reader->at < reader->end ? *reader->at : 0;
}

static bool take(struct reader *reader, char c)
{
    if (peek(reader) != c)
        return false;
    reader->at++;
    return true;
}

static bool in_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '-' || c == '+';
}

static const char *copy(struct reader *reader, const char *from, size_t bytes)
{
    char *text = arena_take(reader->arena, bytes + 1);
    return text ? memcpy(text, from, bytes) : NULL;
}

static const char *take_word(struct reader *reader, size_t *bytes)
{
    skip_blanks(reader);
    const char *start = reader->at;
    while (reader->at < reader->end && in_word(*reader->at))
        reader->at++;
    *bytes = (size_t)(reader->at - start);
    if (*bytes == 0) {
        fail_here(reader, reader->at < reader->end ? "a name or a value should stand here"
                                                   : "the text ends in the middle");
        return NULL;
    }
    const char *word = copy(reader, start, *bytes);
    if (!word)
        no_memory(reader);
    return word;
}

/* --- quoted texts ---------------------------------------------------------------------------- */

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

static char take_number(struct reader *reader, int base, int digits)
{
    int value = 0;
    for (int i = 0; i < digits && reader->at < reader->end && digit(*reader->at) < base; i++)
        value = value * base + digit(*reader->at++);
    return (char)value;
}

/* Behind a backslash; `at` stands on what follows it. */
static int take_escape(struct reader *reader, char *out)
{
    static const char letters[] = "abfnrtv\\'\"?";
    static const char values[] = "\a\b\f\n\r\t\v\\'\"?";
    if (reader->at == reader->end)
        return fail_here(reader, "the text ends inside quotes");
    char c = *reader->at;
    const char *known = strchr(letters, c);
    if (c && known) {
        reader->at++;
        *out = values[known - letters];
    } else if (c >= '0' && c <= '7') {
        *out = take_number(reader, 8, 3);
    } else if (c == 'x' || c == 'X') {
        reader->at++;
        *out = take_number(reader, 16, 2);
    } else {
        return fail_here(reader, "an escape that is not known");
    }
    return 0;
}

/* One quoted piece into `out`, which has room for all that is left of the file. */
static int take_quoted(struct reader *reader, char *out, size_t *bytes)
{
    char quote = *reader->at++;
    while (reader->at < reader->end && *reader->at != quote) {
        char c = *reader->at++;
        if (c == '\n') {
            reader->at--;
            return fail_here(reader, "a quoted text ends with its line; is a quote missing?");
        }
        if (c == '\\' && take_escape(reader, &c) < 0)
            return -1;
        out[(*bytes)++] = c;
    }
    if (reader->at == reader->end)
        return fail_here(reader, "the text ends inside quotes");
    reader->at++;
    return 0;
}

/* Bytes of the quoted pieces from here on, at most: quotes and all. */
static size_t quoted_extent(const struct reader *reader)
{
    struct reader ahead = *reader;
    const char *start = reader->at;
    while (peek(&ahead) == '"' || peek(&ahead) == '\'') {
        char quote = *ahead.at++;
        while (ahead.at < ahead.end && *ahead.at != quote)
            ahead.at += *ahead.at == '\\' && ahead.at + 1 < ahead.end ? 2 : 1;
        if (ahead.at < ahead.end)
            ahead.at++;
    }
    return (size_t)(ahead.at - start);
}

/* Pieces that follow each other are one text. */
static int take_string(struct reader *reader, struct text_proto *field)
{
    char *text = arena_take(reader->arena, quoted_extent(reader) + 1);
    if (!text)
        return no_memory(reader);
    field->kind = TEXT_PROTO_STRING;
    while (peek(reader) == '"' || peek(reader) == '\'')
        if (take_quoted(reader, text, &field->bytes) < 0)
            return -1;
    field->text = text;
    return 0;
}

/* --- fields ---------------------------------------------------------------------------------- */

static int take_fields(struct reader *reader, char close, int depth, struct text_proto **first);

static struct text_proto *new_field(struct reader *reader, const char *name)
{
    if (++reader->fields > TEXT_PROTO_MAX_FIELDS) {
        fail_here(reader, "there are too many fields");
        return NULL;
    }
    struct text_proto *field = ARENA_NEW(reader->arena, struct text_proto);
    if (!field) {
        no_memory(reader);
        return NULL;
    }
    *field = (struct text_proto){
        .name = name, .line = reader->line, .column = column_of(reader), .text = ""};
    return field;
}

static int take_value(struct reader *reader, struct text_proto *field, int depth)
{
    char c = peek(reader);
    if (c == '{' || c == '<') {
        reader->at++;
        field->kind = TEXT_PROTO_MESSAGE;
        return take_fields(reader, c == '{' ? '}' : '>', depth + 1, &field->first);
    }
    if (c == '"' || c == '\'')
        return take_string(reader, field);
    field->kind = TEXT_PROTO_WORD;
    field->text = take_word(reader, &field->bytes);
    return field->text ? 0 : -1;
}

/* `[a, b]`: fields of the same name. */
static int take_list(struct reader *reader, const char *name, int depth, struct text_proto ***end)
{
    if (take(reader, ']'))
        return 0;
    do {
        peek(reader);
        struct text_proto *field = new_field(reader, name);
        if (!field || take_value(reader, field, depth) < 0)
            return -1;
        **end = field;
        *end = &field->next;
    } while (take(reader, ','));
    return take(reader, ']') ? 0 : fail_here(reader, "a list ends with ]");
}

static int take_field(struct reader *reader, int depth, struct text_proto ***end)
{
    size_t bytes;
    struct reader start = *reader;
    const char *name = take_word(reader, &bytes);
    if (!name)
        return -1;
    bool colon = take(reader, ':');
    if (colon && take(reader, '['))
        return take_list(reader, name, depth, end);
    char c = peek(reader);
    if (!colon && c != '{' && c != '<')
        return fail_here(reader, "a name is followed by : or {");
    start.fields = reader->fields;
    struct text_proto *field = new_field(&start, name);
    if (!field)
        return -1;
    reader->fields = start.fields;
    **end = field;
    *end = &field->next;
    return take_value(reader, field, depth);
}

static int take_fields(struct reader *reader, char close, int depth, struct text_proto **first)
{
    struct text_proto **end = first;
    if (depth > TEXT_PROTO_MAX_DEPTH)
        return fail_here(reader, "messages are nested too deep");
    for (;;) {
        char c = peek(reader);
        if (c == close) {
            if (c)
                reader->at++;
            return 0;
        }
        if (!c && reader->at == reader->end)
            return fail_here(reader, "the text ends before a message does");
        if (take_field(reader, depth, &end) < 0)
            return -1;
        if (!take(reader, ','))
            take(reader, ';');
    }
}

int text_proto_read(const char *file, const char *text, size_t bytes, struct arena *arena,
                    struct text_proto **out, struct error *err)
{
    struct reader reader = {.file = file,
                            .at = text,
                            .end = text + bytes,
                            .line_start = text,
                            .line = 1,
                            .arena = arena,
                            .err = err};
    if (memchr(text, '\0', bytes))
        return error_set(err, ERROR_FORMAT, "%s: holds a NUL byte; a text is wanted", file);
    struct text_proto *root = new_field(&reader, NULL);
    if (!root || take_fields(&reader, 0, 0, &root->first) < 0)
        return -1;
    *out = root;
    return 0;
}

/* --- values ---------------------------------------------------------------------------------- */

int text_proto_fail(const char *file, const struct text_proto *field, struct error *err,
                    const char *format, ...)
{
    char what[384];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return error_set(err, ERROR_FORMAT, "%s:%d:%d: %.64s: %s", file, field->line, field->column,
                     field->name ? field->name : "the message", what);
}

int text_proto_text(const char *file, const struct text_proto *field, const char **out,
                    struct error *err)
{
    if (field->kind != TEXT_PROTO_STRING)
        return text_proto_fail(file, field, err, "a text in quotes is wanted");
    if (memchr(field->text, '\0', field->bytes))
        return text_proto_fail(file, field, err, "a text without NUL bytes is wanted");
    *out = field->text;
    return 0;
}

int text_proto_integer(const char *file, const struct text_proto *field, int64_t *out,
                       struct error *err)
{
    char *end = NULL;
    errno = 0;
    long long value = field->kind == TEXT_PROTO_WORD ? strtoll(field->text, &end, 0) : 0;
    if (!end || end == field->text || *end)
        return text_proto_fail(file, field, err, "a whole number is wanted");
    if (errno)
        return text_proto_fail(file, field, err, "%.40s is too large a number", field->text);
    *out = value;
    return 0;
}

int text_proto_bool(const char *file, const struct text_proto *field, bool *out, struct error *err)
{
    static const char *const yes[] = {"true", "True", "t", "1"};
    static const char *const no[] = {"false", "False", "f", "0"};
    for (int i = 0; field->kind == TEXT_PROTO_WORD && i < 4; i++) {
        if (strcmp(field->text, yes[i]) != 0 && strcmp(field->text, no[i]) != 0)
            continue;
        *out = strcmp(field->text, yes[i]) == 0;
        return 0;
    }
    return text_proto_fail(file, field, err, "true or false is wanted");
}

int text_proto_message(const char *file, const struct text_proto *field,
                       const struct text_proto **first, struct error *err)
{
    if (field->kind != TEXT_PROTO_MESSAGE)
        return text_proto_fail(file, field, err, "a message in braces is wanted");
    *first = field->first;
    return 0;
}
