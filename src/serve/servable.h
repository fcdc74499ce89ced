/* One version of a model that can be computed now: the network, a plan for each batch size and
 * worker made ahead, and the questions that wait for it. */
#ifndef SERVE_SERVABLE_H
#define SERVE_SERVABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct batch_queue;
struct error;
struct imported;
struct inference;
struct servable;
struct stats_batch;
struct signature;
struct tensor;
struct arena;

/* How a network from outside is read and asked; tests bring their own. */
struct model_calls {
    int (*read)(const char *directory, struct imported **out, struct error *err);
    void (*destroy)(struct imported *model);
    int (*prepare)(const struct imported *model, const struct signature *signature,
                   const struct tensor *request, int64_t rows, struct tensor *plan_inputs,
                   int64_t at, struct error *err);
    int (*finish)(const struct imported *model, const struct signature *signature,
                  const struct tensor *plan_outputs, int64_t at, int64_t rows, struct arena *arena,
                  struct tensor *reply, struct error *err);
};
extern const struct model_calls model_calls_imported; /* convert/imported.h's */

struct servable_settings {
    const char *name; /* the model's, as clients say it; copied */
    int64_t version;
    int max_batch; /* rows computed together; plans are made for 1, 2, 4 ... and this */
    int workers;   /* threads that may compute it at the same time, each with plans of its own */
    int threads;   /* of each plan; 0: all that the process may use */
    double quick_seconds; /* that a batch for helpers may take; 0: the usual few milliseconds */
    bool warm_all;        /* compute zeros with every plan, not only with the first: takes longer */
    const struct model_calls *calls; /* NULL: model_calls_imported */
};

/* Takes over `model`, also when it fails. Makes the plans and computes zeros with each, so that the
 * first question is as fast as any; fails when the answer to zeros is not finite. The new one is
 * held once. */
int servable_create(const struct servable_settings *settings, struct imported *model,
                    struct servable **out, struct error *err);
/* From any thread. The last release frees it. */
void servable_hold(struct servable *servable);
void servable_release(struct servable *servable); /* accepts NULL */

const char *servable_name(const struct servable *servable);
int64_t servable_version(const struct servable *servable);
const struct imported *servable_model(const struct servable *servable); /* its signatures */
int servable_max_batch(const struct servable *servable);
struct batch_queue *servable_queue(struct servable *servable); /* the batcher's */
/* Whether a question with so many rows is computed within a few milliseconds, on one thread, so that a
 * helper may do it as worker number `workers`; and the most rows that are (0: none). */
bool servable_is_quick(const struct servable *servable, int64_t rows);
int servable_quick_rows(const struct servable *servable);
/* Bytes of weights, copies and activations. */
size_t servable_memory(const struct servable *servable);

/* Computes these questions together and fills status, error and outputs of each, and the rows and
 * seconds of `told`; does not call `done`. They have at most max_batch rows together: a question with
 * more comes in pieces (piece.h). For one thread per `worker`. */
void servable_run(struct servable *servable, int worker, struct inference *const *batch, int count,
                  struct stats_batch *told);

#endif
