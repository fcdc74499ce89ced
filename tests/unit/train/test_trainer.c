#include <lockstep/model.h>
#include <math.h>

#include "base/memory.h"
#include "comm/comm.h"
#include "exec/params.h"
#include "graph/graph.h"
#include "store/checkpoints.h"
#include "store/saver.h"
#include "support/checkpoint_files.h"
#include "support/test.h"
#include "tensor/random.h"
#include "train/feed.h"
#include "train/trainer.h"

enum { SIZE = 6, PIXELS = SIZE * SIZE, CLASSES = 3 };

/* --- data: noise with one bright pair of rows, which is the class ---------------------------- */

struct dataset {
    int64_t count;
    int64_t poisoned; /* the example that holds a NaN, or -1 */
    int64_t broken;   /* the example that cannot be read; 0: none */
    struct dataset_field fields[2];
};

static int64_t stripes_count(const struct dataset *dataset)
{
    return dataset->count;
}

static int stripes_fields(const struct dataset *dataset, const struct dataset_field **out)
{
    *out = dataset->fields;
    return 2;
}

static int stripes_read(struct dataset *dataset, int64_t index, uint64_t key, struct tensor *batch,
                        int row, struct error *err)
{
    (void)key;
    if (dataset->broken && index == dataset->broken)
        return error_set(err, ERROR_FORMAT, "example %d is torn", (int)index);
    float *pixels = (float *)batch[0].data + (size_t)row * PIXELS;
    struct random random = {.key = (uint64_t)index + 1};
    int32_t class = (int32_t)(index % CLASSES);
    for (int i = 0; i < PIXELS; i++)
        pixels[i] = random_uniform(&random) + (i / SIZE / 2 == class ? 1.0F : 0.0F);
    if (index == dataset->poisoned)
        pixels[0] = NAN;
    ((int32_t *)batch[1].data)[row] = class;
    return 0;
}

static const struct dataset_kind stripes = {
    .name = "stripes",
    .count = stripes_count,
    .fields = stripes_fields,
    .read = stripes_read,
    .cheap = true,
};

/* --- everything a run needs ------------------------------------------------------------------ */

struct setup {
    int batch, threads;
    int64_t examples;
    int64_t poisoned; /* example 1, 2, ... from the start; 0: none */
    const char *rule;
    int channels; /* that the data claims; 0: the network's */
};

struct bench {
    struct dataset data, held_back;
    struct graph *graph;
    struct params *params;
    struct plan *plan, *evaluation_plan;
    struct updater *updater;
    struct schedule schedule;
    struct trainer_inputs inputs;
};

static void build(struct graph *graph)
{
    value_id x = lockstep_image_input(graph, 1, SIZE, SIZE);
    x = conv2d(graph, x, 4, .kernel = 3, .no_bias = 1, .name = "conv");
    x = relu(graph, batch_norm(graph, x, .name = "norm"));
    x = dropout(graph, flatten(graph, x), 0.1F);
    lockstep_classifier(graph, dense(graph, x, CLASSES, .name = "top"), 0);
}

static struct dataset make_data(int64_t count, int64_t poisoned, int channels)
{
    struct dataset data = {.count = count, .poisoned = poisoned};
    data.fields[0] =
        (struct dataset_field){"image", DTYPE_F32, SHAPE(SHAPE_BATCH, SIZE, SIZE, channels)};
    data.fields[1] = (struct dataset_field){"label", DTYPE_I32, SHAPE(SHAPE_BATCH)};
    return data;
}

static struct trainer_data make_loader(struct dataset *data, int batch, bool single_pass)
{
    struct trainer_data out;
    struct error err = {0};
    struct loader_options options = {
        .batch = batch, .shards = 1, .seed = 3, .shuffle = false, .single_pass = single_pass};
    out.field_count = stripes_fields(data, &out.fields);
    ASSERT_OK(loader_create(data, &stripes, &options, &out.loader, &err), err);
    return out;
}

