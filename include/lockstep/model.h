/* What a model file includes: the words a network is written in. A model is one constant
 * `struct model`; its build function adds inputs, operations and outputs to a graph. The graph
 * has no batch size, no memory layout and no buffers: plans add those later.
 *
 * A failed call returns a negative id and every later call passes it on, so a network reads as
 * plain arithmetic; the first failure is reported once, with the name of its node. */
#ifndef LOCKSTEP_MODEL_H
#define LOCKSTEP_MODEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LOCKSTEP_API __attribute__((visibility("default")))
#else
#define LOCKSTEP_API
#endif

enum { TENSOR_MAX_DIMS = 6, SHAPE_BATCH = -1 };

enum dtype { DTYPE_F32, DTYPE_U8, DTYPE_I32, DTYPE_I64, DTYPE_STRING };

/* Logical dimensions, outermost first; images are N, C, H, W whatever their storage. Only the
 * first may be SHAPE_BATCH. */
struct shape {
    int ndim;
    int64_t dim[TENSOR_MAX_DIMS];
};

struct graph;
typedef int32_t value_id; /* an index: stays valid while the graph grows; negative: failed */

enum init_kind {
    INIT_DEFAULT, /* the op's own habit: Glorot uniform for weights, zeros for biases */
    INIT_ZEROS,
    INIT_ONES,
    INIT_CONSTANT,         /* value */
    INIT_NORMAL,           /* standard deviation = value */
    INIT_TRUNCATED_NORMAL, /* the same, redrawn outside two standard deviations, as TensorFlow */
    INIT_VARIANCE_SCALING, /* truncated normal, variance value / fan-in, as TensorFlow */
    INIT_HE_NORMAL,        /* normal, variance 2 / fan-in */
    INIT_GLOROT_UNIFORM,   /* uniform, variance 2 / (fan-in + fan-out) */
    INIT_VALUES,           /* values: given one by one */
};

struct initializer {
    enum init_kind kind;
    float value;
    const float *values; /* as many as the parameter has, row-major; they outlive the graph */
    const char *name;    /* of the parameter; NULL: NODE/weights, NODE/bias, ... */
};

/* TensorFlow's SAME: as much padding as keeps ceil(size / stride), more of it behind. */
enum padding { PADDING_VALID, PADDING_SAME, PADDING_EXPLICIT };

struct conv2d_options {
    int kernel; /* both sides, unless the next two are given */
    int kernel_height, kernel_width;
    int stride;   /* 0 means 1 */
    int dilation; /* 0 means 1: no gaps */
    int groups;   /* 0 means 1 */
    enum padding padding;
    int pad_before, pad_after; /* with PADDING_EXPLICIT, on both axes */
    int no_bias;
    struct initializer weights_init, bias_init;
    const char *name; /* of the node and the stem of its parameters; NULL: made up */
    /* For axes that are not alike: instead of the above; 0: as that. */
    int stride_height, stride_width, dilation_height, dilation_width;
    /* With PADDING_EXPLICIT, besides the above: before and behind one axis. */
    int pad_rows[2], pad_columns[2];
};

struct pool_options {
    int kernel;
    int stride; /* 0 means the kernel's size */
    enum padding padding;
    int pad_before, pad_after;
    const char *name;
    /* As in struct conv2d_options. */
    int kernel_height, kernel_width, stride_height, stride_width;
    int pad_rows[2], pad_columns[2];
    int count_padding; /* of averages: padding counts as zeros; else it is left out */
};

struct dense_options {
    int no_bias;
    struct initializer weights_init, bias_init;
    const char *name;
};

struct batch_norm_options {
    float momentum; /* of the running statistics; 0 means 0.9 */
    float epsilon;  /* 0 means 1e-5 */
    struct initializer scale_init;
    const char *name;
    struct initializer shift_init, mean_init, variance_init;
};

enum embedding_combine {
    EMBEDDING_CONCAT, /* the columns' rows behind each other: [N, columns * dim] */
    EMBEDDING_SUM,    /* their sum: [N, dim]; with one of them a linear model */
};

struct embedding_options {
    int rows;               /* of every column, unless the next is given */
    const int64_t *buckets; /* rows of each column */
    enum embedding_combine combine;
    int bias;               /* with EMBEDDING_SUM: adds one, [dim] */
    const value_id *append; /* with EMBEDDING_CONCAT: [N, K] put behind the rows; NULL: nothing */
    struct initializer table_init; /* default: truncated normal, deviation 1 / sqrt(dim) */
    const char *name;
};

