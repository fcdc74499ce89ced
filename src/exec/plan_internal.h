/* What the files of exec/ that make and run plans share. A plan is a list of steps over buffers;
 * the builder writes the list, liveness gives each buffer its place, plan.c runs it. */
#ifndef EXEC_PLAN_INTERNAL_H
#define EXEC_PLAN_INTERNAL_H

#include "base/memory.h"
#include "exec/op.h"
#include "exec/params_layout.h"
#include "exec/plan.h"
#include "exec/sparse.h"

struct arena;

typedef int buffer_id;
enum { NO_BUFFER = -1 };

enum buffer_kind {
    BUFFER_SLAB,     /* the plan's own memory, placed by liveness */
    BUFFER_INPUT,    /* the caller's tensor */
    BUFFER_WEIGHT,   /* in params: weights or statistics */
    BUFFER_GRADIENT, /* in params */
    BUFFER_COPY,     /* serving: the plan's own copy of a parameter */
};

struct buffer {
    enum buffer_kind kind;
    size_t bytes;
    int index;       /* of the input or parameter */
    int first, last; /* steps between which it must keep its bytes; last < 0: unused */
    bool keep;       /* an output: alive until the end */
    size_t offset;   /* in the slab */
    void *pointer;
    void *borrowed;      /* BUFFER_COPY: where the plan beside has the same; or NULL */
    int gradient_owners; /* values whose gradient this holds; 1: may be overwritten */
};

/* One of the forms in which a value (or its gradient) exists. */
struct form {
    const struct layout *layout;
    buffer_id buffer;
};

enum { VALUE_MAX_FORMS = 4 };

struct plan_value {
    struct form forms[VALUE_MAX_FORMS]; /* the first as it was produced */
    int form_count;
    struct form gradients[OP_MAX_GRADIENTS];
    int gradient_count;
    int consumers; /* plan nodes that read it, and outputs */
    int consumed;  /* of those, the ones already prepared */
    bool wants_gradient;
    bool pinned;        /* a backward pass or a view reads it later: not to be overwritten */
    struct item *again; /* makes it once more before backward first reads it; NULL: it is there */
};

struct use {
    enum op_pass pass;
    int role;
    const struct layout *layout; /* NULL: as it is */
};

struct bound_call {
    struct dnn_call *call;
    enum op_pass pass;
    int count;
    const int *roles;
};

enum { ITEM_MAX_USES = 48, ITEM_MAX_CALLS = 12 };

/* A plan node with what its kernel said in prepare. */
struct item {
    struct plan_node node; /* first: kernels get a pointer to it */
    struct use uses[ITEM_MAX_USES];
    int use_count;
    struct bound_call calls[ITEM_MAX_CALLS];
    int call_count;
    const struct layout *output_layout;
    size_t workspace_bytes, kept_bytes, scratch_bytes;
    buffer_id workspace, kept;
    int overwrite;             /* input whose memory the output may take, or -1 */
    int view;                  /* input whose memory the output is, or -1 */
    unsigned passed_gradients; /* bit per input */
    bool accumulates;          /* forward adds to what the output holds: the residual first */
    bool gradient_in_place;    /* input 0's gradient may take the memory of the output's */
    int sparse_input;          /* the table among the inputs, or -1 */
    int64_t sparse_limit;      /* rows its gradient may have */
};

enum step_kind { STEP_KERNEL, STEP_REORDER, STEP_SUM, STEP_MASK, STEP_SEED, STEP_COPY };

struct bound {
    int role;
    buffer_id buffer;
};

struct step {
    enum step_kind kind;
    enum op_pass pass;
    struct item *item; /* NULL where no node is meant */
    const char *name, *kernel;
    const struct layout *layout; /* of what it writes, for explain */
    struct bound *bounds;        /* every buffer it touches; roles as the kind needs them */
    int bound_count;
    struct op_run run;     /* STEP_KERNEL */
    struct dnn_call *call; /* STEP_REORDER: bounds 0 and 1 are from and to */
    int sources;           /* STEP_SUM, STEP_MASK: bounds 0..sources-1; then y; then target */
    size_t count;          /* elements of the last three kinds */
    int bucket_first, bucket_end; /* buckets that are final after this step */
    double flops, seconds;
    double start, end; /* of the last run whose time was taken */
};

/* A list of rows that the backward pass makes. */
struct sparse_list {
    int param;
    int64_t limit, dim;
    buffer_id buffer;
};

