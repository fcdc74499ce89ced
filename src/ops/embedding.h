/* What the embedding op and its kernels share. */
#ifndef OPS_EMBEDDING_H
#define OPS_EMBEDDING_H

#include "exec/known_ops.h"
#include "exec/op.h"

/* FarmHash's Fingerprint64 of no bytes at all. */
#define EMBEDDING_MISSING UINT64_C(0x9ae16a3b2f90404f)

/* One column's rows in the table, and what makes a remainder without a division. */
struct embedding_column {
    int64_t first;
    uint64_t buckets, reciprocal;
};

struct embedding_state {
    int64_t batch, columns, dim;
    int64_t width; /* of a row of the output */
    int64_t extra; /* of those, what was appended */
    bool sum;
    struct embedding_column column[]; /* `columns` of them */
};

/* The scratch memory of the backward pass. */
size_t embedding_scratch_bytes(int64_t batch, int64_t columns);

/* Forward leaves the rows it read in the workspace, [batch, columns] int64, -1 where missing. */
void embedding_forward(const struct op_run *run);
/* The list of rows and, when summing, the bias. */
void embedding_backward_weights(const struct op_run *run);
/* The gradient of what was appended. */
void embedding_backward(const struct op_run *run);

#endif
