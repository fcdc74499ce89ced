/* What the ranks tell each other in a step: sums of gradients, bucket by bucket while the rest is
 * still computed, of running statistics, of rows of tables; and how it went. */
#ifndef TRAIN_EXCHANGE_H
#define TRAIN_EXCHANGE_H

#include "comm/comm.h"
#include "train/compute.h"

struct exchange;
struct params;

/* How a step went on one rank, for all. */
struct rank_status {
    int64_t examples, judged, correct, correct_top_5, binary, positives;
    double loss_sum, log_loss_sum;
    double input_seconds, forward_seconds, backward_seconds;
    double reduce_seconds; /* waited for the others, after the last gradient was there */
    double hidden_seconds; /* of the reductions, what ran beside the computation */
    double step_seconds;   /* of the step before, which is over */
    int32_t stop;          /* a signal came */
    int32_t failed;
    int32_t pause; /* the group is to be formed anew */
};

/* One reduction of a step: when its numbers were there, and when the ranks were at it. */
struct exchange_sum {
    size_t bytes;             /* as they travel */
    double ready, start, end; /* clock_seconds() */
};

struct exchange_options {
    struct comm *comm;
    struct params *params;
    struct compute *compute;
    int shards;     /* with a fixed order: leaves of the tree; 0: any order */
    int64_t pieces; /* of all ranks: what statistics are the mean over */
    enum comm_wire wire;
    bool plain; /* processors differ: gradients go in plain order, all at once */
};

int exchange_create(const struct exchange_options *options, struct exchange **out,
                    struct error *err);
void exchange_destroy(struct exchange *exchange); /* accepts NULL */

/* A compute_bucket_fn: the context is the exchange. A failure is kept for exchange_finish. */
void exchange_bucket(void *context, int bucket, size_t first, size_t count, float *const *parts);
/* Waits for the sums: gradients and rows of the tables are those of the whole batch then, the
 * running statistics of the params not yet touched. */
int exchange_finish(struct exchange *exchange, struct error *err);
/* Of the last step: seconds the reductions took, and those of them before exchange_finish. */
double exchange_hidden_seconds(const struct exchange *exchange);
/* Of the last step, in the order in which they were made; returns how many. */
int exchange_sums(const struct exchange *exchange, const struct exchange_sum **out);
/* The rows of the tables, and what the running statistics become. */
const struct sparse_rows *exchange_rows(const struct exchange *exchange);
void exchange_commit_statistics(struct exchange *exchange);

/* Gives everyone everyone's; all[] has one for each rank. */
int exchange_status(struct exchange *exchange, const struct rank_status *own,
                    struct rank_status *all, struct error *err);
/* The words of the first rank that failed, on all ranks. */
int exchange_failure(struct exchange *exchange, const struct rank_status *all, struct error *own,
                     struct error *err);

#endif
