/* The gradient of a table of which a step touches few rows: a list of rows, never the whole table.
 * It lies in the plan's memory, sized for the worst case of the batch, from the backward pass of
 * the node that reads the table until the next forward. */
#ifndef EXEC_SPARSE_H
#define EXEC_SPARSE_H

#include <stddef.h>
#include <stdint.h>

struct sparse_rows {
    int param;     /* index in params */
    int64_t dim;   /* floats per row */
    int64_t limit; /* rows there is room for */
    int64_t count;
    int64_t *rows; /* ascending, each once */
    float *values; /* [count, dim]: the sum of the row's gradients, in the order of examples */
};

/* What starts the memory of a list; the rows and then the values follow. */
struct sparse_header {
    int64_t count;
};

static inline size_t sparse_round(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

static inline size_t sparse_bytes(int64_t limit, int64_t dim)
{
    return sparse_round(sizeof(struct sparse_header)) +
           sparse_round((size_t)limit * sizeof(int64_t)) +
           sparse_round((size_t)(limit * dim) * sizeof(float));
}

static inline int64_t *sparse_row_ids(void *memory)
{
    return (void *)((char *)memory + sparse_round(sizeof(struct sparse_header)));
}

static inline float *sparse_values(void *memory, int64_t limit)
{
    return (void *)((char *)sparse_row_ids(memory) + sparse_round((size_t)limit * sizeof(int64_t)));
}

#endif
