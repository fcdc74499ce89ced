/* Steps that survive the process that applied them: whatever the instruction at which it is killed,
 * another process finds what was there before the step or finishes it, to the last bit. */
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "exec/params_layout.h"
#include "exec/sparse.h"
#include "store/state.h"
#include "support/test.h"
#include "support/victim.h"
#include "tensor/random.h"
#include "train/optimizer.h"

enum { STEPS = 3, TABLES = 2, MOST_ROWS = 200, MOST_NUMBERS = 1 << 18 };

/* What a child is told, and what it leaves in `numbers`. */
struct job {
    const char *rule;
    bool small;    /* one piece, few rows: few instructions */
    bool in_place; /* as if nothing were kept */
    int threads;
    int64_t goal;
    int memory;     /* descriptor */
    long die_after; /* so many points of commits; 0: not at all */
    bool stops;     /* at the beginning of the second step */
    float *numbers;
    size_t *count;
};

struct network {
    struct graph *graph;
    struct params *params;
    struct updater *updater;
    struct state *state;
    const struct job *job;
    long passed;
    struct sparse_rows lists[TABLES];
    int64_t rows[TABLES][MOST_ROWS];
    float values[TABLES][MOST_ROWS * 12];
};

static void add_param(struct graph *graph, const char *name, struct shape shape, unsigned flags)
{
    graph_param(graph, name, shape, (struct initializer){.kind = INIT_NORMAL, .value = 0.5F}, flags);
}

static void add_params(struct graph *graph, bool small)
{
    int64_t wide = small ? 30 : 300, rows = small ? 80 : 500;
    add_param(graph, "wide/weights", SHAPE(wide, 171), PARAM_TRAINABLE | PARAM_DECAY);
    add_param(graph, "wide/bias", SHAPE(171), PARAM_TRAINABLE);
    add_param(graph, "deep/weights", SHAPE(171, small ? 3 : 130), PARAM_TRAINABLE | PARAM_DECAY);
    add_param(graph, "deep/bias", SHAPE(13), PARAM_TRAINABLE);
    add_param(graph, "deep/mean", SHAPE(13), PARAM_STATISTIC);
    add_param(graph, "long/table", SHAPE(rows, 12), PARAM_TRAINABLE | PARAM_SPARSE);
    add_param(graph, "short/table", SHAPE(rows, 3), PARAM_TRAINABLE | PARAM_SPARSE);
}

static struct param_group group_of(const char *prefix, const char *rule)
{
    const struct optimizer *optimizer = optimizer_find(rule);
    struct param_group group = {prefix, optimizer, optimizer->defaults, 1};
    group.settings.weight_decay = *prefix ? 0 : 0.01F;
    return group;
}

static void describe_lists(struct network *network)
{
    static const char *const names[TABLES] = {"long/table", "short/table"};
    for (int t = 0; t < TABLES; t++)
        network->lists[t] = (struct sparse_rows){.param = params_find(network->params, names[t]),
                                                 .dim = t ? 3 : 12,
                                                 .limit = MOST_ROWS,
                                                 .rows = network->rows[t],
                                                 .values = network->values[t]};
}

/* Gradients, rows and statistics of a step follow from its number. */
static void compute(struct network *network, int64_t step)
{
    struct random random = {.key = (uint64_t)step};
    float *gradients = params_gradients(network->params);
    for (size_t i = 0; i < params_dense_elements(network->params); i++)
        gradients[i] = 0;
    for (int p = 0; p < params_count(network->params); p++) {
        struct param_range range = params_range(network->params, p);
        if (range.flags & (PARAM_STATISTIC | PARAM_SPARSE))
            continue;
        for (size_t i = 0; i < range.count; i++)
            gradients[range.first + i] = random_uniform(&random) - 0.5F;
    }
    for (int t = 0; t < TABLES; t++) {
        struct sparse_rows *list = &network->lists[t];
        list->count = 0;
        int64_t most = network->job->small ? 80 : 500;
        for (int64_t row = 0; row < most && list->count < MOST_ROWS; row++)
            if (random_uniform(&random) < 0.3F)
                list->rows[list->count++] = row;
        for (int64_t i = 0; i < list->count * list->dim; i++)
            list->values[i] = random_uniform(&random) - 0.5F;
    }
    float *statistics = params_statistics(network->params);
    for (size_t i = 0; i < params_statistic_elements(network->params); i++)
        statistics[i] += (float)step * 0.25F;
    updater_give_rows(network->updater, network->lists, TABLES);
}

