/* The operations that fusion knows. Their files are in ops/; here are only their names, and the
 * order of those inputs that somebody else must find. */
#ifndef EXEC_KNOWN_OPS_H
#define EXEC_KNOWN_OPS_H

#include "graph/op.h"

extern const struct op op_add, op_batch_norm, op_conv2d, op_dense, op_embedding, op_flatten,
    op_max_pool, op_normalize, op_relu;

enum { BATCH_NORM_X, BATCH_NORM_SCALE, BATCH_NORM_SHIFT, BATCH_NORM_MEAN, BATCH_NORM_VARIANCE };
enum { CONV_X, CONV_WEIGHTS, CONV_BIAS };

enum { EMBEDDING_X, EMBEDDING_TABLE, EMBEDDING_EXTRA };
enum { NORMALIZE_X, NORMALIZE_MINIMUM, NORMALIZE_RANGE };
enum { EMBEDDING_MAX_COLUMNS = 4096 };

/* The rows of column c are the `buckets[c]` rows of the table behind those of the columns before
 * it. The extra input is a bias when rows are summed, else what is put behind them. */
struct embedding_attributes {
    int dim, columns;
    bool sum;
    int64_t buckets[EMBEDDING_MAX_COLUMNS];
};

struct batch_norm_attributes {
    float momentum, epsilon;
};

#endif
