/* A training that is killed and gone on with by another process, from memory: batch norm, dropout,
 * evaluations and checkpoints on the way, one piece a step or several. */
#include <lockstep/model.h>
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "comm/comm.h"
#include "exec/params.h"
#include "graph/graph.h"
#include "store/checkpoints.h"
#include "store/manifest.h"
#include "store/saver.h"
#include "store/state.h"
#include "support/checkpoint_files.h"
#include "support/test.h"
#include "support/victim.h"
#include "tensor/random.h"
#include "train/trainer.h"

enum { SIZE = 6, PIXELS = SIZE * SIZE, CLASSES = 3, GOAL = 12, EVALUATE_EVERY = 4 };
enum { MOST_NUMBERS = 4096 };

struct dataset {
    int64_t count;
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
    (void)dataset, (void)key, (void)err;
    float *pixels = (float *)batch[0].data + (size_t)row * PIXELS;
    struct random random = {.key = (uint64_t)index + 1};
    int32_t class = (int32_t)(index % CLASSES);
    for (int i = 0; i < PIXELS; i++)
        pixels[i] = random_uniform(&random) + (i / SIZE / 2 == class ? 1.0F : 0.0F);
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

/* What children leave for the test. */
struct trace {
    float numbers[MOST_NUMBERS];
    size_t count;
    int told[GOAL + 1];      /* how often each step was told of */
    int evaluated[GOAL + 1]; /* likewise */
    double accuracy[GOAL + 1];
    bool paused;
    int64_t step;
};

struct job {
    const char *rule, *directory;
    int pieces;
    int memory;
    bool without;   /* a state */
    long die_after; /* events and points of commits */
    int64_t die_at_step, pause_after;
    double stop_accuracy;
    struct trace *trace;
};

struct bench {
    const struct job *job;
    struct dataset data, held_back;
    struct graph *graph;
    struct params *params;
    struct plan *plan, *evaluation_plan;
    struct updater *updater;
    struct state *state;
    struct schedule schedule;
    struct trainer_progress progress;
    struct trainer_inputs inputs;
    struct arena *arena;
    long passed;
};

static void build(struct graph *graph)
{
    value_id x = lockstep_image_input(graph, 1, SIZE, SIZE);
    x = conv2d(graph, x, 4, .kernel = 3, .no_bias = 1, .name = "conv");
    x = relu(graph, batch_norm(graph, x, .name = "norm"));
    x = dropout(graph, flatten(graph, x), 0.1F);
    lockstep_classifier(graph, dense(graph, x, CLASSES, .name = "top"), 0);
}

static struct dataset make_data(int64_t count)
{
    struct dataset data = {.count = count};
    data.fields[0] = (struct dataset_field){"image", DTYPE_F32, SHAPE(SHAPE_BATCH, SIZE, SIZE, 1)};
    data.fields[1] = (struct dataset_field){"label", DTYPE_I32, SHAPE(SHAPE_BATCH)};
    return data;
}

static struct trainer_data make_loader(struct dataset *data, int pieces, bool single_pass)
{
    struct trainer_data out;
    struct error err = {0};
    struct loader_options options = {.batch = 8,
                                     .shards = pieces,
                                     .shard_count = pieces,
                                     .seed = 3,
                                     .shuffle = !single_pass,
                                     .single_pass = single_pass};
    out.field_count = stripes_fields(data, &out.fields);
    ASSERT_OK(loader_create(data, &stripes, &options, &out.loader, &err), err);
    return out;
}

static void pass(struct bench *bench)
{
    if (bench->job->die_after && ++bench->passed == bench->job->die_after)
        victim_die();
}

static void pass_point(void *context, enum state_point point)
{
    (void)point;
    pass(context);
}

static void open_network(struct bench *bench)
{
    struct error err = {0};
    const struct job *job = bench->job;
    const struct optimizer *rule = optimizer_find(job->rule);
    struct param_group group = {"", rule, rule->defaults, 1};
    struct params_memory memory = {0};
    bench->graph = graph_create();
    build(bench->graph);
    ASSERT_OK(graph_finish(bench->graph, &err), err);
    if (!job->without) {
        ASSERT_OK(state_open(job->memory, &bench->state, &err), err);
        memory = state_memory(bench->state);
        state_set_hook(bench->state, pass_point, bench);
    }
    ASSERT_OK(params_create(bench->graph, rule->slot_count, job->without ? NULL : &memory,
                            &bench->params, &err),
              err);
    struct plan_options options = {.mode = PLAN_TRAIN, .batch = 8, .threads = 1};
    ASSERT_OK(plan_create(bench->graph, bench->params, &options, &bench->plan, &err), err);
    options.mode = PLAN_EVALUATE;
    ASSERT_OK(plan_create(bench->graph, bench->params, &options, &bench->evaluation_plan, &err),
              err);
    ASSERT_OK(updater_create(bench->params, &group, 1, 1, &bench->updater, &err), err);
}

static void fill(struct bench *bench)
{
    struct error err = {0};
    ASSERT_OK(params_initialize(bench->params, 5, &err), err);
    updater_initialize_slots(bench->updater);
}

static void make_inputs(struct bench *bench)
{
    bench->data = make_data(160);
    bench->held_back = make_data(50);
    bench->schedule = (struct schedule){.base_rate = 0.05F};
    bench->inputs =
        (struct trainer_inputs){.graph = bench->graph,
                                .params = bench->params,
                                .plan = bench->plan,
                                .evaluation_plan = bench->evaluation_plan,
                                .train = make_loader(&bench->data, bench->job->pieces, false),
                                .validation = make_loader(&bench->held_back, 1, true),
                                .updater = bench->updater,
                                .schedule = &bench->schedule,
                                .seed = 11,
                                .stop_accuracy = bench->job->stop_accuracy,
                                .evaluate_every = EVALUATE_EVERY,
                                .total_steps = GOAL};
}

static void open_saver(struct bench *bench)
{
    struct error err = {0};
    struct saver_options options = {.directory = bench->job->directory,
                                    .keep = 100,
                                    .params = bench->params,
                                    .slots = {updater_describe_slot, bench->updater},
                                    .manifest = {.version = "1", .model = "stripes"}};
    ASSERT_OK(saver_create(&options, &bench->inputs.saving.saver, &err), err);
    bench->inputs.saving.every_steps = 5;
}

/* As the program does it. */
static void go_on(struct bench *bench)
{
    struct error err = {0};
    struct manifest manifest, saved;
    struct trainer_keeping *keeping = &bench->inputs.keeping;
    char path[PATH_MAX];
    bool found = false;
    ASSERT_OK(updater_recover(bench->updater, &err), err);
    memcpy(params_statistics(bench->params), state_statistics(bench->state),
           params_statistic_elements(bench->params) * sizeof(float));
    ASSERT_OK(state_manifest(bench->state, bench->arena, &manifest, &err), err);
    bench->inputs.first_step = manifest.step;
    keeping->returned = true;
    keeping->evaluated = manifest.evaluated;
    keeping->loss = manifest.loss;
    keeping->accuracy = manifest.accuracy;
    if (!bench->job->directory)
        return;
    ASSERT_OK(
        checkpoints_find_newest(bench->job->directory, bench->arena, &saved, path, &found, &err),
        err);
    keeping->saved_at = found ? saved.step : 0;
}

static void begin(struct bench *bench)
{
    struct error err = {0};
    struct manifest manifest = {.version = "1", .model = "stripes"};
    struct saver_moment moment = {.goal = GOAL};
    bench->inputs.keeping.state = bench->state;
    bench->inputs.keeping.progress = &bench->progress;
    ASSERT_OK(updater_keep(bench->updater, bench->state, NULL, 0, &err), err);
    if (state_holds(bench->state)) {
        go_on(bench);
        return;
    }
    fill(bench);
    ASSERT_OK(state_describe(bench->state, "facts", &manifest, &err), err);
    state_commit(bench->state, &moment, params_statistics(bench->params));
}

static void observe(void *context, const struct train_event *event)
{
    struct bench *bench = context;
    struct trace *trace = bench->job->trace;
    pass(bench);
    trace->step = event->step;
    if (event->kind == TRAIN_STEP)
        trace->told[event->step]++;
    if (event->kind == TRAIN_STEP && event->step == bench->job->die_at_step)
        victim_die();
    if (event->kind == TRAIN_STEP && event->step == bench->job->pause_after)
        atomic_store(&bench->progress.pause, true);
    if (event->kind == TRAIN_EVALUATED) {
        trace->evaluated[event->step]++;
        trace->accuracy[event->step] = event->accuracy;
    }
    trace->paused = event->paused;
    pass(bench);
}

static void leave_numbers(const struct bench *bench)
{
    struct trace *trace = bench->job->trace;
    size_t weights = params_elements(bench->params);
    size_t statistics = params_statistic_elements(bench->params);
    trace->count = 0;
    for (int slot = -1; slot < params_slots(bench->params); slot++) {
        const float *from =
            slot < 0 ? params_weights(bench->params) : params_slot(bench->params, slot);
        memcpy(trace->numbers + trace->count, from, weights * sizeof *from);
        trace->count += weights;
    }
    memcpy(trace->numbers + trace->count, params_statistics(bench->params),
           statistics * sizeof(float));
    trace->count += statistics;
}

static void train(void *context)
{
    static struct bench bench;
    struct error err = {0};
    bench = (struct bench){.job = context, .arena = arena_create()};
    open_network(&bench);
    make_inputs(&bench);
    if (bench.job->directory)
        open_saver(&bench);
    if (bench.job->pieces > 1) {
        ASSERT_OK(comm_open(&bench.inputs.ranks.comm, &err), err);
        bench.inputs.ranks.shards = bench.job->pieces;
    }
    if (bench.job->without)
        fill(&bench);
    else
        begin(&bench);
    ASSERT_OK(trainer_run(&bench.inputs, observe, &bench, &err), err);
    saver_destroy(bench.inputs.saving.saver);
    leave_numbers(&bench);
}

static struct trace *undisturbed(const struct job *job)
{
    struct job whole = *job;
    whole.without = true;
    whole.directory = NULL;
    whole.trace = victim_memory(sizeof *whole.trace);
    ASSERT_TRUE(victim_run(train, &whole));
    return whole.trace;
}

static void check(const struct trace *actual, const struct trace *expected)
{
    ASSERT_INT(actual->count, ==, expected->count);
    ASSERT_INT(actual->step, ==, expected->step);
    ASSERT_BYTES(actual->numbers, expected->numbers, expected->count * sizeof(float));
    for (int step = 1; step <= GOAL; step++) {
        ASSERT_INT(actual->told[step], <=, 1); /* lost to those who watch, at most */
        ASSERT_INT(actual->evaluated[step] > 0, ==, expected->evaluated[step] > 0);
        if (expected->evaluated[step])
            ASSERT_NUMBER(actual->accuracy[step], ==, expected->accuracy[step]);
    }
}

static void open_memory(struct job *job)
{
    job->memory = memfd_create("test", 0);
    ASSERT_INT(job->memory, >=, 0);
    job->trace = victim_memory(sizeof *job->trace);
}

static void close_memory(struct job *job)
{
    close(job->memory);
    munmap(job->trace, sizeof *job->trace);
}

/* Killed after each of so many events or points, one process after the other. */
static void try_kills(struct job job, int step)
{
    struct trace *expected = undisturbed(&job);
    bool dies = true;
    int killed = 0;
    for (int after = 1; dies; after += step) {
        open_memory(&job);
        job.die_after = after;
        dies = !victim_run(train, &job);
        killed += dies;
        job.die_after = 0;
        ASSERT_TRUE(victim_run(train, &job));
        check(job.trace, expected);
        close_memory(&job);
    }
    ASSERT_INT(killed, >, 8);
    munmap(expected, sizeof *expected);
}

TEST(trainer_kept, goes_on_from_memory_with_the_same_bits_wherever_it_was_killed)
{
    try_kills((struct job){.rule = "momentum", .pieces = 1}, 3);
    try_kills((struct job){.rule = "adam", .pieces = 3}, 7);
    try_kills((struct job){.rule = "lars", .pieces = 1}, 7);
}

TEST(trainer_kept, goes_on_when_each_process_comes_only_a_little_further)
{
    struct job job = {.rule = "rmsprop", .pieces = 2};
    struct trace *expected = undisturbed(&job);
    int killed = 0;
    open_memory(&job);
    job.die_after = 11;
    while (!victim_run(train, &job))
        ASSERT_INT(killed++, <, 200);
    ASSERT_INT(killed, >, 5);
    check(job.trace, expected);
    close_memory(&job);
    munmap(expected, sizeof *expected);
}

TEST(trainer_kept, an_evaluation_that_was_killed_still_ends_the_run)
{
    struct job job = {.rule = "momentum", .pieces = 1, .stop_accuracy = 0.01};
    struct trace *expected = undisturbed(&job);
    ASSERT_INT(expected->step, ==, EVALUATE_EVERY);
    munmap(expected, sizeof *expected);
    try_kills(job, 2);
}

TEST(trainer_kept, saves_what_the_killed_process_did_not_come_to_save)
{
    struct job job = {.rule = "momentum", .pieces = 1, .die_at_step = 5};
    struct error err = {0};
    job.directory = checkpoint_files_directory("kept");
    open_memory(&job);
    ASSERT_FALSE(victim_run(train, &job));
    ASSERT_TEXT(checkpoint_files_names(job.directory, "step-"), "");
    job.die_at_step = 0;
    ASSERT_TRUE(victim_run(train, &job));
    ASSERT_OK(checkpoints_check(job.directory, 5, &err), err);
    ASSERT_OK(checkpoints_check(job.directory, GOAL, &err), err);
    close_memory(&job);
}

TEST(trainer_kept, pauses_after_a_step_and_goes_on)
{
    struct job job = {.rule = "adam", .pieces = 1, .pause_after = 6};
    struct trace *expected = undisturbed(&(struct job){.rule = "adam", .pieces = 1});
    open_memory(&job);
    ASSERT_TRUE(victim_run(train, &job));
    ASSERT_TRUE(job.trace->paused);
    ASSERT_INT(job.trace->step, ==, 6);
    job.pause_after = 0;
    ASSERT_TRUE(victim_run(train, &job));
    ASSERT_FALSE(job.trace->paused);
    check(job.trace, expected);
    close_memory(&job);
    munmap(expected, sizeof *expected);
}
