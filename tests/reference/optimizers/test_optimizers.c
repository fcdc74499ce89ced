/* Every optimizer over 20 steps, and every schedule, against numbers that PyTorch or the
 * published formula gave in double precision (make_vectors.py). */
#include <math.h>

#include "support/test.h"
#include "train/optimizer.h"
#include "train/schedule.h"
#include "vectors.h"

enum { CASES = sizeof optimizer_cases / sizeof *optimizer_cases };
enum { SCHEDULES = sizeof schedule_cases / sizeof *schedule_cases };

/* Rounding of one float operation, times the operations on the longest path through a step
 * (about 10), times the steps; FTRL divides a difference of nearby roots by the rate. */
static double tolerance(const char *optimizer, int step)
{
    double rounding = 0x1p-24 * 10 * step;
    return strcmp(optimizer, "ftrl") ? rounding : rounding * 16;
}

static float start_weight(int i)
{
    return (float)((i * 7919 + 31) % 257 - 128) / 128;
}

static float gradient_at(int i, int step)
{
    return (float)((i * 104729L + step * 15485863L + 7) % 513 - 256) / 256;
}

static float rate_at(int step)
{
    return step <= 10 ? 0.0625F : 0.03125F;
}

struct state {
    float weights[VECTOR_COUNT], gradients[VECTOR_COUNT];
    float slots[PARAMS_MAX_SLOTS][VECTOR_COUNT];
};

static void start(struct state *state, const struct optimizer *optimizer)
{
    for (int i = 0; i < VECTOR_COUNT; i++) {
        state->weights[i] = start_weight(i);
        for (int slot = 0; slot < PARAMS_MAX_SLOTS; slot++)
            state->slots[slot][i] = optimizer->slot_initial[slot];
    }
}

static double norm(const float *values)
{
    double sum = 0;
    for (int i = 0; i < VECTOR_COUNT; i++)
        sum += (double)values[i] * values[i];
    return sqrt(sum);
}

/* Reads `from`, writes `to`; they may be the same. */
static void step_between(const struct optimizer_case *test, const struct optimizer *optimizer,
                         struct state *from, struct state *to, int step)
{
    for (int i = 0; i < VECTOR_COUNT; i++)
        from->gradients[i] = gradient_at(i, step);
    struct optimizer_range range = {.count = VECTOR_COUNT,
                                    .weights = from->weights,
                                    .gradients = from->gradients,
                                    .new_weights = to->weights};
    if (optimizer->needs_norms && test->settings.weight_decay > 0) {
        range.weight_norm = norm(from->weights);
        range.gradient_norm = norm(from->gradients);
    }
    for (int slot = 0; slot < optimizer->slot_count; slot++) {
        range.slots[slot] = from->slots[slot];
        range.new_slots[slot] = to->slots[slot];
    }
    optimizer->step(&test->settings, rate_at(step), step, &range);
}

static double largest(const double *values)
{
    double most = 0;
    for (int i = 0; i < VECTOR_COUNT; i++)
        most = fmax(most, fabs(values[i]));
    return most;
}

static void compare(const struct optimizer_case *test, const float *weights, int kept)
{
    int step = kept_steps[kept];
    double allowed = tolerance(test->optimizer, step) * fmax(1, largest(test->weights[kept]));
    for (int i = 0; i < VECTOR_COUNT; i++) {
        double difference = fabs(weights[i] - test->weights[kept][i]);
        if (!(difference <= allowed))
            FAIL("%s, step %d, weight %d: %.9g, expected %.9g (%.2g apart, %.2g allowed)",
                 test->title, step, i, (double)weights[i], test->weights[kept][i], difference,
                 allowed);
    }
}

static void run_case(const struct optimizer_case *test, bool two_generations)
{
    const struct optimizer *optimizer = optimizer_find(test->optimizer);
    ASSERT_TRUE(optimizer);
    static struct state generations[2];
    start(&generations[0], optimizer);
    for (int step = 1, now = 0, kept = 0; step <= VECTOR_STEPS; step++) {
        int next = two_generations ? !now : now;
        step_between(test, optimizer, &generations[now], &generations[next], step);
        now = next;
        if (kept < KEPT_STEPS && step == kept_steps[kept])
            compare(test, generations[now].weights, kept++);
    }
}

TEST(optimizers, every_optimizer_follows_its_reference_for_20_steps)
{
    for (int i = 0; i < CASES; i++)
        run_case(&optimizer_cases[i], false);
}

TEST(optimizers, every_optimizer_may_read_one_generation_and_write_another)
{
    for (int i = 0; i < CASES; i++)
        run_case(&optimizer_cases[i], true);
}

TEST(optimizers, every_optimizer_has_a_reference)
{
    for (const struct optimizer *const *rule = optimizer_list(); *rule; rule++) {
        bool found = false;
        for (int i = 0; i < CASES; i++)
            found |= !strcmp(optimizer_cases[i].optimizer, (*rule)->name);
        if (!found)
            FAIL("make_vectors.py has no case for %s", (*rule)->name);
    }
}

TEST(schedules, every_schedule_follows_its_formula)
{
    for (int s = 0; s < SCHEDULES; s++) {
        struct schedule schedule;
        struct error err = {0};
        if (schedule_parse(schedule_cases[s].text, 0.5F, 5, SCHEDULE_EPOCH, SCHEDULE_TOTAL,
                           &schedule, &err) < 0)
            FAIL("%s", err.message);
        for (int i = 0; i < SCHEDULE_POINTS; i++) {
            float rate = schedule_rate(&schedule, schedule_points[i]);
            double expected = schedule_cases[s].rates[i];
            if (fabs(rate - expected) > 0x1p-23 * 0.5)
                FAIL("%s at step %d: %.9g, expected %.9g", schedule_cases[s].text,
                     (int)schedule_points[i], (double)rate, expected);
        }
    }
}
