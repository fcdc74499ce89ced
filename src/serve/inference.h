/* One question to a model, from whichever door it came. The door fills it, the batcher computes it
 * together with others, the door answers. */
#ifndef SERVE_INFERENCE_H
#define SERVE_INFERENCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "serve/status.h"

struct arena;
struct serve_core;
struct servable;
struct signature;
struct tensor;

enum { INFERENCE_MAX_ROWS = 1 << 16 };
/* What the Open Inference Protocol calls the platform, at each door. */
#define INFERENCE_PLATFORM "lockstep"

/* A door fills the first part, on any thread, and zeroes the rest. Nothing here is allocated or
 * freed by the core; outputs live in `arena`. */
struct inference {
    struct servable *servable; /* held by the door, which releases it after `done` */
    const struct signature *signature;
    /* signature->input_count tensors in that order, rows in the first dimension. Their numbers and
     * the bytes that texts point to must stay until `done`. */
    const struct tensor *inputs;
    int64_t rows;
    double deadline;       /* clock_seconds(); 0: none */
    bool asker_helps;      /* the thread that asks calls batcher_help soon */
    atomic_bool cancelled; /* the door may set it until `done`: the question is dropped if it, or a
                            * piece of it, still waits */
    struct arena *arena;   /* the door's, for the outputs; the core's alone until `done` */
    /* Called exactly once, on a worker's thread or inside inference_ask (this one's, or another's
     * that made room): hold no lock of yours there. Must be quick: other answers wait. The inference is the door's again from its start. */
    void (*done)(struct inference *inference);
    void *context; /* the door's */

    /* Filled when `done` is called: */
    enum serve_status status;
    struct error error; /* why, unless SERVE_OK */
    struct tensor
        *outputs; /* signature->output_count, in that order, rows in the first dimension */
    double queue_seconds, run_seconds;
    int batch; /* rows that were computed together, the most of its pieces'; 0: none were */

    /* The batcher's: */
    struct inference *next;
    double asked; /* clock_seconds() */
    /* Of one with more rows than a batch, which is computed in pieces: */
    double queued; /* clock_seconds(): since when its next piece stands in line */
    int64_t taken; /* rows that are in a piece already, or need not be any more */
    int running;   /* pieces being computed */
};

/* Checks the inputs against the signature (kinds, shapes, equal rows), then queues. What cannot be
 * taken (SERVE_INVALID, SERVE_EXHAUSTED, SERVE_DEADLINE) is done inside the call. From any thread. */
int inference_check(const struct inference *inference, struct error *err); /* only that */
void inference_ask(struct serve_core *core, struct inference *inference);

#endif
