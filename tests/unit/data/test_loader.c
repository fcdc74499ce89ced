/* The loader over a dataset that says which examples it was asked for. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/memory.h"
#include "base/trace.h"
#include "data/loader.h"
#include "support/test.h"

/* Field 0 is the example's index, [N]; field 1 its random key and an echo, [N, 2]. */
struct dataset {
    int64_t count;
    int64_t broken; /* the first of the examples that cannot be read; -1: none */
    int64_t bad[4]; /* single ones, in ascending order, 0: no more */
    bool slow;      /* some examples take longer than others */
    atomic_llong reads;
    atomic_uchar expected[64]; /* how often each example was announced */
};

static int64_t echo_count(const struct dataset *dataset)
{
    return dataset->count;
}

static int echo_fields(const struct dataset *dataset, const struct dataset_field **out)
{
    static const struct dataset_field fields[] = {
        {.name = "index", .dtype = DTYPE_I32, .shape = {.ndim = 1, .dim = {SHAPE_BATCH}}},
        {.name = "pair", .dtype = DTYPE_I64, .shape = {.ndim = 2, .dim = {SHAPE_BATCH, 2}}},
    };
    (void)dataset;
    *out = fields;
    return 2;
}

static int echo_read(struct dataset *dataset, int64_t index, uint64_t random, struct tensor *batch,
                     int row, struct error *err)
{
    atomic_fetch_add(&dataset->reads, 1);
    if (dataset->slow && index % 7 == 0)
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    if (dataset->broken >= 0 && index >= dataset->broken)
        return error_set(err, ERROR_FORMAT, "file.bin: broken at %d", (int)index);
    for (int i = 0; i < 4; i++)
        if (dataset->bad[i] && index == dataset->bad[i])
            return error_set(err, ERROR_FORMAT, "file.bin: bad at %d", (int)index);
    ((int32_t *)batch[0].data)[row] = (int32_t)index;
    ((int64_t *)batch[1].data)[row * 2] = (int64_t)random;
    ((int64_t *)batch[1].data)[row * 2 + 1] = index + 1000000;
    return 0;
}

static void echo_expect(struct dataset *dataset, int64_t index)
{
    if (index < 64)
        atomic_fetch_add(&dataset->expected[index], 1);
}

static const struct dataset_kind echo = {.name = "echo",
                                         .count = echo_count,
                                         .fields = echo_fields,
                                         .read = echo_read,
                                         .expect = echo_expect};

static struct loader *open_loader(struct dataset *dataset, struct loader_options options)
{
    struct loader *loader;
    struct error err = {0};
    options.shards = options.shards ? options.shards : 1;
    ASSERT_OK(loader_create(dataset, &echo, &options, &loader, &err), err);
    return loader;
}

static const struct batch *next_batch(struct loader *loader)
{
    const struct batch *batch;
    struct error err = {0};
    ASSERT_OK(loader_next(loader, &batch, &err), err);
    return batch;
}

static int32_t index_at(const struct batch *batch, int row)
{
    return ((const int32_t *)batch->fields[0].data)[row];
}

static void assert_same_batch(const struct batch *a, const struct batch *b)
{
    ASSERT_INT(a->rows, ==, b->rows);
    for (int i = 0; i < a->field_count; i++)
        ASSERT_BYTES(a->fields[i].data, b->fields[i].data, tensor_bytes(&a->fields[i]));
}

TEST(loader, gives_each_example_of_an_epoch_once)
{
    for (int threads = 0; threads <= 3; threads += 3) {
        struct dataset dataset = {.count = 120, .broken = -1};
        struct loader *loader = open_loader(
            &dataset,
            (struct loader_options){.batch = 8, .threads = threads, .seed = 7, .shuffle = true});
        ASSERT_INT(loader_steps_per_epoch(loader), ==, 15);
        for (int epoch = 0; epoch < 3; epoch++) {
            int seen[120] = {0};
            for (int step = 0; step < 15; step++) {
                struct loader_position position = loader_tell(loader);
                ASSERT_INT(position.epoch, ==, epoch);
                ASSERT_INT(position.step, ==, step);
                const struct batch *batch = next_batch(loader);
                ASSERT_INT(batch->rows, ==, 8);
                for (int row = 0; row < 8; row++)
                    seen[index_at(batch, row)]++;
            }
            for (int i = 0; i < 120; i++)
                ASSERT_INT(seen[i], ==, 1);
        }
        loader_destroy(loader);
    }
}

