/* One training step of a network as a list of single oneDNN primitives, each with the layouts it
 * likes best and no reorder between them: what a framework on top of the library can hope for. */
#ifndef BENCH_STEP_H
#define BENCH_STEP_H

#include "network.h"

#include <oneapi/dnnl/dnnl.h>
#include <stddef.h>

/* The classes of work that are summed up separately. */
enum pass {
    PASS_CONV_FORWARD,
    PASS_CONV_BACKWARD_DATA,
    PASS_CONV_BACKWARD_WEIGHTS,
    PASS_DENSE,
    PASS_NORM,
    PASS_OTHER, /* pooling, and ReLU where it is not fused: not part of the sum we are held to */
    PASS_COUNT
};

enum { WORK_MAX_ARGS = 12 };

struct work {
    const struct layer *layer;
    enum pass pass;
    const char *verb;   /* fwd, bwd_d, bwd_w, bwd, relu_bwd */
    const char *kernel; /* oneDNN's name of the implementation */
    double flops;       /* multiplications and additions; 0: bound by memory */
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[WORK_MAX_ARGS];
    int arg_count;
    dnnl_memory_t scratch;
    double *seconds; /* [repeats], belongs to whoever times it */
};

struct step {
    const struct network *network;
    int batch;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    struct work *works; /* in the order of a real step */
    int work_count;
    dnnl_memory_t *memories; /* every handle that was made, to be destroyed once */
    int memory_count;
    char *slab; /* every buffer, huge pages advised, touched */
    size_t slab_bytes, used_bytes;
    float *gradient[2]; /* taken in turns by the backward pass */
    size_t gradient_bytes;
};

/* Creates the primitives and fills all memory with finite numbers. Ends the program with a message
 * when oneDNN refuses something. `network` must outlive it. */
void step_create(struct step *step, const struct network *network, int batch);
void step_destroy(struct step *step);

/* Runs one primitive to its end. */
void step_run(const struct step *step, const struct work *work);

/* Numbers in the gradient buffers that would falsify a timing: infinite, NaN or denormal. */
size_t step_odd_numbers(const struct step *step);

#endif
