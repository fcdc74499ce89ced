/* Parsed rows kept beside the text they came from, as ".NAME.rows": later runs skip parsing. It
 * counts only as long as size and time of the text, and the meaning of its columns, are the ones
 * it was written from; it is this machine's own (native byte order), never to be shipped. */
#ifndef DATA_ROW_CACHE_H
#define DATA_ROW_CACHE_H

#include <stdint.h>

#include "data/row_index.h"
#include "data/row_parser.h"

struct row_cache;

/* *out is NULL, and the call succeeds, when there is none or it no longer fits. Only
 * row_text_find need have been called on `text`. Fails when the text is not on this machine. */
int row_cache_open(const struct row_parser *parser, enum dataset_split split,
                   const struct row_text *text, struct row_statistics *statistics,
                   struct row_cache **out, struct error *err);
void row_cache_close(struct row_cache *cache); /* accepts NULL */

/* Parses all rows in parallel into a file that appears when it is whole. Fails when it cannot be
 * written, before anything is parsed when the disk is too small for it. */
int row_cache_write(const struct row_parser *parser, enum dataset_split split,
                    const struct row_text *text, const struct row_index *index,
                    const struct row_statistics *statistics, struct error *err);

/* NULL for a part the table does not have. Any number of threads. */
void row_cache_read(const struct row_cache *cache, int64_t row, float *numeric, int64_t *category,
                    float *label);
void row_cache_expect(const struct row_cache *cache, int64_t row);

#endif
