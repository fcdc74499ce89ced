/* How an operation is computed: what each file in ops/ fills in besides its struct op, and the
 * calls with which a kernel tells the planner what it needs. */
#ifndef EXEC_OP_H
#define EXEC_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "exec/dnn.h"
#include "graph/op.h"

struct error;
struct plan_builder;

enum { OP_MAX_GRADIENTS = 3 };

/* A node as the planner sees it: the graph's node, and what fusion added to it. */
struct plan_node {
    const struct node *node;
    const struct op_kernel *kernel;
    const value_id *inputs; /* the node's, except where a view or a fold was looked through */
    int input_count;
    value_id output;           /* of the last node that was fused in */
    value_id residual;         /* added before the ReLU; negative: none */
    bool relu;                 /* a ReLU follows */
    const struct node *folded; /* serving: the batch norm folded into this convolution */
    const struct node *pool;   /* the max pool that the kernel computes along */
    const char *kernel_name;   /* what the kernel says it chose, for --explain */
    void *state;               /* the kernel's own, in the plan's arena */
};

/* A step of training runs the forward pass of all nodes in order, then, in reverse order, each
 * node's weight gradients and the gradients of its other inputs. A node that can make its output
 * again at little cost may be asked to, there (plan_options.recompute): the same bits, from the same
 * inputs and what forward left in ROLE_KEPT. */
enum op_pass { PASS_FORWARD, PASS_BACKWARD_WEIGHTS, PASS_BACKWARD, PASS_RECOMPUTE, PASS_COUNT };

/* The buffers of one node. Inputs count parameters too, in the order of the node's inputs; the
 * residual's role stands behind the last input's. */
enum op_role {
    ROLE_INPUT = 0,              /* + index */
    ROLE_GRADIENT_OF_INPUT = 32, /* + index */
    ROLE_OUTPUT = 64,
    ROLE_GRADIENT,  /* of the output */
    ROLE_WORKSPACE, /* written in forward, read in backward; only the node's own */
    ROLE_KEPT,      /* the same, and kept to the end of the step for `commit` */
    ROLE_SCRATCH,   /* nothing survives the pass */
};

/* What a kernel gets when it runs. Pointers it did not declare for the pass are NULL. */
struct op_run {
    const struct plan_node *node;
    void *state;
    int batch, threads;
    float *const *inputs;
    float *output;
    /* Contributions to the output's gradient: one, unless the kernel said it sums them itself. */
    float *gradients[OP_MAX_GRADIENTS];
    int gradient_count;
    float *const *input_gradients; /* NULL entries: not wanted */
    void *workspace, *kept, *scratch;
    uint64_t random; /* key of this node's stream in this step */
};

/* One way to compute an op. A plan takes the first of the op's kernels that fits and pays: a fixed
 * rule over shapes, batch, threads and processor, never a clock. Where a file of rules
 * (plan_options.kernels) names one that fits, it takes that. */
struct op_kernel {
    const char *name;
    bool (*fits)(const struct plan_builder *builder, const struct plan_node *node); /* NULL: all */
    bool (*pays)(const struct plan_builder *builder, const struct plan_node *node); /* NULL: all */
    /* Creates primitives and tells the planner what each pass needs, with the calls below. May
     * hand the node to another kernel of the op (node->kernel) when it sees the layouts. */
    int (*prepare)(struct plan_builder *builder, struct plan_node *node, struct error *err);
    /* Run with every buffer bound; may not allocate, lock or fail. A NULL pass does not exist. */
    void (*pass[PASS_COUNT])(const struct op_run *run);
    /* NULL, or what moves running statistics at the end of a step. */
    void (*commit)(const struct op_run *run);
    bool sums_gradients;   /* its backward takes several contributions */
    bool residual;         /* it can add a residual before the ReLU */
    bool residual_serving; /* the same, in serving plans only */
    bool relu;             /* it can apply a ReLU, and undo it in backward by itself */
    bool relu_forward;     /* it can apply a ReLU; the planner masks the gradient */
    /* NULL, or whether it can compute this max pool of its result along; it then gets the pool's
     * output and gradient as its own. */
    bool (*pools)(const struct graph *graph, const struct plan_node *node, const struct node *pool);
};

