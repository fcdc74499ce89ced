#include "serve/json_scan.h"

#include <errno.h>
#include <math.h>

#include "base/arena.h"
#include "base/error.h"

enum { NUMBER_LETTERS = 400 }; /* of one number; more are not worth reading */

bool text_is(struct text_view text, const char *word)
{
    return text.count == strlen(word) && memcmp(text.bytes, word, text.count) == 0;
}

void json_scan_open(struct json_scan *scan, const char *text, size_t bytes)
{
    *scan = (struct json_scan){.start = text, .at = text, .end = text + bytes};
}

int json_scan_fail(const struct json_scan *scan, struct error *err, const char *what)
{
    return error_set(err, ERROR_FORMAT, "JSON Parse error: %s at offset: %zu", what,
                     (size_t)(scan->at - scan->start));
}

static void skip_blanks(struct json_scan *scan)
{
    while (scan->at < scan->end &&
           (*scan->at == ' ' || *scan->at == '\n' || *scan->at == '\r' || *scan->at == '\t'))
        scan->at++;
}

enum json_kind json_scan_peek(struct json_scan *scan)
{
    skip_blanks(scan);
    if (scan->at == scan->end)
        return JSON_IS_NOTHING;
    switch (*scan->at) {
    case '{':
        return JSON_IS_OBJECT;
    case '[':
        return JSON_IS_ARRAY;
    case '"':
        return JSON_IS_TEXT;
    case 't':
    case 'f':
        return JSON_IS_BOOL;
    case 'n':
        return JSON_IS_NULL;
    default:
        return strchr("-0123456789NI", *scan->at) ? JSON_IS_NUMBER : JSON_IS_NOTHING;
    }
}

static bool take_word(struct json_scan *scan, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(scan->end - scan->at) < length || memcmp(scan->at, word, length) != 0)
        return false;
    scan->at += length;
    return true;
}

int json_scan_bool(struct json_scan *scan, bool *out, struct error *err)
{
    skip_blanks(scan);
    *out = take_word(scan, "true");
    if (!*out && !take_word(scan, "false"))
        return json_scan_fail(scan, err, "true or false is wanted");
    return 0;
}

/* --- numbers --------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The sign was taken already. */
static bool take_special(struct json_scan *scan, bool negative, double *out)
{
    if (take_word(scan, "NaN"))
        *out = (double)NAN;
    else if (take_word(scan, "Infinity") || take_word(scan, "Inf"))
        *out = negative ? -(double)INFINITY : (double)INFINITY;
    else
        return false;
    return true;
}

/* A number's digits, as far as 64 bits hold them. */
struct digits {
    uint64_t mantissa;
    int exponent; /* of ten */
    bool exact;   /* nothing was left out */
    bool any, integer;
};

static void take_digits(struct json_scan *scan, struct digits *digits, bool fraction)
{
    for (; scan->at < scan->end && is_digit(*scan->at); scan->at++) {
        digits->any = true;
        if (digits->mantissa > (UINT64_MAX - 9) / 10) {
            digits->exact = false;
            continue;
        }
        digits->mantissa = digits->mantissa * 10 + (uint64_t)(*scan->at - '0');
        digits->exponent -= fraction;
    }
}

static bool take_exponent(struct json_scan *scan, struct digits *digits)
{
    scan->at++;
    bool negative = scan->at < scan->end && *scan->at == '-';
    if (scan->at < scan->end && (*scan->at == '-' || *scan->at == '+'))
        scan->at++;
    int value = 0;
    const char *start = scan->at;
    for (; scan->at < scan->end && is_digit(*scan->at); scan->at++)
        value = value < 100000 ? value * 10 + (*scan->at - '0') : value;
    digits->exponent += negative ? -value : value;
    return scan->at > start;
}

static bool take_decimal(struct json_scan *scan, struct digits *digits)
{
    *digits = (struct digits){.exact = true, .integer = true};
    bool zero = scan->at < scan->end && *scan->at == '0';
    const char *start = scan->at;
    take_digits(scan, digits, false);
    if (!digits->any || (zero && scan->at - start > 1)) /* 01 is no number */
        return false;
    if (scan->at < scan->end && *scan->at == '.') {
        scan->at++;
        digits->integer = digits->any = false;
        take_digits(scan, digits, true);
        if (!digits->any)
            return false;
    }
    if (scan->at < scan->end && (*scan->at == 'e' || *scan->at == 'E')) {
        digits->integer = false;
        return take_exponent(scan, digits);
    }
    return true;
}

