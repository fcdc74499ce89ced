#include "data/order.h"

#include <assert.h>

#include "tensor/random.h"

enum stream { STREAM_ORDER = 1, STREAM_EXAMPLE = 2 };

int64_t order_global_batch(const struct loader_options *options)
{
    return (int64_t)options->batch * options->shards;
}

struct order order_of(const struct loader_options *options, int64_t examples)
{
    int64_t whole = order_global_batch(options);
    return (struct order){.options = *options,
                          .examples = examples,
                          .steps_per_epoch = options->single_pass ? (examples + whole - 1) / whole
                                                                  : examples / whole};
}

/* The place in the epoch of the first row, and how far apart its rows are. */
static int64_t first_place(const struct order *order, struct loader_position position)
{
    const struct loader_options *options = &order->options;
    int64_t shard = options->shard + position.part;
    return position.step * order_global_batch(options) +
           (options->whole_batches ? shard * options->batch : shard);
}

static int64_t stride(const struct order *order)
{
    return order->options.whole_batches ? 1 : order->options.shards;
}

int order_rows(const struct order *order, struct loader_position position)
{
    int64_t first = first_place(order, position);
    if (first >= order->examples)
        return 0;
    int64_t rows = (order->examples - first - 1) / stride(order) + 1;
    return rows < order->options.batch ? (int)rows : order->options.batch;
}

bool order_ended(const struct order *order, struct loader_position position)
{
    return order->options.single_pass && order_rows(order, position) == 0;
}

struct loader_position order_following(const struct order *order, struct loader_position position)
{
    position.part++;
    if (position.part < order->options.shard_count)
        return position;
    position.part = 0;
    position.step++;
    if (position.step >= order->steps_per_epoch && !order->options.single_pass)
        position = (struct loader_position){.epoch = position.epoch + 1};
    return position;
}

struct loader_position order_normalized(const struct order *order, struct loader_position position)
{
    assert(position.epoch >= 0 && position.step >= 0);
    if (!order->options.single_pass) {
        position.epoch += position.step / order->steps_per_epoch;
        position.step %= order->steps_per_epoch;
    }
    return position;
}

static uint64_t epoch_key(const struct order *order, enum stream stream, int64_t epoch)
{
    return random_key(random_key(order->options.seed, stream), (uint64_t)epoch);
}

int64_t order_example(const struct order *order, struct loader_position position, int row)
{
    const struct loader_options *options = &order->options;
    int64_t place = first_place(order, position) + (int64_t)row * stride(order);
    if (!options->shuffle)
        return place;
    return random_permute(epoch_key(order, STREAM_ORDER, position.epoch), order->examples, place);
}

uint64_t order_random(const struct order *order, int64_t epoch, int64_t example)
{
    return random_key(epoch_key(order, STREAM_EXAMPLE, epoch), (uint64_t)example);
}
