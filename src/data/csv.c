#include "data/csv.h"

#include <assert.h>

#include "base/error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { BLOCK = 64 };

/* Bit i: character i of a block is one of these. */
struct marks {
    uint64_t separators, newlines, quotes;
};

static struct marks mark_portable(const char *block, char separator)
{
    struct marks marks = {0};
    for (int i = 0; i < BLOCK; i++) {
        marks.separators |= (uint64_t)(block[i] == separator) << i;
        marks.newlines |= (uint64_t)(block[i] == '\n') << i;
        marks.quotes |= (uint64_t)(block[i] == '"') << i;
    }
    return marks;
}

#if defined(__x86_64__)
__attribute__((target("avx2,bmi,popcnt"))) static inline uint64_t mark_one(__m256i low,
                                                                           __m256i high, char c)
{
    __m256i wanted = _mm256_set1_epi8(c);
    uint32_t a = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, wanted));
    uint32_t b = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, wanted));
    return (uint64_t)b << 32 | a;
}

__attribute__((target("avx2,bmi,popcnt"))) static inline struct marks mark_avx2(const char *block,
                                                                                char separator)
{
    __m256i low = _mm256_loadu_si256((const __m256i *)block);
    __m256i high = _mm256_loadu_si256((const __m256i *)(block + 32));
    return (struct marks){.separators = mark_one(low, high, separator),
                          .newlines = mark_one(low, high, '\n'),
                          .quotes = mark_one(low, high, '"')};
}
#endif

typedef struct marks mark_fn(const char *block, char separator);

/* The block at `at`, or a copy with zeros behind `end` where fewer than BLOCK characters are left:
 * nothing is read beyond the text. */
static inline const char *whole_block(const char *at, const char *end, char copy[BLOCK])
{
    if (end - at >= BLOCK)
        return at;
    memset(copy, 0, BLOCK);
    memcpy(copy, at, (size_t)(end - at));
    return copy;
}

static void finish_row(struct csv_row *row, const char *newline, const char *end, int capacity)
{
    row->next = newline < end ? newline + 1 : end;
    row->end = newline > row->start && newline[-1] == '\r' ? newline - 1 : newline;
    if (++row->count <= capacity)
        row->bounds[row->count] = (uint32_t)(row->end - row->start) + 1;
}

/* A separator counts only outside quotes; a quote opens a field only as its first character that
 * is no blank. */
static void split_quoted(const char *at, const char *end, char separator, int capacity,
                         struct csv_row *row)
{
    const char *newline = csv_line_end(at, end);
    bool inside = false, empty_so_far = true;
    row->count = 0;
    for (const char *c = at; c < newline; c++) {
        if (inside) {
            if (*c == '"' && c + 1 < newline && c[1] == '"')
                c++;
            else if (*c == '"')
                inside = false;
        } else if (*c == separator) {
            if (++row->count <= capacity)
                row->bounds[row->count] = (uint32_t)(c - at) + 1;
            empty_so_far = true;
        } else if (*c == '"' && empty_so_far) {
            inside = true;
            empty_so_far = false;
        } else if (*c != ' ' && *c != '\t') {
            empty_so_far = false;
        }
    }
    row->open_quote = inside;
    finish_row(row, newline, end, capacity);
}

__attribute__((always_inline)) static inline void split_blocks(const char *at, const char *end,
                                                               char separator, int capacity,
                                                               struct csv_row *row, mark_fn *mark)
{
    int count = 0;
    char copy[BLOCK];
    for (const char *block = at;; block += BLOCK) {
        if (block >= end || block - at > CSV_MAX_ROW_BYTES) {
            row->count = count;
            finish_row(row, block < end ? block : end, end, capacity);
            return;
        }
        struct marks marks = mark(whole_block(block, end, copy), separator);
        uint64_t in_row = marks.newlines ^ (marks.newlines - 1); /* all when there is no newline */
        if (marks.quotes & in_row) {
            split_quoted(at, end, separator, capacity, row);
            return;
        }
        uint64_t separators = marks.separators & in_row;
        uint32_t offset = (uint32_t)(block - at) + 1;
        if (count + __builtin_popcountll(separators) > capacity) {
            count += __builtin_popcountll(separators);
        } else {
            for (; separators; separators &= separators - 1)
                row->bounds[++count] = offset + (uint32_t)__builtin_ctzll(separators);
        }
        if (marks.newlines) {
            row->count = count;
            finish_row(row, block + __builtin_ctzll(marks.newlines), end, capacity);
            return;
        }
    }
}