static void pass(void *context, enum state_point point)
{
    struct network *network = context;
    if (network->job->stops && point == STATE_WRITTEN && state_step(network->state) == 1)
        victim_stop();
    if (network->job->die_after && ++network->passed == network->job->die_after)
        victim_die();
}

static void open_network(struct network *network, const struct job *job)
{
    struct error err = {0};
    struct param_group groups[] = {group_of("", job->rule), group_of("long/", "adagrad"),
                                   group_of("short/", "ftrl")};
    *network = (struct network){.graph = graph_create(), .job = job};
    add_params(network->graph, job->small);
    struct params_memory memory = {0};
    if (!job->in_place) {
        ASSERT_OK(state_open(job->memory, &network->state, &err), err);
        memory = state_memory(network->state);
        state_set_hook(network->state, pass, network);
    }
    ASSERT_OK(
        params_create(network->graph, 2, job->in_place ? NULL : &memory, &network->params, &err),
        err);
    ASSERT_OK(params_fix(network->params, true, &err), err);
    ASSERT_OK(updater_create(network->params, groups, 3, job->threads, &network->updater, &err),
              err);
    describe_lists(network);
}

static void fill(struct network *network)
{
    struct error err = {0};
    ASSERT_OK(params_initialize(network->params, 7, &err), err);
    updater_initialize_slots(network->updater);
}

/* Returns the steps that are finished. */
static int64_t begin(struct network *network)
{
    struct error err = {0};
    if (network->job->in_place) {
        fill(network);
        return 0;
    }
    ASSERT_OK(updater_keep(network->updater, network->state, network->lists, TABLES, &err), err);
    if (!state_holds(network->state)) {
        struct saver_moment moment = {.goal = network->job->goal};
        struct manifest manifest = {.version = "1", .model = "test"};
        fill(network);
        ASSERT_OK(state_describe(network->state, "facts", &manifest, &err), err);
        state_commit(network->state, &moment, params_statistics(network->params));
    }
    ASSERT_OK(updater_recover(network->updater, &err), err);
    memcpy(params_statistics(network->params), state_statistics(network->state),
           params_statistic_elements(network->params) * sizeof(float));
    return state_step(network->state);
}

static void step_once(struct network *network, int64_t step)
{
    float rate = 0.1F / (float)step;
    compute(network, step);
    if (network->job->in_place) {
        updater_step(network->updater, rate, step);
        return;
    }
    struct saver_moment moment = {.step = step, .goal = network->job->goal};
    updater_step_kept(network->updater, &moment, rate, params_statistics(network->params));
}

static float *put(float *at, const float *from, size_t count)
{
    memcpy(at, from, count * sizeof *at);
    return at + count;
}

/* In a child: trains to the goal and leaves all numbers. */
static void train(void *context)
{
    static struct network network;
    const struct job *job = context;
    open_network(&network, job);
    for (int64_t step = begin(&network); step < job->goal; step++)
        step_once(&network, step + 1);
    float *at = put(job->numbers, params_weights(network.params), params_elements(network.params));
    for (int slot = 0; slot < 2; slot++)
        at = put(at, params_slot(network.params, slot), params_elements(network.params));
    at = put(at, params_statistics(network.params), params_statistic_elements(network.params));
    *job->count = (size_t)(at - job->numbers);
}

/* Numbers of an undisturbed run in `expected`, and room for another's in job->numbers. */
static void prepare(struct job *job, float **expected)
{
    struct job whole = *job;
    *expected = victim_memory(MOST_NUMBERS * sizeof **expected * 2);
    job->count = victim_memory(sizeof *job->count);
    job->numbers = victim_memory(MOST_NUMBERS * sizeof *job->numbers * 2);
    whole.in_place = true;
    whole.numbers = *expected;
    whole.count = job->count;
    ASSERT_TRUE(victim_run(train, &whole));
}

static void open_memory(struct job *job)
{
    job->memory = memfd_create("test", 0);
    ASSERT_INT(job->memory, >=, 0);
}