static void open_bench(struct bench *bench, struct setup setup)
{
    struct error err = {0};
    const struct optimizer *rule = optimizer_find(setup.rule ? setup.rule : "momentum");
    struct param_group group = {"", rule, rule->defaults, 1};
    int batch = setup.batch ? setup.batch : 16, channels = setup.channels ? setup.channels : 1;
    bench->data = make_data(setup.examples ? setup.examples : 160, setup.poisoned - 1, channels);
    bench->held_back = make_data(50, -1, channels);
    bench->graph = graph_create();
    build(bench->graph);
    ASSERT_OK(graph_finish(bench->graph, &err), err);
    ASSERT_OK(params_create(bench->graph, rule->slot_count, NULL, &bench->params, &err), err);
    struct plan_options options = {
        .mode = PLAN_TRAIN, .batch = batch, .threads = setup.threads ? setup.threads : 2};
    ASSERT_OK(plan_create(bench->graph, bench->params, &options, &bench->plan, &err), err);
    options.mode = PLAN_EVALUATE;
    ASSERT_OK(plan_create(bench->graph, bench->params, &options, &bench->evaluation_plan, &err),
              err);
    ASSERT_OK(params_initialize(bench->params, 5, &err), err);
    ASSERT_OK(updater_create(bench->params, &group, 1, options.threads, &bench->updater, &err),
              err);
    updater_initialize_slots(bench->updater);
    bench->schedule = (struct schedule){.base_rate = 0.05F};
    bench->inputs =
        (struct trainer_inputs){.graph = bench->graph,
                                .params = bench->params,
                                .plan = bench->plan,
                                .evaluation_plan = bench->evaluation_plan,
                                .train = make_loader(&bench->data, batch, false),
                                .validation = make_loader(&bench->held_back, batch, true),
                                .updater = bench->updater,
                                .schedule = &bench->schedule,
                                .seed = 11,
                                .total_steps = 30};
}

static void close_bench(struct bench *bench)
{
    loader_destroy(bench->inputs.train.loader);
    loader_destroy(bench->inputs.validation.loader);
    updater_destroy(bench->updater);
    plan_destroy(bench->evaluation_plan);
    plan_destroy(bench->plan);
    params_destroy(bench->params);
    graph_destroy(bench->graph);
}

/* --- an observer that remembers ---------------------------------------------------------------- */

struct memory {
    struct train_event events[512];
    uint64_t allocations[512];
    int count;
    atomic_int stop_signal;
    int64_t stop_at; /* the step after which the signal comes; 0: never */
};

static void remember(void *context, const struct train_event *event)
{
    struct memory *memory = context;
    ASSERT_INT(memory->count, <, 512);
    memory->events[memory->count] = *event;
    memory->allocations[memory->count++] = memory_allocation_count();
    if (event->kind == TRAIN_STEP && memory->stop_at && event->step == memory->stop_at)
        atomic_store(&memory->stop_signal, 15);
}

static void run(struct bench *bench, struct memory *memory)
{
    struct error err = {0};
    *memory = (struct memory){.stop_at = memory->stop_at};
    bench->inputs.stop_signal = &memory->stop_signal;
    ASSERT_OK(trainer_run(&bench->inputs, remember, memory, &err), err);
}

/* Weights and statistics, one behind the other. */
static float *state_of(struct bench *bench, size_t *bytes)
{
    size_t weights = params_elements(bench->params);
    size_t statistics = params_statistic_elements(bench->params);
    float *state = memory_allocate((weights + statistics) * sizeof *state);
    memcpy(state, params_weights(bench->params), weights * sizeof *state);
    memcpy(state + weights, params_statistics(bench->params), statistics * sizeof *state);
    *bytes = (weights + statistics) * sizeof *state;
    return state;
}

static struct memory seen;

/* --- behaviour --------------------------------------------------------------------------------- */

TEST(trainer, learns_what_can_be_learned)
{
    struct bench bench;
    open_bench(&bench, (struct setup){0});
    bench.inputs.total_steps = 100;
    run(&bench, &seen);
    const struct train_event *last = &seen.events[seen.count - 2];
    ASSERT_INT(last->kind, ==, TRAIN_EVALUATED);
    ASSERT_NUMBER(last->accuracy, >=, 0.95);
    ASSERT_NUMBER(last->loss, <, 0.3);
    close_bench(&bench);
}

TEST(trainer, tells_every_step_in_order)
{
    struct bench bench;
    open_bench(&bench, (struct setup){0});
    bench.inputs.evaluate_every = 20;
    run(&bench, &seen);
    ASSERT_INT(seen.count, ==, 1 + 30 + 2 + 1);
    ASSERT_INT(seen.events[0].kind, ==, TRAIN_STARTED);
    ASSERT_INT(seen.events[21].kind, ==, TRAIN_EVALUATED);
    ASSERT_INT(seen.events[21].step, ==, 20);
    ASSERT_INT(seen.events[21].examples, ==, 50);
    ASSERT_INT(seen.events[32].kind, ==, TRAIN_EVALUATED);
    ASSERT_INT(seen.events[33].kind, ==, TRAIN_FINISHED);
    for (int i = 1, step = 1; i < 32; i++) {
        if (seen.events[i].kind != TRAIN_STEP)
            continue;
        ASSERT_INT(seen.events[i].step, ==, step);
        ASSERT_INT(seen.events[i].examples, ==, step * 16);
        ASSERT_INT(seen.events[i].epoch, ==, step / 10);
        ASSERT_INT(seen.events[i].total, ==, 30);
        ASSERT_TRUE(isfinite(seen.events[i].loss));
        ASSERT_NUMBER(seen.events[i].step_seconds, >, 0);
        step++;
    }
    close_bench(&bench);
}

