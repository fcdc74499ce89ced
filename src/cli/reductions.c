#include "cli/reductions.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "train/exchange.h"

enum { KEPT_STEPS = 64, SKIPPED_STEPS = 2 /* with new buckets: the first is slower */ };

/* Of each step, before those of its sums; seconds since its beginning where it is a moment. */
enum part { COMPUTE, REDUCE, HIDDEN, UPDATE, STEP, PARTS };
static const char *const part_names[PARTS] = {"compute_seconds", "reduce_seconds", "hidden_seconds",
                                              "update_seconds", "step_seconds"};
enum moment { READY, START, END, MOMENTS };
static const char *const moment_names[MOMENTS] = {"ready", "start", "end"};

typedef double ring[KEPT_STEPS];

struct reductions {
    struct arena *arena;
    int limit, sum_count; /* sums of a step */
    size_t bucket_bytes;
    int64_t seen; /* steps with these buckets */
    ring parts[PARTS];
    ring (*moments)[MOMENTS]; /* [limit] */
    size_t *bytes;            /* [limit] */
    ring sorted;
};

int reductions_create(int params, struct reductions **out, struct error *err)
{
    struct arena *arena = arena_create();
    struct reductions *reductions = arena ? ARENA_NEW(arena, struct reductions) : NULL;
    size_t limit = (size_t)params + 2; /* statistics, too */
    if (reductions) {
        reductions->arena = arena;
        reductions->limit = (int)limit;
        reductions->moments = arena_take(arena, limit * sizeof *reductions->moments);
        reductions->bytes = ARENA_ARRAY(arena, size_t, limit);
    }
    if (!reductions || !reductions->moments || !reductions->bytes) {
        arena_destroy(arena);
        return error_set(err, ERROR_MEMORY, "no memory for the times of the reductions");
    }
    *out = reductions;
    return 0;
}

void reductions_destroy(struct reductions *reductions)
{
    if (reductions)
        arena_destroy(reductions->arena);
}

static void note_sums(struct reductions *reductions, const struct train_event *event, int64_t place)
{
    for (int i = 0; i < event->sum_count; i++) {
        const struct exchange_sum *sum = &event->sums[i];
        reductions->bytes[i] = sum->bytes;
        reductions->moments[i][READY][place] = sum->ready - event->started;
        reductions->moments[i][START][place] = sum->start - event->started;
        reductions->moments[i][END][place] = sum->end - event->started;
    }
}

void reductions_observe(void *context, const struct train_event *event)
{
    struct reductions *reductions = context;
    if (!reductions || event->kind != TRAIN_STEP || event->sum_count > reductions->limit)
        return;
    if (event->bucket_bytes != reductions->bucket_bytes ||
        event->sum_count != reductions->sum_count)
        reductions->seen = 0;
    reductions->bucket_bytes = event->bucket_bytes;
    reductions->sum_count = event->sum_count;
    if (reductions->seen++ < SKIPPED_STEPS)
        return;
    int64_t place = (reductions->seen - SKIPPED_STEPS - 1) % KEPT_STEPS;
    const double parts[PARTS] = {[COMPUTE] = event->input_seconds + event->forward_seconds +
                                             event->backward_seconds,
                                 [REDUCE] = event->reduce_seconds,
                                 [HIDDEN] = event->hidden_seconds,
                                 [UPDATE] = event->update_seconds,
                                 [STEP] = event->step_seconds};
    for (int i = 0; i < PARTS; i++)
        reductions->parts[i][place] = parts[i];
    note_sums(reductions, event, place);
}

static int by_size(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median(struct reductions *reductions, const ring values, int64_t count)
{
    memcpy(reductions->sorted, values, (size_t)count * sizeof(double));
    qsort(reductions->sorted, (size_t)count, sizeof(double), by_size);
    return (reductions->sorted[(count - 1) / 2] + reductions->sorted[count / 2]) / 2;
}

static struct json *describe_sums(struct reductions *reductions, int64_t count)
{
    struct json *list = json_array_create();
    for (int i = 0; i < reductions->sum_count; i++) {
        struct json *sum = json_object_create();
        json_set_integer(sum, "bytes", (int64_t)reductions->bytes[i]);
        for (int m = 0; m < MOMENTS; m++)
            json_set_number(sum, moment_names[m],
                            median(reductions, reductions->moments[i][m], count));
        json_append(list, sum);
    }
    return list;
}

void reductions_describe(struct reductions *reductions, struct json *out)
{
    int64_t count = reductions ? reductions->seen - SKIPPED_STEPS : 0;
    count = count > KEPT_STEPS ? KEPT_STEPS : count;
    if (count <= 0)
        return;
    struct json *json = json_object_create();
    json_set_integer(json, "steps", count);
    json_set_integer(json, "bucket_bytes", (int64_t)reductions->bucket_bytes);
    for (int i = 0; i < PARTS; i++)
        json_set_number(json, part_names[i], median(reductions, reductions->parts[i], count));
    json_set(json, "sums", describe_sums(reductions, count));
    json_set(out, "reductions", json);
}
