/* A pass over evaluation data: what it needs is made once and used again and again. */
#ifndef TRAIN_EVALUATION_H
#define TRAIN_EVALUATION_H

#include <stdatomic.h>

#include "train/feed.h"
#include "train/scores.h"

struct comm;
struct metrics;

/* All zero is none. */
struct evaluation {
    struct feed feed;
    struct scores scores;          /* without capacity when the network does not answer yes or no */
    struct comm *comm;             /* NULL: alone */
    struct metrics *batches, *all; /* of each batch: this rank's, and everyone's */
    int64_t batch_limit, batch_count;
    size_t *sizes; /* [ranks] */
};

/* With other ranks the loader deals whole batches: rank r of R has r, r + R, ... The sums are taken
 * batch by batch in their order, so they do not depend on the number of ranks. To be released also
 * when it fails. */
int evaluation_init(struct evaluation *evaluation, const struct graph *graph, struct plan *plan,
                    const struct trainer_data *data, struct comm *comm, struct error *err);
/* ERROR_CANCELLED when *stop_signal, which may be NULL, was set on the way, on any rank. */
int evaluation_pass(struct evaluation *evaluation, const atomic_int *stop_signal,
                    struct metrics *out, struct error *err);
void evaluation_release(struct evaluation *evaluation);

#endif
