/* Which example stands in which row of which step: arithmetic over the loader's options, without
 * memory or threads. It depends on (seed, epoch, place) alone, so any position can be asked for at
 * any time. */
#ifndef DATA_ORDER_H
#define DATA_ORDER_H

#include "data/loader.h"

struct order {
    struct loader_options options;
    int64_t examples;
    int64_t steps_per_epoch; /* whole batches; of a single pass also the short last one */
};

struct order order_of(const struct loader_options *options, int64_t examples);
int64_t order_global_batch(const struct loader_options *options);
/* Rows of the batch there. */
int order_rows(const struct order *order, struct loader_position position);
/* Nothing comes here any more: never in training. */
bool order_ended(const struct order *order, struct loader_position position);
struct loader_position order_following(const struct order *order, struct loader_position position);
/* A training position behind the last step of an epoch is the start of the next one. */
struct loader_position order_normalized(const struct order *order, struct loader_position position);
/* The example in a row, and the key of its random stream in this epoch. */
int64_t order_example(const struct order *order, struct loader_position position, int row);
uint64_t order_random(const struct order *order, int64_t epoch, int64_t example);

#endif
