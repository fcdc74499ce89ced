/* Buckets: ranges of the gradients that are final, and may be summed over ranks, while backward still
 * runs. */
#include "base/arena.h"
#include "base/error.h"
#include "exec/plan_internal.h"

static bool writes_gradient(const struct plan *plan, const struct step *step, int param)
{
    for (int b = 0; b < step->bound_count; b++) {
        const struct buffer *buffer = &plan->buffers[step->bounds[b].buffer];
        if (buffer->kind == BUFFER_GRADIENT && buffer->index == param)
            return true;
    }
    return false;
}

/* The end of forward if none makes it. */
int plan_final_step(const struct plan *plan, int param)
{
    for (int s = plan->step_count - 1; s >= plan->forward_steps; s--)
        if (writes_gradient(plan, &plan->steps[s], param))
            return s;
    return plan->forward_steps;
}

static void close_bucket(struct plan *plan, struct plan_bucket bucket, int step)
{
    plan->buckets[plan->bucket_count++] = bucket;
    struct step *last = &plan->steps[step];
    if (last->bucket_end == 0)
        last->bucket_first = plan->bucket_count - 1;
    last->bucket_end = plan->bucket_count;
}

/* Parameters lie in the order in which backward finishes them; a bucket is closed by the first
 * parameter that fills it, and is final when the latest of its parameters is. */
static void cut_buckets(struct plan *plan)
{
    struct plan_bucket open = {0};
    int latest = plan->forward_steps;
    plan->bucket_count = 0;
    for (int s = 0; s < plan->step_count; s++)
        plan->steps[s].bucket_first = plan->steps[s].bucket_end = 0;
    for (int i = 0; i < params_count(plan->params); i++) {
        struct param_range range = params_range(plan->params, i);
        if (range.flags & (PARAM_STATISTIC | PARAM_SPARSE))
            continue;
        int step = plan_final_step(plan, i);
        if (step > latest)
            latest = step;
        open.count = range.first + range.count - open.first;
        if (plan->options.bucket_bytes &&
            open.count * sizeof(float) >= plan->options.bucket_bytes) {
            close_bucket(plan, open, latest);
            open = (struct plan_bucket){.first = open.first + open.count};
        }
    }
    if (params_dense_elements(plan->params) > open.first && open.count)
        close_bucket(plan, open, latest);
}

int plan_make_buckets(struct plan *plan, struct error *err)
{
    plan->buckets = ARENA_ARRAY(plan->arena, struct plan_bucket, params_count(plan->params) + 1);
    if (!plan->buckets)
        return error_set(err, ERROR_MEMORY, "no memory for a plan");
    cut_buckets(plan);
    return 0;
}

void plan_set_buckets(struct plan *plan, size_t bucket_bytes)
{
    if (plan->options.bucket_bytes == bucket_bytes)
        return;
    plan->options.bucket_bytes = bucket_bytes;
    cut_buckets(plan);
}

struct plan_bucket plan_bucket(const struct plan *plan, int index)
{
    return plan->buckets[index];
}

int plan_bucket_count(const struct plan *plan)
{
    return plan->bucket_count;
}