/* Another process goes on, and must come to the numbers of the undisturbed run. */
static void finish(struct job *job, const float *expected)
{
    job->die_after = 0;
    job->stops = false;
    memset(job->numbers, 0xff, *job->count * sizeof *job->numbers);
    ASSERT_TRUE(victim_run(train, job));
    ASSERT_BYTES(job->numbers, expected, *job->count * sizeof *expected);
    close(job->memory);
}

static void release(struct job *job, float *expected)
{
    munmap(expected, MOST_NUMBERS * sizeof *expected * 2);
    munmap(job->numbers, MOST_NUMBERS * sizeof *expected * 2);
    munmap(job->count, sizeof *job->count);
}

TEST(updater_kept, has_the_bits_of_steps_in_place)
{
    for (const struct optimizer *const *rule = optimizer_list(); *rule; rule++)
        for (int threads = 1; threads <= 2; threads++) {
            struct job job = {.rule = (*rule)->name, .threads = threads, .goal = STEPS};
            float *expected;
            prepare(&job, &expected);
            open_memory(&job);
            finish(&job, expected);
            release(&job, expected);
        }
}

/* Killed at every so many acts, from the first to the last; returns how often. */
static int kill_at_acts(const char *rule, bool small, int stride)
{
    struct job job = {.rule = rule, .small = small, .threads = 1, .goal = 2};
    float *expected;
    int killed = 0;
    prepare(&job, &expected);
    for (bool dies = true; dies; killed += dies) {
        open_memory(&job);
        job.die_after = 1 + killed * stride;
        dies = !victim_run(train, &job);
        finish(&job, expected);
    }
    release(&job, expected);
    return killed;
}

TEST(updater_kept, survives_a_kill_at_every_act_of_a_step)
{
    for (const struct optimizer *const *rule = optimizer_list(); *rule; rule++)
        ASSERT_INT(kill_at_acts((*rule)->name, true, 1), >=, 2 * (3 + 3 * 3));
    ASSERT_INT(kill_at_acts("momentum", false, 5), >=, 10);
}

TEST(updater_kept, survives_kills_of_those_who_finish_the_step_of_another)
{
    for (int each = 4; each <= 9; each++) {
        struct job job = {.rule = each % 2 ? "lars" : "adam", .threads = 1, .goal = STEPS};
        float *expected;
        int killed = 0;
        prepare(&job, &expected);
        open_memory(&job);
        job.die_after = each;
        while (!victim_run(train, &job))
            ASSERT_INT(killed++, <, 1000);
        ASSERT_INT(killed, >, 3);
        finish(&job, expected);
        release(&job, expected);
    }
}

TEST(updater_kept, survives_a_kill_at_any_instruction)
{
    static const char *const rules[] = {"momentum", "adam", "lars"};
    struct random random = {.key = 20};
    for (int r = 0; r < 3; r++) {
        struct job job = {.rule = rules[r], .small = true, .threads = 1, .goal = STEPS};
        float *expected;
        prepare(&job, &expected);
        long most = 8000; /* or as many as it has */
        for (int i = 0; i < 10; i++) {
            open_memory(&job);
            job.stops = true;
            long chosen = (long)(random_uniform(&random) * (float)most);
            long done = victim_step(victim_start(train, &job), chosen);
            if (done < 0)
                test_skip("this machine does not let one process step another");
            most = done < chosen ? done : most;
            finish(&job, expected);
        }
        release(&job, expected);
    }
}

/* Threads are somewhere in the middle of their units, all at once. */
TEST(updater_kept, survives_kills_at_any_moment_with_several_threads)
{
    struct random random = {.key = 21};
    struct job job = {.rule = "momentum", .threads = 2, .goal = 100};
    float *expected;
    prepare(&job, &expected);
    open_memory(&job);
    for (int i = 0; i < 10; i++) {
        pid_t pid = victim_start(train, &job);
        struct timespec pause = {.tv_nsec = (long)(random_uniform(&random) * 2e7F)};
        nanosleep(&pause, NULL);
        kill(pid, SIGKILL);
        if (victim_wait(pid))
            break;
    }
    finish(&job, expected);
    release(&job, expected);
}