TEST(trainer, allocates_nothing_between_the_first_and_the_last_step)
{
    struct bench bench;
    open_bench(&bench, (struct setup){0});
    bench.inputs.evaluate_every = 7;
    run(&bench, &seen);
    ASSERT_INT(seen.allocations[seen.count - 1] - seen.allocations[1], ==, 0);
    close_bench(&bench);
}

TEST(trainer, gives_the_same_bits_for_the_same_seed_and_threads)
{
    for (int threads = 1; threads <= 2; threads++) {
        float *states[2];
        size_t bytes;
        for (int i = 0; i < 2; i++) {
            struct bench bench;
            open_bench(&bench, (struct setup){.threads = threads});
            run(&bench, &seen);
            states[i] = state_of(&bench, &bytes);
            close_bench(&bench);
        }
        ASSERT_BYTES(states[1], states[0], bytes);
        memory_free(states[0]);
        memory_free(states[1]);
    }
}

TEST(trainer, continues_from_a_step_as_if_it_had_not_stopped)
{
    struct bench whole, parts;
    size_t bytes;
    open_bench(&whole, (struct setup){.rule = "adam"});
    open_bench(&parts, (struct setup){.rule = "adam"});
    run(&whole, &seen);
    parts.inputs.total_steps = 13;
    run(&parts, &seen);
    parts.inputs.first_step = 13;
    parts.inputs.total_steps = 30;
    run(&parts, &seen);
    float *expected = state_of(&whole, &bytes), *actual = state_of(&parts, &bytes);
    ASSERT_BYTES(actual, expected, bytes);
    memory_free(expected);
    memory_free(actual);
    close_bench(&whole);
    close_bench(&parts);
}

TEST(trainer, a_group_of_one_computes_what_no_group_does)
{
    struct bench alone, group;
    struct error err = {0};
    size_t bytes;
    open_bench(&alone, (struct setup){0});
    open_bench(&group, (struct setup){0});
    ASSERT_OK(comm_open(&group.inputs.ranks.comm, &err), err);
    run(&alone, &seen);
    run(&group, &seen);
    float *expected = state_of(&alone, &bytes), *actual = state_of(&group, &bytes);
    ASSERT_BYTES(actual, expected, bytes);
    memory_free(expected);
    memory_free(actual);
    comm_close(group.inputs.ranks.comm);
    close_bench(&alone);
    close_bench(&group);
}

/* A run whose steps are cut into `pieces`, `lanes` of them at a time. */
static float *state_of_pieces(int pieces, int lanes, size_t *bytes)
{
    enum { MOST_LANES = 4 };
    struct bench bench;
    struct error err = {0};
    struct plan *more[MOST_LANES];
    open_bench(&bench, (struct setup){.batch = 4, .threads = 1});
    loader_destroy(bench.inputs.train.loader);
    struct loader_options loader = {.batch = 4,
                                    .shards = pieces,
                                    .shard_count = pieces,
                                    .held = lanes,
                                    .threads = lanes - 1,
                                    .seed = 3,
                                    .shuffle = true};
    ASSERT_OK(loader_create(&bench.data, &stripes, &loader, &bench.inputs.train.loader, &err), err);
    struct plan_options options = {.mode = PLAN_TRAIN, .batch = 4, .threads = 1};
    for (int i = 0; i < lanes - 1; i++)
        ASSERT_OK(plan_create(bench.graph, bench.params, &options, &more[i], &err), err);
    ASSERT_OK(comm_open(&bench.inputs.ranks.comm, &err), err);
    bench.inputs.ranks.shards = pieces;
    bench.inputs.more_plans = more;
    bench.inputs.more_plan_count = lanes - 1;
    run(&bench, &seen);
    float *state = state_of(&bench, bytes);
    for (int i = 0; i < lanes - 1; i++)
        plan_destroy(more[i]);
    comm_close(bench.inputs.ranks.comm);
    close_bench(&bench);
    return state;
}

