/* Our face of oneDNN: the only way to it. Written for 2.6; the 3.x releases differ in almost every
 * creation call, and with this border they are two files to port. */
#ifndef EXEC_DNN_H
#define EXEC_DNN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor/tensor.h"

struct error;
struct dnn_primitive; /* a compiled kernel; may run on any thread, one at a time */
struct dnn_call;      /* a primitive with its memory */

/* How a tensor's elements lie in memory: a plain value, compared with layout_equal. For a
 * kernel of the library's ask it which it wants: one that was built by hand may get its reference kernel. */
enum { LAYOUT_BYTES = 704 };
struct layout {
    _Alignas(8) unsigned char opaque[LAYOUT_BYTES];
};

const char *dnn_version(void);
/* The instruction set the library's kernels will use here, such as "avx2"; "arm64" there, since it does not
 * tell more. */
const char *dnn_instruction_set(void);
/* How many threads primitives made and run from this thread use. */
void dnn_set_threads(int threads);
/* The library keeps primitives that were destroyed, in case they are made again: not any more. */
void dnn_forget_primitives(void);

struct layout layout_plain(const struct shape *shape);         /* row-major float */
struct layout layout_channels_last(const struct shape *shape); /* N, H, W, C in memory */
struct layout layout_any(const struct shape *shape);           /* the kernel's choice */
/* Weights [O, I, ...] as [O / 16][I][...][16]; O is a multiple of 16. */
struct layout layout_outputs_in_sixteens(const struct shape *shape);
/* Weights [O, I, H, W] as [O / 32][H][W][I][32]; O is a multiple of 32. */
struct layout layout_outputs_behind_inputs(const struct shape *shape);
/* Pictures [N, C, H, W] as [N][C / 8][H][W][8]; C is a multiple of 8. */
struct layout layout_channels_in_eights(const struct shape *shape);
/* Weights as [O / size][I / size][...][size of I][size of O]; both are multiples of it. */
struct layout layout_both_in_blocks(const struct shape *shape, int size);
bool layout_equal(const struct layout *a, const struct layout *b);
bool layout_is_plain(const struct layout *layout);
size_t layout_bytes(const struct layout *layout); /* padding included */
struct shape layout_shape(const struct layout *layout);
/* "aBcd8b": the library's way to write a layout; into `text`, which it returns. */
const char *layout_text(const struct layout *layout, char *text, size_t bytes);

/* Memory seen as [outer][blocks][spatial][inner] with channel = block * inner + lane: plain N, C
 * (spatial 1), channels-last and channel-blocked layouts all have this form; N, C, H, W itself has
 * it with inner 1. */
struct layout_form {
    int64_t outer, blocks, spatial, inner;
    int64_t channels; /* blocks * inner may be more: the rest is padding */
};
bool layout_form(const struct layout *layout, struct layout_form *out);

enum dnn_argument {
    DNN_SRC,
    DNN_WEIGHTS,
    DNN_BIAS,
    DNN_DST,
    DNN_DIFF_SRC,
    DNN_DIFF_WEIGHTS,
    DNN_DIFF_BIAS,
    DNN_DIFF_DST,
    DNN_WORKSPACE,
    DNN_SCRATCHPAD,
    DNN_FROM,
    DNN_TO,
    DNN_MULTIPLE_SRC, /* + index */
};

/* [N, C, H, W] by [O, C/groups, kh, kw]; dilation 1 is none; batch and sizes from the layouts. */
struct dnn_conv {
    struct shape src, weights, dst; /* weights [O, C/groups, kh, kw] */
    int groups;
    int stride[2], dilation[2], pad_before[2], pad_after[2]; /* height, width */
    bool bias;
    bool relu, sum; /* forward: then add what is there, then ReLU */
};
int dnn_conv_forward(const struct dnn_conv *conv, bool training, struct dnn_primitive **out,
                     struct error *err);
/* `forward` is the hint the library wants; layouts are the kernel's choice. */
int dnn_conv_backward_data(const struct dnn_conv *conv, const struct dnn_primitive *forward,
                           struct dnn_primitive **out, struct error *err);
int dnn_conv_backward_weights(const struct dnn_conv *conv, const struct dnn_primitive *forward,
                              struct dnn_primitive **out, struct error *err);

/* src of any rank, weights [O, rest of src's shape]; `src_layout` says where src lies already. */
struct dnn_dense {
    const struct layout *src;
    int units;
    bool bias, relu;
    bool as_for_many; /* weights of one row lie as those of several rows */
};
int dnn_dense_forward(const struct dnn_dense *dense, bool training, struct dnn_primitive **out,
                      struct error *err);
int dnn_dense_backward_data(const struct dnn_dense *dense, const struct dnn_primitive *forward,
                            struct dnn_primitive **out, struct error *err);
int dnn_dense_backward_weights(const struct dnn_dense *dense, const struct dnn_primitive *forward,
                               struct dnn_primitive **out, struct error *err);

struct dnn_pool {
    const struct layout *src;
    struct shape dst;
    bool max;           /* else the average... */
    bool count_padding; /* ...of the padding, too, as zeros */
    int kernel[2], stride[2], pad_before[2], pad_after[2];
};
int dnn_pool_forward(const struct dnn_pool *pool, bool training, struct dnn_primitive **out,
                     struct error *err);
int dnn_pool_backward(const struct dnn_pool *pool, const struct dnn_primitive *forward,
                      struct dnn_primitive **out, struct error *err);

/* Along the channels (axis 1). */
int dnn_concat(const struct layout *const *sources, int count, struct dnn_primitive **out,
               struct error *err);
/* From a part of a larger tensor, starting at channel `first`, to a whole of its own. */
int dnn_slice(const struct layout *whole, int64_t first, const struct layout *part,
              struct dnn_primitive **out, struct error *err);
int dnn_reorder(const struct layout *from, const struct layout *to, struct dnn_primitive **out,
                struct error *err);

void dnn_primitive_destroy(struct dnn_primitive *primitive); /* accepts NULL */
/* The layout of an argument; one of no bytes when the primitive has no such argument. */
struct layout dnn_layout(const struct dnn_primitive *primitive, enum dnn_argument argument);
size_t dnn_scratch_bytes(const struct dnn_primitive *primitive);
/* "jit:avx2", "gemm:jit", "ref:any": a name with "ref" is a slow fall-back. */
const char *dnn_kernel(const struct dnn_primitive *primitive);

/* `primitive` must outlive the call; pointers are bound afterwards. */
int dnn_call_create(struct dnn_primitive *primitive, int count, const enum dnn_argument *arguments,
                    struct dnn_call **out, struct error *err);
void dnn_call_destroy(struct dnn_call *call); /* accepts NULL */
void dnn_call_bind(struct dnn_call *call, int index, void *memory);
/* For calls that were bound; the library's own failure here is a bug of ours. */
void dnn_call_run(const struct dnn_call *call);

/* One-off: makes the reorder, runs it, forgets it. */
int dnn_reorder_now(const struct layout *from_layout, const void *from,
                    const struct layout *to_layout, void *to, struct error *err);

#endif
