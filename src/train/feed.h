/* Batches into plans: fields find the network's inputs by name, outputs become metrics. */
#ifndef TRAIN_FEED_H
#define TRAIN_FEED_H

#include "train/trainer.h"

struct value;

/* One plan with what goes in and comes out of it. Plain storage of the caller's; made once, so
 * that a step allocates nothing. */
struct feed {
    struct plan *plan;
    struct loader *loader;
    int input_count;
    int field_of[DATASET_MAX_FIELDS]; /* of plan input i */
    struct tensor inputs[DATASET_MAX_FIELDS];
    int rows; /* of the batch in `inputs` */
    int output_count;
    struct tensor outputs[DATASET_MAX_FIELDS];
    int loss, logits, label; /* places of the named ones, or -1 */
    bool binary;             /* one logit and a label */
};

/* An input of the network as data must give it: the shape is the order in memory (images come
 * N, H, W, C though they are logically N, C, H, W). */
struct dataset_field feed_field(const struct value *input);

/* Which field of the data has this name, or -1. */
int feed_find_field(const struct trainer_data *data, const char *name);

/* Fails with ERROR_USAGE, giving both shapes, when the data does not fit. */
int feed_init(struct feed *feed, const struct graph *graph, struct plan *plan,
              const struct trainer_data *data, struct error *err);
/* Takes the next batch; rows == 0 at the end of a single pass. */
int feed_next(struct feed *feed, struct error *err);
/* plan_forward on the batch. */
void feed_forward(struct feed *feed);
/* Does the network answer yes or no: a single logit per example, and a label? */
bool feed_is_binary(const struct feed *feed);
/* Adds what the last forward gave. */
void feed_count(const struct feed *feed, struct metrics *metrics);

#endif
