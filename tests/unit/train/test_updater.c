#include <math.h>

#include "base/memory.h"
#include "exec/params_layout.h"
#include "support/test.h"
#include "train/optimizer.h"

/* Three layers whose sizes leave gaps for alignment and cut a weight into several pieces. */
struct fixture {
    struct graph *graph;
    struct params *params;
};

static void add_param(struct graph *graph, const char *name, struct shape shape, unsigned flags)
{
    graph_param(graph, name, shape, (struct initializer){INIT_NORMAL, .value = 0.5F}, flags);
}

static void fill_gradients(struct params *params, float scale)
{
    float *gradients = params_gradients(params);
    for (int i = 0; i < params_count(params); i++) {
        struct param_range range = params_range(params, i);
        for (size_t j = 0; range.flags & PARAM_TRAINABLE && j < range.count; j++)
            gradients[range.first + j] = scale * (float)((int)(j * 7919 % 401) - 200) / 200;
    }
}

static void setup(struct fixture *fixture, int slots)
{
    struct error err = {0};
    fixture->graph = graph_create();
    add_param(fixture->graph, "wide/weights", SHAPE(300, 171), PARAM_TRAINABLE | PARAM_DECAY);
    add_param(fixture->graph, "wide/bias", SHAPE(171), PARAM_TRAINABLE);
    add_param(fixture->graph, "deep/weights", SHAPE(171, 130), PARAM_TRAINABLE | PARAM_DECAY);
    add_param(fixture->graph, "deep/bias", SHAPE(13), PARAM_TRAINABLE);
    add_param(fixture->graph, "deep/mean", SHAPE(13), PARAM_STATISTIC);
    ASSERT_OK(params_create(fixture->graph, slots, NULL, &fixture->params, &err), err);
    ASSERT_OK(params_fix(fixture->params, true, &err), err);
    ASSERT_OK(params_initialize(fixture->params, 7, &err), err);
    fill_gradients(fixture->params, 0.1F);
}

static void teardown(struct fixture *fixture)
{
    params_destroy(fixture->params);
    graph_destroy(fixture->graph);
}

static struct param_group group_of(const char *prefix, const char *rule, float decay)
{
    const struct optimizer *optimizer = optimizer_find(rule);
    struct param_group group = {prefix, optimizer, optimizer->defaults, 1};
    group.settings.weight_decay = decay;
    return group;
}

static struct updater *make(struct fixture *fixture, const struct param_group *groups, int count,
                            int threads)
{
    struct updater *updater;
    struct error err = {0};
    ASSERT_OK(updater_create(fixture->params, groups, count, threads, &updater, &err), err);
    updater_initialize_slots(updater);
    return updater;
}

static float *copy(const float *values, size_t count)
{
    float *out = memory_allocate((count + 1) * sizeof *out);
    return memcpy(out, values, count * sizeof *out);
}

/* Weights after some steps of a rule, on so many threads; the caller's. */
static float *train(const char *rule, int threads, size_t *count)
{
    struct fixture fixture;
    struct param_group group = group_of("", rule, 0.01F);
    setup(&fixture, group.optimizer->slot_count);
    struct updater *updater = make(&fixture, &group, 1, threads);
    for (int step = 1; step <= 3; step++)
        updater_step(updater, 0.05F, step);
    *count = params_elements(fixture.params);
    float *weights = copy(params_weights(fixture.params), *count);
    updater_destroy(updater);
    teardown(&fixture);
    return weights;
}

TEST(updater, gives_the_same_bits_with_any_number_of_threads)
{
    for (const struct optimizer *const *rule = optimizer_list(); *rule; rule++) {
        size_t count;
        float *alone = train((*rule)->name, 1, &count);
        for (int threads = 2; threads <= 5; threads++) {
            float *together = train((*rule)->name, threads, &count);
            ASSERT_BYTES(together, alone, count * sizeof *alone);
            memory_free(together);
        }
        memory_free(alone);
    }
}

TEST(updater, decays_only_what_is_marked_for_it)
{
    struct fixture fixture;
    struct param_group group = group_of("", "sgd", 0.5F);
    setup(&fixture, 0);
    fill_gradients(fixture.params, 0);
    struct updater *updater = make(&fixture, &group, 1, 2);
    float *before = copy(params_weights(fixture.params), params_elements(fixture.params));
    updater_step(updater, 0.5F, 1);
    const float *after = params_weights(fixture.params);
    for (int i = 0; i < params_count(fixture.params); i++) {
        struct param_range range = params_range(fixture.params, i);
        double kept = range.flags & PARAM_DECAY ? 0.75 : 1;
        for (size_t j = range.first; range.flags & PARAM_TRAINABLE && j < range.first + range.count;
             j++)
            ASSERT_NEAR(after[j], before[j] * kept, 1e-6, 0);
    }
    memory_free(before);
    updater_destroy(updater);
    teardown(&fixture);
}

