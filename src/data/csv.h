/* Lines of separated fields in memory, split without copying: commas or tabs, \n or \r\n, quoted
 * fields with "" inside. A quoted field ends on its line, so any newline ends a row and a file can
 * be cut into pieces anywhere. Lines without a character are no rows. Nothing here allocates. */
#ifndef DATA_CSV_H
#define DATA_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

enum {
    CSV_MAX_FIELDS = 4096,
    CSV_MAX_ROW_BYTES = 16 << 20,
    CSV_MAX_UNQUOTED_BYTES = 4096, /* of a field that has "" inside */
};

/* A row: field i lies between bounds[i] and bounds[i + 1] - 1, quotes and blanks included. */
struct csv_row {
    const char *start, *end; /* the end has no \r\n */
    const char *next;        /* where the next row may start */
    int count;               /* of fields; more than the capacity asked for: bounds are not valid */
    bool open_quote;         /* a quoted field has no end */
    uint32_t bounds[CSV_MAX_FIELDS + 1];
};

/* Space for a field that had to be changed to be read. */
struct csv_scratch {
    char text[CSV_MAX_UNQUOTED_BYTES];
};

/* The end of the line at `at`: its newline, or `end`. */
const char *csv_line_end(const char *at, const char *end);
/* Passes over lines without a character. Returns `end` when nothing follows. */
const char *csv_row_start(const char *at, const char *end);
/* The start of the row that is `rows` rows further on from the row that starts at `at`. */
const char *csv_skip_rows(const char *at, const char *end, int rows);
/* Lines that begin before `at`; 1 more is the number of the line that begins there. */
int64_t csv_count_lines(const char *start, const char *at);

/* The separator that the line has more of, tabs or commas; a comma when there is none. */
char csv_find_separator(const char *at, const char *end);
/* Splits the row that starts at `at` < `end`; keeps the bounds of `capacity` fields at most. */
void csv_split(const char *at, const char *end, char separator, int capacity, struct csv_row *row);
/* What csv_split does on a processor without AVX2. */
void csv_split_portable(const char *at, const char *end, char separator, int capacity,
                        struct csv_row *row);
/* The text of a field: without its quotes; without the blanks around it where `trim` is set. It
 * lies in the row, or in the scratch when it had "" inside. Fails with ERROR_FORMAT when text
 * follows the closing quote, or when the field is too long to be rewritten. */
int csv_field(const struct csv_row *row, int field, bool trim, struct csv_scratch *scratch,
              const char **text, size_t *length, struct error *err);

enum csv_number { CSV_NUMBER, CSV_NOT_A_NUMBER, CSV_NUMBER_TOO_LARGE };

/* A decimal number to the nearest float; blanks around it are allowed, hexadecimal, infinities and
 * NaN are not. */
enum csv_number csv_parse_float(const char *text, size_t length, float *out);

#endif
