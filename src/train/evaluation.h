/* A pass over evaluation data: what it needs is made once and used again and again. */
#ifndef TRAIN_EVALUATION_H
#define TRAIN_EVALUATION_H

#include <stdatomic.h>

#include "train/feed.h"
#include "train/scores.h"

struct metrics;

/* All zero is none. */
struct evaluation {
    struct feed feed;
    struct scores scores; /* without capacity when the network does not answer yes or no */
};

/* To be released also when it fails. */
int evaluation_init(struct evaluation *evaluation, const struct graph *graph, struct plan *plan,
                    const struct trainer_data *data, struct error *err);
/* ERROR_CANCELLED when *stop_signal, which may be NULL, was set on the way. */
int evaluation_pass(struct evaluation *evaluation, const atomic_int *stop_signal,
                    struct metrics *out, struct error *err);
void evaluation_release(struct evaluation *evaluation);

#endif