TEST(trainer, pieces_side_by_side_give_the_bits_of_one_after_the_other)
{
    for (int pieces = 2; pieces <= 7; pieces += 1) {
        size_t bytes;
        float *expected = state_of_pieces(pieces, 1, &bytes);
        for (int lanes = 2; lanes <= 4 && lanes <= pieces; lanes++) {
            float *actual = state_of_pieces(pieces, lanes, &bytes);
            ASSERT_BYTES(actual, expected, bytes);
            memory_free(actual);
        }
        memory_free(expected);
    }
}

TEST(trainer, ends_after_the_step_in_flight_when_a_signal_comes)
{
    struct bench bench;
    open_bench(&bench, (struct setup){0});
    seen.stop_at = 7;
    run(&bench, &seen);
    seen.stop_at = 0;
    ASSERT_INT(seen.count, ==, 1 + 7 + 1);
    ASSERT_INT(seen.events[8].kind, ==, TRAIN_FINISHED);
    ASSERT_INT(seen.events[8].step, ==, 7);
    close_bench(&bench);
}

/* Example 100 is the fourth of step 7. */
TEST(trainer, stops_at_a_nan_and_keeps_weights_and_statistics_of_the_step_before)
{
    struct bench good, bad;
    struct error err;
    size_t bytes;
    open_bench(&good, (struct setup){0});
    open_bench(&bad, (struct setup){.poisoned = 100});
    good.inputs.total_steps = 6;
    run(&good, &seen);
    seen = (struct memory){0};
    ASSERT_FAILS(trainer_run(&bad.inputs, remember, &seen, &err), err, ERROR_NUMERIC, "step 7: ");
    ASSERT_CONTAINS(err.message, "image");
    ASSERT_INT(seen.count, ==, 1 + 6);
    float *expected = state_of(&good, &bytes), *actual = state_of(&bad, &bytes);
    ASSERT_BYTES(actual, expected, bytes);
    memory_free(expected);
    memory_free(actual);
    close_bench(&good);
    close_bench(&bad);
}

static const char *open_saver(struct bench *bench, const char *name, int64_t every)
{
    struct error err = {0};
    struct saver_options options = {.directory = checkpoint_files_directory(name),
                                    .keep = 100,
                                    .params = bench->params,
                                    .slots = {updater_describe_slot, bench->updater},
                                    .manifest = {.version = "1", .model = "stripes"}};
    ASSERT_OK(saver_create(&options, &bench->inputs.saving.saver, &err), err);
    bench->inputs.saving.every_steps = every;
    return options.directory;
}

/* Example 100 is in step 7. */
TEST(trainer, saves_the_last_good_step_when_the_data_is_torn)
{
    struct bench bench;
    struct error err;
    open_bench(&bench, (struct setup){0});
    bench.data.broken = 100;
    const char *directory = open_saver(&bench, "torn-data", 0);
    ASSERT_FAILS(trainer_run(&bench.inputs, NULL, NULL, &err), err, ERROR_FORMAT,
                 "example 100 is torn");
    ASSERT_TEXT(checkpoint_files_names(directory, "step"), "step-000000000006");
    saver_destroy(bench.inputs.saving.saver);
    close_bench(&bench);
}

TEST(trainer, never_saves_weights_that_are_not_finite)
{
    struct bench bench;
    struct error err;
    open_bench(&bench, (struct setup){.rule = "sgd"});
    const char *directory = open_saver(&bench, "not-finite", 1);
    bench.inputs.total_steps = 3;
    ASSERT_OK(trainer_run(&bench.inputs, NULL, NULL, &err), err);
    bench.inputs.first_step = 3;
    bench.inputs.total_steps = 9;
    bench.schedule.base_rate = INFINITY;
    ASSERT_FAILS(trainer_run(&bench.inputs, NULL, NULL, &err), err, ERROR_NUMERIC, "step 5: ");
    ASSERT_CONTAINS(checkpoint_files_names(directory, "step"), "step-000000000003");
    ASSERT_TRUE(strstr(checkpoint_files_names(directory, "step"), "step-000000000004") == NULL);
    saver_destroy(bench.inputs.saving.saver);
    close_bench(&bench);
}