static void begin_row(const char *at, const char *end, int capacity, struct csv_row *row)
{
    assert(at < end && capacity <= CSV_MAX_FIELDS);
    row->start = at;
    row->bounds[0] = 0;
    row->open_quote = false;
}

void csv_split_portable(const char *at, const char *end, char separator, int capacity,
                        struct csv_row *row)
{
    begin_row(at, end, capacity, row);
    split_blocks(at, end, separator, capacity, row, mark_portable);
}

#if defined(__x86_64__)
__attribute__((target("avx2,bmi,popcnt"))) static void
split_avx2(const char *at, const char *end, char separator, int capacity, struct csv_row *row)
{
    begin_row(at, end, capacity, row);
    split_blocks(at, end, separator, capacity, row, mark_avx2);
}
#endif

void csv_split(const char *at, const char *end, char separator, int capacity, struct csv_row *row)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi")) {
        split_avx2(at, end, separator, capacity, row);
        return;
    }
#endif
    csv_split_portable(at, end, separator, capacity, row);
}

/* glibc's memchr has its own choice of instructions. */
const char *csv_line_end(const char *at, const char *end)
{
    const char *newline = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    return newline ? newline : end;
}

const char *csv_row_start(const char *at, const char *end)
{
    for (; at < end; at++) {
        if (*at == '\r' && (at + 1 == end || at[1] == '\n'))
            continue;
        if (*at != '\n')
            return at;
    }
    return end;
}

const char *csv_skip_rows(const char *at, const char *end, int rows)
{
    for (; rows > 0 && at < end; rows--) {
        at = csv_line_end(at, end);
        at = csv_row_start(at, end);
    }
    return at;
}

int64_t csv_count_lines(const char *start, const char *at)
{
    int64_t lines = 0;
    for (const char *newline = start; (newline = csv_line_end(newline, at)) < at; newline++)
        lines++;
    return lines;
}