TEST(loader, shuffles_each_epoch_differently_and_without_shuffling_keeps_the_order)
{
    struct dataset dataset = {.count = 64, .broken = -1};
    struct loader *shuffled =
        open_loader(&dataset, (struct loader_options){.batch = 64, .seed = 7, .shuffle = true});
    int32_t first[64];
    memcpy(first, next_batch(shuffled)->fields[0].data, sizeof first);
    ASSERT_TRUE(memcmp(first, next_batch(shuffled)->fields[0].data, sizeof first) != 0);
    loader_destroy(shuffled);
    struct loader *plain = open_loader(&dataset, (struct loader_options){.batch = 64, .seed = 7});
    const struct batch *batch = next_batch(plain);
    for (int row = 0; row < 64; row++)
        ASSERT_INT(index_at(batch, row), ==, row);
    loader_destroy(plain);
}

TEST(loader, leaves_out_the_rest_of_an_epoch_that_fills_no_batch)
{
    struct dataset dataset = {.count = 23, .broken = -1};
    struct loader *loader = open_loader(&dataset, (struct loader_options){.batch = 5});
    ASSERT_INT(loader_steps_per_epoch(loader), ==, 4);
    for (int step = 0; step < 8; step++)
        ASSERT_INT(next_batch(loader)->rows, ==, 5);
    ASSERT_INT(loader_tell(loader).epoch, ==, 2);
    loader_destroy(loader);
}

TEST(loader, gives_the_same_batches_whatever_threads_and_prefetch)
{
    struct dataset dataset = {.count = 200, .broken = -1, .slow = true};
    static const int threads[] = {1, 2, 5}, prefetch[] = {1, 0, 7};
    for (int i = 0; i < 3; i++) {
        struct loader_options options = {.batch = 9, .seed = 3, .shuffle = true};
        struct loader *expected = open_loader(&dataset, options);
        options.threads = threads[i];
        options.prefetch = prefetch[i];
        struct loader *loader = open_loader(&dataset, options);
        for (int step = 0; step < 50; step++)
            assert_same_batch(next_batch(loader), next_batch(expected));
        loader_destroy(loader);
        loader_destroy(expected);
    }
}

TEST(loader, gives_the_same_batches_after_a_resume)
{
    struct dataset dataset = {.count = 100, .broken = -1, .slow = true};
    struct loader_options options = {.batch = 8, .threads = 2, .seed = 7, .shuffle = true};
    struct loader *whole = open_loader(&dataset, options),
                  *resumed = open_loader(&dataset, options);
    for (int i = 0; i < 30; i++)
        next_batch(whole);
    loader_seek(resumed, loader_tell(whole));
    for (int i = 0; i < 30; i++)
        assert_same_batch(next_batch(whole), next_batch(resumed));
    loader_seek(resumed, (struct loader_position){0});
    loader_seek(whole, (struct loader_position){.step = 12 * 5}); /* that is epoch 5 */
    ASSERT_INT(loader_tell(whole).epoch, ==, 5);
    ASSERT_INT(loader_tell(whole).step, ==, 0);
    for (int i = 0; i < 60; i++)
        next_batch(resumed);
    assert_same_batch(next_batch(whole), next_batch(resumed));
    loader_destroy(whole);
    loader_destroy(resumed);
}

TEST(loader, may_be_sent_anywhere_at_any_moment)
{
    struct dataset dataset = {.count = 64, .broken = -1, .slow = true};
    struct loader_options options = {.batch = 4, .threads = 3, .prefetch = 4, .shuffle = true};
    struct loader *loader = open_loader(&dataset, options);
    options.threads = 0;
    struct loader *plain = open_loader(&dataset, options);
    for (int i = 0; i < 200; i++) {
        struct loader_position position = {.epoch = i % 3, .step = i * 5 % 16};
        loader_seek(loader, position);
        loader_seek(plain, position);
        for (int j = 0; j < i % 4; j++)
            assert_same_batch(next_batch(loader), next_batch(plain));
    }
    loader_destroy(loader);
    loader_destroy(plain);
}