/* A saver that is busy leaves others out, but not the best. */
TEST(trainer, saves_every_evaluation_that_is_better_than_all_before)
{
    struct bench bench;
    char path[64];
    open_bench(&bench, (struct setup){0});
    const char *directory = open_saver(&bench, "best", 1);
    bench.inputs.evaluate_every = 1;
    bench.inputs.total_steps = 12;
    run(&bench, &seen);
    double best = -INFINITY;
    int better = 0;
    for (int i = 0; i < seen.count; i++) {
        if (seen.events[i].kind != TRAIN_EVALUATED || !(seen.events[i].accuracy > best))
            continue;
        best = seen.events[i].accuracy;
        snprintf(path, sizeof path, "step-%012d", (int)seen.events[i].step);
        ASSERT_CONTAINS(checkpoint_files_names(directory, "step"), path);
        better++;
    }
    ASSERT_INT(better, >, 1);
    ASSERT_NUMBER(checkpoints_best_score(directory), ==, best);
    saver_destroy(bench.inputs.saving.saver);
    close_bench(&bench);
}

TEST(trainer, names_the_operation_that_a_rate_far_too_high_made_infinite)
{
    struct bench bench;
    struct error err;
    open_bench(&bench, (struct setup){.rule = "sgd"});
    bench.schedule.base_rate = 1e30F;
    ASSERT_FAILS(trainer_run(&bench.inputs, NULL, NULL, &err), err, ERROR_NUMERIC,
                 "is the first operation whose result is not finite");
    ASSERT_CONTAINS(err.message, "--lr");
    for (size_t i = 0; i < params_elements(bench.params); i++)
        ASSERT_TRUE(isfinite(params_weights(bench.params)[i]));
    close_bench(&bench);
}

TEST(trainer, evaluates_every_example_once_whatever_the_batch)
{
    static const int batches[] = {1, 3, 7, 16, 50, 64};
    double loss = 0, accuracy = 0;
    for (int i = 0; i < 6; i++) {
        struct bench bench;
        struct metrics metrics;
        struct error err = {0};
        open_bench(&bench, (struct setup){.batch = batches[i]});
        ASSERT_OK(trainer_evaluate(bench.graph, bench.evaluation_plan, &bench.inputs.validation,
                                   NULL, &metrics, &err),
                  err);
        ASSERT_INT(metrics.examples, ==, 50);
        if (!i) {
            loss = metrics_loss(&metrics);
            accuracy = metrics_accuracy(&metrics);
        }
        ASSERT_NEAR(metrics_loss(&metrics), loss, 1e-5, 0);
        ASSERT_NEAR(metrics_accuracy(&metrics), accuracy, 1e-12, 0);
        close_bench(&bench);
    }
}

TEST(trainer, gives_up_an_evaluation_when_a_signal_comes)
{
    struct bench bench;
    struct metrics metrics = {.examples = -1};
    atomic_int stop = 2;
    struct error err;
    open_bench(&bench, (struct setup){0});
    ASSERT_FAILS(trainer_evaluate(bench.graph, bench.evaluation_plan, &bench.inputs.validation,
                                  &stop, &metrics, &err),
                 err, ERROR_CANCELLED, "0 batches");
    ASSERT_INT(metrics.examples, ==, -1);
    close_bench(&bench);
}

TEST(trainer, refuses_data_of_another_shape_and_says_both)
{
    struct bench bench;
    struct error err;
    open_bench(&bench, (struct setup){.channels = 3});
    ASSERT_FAILS(trainer_run(&bench.inputs, NULL, NULL, &err), err, ERROR_USAGE, "[N, 6, 6, 1]");
    ASSERT_CONTAINS(err.message, "[N, 6, 6, 3]");
    close_bench(&bench);
}

TEST(trainer, refuses_data_without_a_field_the_network_wants)
{
    struct bench bench;
    struct error err;
    open_bench(&bench, (struct setup){0});
    bench.data.fields[1].name = "category";
    ASSERT_FAILS(trainer_run(&bench.inputs, NULL, NULL, &err), err, ERROR_USAGE,
                 "wants an input label, but the data gives image, category");
    close_bench(&bench);
}

TEST(feed, asks_for_pictures_with_their_channels_last)
{
    struct value picture = {.name = "image",
                            .dtype = DTYPE_F32,
                            .channels_last = true,
                            .shape = SHAPE(SHAPE_BATCH, 3, 224, 112)};
    struct dataset_field field = feed_field(&picture);
    struct shape expected = SHAPE(SHAPE_BATCH, 224, 112, 3);
    ASSERT_TRUE(shape_equal(&field.shape, &expected));
    picture.channels_last = false;
    field = feed_field(&picture);
    ASSERT_TRUE(shape_equal(&field.shape, &picture.shape));
}