TEST(updater, gives_each_group_its_own_rule_and_rate)
{
    struct fixture fixture;
    struct param_group groups[] = {group_of("", "sgd", 0), group_of("wide/", "adam", 0)};
    groups[0].rate_factor = 0.5F;
    ASSERT_INT(updater_slots_needed(groups, 2), ==, 2);
    setup(&fixture, 2);
    struct updater *updater = make(&fixture, groups, 2, 2);
    float *before = copy(params_weights(fixture.params), params_elements(fixture.params));
    updater_step(updater, 0.01F, 1);
    const float *after = params_weights(fixture.params);
    const float *gradients = params_gradients(fixture.params);
    for (int i = 0; i < params_count(fixture.params); i++) {
        struct param_range range = params_range(fixture.params, i);
        for (size_t j = range.first; range.flags & PARAM_TRAINABLE && j < range.first + range.count;
             j++) {
            /* Adam's first step has the length of the rate, whatever the gradient. */
            double moved = !strncmp(range.name, "wide/", 5)
                               ? 0.01 * ((gradients[j] > 0) - (gradients[j] < 0))
                               : 0.005 * gradients[j];
            ASSERT_NEAR(after[j], before[j] - moved, 1e-5, 0.1);
        }
    }
    memory_free(before);
    updater_destroy(updater);
    teardown(&fixture);
}

TEST(updater, refuses_a_parameter_that_no_group_takes)
{
    struct fixture fixture;
    struct param_group group = group_of("wide/", "sgd", 0);
    struct updater *updater = NULL;
    struct error err;
    setup(&fixture, 0);
    ASSERT_FAILS(updater_create(fixture.params, &group, 1, 1, &updater, &err), err, ERROR_USAGE,
                 "deep/");
    teardown(&fixture);
}

TEST(updater, refuses_a_group_that_takes_no_parameter)
{
    struct fixture fixture;
    setup(&fixture, 1);
    struct param_group groups[2] = {group_of("wode/", "sgd", 0), group_of("", "momentum", 0)};
    struct updater *updater = NULL;
    struct error err;
    ASSERT_FAILS(updater_create(fixture.params, groups, 2, 1, &updater, &err), err, ERROR_USAGE,
                 "the group wode/ takes no parameter");
    teardown(&fixture);
}

TEST(updater, refuses_too_few_slots_and_settings_that_cannot_work)
{
    struct fixture fixture;
    struct param_group group = group_of("", "adam", 0);
    struct updater *updater = NULL;
    struct error err;
    setup(&fixture, 1);
    ASSERT_FAILS(updater_create(fixture.params, &group, 1, 1, &updater, &err), err, ERROR_USAGE,
                 "needs 2 slots");
    group = group_of("", "momentum", 0);
    group.settings.momentum = 1;
    ASSERT_FAILS(updater_create(fixture.params, &group, 1, 1, &updater, &err), err, ERROR_USAGE,
                 "--momentum=1");
    teardown(&fixture);
}

static double norm(const float *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)values[i] * values[i];
    return sqrt(sum);
}

TEST(updater, gives_lars_the_norms_of_each_parameter_and_leaves_biases_out)
{
    struct fixture fixture;
    struct param_group group = group_of("", "lars", 0.01F);
    setup(&fixture, 1);
    struct updater *updater = make(&fixture, &group, 1, 2);
    float *before = copy(params_weights(fixture.params), params_elements(fixture.params));
    updater_step(updater, 0.5F, 1);
    const float *after = params_weights(fixture.params);
    for (int i = 0; i < params_count(fixture.params); i++) {
        struct param_range range = params_range(fixture.params, i);
        if (!(range.flags & PARAM_TRAINABLE))
            continue;
        const float *gradients = params_gradients(fixture.params) + range.first;
        double weight = norm(before + range.first, range.count);
        double gradient = norm(gradients, range.count), decay = 0, ratio = 1;
        if (range.flags & PARAM_DECAY) {
            decay = 0.01;
            ratio = 0.001 * weight / (gradient + decay * weight);
        }
        for (size_t j = 0; j < range.count; j++) {
            double old = before[range.first + j];
            ASSERT_NEAR(after[range.first + j], old - 0.5 * ratio * (gradients[j] + decay * old),
                        1e-6, 0.1);
        }
    }
    memory_free(before);
    updater_destroy(updater);
    teardown(&fixture);
}

