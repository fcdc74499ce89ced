/* Where the rows of a text lie, found in one parallel pass that also checks every row and keeps
 * the least and greatest numbers and their sums: a byte and a half per row, so that a file larger than memory can be
 * read in any order. */
#ifndef DATA_ROW_INDEX_H
#define DATA_ROW_INDEX_H

#include <stdint.h>

#include "data/row_parser.h"

struct row_index;

struct row_statistics {
    int64_t rows, positive_rows; /* all; with a label of 1 */
    int64_t bad_rows;            /* that were kept, and count for nothing else */
    /* [numeric_count]; the caller's */
    float *minimum, *maximum;
    double *sum, *square_sum;
};

/* Walks through the whole text. Fails with what is wrong with its first bad row, whichever thread
 * came to one first, unless the text keeps bad rows; and when it is told to stop. `parser` and
 * `text` must outlive the index. */
int row_index_create(const struct row_parser *parser, const struct row_text *text,
                     struct row_statistics *statistics, struct row_index **out, struct error *err);
void row_index_destroy(struct row_index *index); /* accepts NULL */

/* Where to look for a row. Reading at random is waiting for memory: locate some rows, then expect
 * each a few rows before it is found and parsed. Any number of threads. */
struct row_place {
    const char *start; /* of the piece */
    const struct row_group *group;
    int within; /* the group */
};
/* Asks for the memory of the group. */
struct row_place row_index_locate(const struct row_index *index, int64_t row);
/* Asks for the page the row starts on. Worth a step of its own: five lines asked for at once on a
 * page that the processor does not know yet look it up five times. */
void row_index_expect_page(const struct row_index *index, struct row_place place);
/* Asks for the memory of the row. */
void row_index_expect(const struct row_index *index, struct row_place place);
/* The first byte of the row, for row_parse. */
const char *row_index_find(const struct row_index *index, struct row_place place);

/* For passes over all rows in parallel: piece p has rows first..first + count - 1, the first of
 * which starts at *at. */
int row_index_pieces(const struct row_index *index);
void row_index_piece(const struct row_index *index, int piece, int64_t *first, int64_t *count,
                     const char **at);

#endif
