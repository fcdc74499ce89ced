/* How a graph is computed: primitives, layouts, reorders and the address of every buffer, for one
 * batch size and mode. Cheap enough to make one per batch size. `graph` and `params` must outlive
 * it. Several plans may share one `params`; one plan, one thread at a time. */
#ifndef EXEC_PLAN_H
#define EXEC_PLAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor/tensor.h"

struct error;
struct graph;
struct kernel_rules;
struct node;
struct params;
struct plan;
struct sparse_rows;
struct strbuf;

enum plan_mode {
    PLAN_TRAIN,    /* batch statistics, dropout, backward */
    PLAN_EVALUATE, /* running statistics, the loss too; weights read from params each time */
    PLAN_SERVE,    /* no loss; batch norm folded into the plan's own copy of the weights */
};

struct plan_options {
    enum plan_mode mode;
    int batch;
    int threads;         /* 0: all that the process may use; PLAN_SERVE takes fewer when there
                               * is little to compute */
    size_t bucket_bytes; /* 0: one bucket */
    bool unfused;        /* every op alone; for comparing with the fused result */
    bool direct;         /* convolutions by their definition, not by Winograd's; likewise */
    bool recompute;      /* PLAN_TRAIN: what batch norms, ReLUs and additions made is not kept
                               * for backward but made again there; the same bits */
    const struct kernel_rules *kernels; /* which to use for what; NULL: the fixed rule for all */
    bool profile;                       /* take the time of each step, for plan_explain */
    bool want_input_gradient;           /* keep the gradient of the inputs, for tests */
    /* PLAN_SERVE: a plan of the same graph and params that outlives this one. They share copies of
     * the weights where their kernels want them alike; and, unless both may run at the same time,
     * memory for activations, if that plan's is enough. NULL: none. */
    const struct plan *beside;
    bool beside_runs;
};

/* Gradients [first, first + count) of the slab are final: safe to reduce now. Called on the
 * thread that runs plan_backward. */
typedef void plan_bucket_fn(void *context, int bucket, float *first, size_t count);

int plan_create(const struct graph *graph, struct params *params,
                const struct plan_options *options, struct plan **out, struct error *err);
void plan_destroy(struct plan *plan); /* accepts NULL */
/* Gives back what is kept to make further plans sooner: primitives that no plan has. */
void plans_forget(void);

/* The graph's inputs and outputs this plan uses, by position; labels and the loss are not among
 * those of a serving plan. */
int plan_input_count(const struct plan *plan);
const char *plan_input_name(const struct plan *plan, int index);
int plan_output_count(const struct plan *plan);
const char *plan_output_name(const struct plan *plan, int index);
int plan_batch(const struct plan *plan);
int plan_threads(const struct plan *plan); /* that it computes with */
/* So many operations are worth a thread of their own: about two milliseconds, with AVX2. */
#define PLAN_THREAD_FLOPS 128e6
double plan_flops(const struct plan *plan); /* operations of a forward pass, as its ops tell them */

/* inputs[i].data is read during the call (and by the following plan_backward), never kept.
 * Fills outputs[i]: plain tensors inside the plan, valid until the next call. Outputs are in
 * graph_output order, then (not when serving) "loss", one number per example. */
void plan_forward(struct plan *plan, const struct tensor *inputs, struct tensor *outputs);
/* After a forward of a PLAN_TRAIN. The gradient of each example's loss is taken as `scale`
 * (1 / global batch gives the mean's). Overwrites the gradients slab. */
void plan_backward(struct plan *plan, float scale, plan_bucket_fn *on_bucket, void *context);
/* Moves the running statistics by the last forward's batch; the last act of a finished step. */
void plan_commit_statistics(struct plan *plan);
/* Dropout draws from (seed, step, node, place in the stored layout). */
void plan_set_random(struct plan *plan, uint64_t seed, uint64_t step);
/* Serving plans fold weights when made; call after params changed. A no-op for other modes. */
int plan_refresh_weights(struct plan *plan, struct error *err);

/* Once *stop (which may be NULL) is not 0, forward and backward end before their next operation;
 * what they were computing is then of no use. */
void plan_set_stop(struct plan *plan, const atomic_int *stop);

/* Repeats the forward pass and looks at every result: the name of the first node that made a NaN
 * or an infinity, or NULL. */
const char *plan_find_nonfinite(struct plan *plan, const struct tensor *inputs);

/* Gradients go to memory of the caller's, params_dense_elements floats that stay its own, or (NULL)
 * to those of the params again; from the next forward on. */
void plan_set_gradients(struct plan *plan, float *gradients);
float *plan_gradients(const struct plan *plan);

/* Cuts the gradients into other buckets, from the next backward on. */
void plan_set_buckets(struct plan *plan, size_t bucket_bytes);
int plan_bucket_count(const struct plan *plan);
/* Where bucket `index` lies in the gradients. */
struct plan_bucket {
    size_t first, count;
};
struct plan_bucket plan_bucket(const struct plan *plan, int index);
/* The tables' gradients: after a plan_backward, list `index` of rows, in the plan until its next
 * forward. Tables are not in any bucket. */
int plan_sparse_count(const struct plan *plan);
void plan_sparse(const struct plan *plan, int index, struct sparse_rows *out);
/* With want_input_gradient: the gradient of input `index`, plain; else NULL data. */
struct tensor plan_input_gradient(const struct plan *plan, int index);

/* Equal on two ranks exactly when their gradient slabs have the same meaning byte by byte. */
uint64_t plan_fingerprint(const struct plan *plan);

struct plan_memory {
    size_t parameters, gradients, slots; /* shared through params */
    size_t saved;                        /* written in forward, read in backward */
    size_t recomputed;                   /* read in backward, but made again there */
    size_t peak;                         /* the plan's slab: saved and transient together */
    size_t sum;                          /* what it would be without reuse */
};
void plan_memory(const struct plan *plan, struct plan_memory *out);

/* How plan_options.kernels was followed: of the nodes it could speak about, those that it named a
 * kernel for, and among these those whose kernel does not fit this processor or plan. */
struct plan_kernels {
    int nodes, told, unfit;
};
struct plan_kernels plan_kernels(const struct plan *plan);
/* The kernel that computes this node, by the name that rules call it; NULL: none, or it is a part of
 * another node. */
const char *plan_kernel(const struct plan *plan, const struct node *node);

/* Takes the time of each step from the next pass on, or no longer; a plan made with `profile` always
 * does. */
void plan_profile(struct plan *plan, bool on);
/* One line per step: node, pass, kernel, layout, bytes, and its share of the time if profiled. */
void plan_explain(const struct plan *plan, struct strbuf *out);
/* One executed step of the plan, for tests and traces. */
struct plan_step_info {
    const char *node, *op, *pass, *kernel;
    bool reorder; /* inserted by the planner */
    size_t bytes;
    double flops;      /* 0 when not counted */
    double seconds;    /* summed over the profiled runs... */
    int runs;          /* ...of which there were so many */
    double start, end; /* clock_seconds(), of the last of them */
    const char *fused; /* "+relu": what else the kernel does; or "" */
};
int plan_step_count(const struct plan *plan);
struct plan_step_info plan_step(const struct plan *plan, int index);
/* Of a PLAN_TRAIN: the step behind which this parameter's gradient is final. */
int plan_final_step(const struct plan *plan, int param);

#endif