TEST(loader, shards_together_see_what_one_sees_alone)
{
    struct dataset dataset = {.count = 101, .broken = -1};
    for (int single = 0; single <= 1; single++) {
        struct loader_options options = {
            .batch = 12, .seed = 5, .shuffle = true, .single_pass = single};
        struct loader *alone = open_loader(&dataset, options), *shard[3];
        options.batch = 4;
        options.shards = 3;
        for (options.shard = 0; options.shard < 3; options.shard++)
            shard[options.shard] = open_loader(&dataset, options);
        for (int step = 0; step < 9; step++) {
            const struct batch *whole = next_batch(alone);
            for (int s = 0; s < 3; s++) {
                const struct batch *part = next_batch(shard[s]);
                for (int row = 0; row < part->rows; row++) {
                    ASSERT_INT(index_at(part, row), ==, index_at(whole, s + 3 * row));
                    ASSERT_INT(((int64_t *)part->fields[1].data)[row * 2], ==,
                               ((int64_t *)whole->fields[1].data)[(s + 3 * row) * 2]);
                }
                int expected = (whole->rows - s + 2) / 3;
                ASSERT_INT(part->rows, ==, expected);
            }
        }
        loader_destroy(alone);
        for (int s = 0; s < 3; s++)
            loader_destroy(shard[s]);
    }
}

TEST(loader, one_pass_ends_with_a_short_batch_whose_other_rows_are_zero)
{
    for (int threads = 0; threads <= 2; threads++) {
        struct dataset dataset = {.count = 22, .broken = -1};
        struct loader *loader = open_loader(
            &dataset, (struct loader_options){.batch = 5, .threads = threads, .single_pass = true});
        ASSERT_INT(loader_steps_per_epoch(loader), ==, 5);
        for (int pass = 0; pass < 3; pass++) {
            for (int step = 0; step < 4; step++)
                ASSERT_INT(next_batch(loader)->rows, ==, 5);
            const struct batch *last = next_batch(loader);
            ASSERT_INT(last->rows, ==, 2);
            static const int32_t indices[5] = {20, 21};
            ASSERT_BYTES(last->fields[0].data, indices, sizeof indices);
            for (int row = 2; row < 5; row++)
                ASSERT_INT(((int64_t *)last->fields[1].data)[2 * row + 1], ==, 0);
            for (int again = 0; again < 2; again++) {
                const struct batch *end = next_batch(loader);
                ASSERT_INT(end->rows, ==, 0);
                for (int row = 0; row < 5; row++)
                    ASSERT_INT(index_at(end, row), ==, 0);
            }
            loader_seek(loader, (struct loader_position){0});
        }
        loader_destroy(loader);
    }
}

TEST(loader, reports_the_first_example_of_a_batch_that_cannot_be_read)
{
    for (int threads = 0; threads <= 3; threads++) {
        struct dataset dataset = {.count = 60, .broken = 33};
        struct loader *loader =
            open_loader(&dataset, (struct loader_options){.batch = 10, .threads = threads});
        for (int step = 0; step < 3; step++)
            next_batch(loader);
        const struct batch *batch = NULL;
        struct error err;
        for (int again = 0; again < 2; again++) {
            ASSERT_FAILS(loader_next(loader, &batch, &err), err, ERROR_FORMAT,
                         "example 33: file.bin: broken at 33");
            ASSERT_TRUE(batch == NULL);
        }
        ASSERT_INT(loader_tell(loader).step, ==, 3);
        loader_seek(loader, (struct loader_position){0});
        ASSERT_INT(next_batch(loader)->rows, ==, 10);
        loader_destroy(loader);
    }
}

TEST(loader, allocates_nothing_after_it_was_made)
{
    for (int threads = 0; threads <= 2; threads += 2) {
        struct dataset dataset = {.count = 50, .broken = -1};
        struct loader *loader = open_loader(
            &dataset, (struct loader_options){.batch = 4, .threads = threads, .shuffle = true});
        next_batch(loader);
        uint64_t before = memory_allocation_count();
        for (int step = 0; step < 100; step++)
            next_batch(loader);
        ASSERT_INT(memory_allocation_count(), ==, before);
        loader_destroy(loader);
    }
}