/* The input again, row-major, under the output's shape. */
extern const struct op_kernel kernel_view;
/* The `fits` of a kernel that this processor's family does not have. */
bool op_fits_never(const struct plan_builder *builder, const struct plan_node *node);

/* --- What prepare may ask --- */

int builder_batch(const struct plan_builder *builder);
int builder_threads(const struct plan_builder *builder);
bool builder_is_training(const struct plan_builder *builder);
bool builder_is_serving(const struct plan_builder *builder);
bool builder_is_direct(const struct plan_builder *builder); /* see plan_options.direct */
const struct graph *builder_graph(const struct plan_builder *builder);
struct arena *builder_arena(struct plan_builder *builder);
/* The layout in which the value was produced. For a parameter: as it is stored, or the plain one
 * before the first plan has fixed it. */
const struct layout *builder_layout(const struct plan_builder *builder, value_id value);
/* The value's logical shape with the batch filled in. */
struct shape builder_shape(const struct plan_builder *builder, value_id value);
/* Is the gradient of this value needed (training, and something trainable lies before it)? */
bool builder_wants_gradient(const struct plan_builder *builder, value_id value);

/* --- What prepare says --- */

/* This pass reads or writes this role, in this layout; the planner adds a reorder where the
 * value has another one. Every role a pass touches must be declared. `layout` NULL: as it is
 * (for ROLE_OUTPUT and ROLE_GRADIENT*: the output's, or the input's, own layout). */
void builder_use(struct plan_builder *builder, struct plan_node *node, enum op_pass pass, int role,
                 const struct layout *layout);
/* The same for `role + input` in row-major order, said aloud: a plan with another kernel may have stored it
 * otherwise. */
void builder_use_plain(struct plan_builder *builder, struct plan_node *node, enum op_pass pass,
                       int role, int input);
/* The layout in which forward leaves the output; must be said once. */
void builder_output(struct plan_builder *builder, struct plan_node *node,
                    const struct layout *layout);
/* The parameter at this input is a table (PARAM_SPARSE) and its gradient a list of at most `rows`
 * rows: ROLE_GRADIENT_OF_INPUT gets memory for one, as exec/sparse.h has it. */
void builder_sparse_gradient(struct plan_builder *builder, struct plan_node *node, int input,
                             int64_t rows);
/* Bytes for ROLE_WORKSPACE, ROLE_KEPT or ROLE_SCRATCH. */
void builder_buffer(struct plan_builder *builder, struct plan_node *node, int role, size_t bytes);
/* The output may take the memory of this input, if nothing else needs it. */
void builder_allow_overwrite(struct plan_builder *builder, struct plan_node *node, int input);
/* The gradient of this input is the gradient of the output, unchanged (an addition's). */
void builder_pass_gradient(struct plan_builder *builder, struct plan_node *node, int input);
/* The output is this input's memory under the output's layout. */
void builder_view(struct plan_builder *builder, struct plan_node *node, int input);
/* Forward adds to what the output already holds: the planner puts the residual there. */
void builder_accumulate(struct plan_builder *builder, struct plan_node *node);
/* The gradient of input 0 may take the memory of the output's gradient. */
void builder_gradient_in_place(struct plan_builder *builder, struct plan_node *node);
/* A library call whose memory the planner binds: args[i] is role roles[i]. Declares the uses in
 * the layouts the primitive chose. A negative role leaves the argument out. */
struct dnn_call *builder_call(struct plan_builder *builder, struct plan_node *node,
                              enum op_pass pass, struct dnn_primitive *primitive, int count,
                              const enum dnn_argument *arguments, const int *roles,
                              struct error *err);
/* The plan owns the primitive from here on. */
void builder_own(struct plan_builder *builder, struct dnn_primitive *primitive);
void builder_kernel_name(struct plan_builder *builder, struct plan_node *node, const char *format,
                         ...) __attribute__((format(printf, 3, 4)));
/* The same for the primitives of the three passes, of which the last two may be NULL. */
void builder_kernel_names(struct plan_builder *builder, struct plan_node *node,
                          const struct dnn_primitive *const passes[PASS_COUNT]);

#endif
