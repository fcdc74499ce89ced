/* Gradients of tables as lists of rows, on their way to a sum: copied out of a plan, added in pairs,
 * packed for other ranks. A row that only one list has keeps its bits. */
#ifndef TRAIN_ROWS_H
#define TRAIN_ROWS_H

#include <stddef.h>

#include "exec/sparse.h"

struct error;

/* The lists of all tables, in the plan's order. All zero is empty. */
struct rows {
    int table_count;
    struct sparse_rows *tables; /* with memory of their own; `limit` is what there is room for */
};

int rows_create(struct rows *rows, int table_count, struct error *err);
void rows_release(struct rows *rows);
/* Which parameter a table is, and how wide, before the first rows come: a rank that never gets so far
 * gives an empty list of the right kind. */
int rows_describe(struct rows *rows, int table, int param, int64_t dim, struct error *err);
/* All grow what they write to as needed. */
int rows_copy(struct rows *to, const struct sparse_rows *from, struct error *err);
/* to += from; `spare` is what the sum is made in, and has then the former memory of `to`. */
int rows_add(struct rows *to, const struct rows *from, struct rows *spare, struct error *err);

/* As bytes between ranks of one kind. */
size_t rows_packed_bytes(const struct rows *rows);
void rows_pack(const struct rows *rows, void *out);
/* Returns the bytes used, 0 when they are no such list. */
size_t rows_unpack(struct rows *to, const void *packed, size_t bytes, struct error *err);

#endif