/* Clinger's fast path: both factors are exact doubles, so that the result is rounded once. */
static bool quick_value(const struct digits *digits, double *out)
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (!digits->exact || digits->mantissa > UINT64_C(1) << 53 || digits->exponent < -22 ||
        digits->exponent > 22)
        return false;
    double mantissa = (double)digits->mantissa;
    *out = digits->exponent < 0 ? mantissa / powers[-digits->exponent]
                                : mantissa * powers[digits->exponent];
    return true;
}

static int slow_value(struct json_scan *scan, const char *start, double *out, struct error *err)
{
    char text[NUMBER_LETTERS + 1];
    size_t letters = (size_t)(scan->at - start);
    if (letters > NUMBER_LETTERS)
        return json_scan_fail(scan, err, "a number with too many digits");
    memcpy(text, start, letters);
    text[letters] = '\0';
    *out = strtod(text, NULL); /* infinite when it is too large, as in TF Serving's reader */
    return 0;
}

static void set_whole(const struct digits *digits, bool negative, struct json_number *out)
{
    out->integer = digits->integer && digits->exact && digits->mantissa <= INT64_MAX;
    if (out->integer)
        out->whole = negative ? -(int64_t)digits->mantissa : (int64_t)digits->mantissa;
}

int json_scan_number(struct json_scan *scan, struct json_number *out, struct error *err)
{
    struct digits digits;
    skip_blanks(scan);
    const char *start = scan->at;
    *out = (struct json_number){0};
    bool negative = scan->at < scan->end && *scan->at == '-';
    if (negative)
        scan->at++;
    if (take_special(scan, negative, &out->value))
        return 0;
    if (!take_decimal(scan, &digits))
        return json_scan_fail(scan, err, "Invalid value: a number is wanted");
    set_whole(&digits, negative, out);
    if (!quick_value(&digits, &out->value))
        return slow_value(scan, start, &out->value, err);
    if (negative)
        out->value = -out->value;
    return 0;
}

/* --- texts ----------------------------------------------------------------------------------- */

/* Behind the opening quote: where the closing one stands, and whether there are escapes. */
static const char *find_quote(const struct json_scan *scan, bool *escaped)
{
    const char *at = scan->at;
    *escaped = false;
    while (at < scan->end && *at != '"' && (unsigned char)*at >= 0x20) {
        if (*at == '\\') {
            *escaped = true;
            at++;
        }
        at++;
    }
    return at < scan->end && *at == '"' ? at : NULL;
}

static int hex(const char *at)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        int digit = is_digit(c)            ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

