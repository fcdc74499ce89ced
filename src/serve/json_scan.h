/* JSON from outside, read as it is met: no tree, no allocation but for texts with escapes, a limit on
 * depth. Takes what TF Serving takes beyond the standard: NaN, Infinity and -Infinity. */
#ifndef SERVE_JSON_SCAN_H
#define SERVE_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor/tensor.h"

struct arena;
struct error;

enum { JSON_SCAN_DEPTH = 64 };

enum json_kind {
    JSON_IS_NOTHING, /* the end, or what is no JSON */
    JSON_IS_NULL,
    JSON_IS_BOOL,
    JSON_IS_NUMBER,
    JSON_IS_TEXT,
    JSON_IS_ARRAY,
    JSON_IS_OBJECT,
};

/* A place in a text; may be copied to read the same again. */
struct json_scan {
    const char *start, *at, *end;
    int depth;
};

struct json_number {
    double value;
    bool integer; /* written without . or exponent, and it fits `whole` */
    int64_t whole;
};

void json_scan_open(struct json_scan *scan, const char *text, size_t bytes);
/* What stands here, behind blanks. */
enum json_kind json_scan_peek(struct json_scan *scan);
/* Each reads a value of its kind, or fails with its offset. A text is a view into the JSON, or (with
 * escapes) in the arena, in UTF-8. */
int json_scan_number(struct json_scan *scan, struct json_number *out, struct error *err);
int json_scan_text(struct json_scan *scan, struct arena *arena, struct text_view *out,
                   struct error *err);
int json_scan_bool(struct json_scan *scan, bool *out, struct error *err);
/* Any value, whatever is in it. */
int json_scan_skip(struct json_scan *scan, struct error *err);
/* Walks an array or object: enter, then while next returns 1 read one value (of an object, `key` is
 * what it is called). 0 at the end, -1 on failure. `first` is the walker's, true at the start. */
int json_scan_enter(struct json_scan *scan, bool *first, struct error *err);
int json_scan_next(struct json_scan *scan, bool *first, struct error *err);
int json_scan_next_key(struct json_scan *scan, bool *first, struct arena *arena,
                       struct text_view *key, struct error *err);
/* Nothing but blanks may follow. */
int json_scan_finish(struct json_scan *scan, struct error *err);
/* "...offset 17: WHAT". */
int json_scan_fail(const struct json_scan *scan, struct error *err, const char *what);

bool text_is(struct text_view text, const char *word);

#endif