/* Tracks for one span each: how many more there were is what was left out. */
TEST(loader, traces_what_it_reads_while_it_is_asked_to)
{
    for (int threads = 0; threads <= 2; threads += 2) {
        struct dataset dataset = {.count = 50, .broken = -1};
        struct trace *trace;
        struct error err = {0};
        ASSERT_OK(trace_create(&trace, &err), err);
        struct trace_track *tracks[] = {trace_add_track(trace, "one", 1),
                                        trace_add_track(trace, "two", 1)};
        struct loader *loader =
            open_loader(&dataset, (struct loader_options){.batch = 4, .threads = threads});
        for (int step = 0; step < 10; step++)
            next_batch(loader);
        ASSERT_INT(trace_left_out(trace), ==, 0);
        loader_trace(loader, tracks);
        for (int step = 0; step < 20; step++)
            next_batch(loader);
        loader_trace(loader, NULL);
        uint64_t left_out = trace_left_out(trace);
        ASSERT_INT(left_out, >, 10);
        for (int step = 0; step < 20; step++)
            next_batch(loader);
        ASSERT_INT(trace_left_out(trace), ==, left_out);
        loader_destroy(loader);
        trace_destroy(trace);
    }
}

TEST(loader, reads_no_further_ahead_than_it_was_told)
{
    struct dataset dataset = {.count = 1000, .broken = -1};
    struct loader *loader =
        open_loader(&dataset, (struct loader_options){.batch = 10, .threads = 2, .prefetch = 2});
    next_batch(loader);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    ASSERT_INT(atomic_load(&dataset.reads), <=, 30);
    loader_destroy(loader);
}

TEST(loader, announces_examples_before_it_reads_them)
{
    struct dataset dataset = {.count = 60, .broken = -1};
    struct loader *loader = open_loader(
        &dataset, (struct loader_options){.batch = 8, .threads = 1, .single_pass = true});
    while (next_batch(loader)->rows > 0)
        ;
    loader_destroy(loader);
    /* Chunks of 2 rows, 2 of them ahead: only the first 4 come unannounced. */
    for (int i = 0; i < 60; i++)
        ASSERT_INT(atomic_load(&dataset.expected[i]), ==, i < 4 ? 0 : 1);
}

TEST(loader, lets_the_next_good_example_stand_in_for_a_bad_one)
{
    struct dataset dataset = {.count = 40, .broken = -1, .bad = {7, 8, 21}, .slow = true};
    for (int threads = 0; threads <= 3; threads++) {
        struct loader *loader = open_loader(
            &dataset,
            (struct loader_options){.batch = 10, .threads = threads, .seed = 5, .skip_bad = 3});
        for (int step = 0; step < 4; step++) {
            const struct batch *batch = next_batch(loader);
            ASSERT_INT(batch->rows, ==, 10);
            for (int row = 0; row < 10; row++) {
                int32_t place = step * 10 + row;
                ASSERT_INT(index_at(batch, row), ==,
                           place == 7 || place == 8 ? 9
                           : place == 21            ? 22
                                                    : place);
            }
        }
        for (int step = 0; step < 4; step++) /* the next epoch meets the same ones */
            next_batch(loader);
        ASSERT_INT(loader_bad_examples(loader), ==, 3);
        ASSERT_TEXT(loader_first_bad(loader), "example 7: file.bin: bad at 7");
        loader_destroy(loader);
    }
}

TEST(loader, leaves_bad_examples_out_of_an_evaluation)
{
    struct dataset dataset = {.count = 23, .broken = -1, .bad = {20, 21, 22, 3}, .slow = true};
    for (int threads = 0; threads <= 3; threads++) {
        struct loader *loader = open_loader(
            &dataset, (struct loader_options){
                          .batch = 10, .threads = threads, .single_pass = true, .skip_bad = 4});
        const struct batch *batch = next_batch(loader);
        ASSERT_INT(batch->rows, ==, 9);
        ASSERT_INT(index_at(batch, 2), ==, 2);
        ASSERT_INT(index_at(batch, 3), ==, 4);
        ASSERT_INT(index_at(batch, 9), ==, 0);
        ASSERT_INT(next_batch(loader)->rows, ==, 10);
        ASSERT_INT(next_batch(loader)->rows, ==, 0); /* the last batch had no good one */
        ASSERT_INT(loader_bad_examples(loader), ==, 4);
        loader_destroy(loader);
    }
}

