/* Where the rows of a text lie, found in one parallel pass that also checks every row and keeps
 * the least and greatest numbers: about one byte per row, so that a file larger than memory can be
 * read in any order. */
#ifndef DATA_ROW_INDEX_H
#define DATA_ROW_INDEX_H

#include <stdint.h>

#include "data/row_parser.h"

struct row_index;

struct row_statistics {
    int64_t rows, positive_rows; /* with a label of 1 */
    float *minimum, *maximum;    /* [numeric_count]; the caller's */
};

/* Walks through the whole text. Fails with what is wrong with its first bad row, whichever thread
 * came to one first. `parser` and `text` must outlive the index. */
int row_index_create(const struct row_parser *parser, const struct row_text *text,
                     struct row_statistics *statistics, struct row_index **out, struct error *err);
void row_index_destroy(struct row_index *index); /* accepts NULL */

/* The first byte of a row, for row_parse. Any number of threads. */
const char *row_index_find(const struct row_index *index, int64_t row);
/* Asks for the memory that row_index_find and row_parse will touch. */
void row_index_expect(const struct row_index *index, int64_t row);

/* For passes over all rows in parallel: piece p has rows first..first + count - 1, the first of
 * which starts at *at. */
int row_index_pieces(const struct row_index *index);
void row_index_piece(const struct row_index *index, int piece, int64_t *first, int64_t *count,
                     const char **at);

#endif