struct normalize_options {
    const char *name;
};

struct loss_options {
    float label_smoothing;
    const char *name;
};

/* Two values, element by element. */
enum arithmetic { ARITHMETIC_ADD, ARITHMETIC_SUBTRACT, ARITHMETIC_MULTIPLY, ARITHMETIC_DIVIDE };

/* One value, element by element; alpha and beta where the formula has them. */
enum unary {
    UNARY_TANH,
    UNARY_LEAKY_RELU,   /* x, or alpha x below 0 */
    UNARY_ELU,          /* x, or alpha (exp(x) - 1) below 0 */
    UNARY_SOFTPLUS,     /* log(1 + exp(x)) */
    UNARY_SOFTSIGN,     /* x / (1 + |x|) */
    UNARY_HARD_SIGMOID, /* alpha x + beta, cut at 0 and 1 */
    UNARY_HARD_SWISH,   /* x * (x / 6 + 0.5, cut at 0 and 1) */
    UNARY_SILU,         /* x / (1 + exp(-x)) */
    UNARY_GELU,         /* x (1 + erf(x / sqrt(2))) / 2 */
    UNARY_ERF,
    UNARY_EXP,
    UNARY_LOG,
    UNARY_SQRT,
    UNARY_ABS,
    UNARY_NEGATE,
    UNARY_RECIPROCAL,
    UNARY_POWER, /* x ^ alpha */
};

/* Pixels as tensors arrive from a client, [N, size, size, channels] in memory; the value is
 * logical N, C, H, W. */
LOCKSTEP_API value_id lockstep_image_input(struct graph *graph, int channels, int height,
                                           int width);
/* The first dimension must be SHAPE_BATCH; only float32 can be computed with. */
LOCKSTEP_API value_id lockstep_input(struct graph *graph, const char *name, enum dtype dtype,
                                     struct shape shape);

LOCKSTEP_API value_id lockstep_conv2d(struct graph *graph, value_id x, int channels,
                                      struct conv2d_options options);
LOCKSTEP_API value_id lockstep_dense(struct graph *graph, value_id x, int units,
                                     struct dense_options options);
/* Rows of a trained table, found by fingerprints: x is [N, columns] int64, taken as unsigned and
 * modulo the column's buckets (TensorFlow's to_hash_bucket_fast). The fingerprint of the empty text
 * means a missing value, whose row is all zeros and never trained. The gradient is a list of the
 * rows that were read, so the table may be as large as memory. */
LOCKSTEP_API value_id lockstep_embedding(struct graph *graph, value_id x, int dim,
                                         struct embedding_options options);
/* (x - minimum) / range of each column of [N, K]; 0 where the range is 0. Minimum and range are
 * parameters that are not trained: training takes them from the data. */
LOCKSTEP_API value_id lockstep_normalize(struct graph *graph, value_id x,
                                         struct normalize_options options);
LOCKSTEP_API value_id lockstep_batch_norm(struct graph *graph, value_id x,
                                          struct batch_norm_options options);
LOCKSTEP_API value_id lockstep_max_pool(struct graph *graph, value_id x,
                                        struct pool_options options);
LOCKSTEP_API value_id lockstep_avg_pool(struct graph *graph, value_id x,
                                        struct pool_options options);
LOCKSTEP_API value_id lockstep_global_avg_pool(struct graph *graph, value_id x);
LOCKSTEP_API value_id lockstep_relu(struct graph *graph, value_id x);
LOCKSTEP_API value_id lockstep_sigmoid(struct graph *graph, value_id x);
LOCKSTEP_API value_id lockstep_add(struct graph *graph, value_id a, value_id b);
/* The shapes may differ as numpy's broadcasting allows; the result has the batch in front. */
LOCKSTEP_API value_id lockstep_arithmetic(struct graph *graph, value_id a, value_id b,
                                          enum arithmetic kind);
LOCKSTEP_API value_id lockstep_unary(struct graph *graph, value_id x, enum unary kind, float alpha,
                                     float beta);