TEST(updater, may_write_another_generation_and_leaves_the_first_alone)
{
    for (const struct optimizer *const *rule = optimizer_list(); *rule; rule++) {
        struct fixture fixture;
        struct param_group group = group_of("", (*rule)->name, 0.01F);
        setup(&fixture, group.optimizer->slot_count);
        struct updater *updater = make(&fixture, &group, 1, 2);
        size_t count = params_elements(fixture.params);
        struct updater_memory own = {.weights = params_weights(fixture.params)}, other;
        float *untouched = copy(own.weights, count);
        other.weights = copy(own.weights, count);
        for (int slot = 0; slot < (*rule)->slot_count; slot++) {
            own.slots[slot] = params_slot(fixture.params, slot);
            other.slots[slot] = copy(own.slots[slot], count);
        }
        updater_step_between(updater, &own, &other, 0.05F, 1);
        ASSERT_BYTES(own.weights, untouched, count * sizeof(float));
        updater_step(updater, 0.05F, 1);
        ASSERT_BYTES(other.weights, own.weights, count * sizeof(float));
        for (int slot = 0; slot < (*rule)->slot_count; slot++) {
            ASSERT_BYTES(other.slots[slot], own.slots[slot], count * sizeof(float));
            memory_free(other.slots[slot]);
        }
        memory_free(other.weights);
        memory_free(untouched);
        updater_destroy(updater);
        teardown(&fixture);
    }
}

TEST(updater, starts_slots_at_the_rules_values)
{
    struct fixture fixture;
    struct param_group groups[] = {group_of("wide/", "ftrl", 0), group_of("deep/", "rmsprop", 0)};
    setup(&fixture, 2);
    struct updater *updater = make(&fixture, groups, 2, 2);
    for (int i = 0; i < params_count(fixture.params); i++) {
        struct param_range range = params_range(fixture.params, i);
        if (!(range.flags & PARAM_TRAINABLE))
            continue;
        double expected = !strncmp(range.name, "wide/", 5) ? 0.1F : 1;
        ASSERT_NUMBER(params_slot(fixture.params, 0)[range.first], ==, expected);
        ASSERT_NUMBER(params_slot(fixture.params, 0)[range.first + range.count - 1], ==, expected);
        ASSERT_NUMBER(params_slot(fixture.params, 1)[range.first], ==, 0);
    }
    updater_destroy(updater);
    teardown(&fixture);
}

TEST(updater, sums_what_decay_adds_to_the_loss)
{
    struct fixture fixture;
    struct param_group group = group_of("", "sgd", 0.02F);
    setup(&fixture, 0);
    struct updater *updater = make(&fixture, &group, 1, 2);
    double expected = 0;
    for (int i = 0; i < params_count(fixture.params); i++) {
        struct param_range range = params_range(fixture.params, i);
        if (range.flags & PARAM_DECAY)
            expected +=
                0.01 * pow(norm(params_weights(fixture.params) + range.first, range.count), 2);
    }
    ASSERT_NUMBER(expected, >, 0);
    ASSERT_NEAR(updater_decay_loss(updater), expected, 1e-6, 0);
    updater_destroy(updater);
    teardown(&fixture);
}

TEST(updater, sees_a_gradient_that_is_not_finite_wherever_it_is)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY, -NAN};
    struct fixture fixture;
    struct param_group group = group_of("", "sgd", 0);
    setup(&fixture, 0);
    struct updater *updater = make(&fixture, &group, 1, 2);
    float *gradients = params_gradients(fixture.params);
    ASSERT_TRUE(updater_gradients_finite(updater));
    for (int i = 0; i < params_count(fixture.params); i++) {
        struct param_range range = params_range(fixture.params, i);
        for (size_t j = 0; range.flags & PARAM_TRAINABLE && j < range.count; j += 1009) {
            float kept = gradients[range.first + j];
            gradients[range.first + j] = bad[j % 4];
            ASSERT_FALSE(updater_gradients_finite(updater));
            gradients[range.first + j] = kept;
        }
    }
    gradients[0] = 3.4e38F;
    ASSERT_TRUE(updater_gradients_finite(updater));
    updater_destroy(updater);
    teardown(&fixture);
}

TEST(updater, allocates_nothing_in_a_step)
{
    struct fixture fixture;
    struct param_group group = group_of("", "lars", 0.01F);
    setup(&fixture, 1);
    struct updater *updater = make(&fixture, &group, 1, 2);
    uint64_t before = memory_allocation_count();
    updater_step(updater, 0.1F, 1);
    updater_gradients_finite(updater);
    updater_decay_loss(updater);
    ASSERT_INT(memory_allocation_count() - before, ==, 0);
    updater_destroy(updater);
    teardown(&fixture);
}