/* A parameter copied, folded and laid out for serving. */
struct weight_copy {
    buffer_id buffer;
    const struct item *item;
    int input;
    const struct layout *layout;
};

struct plan {
    const struct graph *graph;
    struct params *params;
    struct plan_options options;
    struct arena *arena;

    struct item **items;
    int item_count;
    struct plan_value *values;
    struct buffer *buffers;
    int buffer_count, buffer_capacity;
    struct step *steps;
    int step_count, step_capacity;
    int forward_steps;           /* the first so many are the forward pass */
    struct plan_bucket *buckets; /* room for one per parameter */
    int bucket_count;
    float *gradients; /* the caller's; NULL: those of params */
    struct sparse_list *sparse;
    int sparse_count, sparse_capacity;
    struct weight_copy *copies;
    int copy_count, copy_capacity;
    struct dnn_primitive **primitives;
    int primitive_count, primitive_capacity;
    struct dnn_call **calls;
    int call_count, call_capacity;

    struct plan_kernels kernels;

    struct slab slab, copies_slab;
    bool borrows_slab; /* it is the plan's beside */
    size_t slab_bytes, saved_bytes, recomputed_bytes, sum_bytes;
    value_id *inputs; /* graph inputs in use */
    buffer_id *input_buffers;
    int input_count;
    value_id *outputs; /* graph outputs, then the loss */
    const char **output_names;
    buffer_id *output_buffers;
    int output_count;
    buffer_id *input_gradients;
    float loss_scale;
    uint64_t random_seed, random_step;
    float *bound_weights; /* where params' slabs were when steps were bound */
    const float *bound_gradients;
    const atomic_int *stop; /* NULL: nothing stops it */
    bool profiling;         /* take the time of each step */
    int profiled_runs;
    bool warm; /* more than one forward pass was begun */
};

struct plan_builder {
    struct plan *plan;
    struct error *err;
    bool failed;
};

/* fuse.c: which nodes run, and which become part of others. */
int plan_select_items(struct plan *plan, struct error *err);
/* builder.c: prepares every item and writes the steps. */
int plan_build_steps(struct plan *plan, struct error *err);
/* backward.c: the second half of the steps. */
int plan_build_backward(struct plan_builder *builder);
/* recompute.c: which values are not kept from forward to backward, and, of such a value and those it
 * is made from, the steps that bring it back. */
int plan_choose_recomputed(struct plan *plan, struct error *err);
void builder_bring_back(struct plan_builder *builder, value_id value);
/* bucket.c: memory for them, and the first cut. */
int plan_make_buckets(struct plan *plan, struct error *err);
/* liveness.c: offsets for all slab buffers. */
int plan_place_buffers(struct plan *plan, struct error *err);
/* fold.c: fills the copies of a serving plan. */
int plan_fill_copies(struct plan *plan, struct error *err);

/* builder.c, for backward.c too. All remember a failure in the builder. */
buffer_id builder_add_buffer(struct plan_builder *builder, enum buffer_kind kind, size_t bytes,
                             int index);
struct step *builder_add_step(struct plan_builder *builder, struct step step,
                              const struct bound *bounds, int bound_count);
/* The value in this layout; adds a reorder step where no form has it. NULL layout: as it is. */
struct form builder_form(struct plan_builder *builder, value_id value, const struct layout *layout,
                         enum op_pass pass, const char *who);
/* A place in the plan for the list of rows that is this table's gradient. */
buffer_id builder_add_sparse(struct plan_builder *builder, int param, int64_t limit);
/* From one form to another layout; `to` NO_BUFFER: a new buffer. */
struct form builder_reorder(struct plan_builder *builder, struct form from,
                            const struct layout *layout, buffer_id to, enum op_pass pass,
                            const char *name);
void builder_emit_kernel(struct plan_builder *builder, struct item *item, enum op_pass pass,
                         const struct bound *bounds, int bound_count, int gradient_count);
const struct layout *builder_keep_layout(struct plan_builder *builder, const struct layout *layout);
struct use *item_find_use(struct item *item, enum op_pass pass, int role);
/* The value behind ROLE_INPUT + index (the residual behind the last input). */
value_id item_input(const struct item *item, int index);
/* Does this backward pass exist, and is one of the gradients that it makes wanted? */
bool item_wants_pass(const struct plan *plan, const struct item *item, enum op_pass pass);

#endif