char csv_find_separator(const char *at, const char *end)
{
    size_t commas = 0, tabs = 0;
    for (end = csv_line_end(at, end); at < end; at++) {
        commas += *at == ',';
        tabs += *at == '\t';
    }
    return tabs > commas ? '\t' : ',';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* `text` starts with a quote; `*length` counts all characters of the field. */
static int unquote(const char **text, size_t *length, struct csv_scratch *scratch,
                   struct error *err)
{
    const char *at = *text + 1, *end = *text + *length;
    const char *quote = memchr(at, '"', (size_t)(end - at));
    size_t used = 0;
    const char *plain = at;
    while (quote && quote + 1 < end && quote[1] == '"') {
        size_t piece = (size_t)(quote + 1 - at);
        if (used + piece > sizeof scratch->text)
            return error_set(err, ERROR_FORMAT,
                             "a field with doubled quotes is longer than %d characters",
                             CSV_MAX_UNQUOTED_BYTES);
        memcpy(scratch->text + used, at, piece);
        used += piece;
        at = quote + 2;
        quote = memchr(at, '"', (size_t)(end - at));
    }
    if (!quote)
        return error_set(err, ERROR_FORMAT, "a quoted field has no closing quote on its line");
    if (quote + 1 != end)
        return error_set(err, ERROR_FORMAT, "text follows the closing quote of a field");
    size_t rest = (size_t)(quote - at);
    if (used == 0) {
        *text = plain;
        *length = rest;
        return 0;
    }
    if (used + rest > sizeof scratch->text)
        return error_set(err, ERROR_FORMAT,
                         "a field with doubled quotes is longer than %d characters",
                         CSV_MAX_UNQUOTED_BYTES);
    memcpy(scratch->text + used, at, rest);
    *text = scratch->text;
    *length = used + rest;
    return 0;
}

int csv_field(const struct csv_row *row, int field, bool trim, struct csv_scratch *scratch,
              const char **text, size_t *length, struct error *err)
{
    const char *start = row->start + row->bounds[field];
    const char *end = row->start + row->bounds[field + 1] - 1;
    const char *first = start, *last = end;
    while (first < last && is_blank(*first))
        first++;
    while (first < last && is_blank(last[-1]))
        last--;
    bool quoted = first < last && *first == '"';
    *text = trim || quoted ? first : start;
    *length = (size_t)(trim || quoted ? last - first : end - start);
    return quoted ? unquote(text, length, scratch, err) : 0;
}

enum {
    MAX_DIGITS = 19,       /* always fit 64 bits */
    MAX_EXPONENT = 100000, /* beyond which it no longer matters how large it is */
    MAX_NUMBER_BYTES = 1024,
};

/* Digits and exponent of a number that is written as it should be. */
struct decimal {
    uint64_t digits;
    int exponent; /* of ten */
    bool negative;
    bool complete; /* no digit was left out */
};

/* Adds digits to the number while there are any; returns how many there were. */
static int take_digits(const char **at, const char *end, struct decimal *number, int *significant,
                       int exponent_step)
{
    const char *start = *at;
    for (; *at < end && (unsigned char)(**at - '0') <= 9; ++*at) {
        unsigned digit = (unsigned char)(**at - '0');
        if (*significant < MAX_DIGITS) {
            number->digits = number->digits * 10 + digit;
            *significant += number->digits > 0;
            number->exponent += exponent_step;
        } else {
            number->complete = number->complete && digit == 0;
            number->exponent += exponent_step + 1;
        }
    }
    return (int)(*at - start > MAX_EXPONENT ? MAX_EXPONENT : *at - start);
}

static bool take_exponent(const char **at, const char *end, struct decimal *number)
{
    if (*at >= end || (**at | 0x20) != 'e')
        return true;
    ++*at;
    bool negative = *at < end && **at == '-';
    if (*at < end && (**at == '-' || **at == '+'))
        ++*at;
    if (*at >= end)
        return false;
    int exponent = 0;
    for (; *at < end && (unsigned char)(**at - '0') <= 9; ++*at)
        if (exponent < MAX_EXPONENT)
            exponent = exponent * 10 + (**at - '0');
    number->exponent += negative ? -exponent : exponent;
    return (unsigned char)((*at)[-1] - '0') <= 9;
}

static bool take_number(const char *at, const char *end, struct decimal *number)
{
    *number = (struct decimal){.complete = true};
    if (at < end && (*at == '-' || *at == '+'))
        number->negative = *at++ == '-';
    int significant = 0;
    int digits = take_digits(&at, end, number, &significant, 0);
    if (at < end && *at == '.') {
        at++;
        digits += take_digits(&at, end, number, &significant, -1);
    }
    return digits > 0 && take_exponent(&at, end, number) && at == end;
}

/* The C library rounds correctly whatever the number of digits. */
static enum csv_number parse_slowly(const char *text, size_t length, float *out)
{
    char copy[MAX_NUMBER_BYTES + 1];
    if (length > MAX_NUMBER_BYTES)
        return CSV_NOT_A_NUMBER;
    memcpy(copy, text, length);
    copy[length] = '\0';
    float value = strtof(copy, NULL);
    if (__builtin_isinf(value))
        return CSV_NUMBER_TOO_LARGE;
    *out = value;
    return CSV_NUMBER;
}

enum csv_number csv_parse_float(const char *text, size_t length, float *out)
{
    static const float powers[] = {1e0f, 1e1f, 1e2f, 1e3f, 1e4f, 1e5f,
                                   1e6f, 1e7f, 1e8f, 1e9f, 1e10f};
    const char *end = text + length;
    while (text < end && is_blank(*text))
        text++;
    while (text < end && is_blank(end[-1]))
        end--;
    struct decimal number;
    if (!take_number(text, end, &number))
        return CSV_NOT_A_NUMBER;
    /* Clinger's fast path: digits and power of ten are both exact, so one operation rounds once. A
     * number without a power is rounded once by the conversion, however long. */
    bool exact = number.complete && number.digits <= 1 << 24;
    float value;
    if (number.complete && number.exponent == 0)
        value = (float)number.digits;
    else if (exact && number.exponent > 0 && number.exponent <= 10)
        value = (float)number.digits * powers[number.exponent];
    else if (exact && number.exponent < 0 && number.exponent >= -10)
        value = (float)number.digits / powers[-number.exponent];
    else
        return parse_slowly(text, (size_t)(end - text), out);
    *out = number.negative ? -value : value;
    return CSV_NUMBER;
}