TEST(loader, stops_when_more_are_bad_than_may_be)
{
    struct dataset dataset = {.count = 40, .broken = -1, .bad = {7, 15, 31}};
    for (int threads = 0; threads <= 2; threads++) {
        struct loader *loader = open_loader(
            &dataset, (struct loader_options){.batch = 10, .threads = threads, .skip_bad = 2});
        struct error err = {0};
        const struct batch *batch;
        for (int step = 0; step < 3; step++)
            next_batch(loader);
        ASSERT_INT(loader_next(loader, &batch, &err), ==, -1);
        ASSERT_TEXT(err.message, "more than 2 bad examples: example 31: file.bin: bad at 31");
        loader_destroy(loader);
    }
}

TEST(loader, keeps_what_is_read_ahead_under_a_limit_of_bytes)
{
    struct dataset dataset = {.count = 1000, .broken = -1};
    /* 10 rows of 4 + 16 bytes, each field aligned to 64: 256 bytes a batch. */
    struct loader *loader = open_loader(
        &dataset, (struct loader_options){
                      .batch = 10, .threads = 1, .prefetch = 20, .prefetch_bytes = 256 * 3});
    next_batch(loader);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    ASSERT_INT(atomic_load(&dataset.reads), <=, 40);
    ASSERT_INT(atomic_load(&dataset.reads), >, 10);
    loader_destroy(loader);
}

static int echo_read_rows(struct dataset *dataset, const int64_t *indices, int count,
                          struct tensor *batch, int first_row, struct error *err)
{
    for (int i = 0; i < count; i++)
        if (echo_read(dataset, indices[i], 0, batch, first_row + i, err) < 0)
            return i;
    return count;
}

/* Also around bad examples, which stop a reading of several rows wherever they stand. */
TEST(loader, gives_the_same_examples_when_the_dataset_reads_several_at_once)
{
    static const struct dataset_kind several = {.name = "several",
                                                .count = echo_count,
                                                .fields = echo_fields,
                                                .read = echo_read,
                                                .read_rows = echo_read_rows};
    for (int threads = 0; threads <= 2; threads++) {
        struct dataset dataset = {.count = 900, .broken = -1, .bad = {3, 4, 500, 899}};
        struct loader_options options = {
            .batch = 300, .shards = 1, .threads = threads, .skip_bad = 4, .shuffle = true};
        struct loader *single = open_loader(&dataset, options), *grouped;
        struct error err = {0};
        ASSERT_OK(loader_create(&dataset, &several, &options, &grouped, &err), err);
        for (int step = 0; step < 6; step++) {
            const struct batch *expected = next_batch(single), *actual = next_batch(grouped);
            ASSERT_INT(actual->rows, ==, expected->rows);
            for (int row = 0; row < expected->rows; row++)
                ASSERT_INT(index_at(actual, row), ==, index_at(expected, row));
        }
        loader_destroy(single);
        loader_destroy(grouped);
    }
}

TEST(loader, refuses_a_batch_that_the_dataset_cannot_fill)
{
    struct dataset dataset = {.count = 10, .broken = -1}, empty = {.count = 0};
    struct loader *loader;
    struct error err;
    struct loader_options options = {.batch = 4, .shards = 3};
    ASSERT_FAILS(loader_create(&dataset, &echo, &options, &loader, &err), err, ERROR_USAGE,
                 "10 examples, fewer than one batch of 12");
    options.batch = 0;
    ASSERT_FAILS(loader_create(&dataset, &echo, &options, &loader, &err), err, ERROR_USAGE,
                 "at least 1");
    options.batch = -3;
    ASSERT_FAILS(loader_create(&dataset, &echo, &options, &loader, &err), err, ERROR_USAGE, "-3");
    options.batch = 1;
    ASSERT_FAILS(loader_create(&empty, &echo, &options, &loader, &err), err, ERROR_USAGE, "empty");
    options.batch = 1 << 30;
    options.single_pass = true;
    options.prefetch = 1000;
    options.threads = 1;
    ASSERT_FAILS(loader_create(&dataset, &echo, &options, &loader, &err), err, ERROR_MEMORY,
                 "read ahead");
}
