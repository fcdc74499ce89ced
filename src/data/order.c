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

int order_rows(const struct order *order, int64_t step)
{
    const struct loader_options *options = &order->options;
    int64_t first = step * order_global_batch(options) + options->shard;
    if (first >= order->examples)
        return 0;
    int64_t rows = (order->examples - first - 1) / options->shards + 1;
    return rows < options->batch ? (int)rows : options->batch;
}

bool order_ended(const struct order *order, struct loader_position position)
{
    return order->options.single_pass && order_rows(order, position.step) == 0;
}

struct loader_position order_following(const struct order *order, struct loader_position position)
{
    position.step++;
    if (position.step >= order->steps_per_epoch && !order->options.single_pass)
        position = (struct loader_position){.epoch = position.epoch + 1};
    return position;
}

struct loader_position order_normalized(const struct order *order,
                                        struct loader_position position)
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
    int64_t place = position.step * order_global_batch(options) + options->shard +
                    (int64_t)row * options->shards;
    if (!options->shuffle)
        return place;
    return random_permute(epoch_key(order, STREAM_ORDER, position.epoch), order->examples, place);
}

uint64_t order_random(const struct order *order, int64_t epoch, int64_t example)
{
    return random_key(epoch_key(order, STREAM_EXAMPLE, epoch), (uint64_t)example);
}
