#include "cli/timeline.h"

#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "exec/params.h"
#include "exec/plan.h"
#include "exec/sparse.h"

enum { KEPT_STEPS = 64, FORMAT = 1 };

/* Of each step, before the times of the gradients. */
enum part { INPUT, FORWARD, BACKWARD, REDUCE, HIDDEN, UPDATE, STEP, ROWS, PARTS };
static const char *const part_names[PARTS] = {
    "input_seconds",  "forward_seconds", "backward_seconds", "reduce_seconds",
    "hidden_seconds", "update_seconds",  "step_seconds",     "row_bytes"};

struct gradient {
    const char *name;
    size_t bytes;
    int step; /* of the plan, behind which it is final */
};

struct timeline {
    struct timeline_options options;
    struct arena *arena;
    struct gradient *gradients; /* in backward order */
    int count;
    int64_t seen;               /* steps behind the warm-up */
    double (*kept)[KEPT_STEPS]; /* [PARTS + count]: rings */
    double sorted[KEPT_STEPS];
};

/* The padding that a blocked layout brings travels, too. */
static void list_gradients(struct timeline *timeline)
{
    const struct params *params = timeline->options.params;
    for (int i = 0; i < params_count(params); i++) {
        struct param_range range = params_range(params, i);
        if (range.flags & (PARAM_STATISTIC | PARAM_SPARSE))
            continue;
        timeline->gradients[timeline->count++] =
            (struct gradient){.name = range.name,
                              .bytes = range.count * sizeof(float),
                              .step = plan_final_step(timeline->options.plan, i)};
    }
}

int timeline_create(const struct timeline_options *options, struct timeline **out,
                    struct error *err)
{
    struct arena *arena = arena_create();
    struct timeline *timeline = arena ? ARENA_NEW(arena, struct timeline) : NULL;
    size_t most = (size_t)params_count(options->params);
    if (timeline) {
        timeline->options = *options;
        timeline->arena = arena;
        timeline->gradients = ARENA_ARRAY(arena, struct gradient, most + 1);
        timeline->kept = arena_take(arena, (most + PARTS) * sizeof *timeline->kept);
    }
    if (!timeline || !timeline->gradients || !timeline->kept) {
        arena_destroy(arena);
        return error_set(err, ERROR_MEMORY, "no memory for the timeline");
    }
    list_gradients(timeline);
    *out = timeline;
    return 0;
}

void timeline_destroy(struct timeline *timeline)
{
    if (timeline)
        arena_destroy(timeline->arena);
}

/* What this rank would send of its tables; see train/rows.h. */
static double row_bytes(const struct plan *plan)
{
    double bytes = 0;
    for (int i = 0; i < plan_sparse_count(plan); i++) {
        struct sparse_rows rows;
        plan_sparse(plan, i, &rows);
        bytes += (double)rows.count *
                 (double)(sizeof *rows.rows + (size_t)rows.dim * sizeof *rows.values);
    }
    return bytes;
}

void timeline_observe(void *context, const struct train_event *event)
{
    struct timeline *timeline = context;
    if (!timeline || event->kind != TRAIN_STEP || timeline->seen++ < timeline->options.warmup_steps)
        return;
    const double parts[PARTS] = {
        [INPUT] = event->input_seconds,       [FORWARD] = event->forward_seconds,
        [BACKWARD] = event->backward_seconds, [REDUCE] = event->reduce_seconds,
        [HIDDEN] = event->hidden_seconds,     [UPDATE] = event->update_seconds,
        [STEP] = event->step_seconds,         [ROWS] = row_bytes(timeline->options.plan)};
    int64_t place = (timeline->seen - timeline->options.warmup_steps - 1) % KEPT_STEPS;
    for (int i = 0; i < PARTS; i++)
        timeline->kept[i][place] = parts[i];
    for (int i = 0; i < timeline->count; i++) {
        double end = plan_step(timeline->options.plan, timeline->gradients[i].step).end;
        timeline->kept[PARTS + i][place] = end - event->started;
    }
}

static int by_size(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static int64_t kept_steps(const struct timeline *timeline)
{
    int64_t steps = timeline->seen - timeline->options.warmup_steps;
    return steps < 0 ? 0 : steps < KEPT_STEPS ? steps : KEPT_STEPS;
}

static double median(struct timeline *timeline, int row)
{
    int64_t count = kept_steps(timeline);
    memcpy(timeline->sorted, timeline->kept[row], (size_t)count * sizeof(double));
    qsort(timeline->sorted, (size_t)count, sizeof(double), by_size);
    return (timeline->sorted[(count - 1) / 2] + timeline->sorted[count / 2]) / 2;
}

/* Of the own work of a step, relative to its mean. */
static double spread(const struct timeline *timeline)
{
    int64_t count = kept_steps(timeline);
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++) {
        double own =
            timeline->kept[INPUT][i] + timeline->kept[FORWARD][i] + timeline->kept[BACKWARD][i];
        sum += own;
        squares += own * own;
    }
    double mean = sum / (double)count, variance = squares / (double)count - mean * mean;
    return mean > 0 && variance > 0 ? sqrt(variance) / mean : 0;
}

void timeline_describe(struct timeline *timeline, struct json *out)
{
    if (!timeline || !kept_steps(timeline))
        return;
    struct json *json = json_object_create(), *list = json_array_create();
    json_set_integer(json, "format", FORMAT);
    json_set_integer(json, "ranks", timeline->options.ranks);
    json_set_integer(json, "batch", timeline->options.batch);
    json_set_integer(json, "steps", kept_steps(timeline));
    for (int i = 0; i < PARTS; i++)
        json_set_number(json, part_names[i], median(timeline, i));
    json_set_number(json, "spread", spread(timeline));
    json_set_integer(
        json, "statistic_bytes",
        (int64_t)(params_statistic_elements(timeline->options.params) * sizeof(float)));
    for (int i = 0; i < timeline->count; i++) {
        struct json *gradient = json_object_create();
        json_set_text(gradient, "name", timeline->gradients[i].name);
        json_set_integer(gradient, "bytes", (int64_t)timeline->gradients[i].bytes);
        json_set_number(gradient, "seconds", median(timeline, PARTS + i));
        json_append(list, gradient);
    }
    json_set(json, "gradients", list);
    json_set(out, "timeline", json);
}