/* No less than `low`, no more than `high` (which may be infinite). */
LOCKSTEP_API value_id lockstep_clip(struct graph *graph, value_id x, float low, float high);
/* exp(x) / sum of exp along `axis` (not the batch), or its logarithm. */
LOCKSTEP_API value_id lockstep_softmax(struct graph *graph, value_id x, int axis);
LOCKSTEP_API value_id lockstep_log_softmax(struct graph *graph, value_id x, int axis);
/* The same numbers in row-major order under another shape, which has SHAPE_BATCH first. */
LOCKSTEP_API value_id lockstep_reshape(struct graph *graph, value_id x, struct shape shape);
LOCKSTEP_API value_id lockstep_concat(struct graph *graph, const value_id *values, int count);
LOCKSTEP_API value_id lockstep_flatten(struct graph *graph, value_id x);
LOCKSTEP_API value_id lockstep_dropout(struct graph *graph, value_id x, float rate);

/* One loss per example, [N]; training minimises their mean over the global batch. */
LOCKSTEP_API value_id lockstep_softmax_cross_entropy(struct graph *graph, value_id logits,
                                                     value_id labels, struct loss_options options);
LOCKSTEP_API value_id lockstep_sigmoid_cross_entropy(struct graph *graph, value_id logits,
                                                     value_id labels, struct loss_options options);

LOCKSTEP_API void lockstep_output(struct graph *graph, const char *name, value_id value);
LOCKSTEP_API void lockstep_loss(struct graph *graph, value_id value);
/* The usual end of a classifier: output "logits", input "label" ([N], int32), softmax
 * cross-entropy as the loss. */
LOCKSTEP_API void lockstep_classifier(struct graph *graph, value_id logits, float label_smoothing);

/* Short names for model files in C; C++ and who wants none of them use the long ones. */
#if !defined(LOCKSTEP_NO_SHORT_NAMES) && !defined(__cplusplus)
#define image_input(graph, channels, size) lockstep_image_input(graph, channels, size, size)
#define conv2d(graph, x, channels, ...)                                                            \
    lockstep_conv2d(graph, x, channels, (struct conv2d_options){__VA_ARGS__})
#define dense(graph, x, units, ...)                                                                \
    lockstep_dense(graph, x, units, (struct dense_options){__VA_ARGS__})
#define batch_norm(graph, x, ...)                                                                  \
    lockstep_batch_norm(graph, x, (struct batch_norm_options){__VA_ARGS__})
#define embedding(graph, x, dim, ...)                                                              \
    lockstep_embedding(graph, x, dim, (struct embedding_options){__VA_ARGS__})
#define normalize(graph, x, ...)                                                                   \
    lockstep_normalize(graph, x, (struct normalize_options){__VA_ARGS__})
#define max_pool(graph, x, ...) lockstep_max_pool(graph, x, (struct pool_options){__VA_ARGS__})
#define avg_pool(graph, x, ...) lockstep_avg_pool(graph, x, (struct pool_options){__VA_ARGS__})
#define global_avg_pool(graph, x) lockstep_global_avg_pool(graph, x)
#define relu(graph, x) lockstep_relu(graph, x)
#define sigmoid(graph, x) lockstep_sigmoid(graph, x)
#define add(graph, a, b) lockstep_add(graph, a, b)
#define flatten(graph, x) lockstep_flatten(graph, x)
#define dropout(graph, x, rate) lockstep_dropout(graph, x, rate)
/* For a build function whose second parameter is called `args`. */
#define classifier_output(graph, logits) lockstep_classifier(graph, logits, args->label_smoothing)
#endif

enum { MODEL_MAX_HIDDEN = 8 };

/* What a user may change about a network without writing another one; a network reads what it
 * knows. New members are added at the end. */
struct model_args {
    int classes;
    int image_size;
    int embedding_rows; /* buckets of every categorical column */
    float label_smoothing;
    int embedding_dim;
    int numerics, categoricals;   /* columns of the data */
    const int64_t *buckets;       /* of each categorical column, instead of embedding_rows */
    int hidden[MODEL_MAX_HIDDEN]; /* units of the hidden layers, up to the first 0 */
    float dropout;                /* behind each of them */
    const void *file;             /* of a network that was read from one: what it says */
};

/* One trainable network. Each file in models/ defines one, named model_<file name>; a user's
 * shared object defines `model_user`, with its size. */
struct model {
    size_t size; /* sizeof(struct model): tells a shared object made for another version apart */
    const char *name, *summary;
    const char *dataset; /* default for --data */
    const char *recipe;  /* default optimizer, schedule and batch, as flags of `train` */
    void (*build)(struct graph *graph, const struct model_args *args);
    /* 0 where the network has no such thing: its option is then refused, not ignored. Last: it may
     * grow. */
    struct model_args defaults;
};

#ifdef __cplusplus
}
#endif
#endif