static char *put_utf8(char *to, uint32_t code)
{
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
        *to++ = (char)(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        *to++ = (char)(0xe0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    } else {
        *to++ = (char)(0xf0 | code >> 18);
        *to++ = (char)(0x80 | (code >> 12 & 0x3f));
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    }
    return to;
}

/* uXXXX at `at`, with the second half of a pair; NULL when it is none. */
static const char *take_unicode(const char *at, const char *end, uint32_t *code)
{
    int first = end - at >= 5 ? hex(at + 1) : -1;
    at += 5;
    if (first < 0 || (first >= 0xdc00 && first < 0xe000))
        return NULL;
    *code = (uint32_t)first;
    if (first < 0xd800 || first >= 0xe000)
        return at;
    int second = end - at >= 6 && at[0] == '\\' && at[1] == 'u' ? hex(at + 2) : -1;
    if (second < 0xdc00 || second >= 0xe000)
        return NULL;
    *code = 0x10000 + (((uint32_t)first - 0xd800) << 10) + ((uint32_t)second - 0xdc00);
    return at + 6;
}

/* Escapes never get longer: "\u0041" is one byte, a pair four. */
static char *unescape(const char *at, const char *end, char *to)
{
    static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    while (at < end) {
        if (*at != '\\') {
            *to++ = *at++;
            continue;
        }
        at++;
        uint32_t code;
        const char *known = at < end && *at ? strchr(letters, *at) : NULL;
        if (known) {
            *to++ = values[known - letters];
            at++;
        } else if (at < end && *at == 'u' && (at = take_unicode(at, end, &code))) {
            to = put_utf8(to, code);
        } else {
            return NULL;
        }
    }
    return to;
}

int json_scan_text(struct json_scan *scan, struct arena *arena, struct text_view *out,
                   struct error *err)
{
    bool escaped;
    if (json_scan_peek(scan) != JSON_IS_TEXT)
        return json_scan_fail(scan, err, "a text is wanted");
    scan->at++;
    const char *quote = find_quote(scan, &escaped);
    if (!quote)
        return json_scan_fail(scan, err, "Missing a closing quotation mark in string.");
    *out = (struct text_view){scan->at, (size_t)(quote - scan->at)};
    if (escaped) {
        char *text = arena_take(arena, out->count);
        if (!text)
            return error_set(err, ERROR_MEMORY, "no memory for the request");
        char *end = unescape(scan->at, quote, text);
        if (!end)
            return json_scan_fail(scan, err, "Invalid escape character in string.");
        *out = (struct text_view){text, (size_t)(end - text)};
    }
    scan->at = quote + 1;
    return 0;
}

/* --- arrays and objects ---------------------------------------------------------------------- */

int json_scan_enter(struct json_scan *scan, bool *first, struct error *err)
{
    enum json_kind kind = json_scan_peek(scan);
    if (kind != JSON_IS_ARRAY && kind != JSON_IS_OBJECT)
        return json_scan_fail(scan, err, "a list or an object is wanted");
    if (++scan->depth > JSON_SCAN_DEPTH)
        return json_scan_fail(scan, err, "nested too deep");
    scan->at++;
    *first = true;
    return 0;
}

/* 1: another member follows; 0: it was closed. */
static int step(struct json_scan *scan, bool *first, char close, struct error *err)
{
    skip_blanks(scan);
    if (scan->at < scan->end && *scan->at == close) {
        scan->at++;
        scan->depth--;
        return 0;
    }
    if (!*first) {
        if (scan->at == scan->end || *scan->at != ',')
            return json_scan_fail(scan, err,
                                  close == ']' ? "Missing a comma or ] after an array element."
                                               : "Missing a comma or } after an object member.");
        scan->at++;
    }
    *first = false;
    return 1;
}

int json_scan_next(struct json_scan *scan, bool *first, struct error *err)
{
    return step(scan, first, ']', err);
}

int json_scan_next_key(struct json_scan *scan, bool *first, struct arena *arena,
                       struct text_view *key, struct error *err)
{
    int more = step(scan, first, '}', err);
    if (more <= 0)
        return more;
    if (json_scan_peek(scan) != JSON_IS_TEXT)
        return json_scan_fail(scan, err, "Missing a name for object member.");
    if (json_scan_text(scan, arena, key, err) < 0)
        return -1;
    skip_blanks(scan);
    if (scan->at == scan->end || *scan->at != ':')
        return json_scan_fail(scan, err, "Missing a colon after a name of object member.");
    scan->at++;
    return 1;
}

static int skip_text(struct json_scan *scan, struct error *err)
{
    bool escaped;
    scan->at++;
    const char *quote = find_quote(scan, &escaped);
    if (!quote)
        return json_scan_fail(scan, err, "Missing a closing quotation mark in string.");
    scan->at = quote + 1;
    return 0;
}

static int skip_key(struct json_scan *scan, struct error *err)
{
    if (json_scan_peek(scan) != JSON_IS_TEXT)
        return json_scan_fail(scan, err, "Missing a name for object member.");
    if (skip_text(scan, err) < 0)
        return -1;
    skip_blanks(scan);
    if (scan->at == scan->end || *scan->at != ':')
        return json_scan_fail(scan, err, "Missing a colon after a name of object member.");
    scan->at++;
    return 0;
}

static int skip_members(struct json_scan *scan, bool object, struct error *err)
{
    bool first;
    int more;
    if (json_scan_enter(scan, &first, err) < 0)
        return -1;
    while ((more = step(scan, &first, object ? '}' : ']', err)) > 0)
        if ((object && skip_key(scan, err) < 0) || json_scan_skip(scan, err) < 0)
            return -1;
    return more;
}

/* As deep as JSON_SCAN_DEPTH, which json_scan_enter keeps. */
int json_scan_skip(struct json_scan *scan, struct error *err)
{
    struct json_number number;
    bool boolean;
    switch (json_scan_peek(scan)) {
    case JSON_IS_NULL:
        return take_word(scan, "null") ? 0 : json_scan_fail(scan, err, "Invalid value.");
    case JSON_IS_BOOL:
        return json_scan_bool(scan, &boolean, err);
    case JSON_IS_NUMBER:
        return json_scan_number(scan, &number, err);
    case JSON_IS_TEXT:
        return skip_text(scan, err);
    case JSON_IS_ARRAY:
        return skip_members(scan, false, err);
    case JSON_IS_OBJECT:
        return skip_members(scan, true, err);
    case JSON_IS_NOTHING:
        break;
    }
    return json_scan_fail(scan, err,
                          scan->at == scan->end ? "The document is empty or ends too early"
                                                : "Invalid value.");
}

int json_scan_finish(struct json_scan *scan, struct error *err)
{
    skip_blanks(scan);
    return scan->at == scan->end ? 0 : json_scan_fail(scan, err, "more behind the document");
}
