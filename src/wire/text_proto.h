/* Protobuf's text format, as configuration files are written in it: `name: value`, `name { ... }`,
 * lists in brackets, comments behind #. Read into a tree with limits on depth and size; what names
 * and values mean is the caller's. */
#ifndef WIRE_TEXT_PROTO_H
#define WIRE_TEXT_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct error;

enum { TEXT_PROTO_MAX_DEPTH = 32, TEXT_PROTO_MAX_FIELDS = 1 << 16 };

enum text_proto_kind {
    TEXT_PROTO_MESSAGE, /* its fields are `first` and those behind it */
    TEXT_PROTO_STRING,  /* quoted: `text` without quotes and escapes */
    TEXT_PROTO_WORD,    /* a number, true, false or the name of an enumeration's value */
};

struct text_proto {
    enum text_proto_kind kind;
    const char *name; /* of the field; NULL for the outermost */
    const char *text;
    size_t bytes; /* of the text, which may hold NULs */
    int line, column;
    struct text_proto *first, *next;
};

/* The whole text as a message, in the arena. Failures name `file`, line and column. */
int text_proto_read(const char *file, const char *text, size_t bytes, struct arena *arena,
                    struct text_proto **out, struct error *err);

/* Each fails with file, line, column and name when the field is of another kind, holds a NUL or is
 * out of range. */
int text_proto_text(const char *file, const struct text_proto *field, const char **out,
                    struct error *err);
int text_proto_integer(const char *file, const struct text_proto *field, int64_t *out,
                       struct error *err);
int text_proto_bool(const char *file, const struct text_proto *field, bool *out, struct error *err);
int text_proto_message(const char *file, const struct text_proto *field,
                       const struct text_proto **first, struct error *err);
/* "models.config:3:7: FIELD: ..." */
int text_proto_fail(const char *file, const struct text_proto *field, struct error *err,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
