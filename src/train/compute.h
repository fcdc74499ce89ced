/* The gradients of one step of one rank: its pieces of the batch go forward and backward through
 * plans, several side by side, and are added up in one fixed order. Each bucket of gradients is
 * handed on as soon as it is final, while the rest is still computed. */
#ifndef TRAIN_COMPUTE_H
#define TRAIN_COMPUTE_H

#include "comm/tree.h"
#include "train/feed.h"
#include "train/metrics.h"
#include "train/rows.h"

struct comm;
struct compute;
struct params;

struct compute_options {
    const struct graph *graph;
    struct params *params;
    struct plan *const *plans; /* PLAN_TRAIN, all alike: as many pieces are computed side by side */
    int plan_count;
    struct trainer_data data; /* the loader holds at least as many batches */
    int shards;               /* leaves of the tree in which pieces are added... */
    struct tree_node held;    /* ...of which these are this rank's pieces */
    int64_t pieces, first;    /* of all ranks in a step, and the first of this one's */
    uint64_t seed;            /* of dropout */
    bool alone;               /* no other rank, and one piece: nothing is added up or averaged */
    const atomic_int *stop;   /* ends it early; its results are then of no use. May be NULL */
    struct comm *comm;        /* whose other ranks may end it early, too; may be NULL */
};

/* Of a step, or of all of this rank's pieces. */
struct compute_result {
    struct metrics metrics;
    int64_t rows;
    double started; /* clock_seconds() */
    double input_seconds, forward_seconds, backward_seconds;
};

/* Gradients [first, first + count) of each node of this rank are final in parts[], which stays where
 * it is. On whichever thread was the last; never from two at once, and in the order of the buckets. */
typedef void compute_bucket_fn(void *context, int bucket, size_t first, size_t count,
                               float *const *parts);

int compute_create(const struct compute_options *options, struct compute **out, struct error *err);
void compute_destroy(struct compute *compute); /* accepts NULL */
/* Fails with what the loader says, or with ERROR_CANCELLED when *stop or another rank ended it. */
int compute_run(struct compute *compute, int64_t step, float scale, compute_bucket_fn *on_bucket,
                void *context, struct compute_result *out, struct error *err);
/* For a rank that failed or was stopped: hands on zeros for the buckets that it had not handed on
 * before, so that the others get what they wait for. */
void compute_nothing(struct compute *compute, compute_bucket_fn *on_bucket, void *context);

/* After a run, but not alone, for each node of this rank: running statistics as its pieces would
 * leave them, summed, and the rows of the tables. The first node's gradients are those of the
 * params. */
int compute_part_count(const struct compute *compute);
float *const *compute_statistics(const struct compute *compute);
struct rows *compute_rows(const struct compute *compute, int part);

/* What made the loss not finite, searched for in the pieces that were computed last: the name of a
 * node, or NULL. *feed: the data it came from. */
const char *compute_find_nonfinite(struct compute *compute, const struct feed **feed);

#endif
