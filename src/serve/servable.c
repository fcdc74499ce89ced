#include "serve/servable.h"

#include <math.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "convert/imported.h"
#include "exec/params.h"
#include "exec/plan.h"
#include "serve/batch_queue.h"
#include "serve/inference.h"
#include "serve/stats.h"

const struct model_calls model_calls_imported = {
    .read = imported_read,
    .destroy = imported_destroy,
    .prepare = imported_prepare,
    .finish = imported_finish,
};

enum { MAX_SIZES = 20 };
static const double usual_quick_seconds = 4e-3; /* away from a door's connections */

/* What one worker computes with: plans of all sizes, which read the same inputs and share memory,
 * since one of them runs at a time. */
struct lane {
    struct plan *plans[MAX_SIZES];
    struct tensor *inputs, *outputs; /* of the plan that runs */
    struct slab memory;              /* of the inputs, for the largest batch */
};

struct servable {
    atomic_int holders;
    struct servable_settings settings;
    struct imported *model;
    struct arena *arena;
    int sizes[MAX_SIZES]; /* rising */
    int size_count;
    int quick_rows;     /* batches of so many rows are for helpers; 0: none are */
    struct lane *lanes; /* [workers], and one for a helper if any batch is quick */
    int lane_count;     /* that were made */
    struct batch_queue queue;
};

/* --- making one ------------------------------------------------------------------------------ */

static void choose_sizes(struct servable *servable)
{
    int size = 1;
    while (size < servable->settings.max_batch && servable->size_count < MAX_SIZES - 1) {
        servable->sizes[servable->size_count++] = size;
        size *= 2;
    }
    servable->sizes[servable->size_count++] = servable->settings.max_batch;
}

/* All inputs behind each other, each on a cache line of its own. */
static int take_inputs(struct servable *servable, struct lane *lane, struct error *err)
{
    const struct imported *model = servable->model;
    size_t bytes = 0;
    lane->inputs = ARENA_ARRAY(servable->arena, struct tensor, model->input_count + 1);
    lane->outputs = ARENA_ARRAY(servable->arena, struct tensor, model->output_count + 1);
    if (!lane->inputs || !lane->outputs)
        return error_set(err, ERROR_MEMORY, "no memory for a model");
    for (int i = 0; i < model->input_count; i++) {
        lane->inputs[i] = (struct tensor){
            .dtype = model->inputs[i].dtype,
            .shape = shape_with_batch(model->inputs[i].shape, servable->settings.max_batch)};
        bytes += (tensor_bytes(&lane->inputs[i]) + 63) & ~(size_t)63;
    }
    if (slab_create(bytes ? bytes : 64, "inputs", &lane->memory, err) < 0)
        return -1;
    char *at = lane->memory.data;
    for (int i = 0; i < model->input_count; i++) {
        lane->inputs[i].data = at;
        at += (tensor_bytes(&lane->inputs[i]) + 63) & ~(size_t)63;
    }
    return 0;
}

/* For sizes up to `last`. The largest first: the others live in its memory. Weights are shared by all
 * lanes. */
static int make_plans(struct servable *servable, struct lane *lane, int last, struct error *err)
{
    const struct plan *first = servable->lanes[0].plans[servable->size_count - 1];
    for (int i = last; i >= 0; i--) {
        struct plan_options options = {.mode = PLAN_SERVE,
                                       .batch = servable->sizes[i],
                                       .threads = servable->settings.threads,
                                       .beside = i < last ? lane->plans[last] : first,
                                       .beside_runs = i == last};
        if (plan_create(servable->model->graph, servable->model->params, &options, &lane->plans[i],
                        err) < 0)
            return error_wrap(err, "a batch of %d", servable->sizes[i]);
    }
    return 0;
}

static int check_plan(const struct servable *servable, struct error *err)
{
    const struct plan *plan = servable->lanes[0].plans[0];
    if (plan_input_count(plan) == servable->model->input_count &&
        plan_output_count(plan) == servable->model->output_count)
        return 0;
    return error_set(err, ERROR_FORMAT,
                     "the network has %d inputs and %d outputs, its signatures know %d and %d",
                     plan_input_count(plan), plan_output_count(plan), servable->model->input_count,
                     servable->model->output_count);
}

static int make_lane(struct servable *servable, int last, struct error *err)
{
    struct lane *lane = &servable->lanes[servable->lane_count++];
    return take_inputs(servable, lane, err) < 0 ? -1 : make_plans(servable, lane, last, err);
}

/* Helpers spin between the operations of a batch, where they are needed again within microseconds, and are
 * gone after it, when the threads that read requests want the cores. Starting them takes less than a
 * thousandth of a batch that has work for several (plan.c). */
static void run_plan(struct servable *servable, struct lane *lane, int size)
{
    for (int i = 0; i < servable->model->input_count; i++)
        lane->inputs[i].shape.dim[0] = servable->sizes[size];
    plan_forward(lane->plans[size], lane->inputs, lane->outputs);
    if (plan_threads(lane->plans[size]) > 1)
        threads_dismiss_helpers();
}

static int check_outputs(const struct servable *servable, const struct lane *lane,
                         struct error *err)
{
    for (int o = 0; o < servable->model->output_count; o++) {
        const float *values = lane->outputs[o].data;
        int64_t count = shape_count(&lane->outputs[o].shape);
        for (int64_t i = 0; i < count; i++)
            if (!isfinite(values[i])) {
                const char *node = plan_find_nonfinite(lane->plans[0], lane->inputs);
                return error_set(err, ERROR_NUMERIC,
                                 "for an input of zeros it answers with %f, which begins in %s: "
                                 "the weights are damaged",
                                 (double)values[i], node ? node : "an output");
            }
    }
    return 0;
}

/* Every lane's first plan runs; the others when there is time, for their pages are touched and
 * their kernels made by then. */
static int warm(struct servable *servable, struct error *err)
{
    int sizes = servable->settings.warm_all ? servable->size_count : 1;
    for (int l = 0; l < servable->lane_count; l++) {
        struct lane *lane = &servable->lanes[l];
        for (int i = 0; i < sizes && lane->plans[i]; i++) {
            run_plan(servable, lane, i);
            if (i == 0 && check_outputs(servable, lane, err) < 0)
                return -1;
        }
    }
    return 0;
}

/* The shortest of some runs, on zeros. */
static double time_plan(struct servable *servable, int size)
{
    enum { RUNS = 3 };
    double shortest = INFINITY;
    for (int i = 0; i < RUNS && (i == 0 || shortest < 10 * servable->settings.quick_seconds); i++) {
        double start = clock_seconds();
        run_plan(servable, &servable->lanes[0], size);
        shortest = fmin(shortest, clock_seconds() - start);
    }
    return shortest;
}

/* The largest batch that a helper computes within a few milliseconds, on one thread. What convolutions
 * and products count says which are worth a look, and a clock whether it is so: other operations take
 * time, too. Who computes a batch changes none of its bits. */
static int find_quick_size(struct servable *servable)
{
    int size = 0;
    while (size < servable->size_count &&
           plan_flops(servable->lanes[0].plans[size]) <= PLAN_THREAD_FLOPS &&
           time_plan(servable, size) <= servable->settings.quick_seconds)
        size++;
    return size - 1;
}

static int fill(struct servable *servable, struct error *err)
{
    int lanes = servable->settings.workers + 1, last;
    servable->arena = arena_create();
    servable->lanes = servable->arena ? ARENA_ARRAY(servable->arena, struct lane, lanes) : NULL;
    if (!servable->lanes)
        return error_set(err, ERROR_MEMORY, "no memory for a model");
    servable->settings.name = arena_copy_text(servable->arena, servable->settings.name);
    if (!servable->settings.name)
        return error_set(err, ERROR_MEMORY, "no memory for a model");
    choose_sizes(servable);
    last = servable->size_count - 1;
    for (int l = 0; l < servable->settings.workers; l++)
        if (make_lane(servable, last, err) < 0 || (l == 0 && check_plan(servable, err) < 0))
            return -1;
    int quick = find_quick_size(servable);
    if (quick >= 0 && make_lane(servable, quick, err) < 0)
        return -1;
    servable->quick_rows = quick >= 0 ? servable->sizes[quick] : 0;
    params_drop_dense(servable->model->params); /* the plans have copies of their own */
    return warm(servable, err);
}

static void destroy(struct servable *servable)
{
    /* Who borrowed goes before who lent. */
    for (int l = servable->lane_count - 1; l >= 0; l--) {
        for (int i = 0; i < servable->size_count; i++)
            plan_destroy(servable->lanes[l].plans[i]);
        slab_release(&servable->lanes[l].memory);
    }
    servable->settings.calls->destroy(servable->model);
    arena_destroy(servable->arena);
    memory_free(servable);
}

int servable_create(const struct servable_settings *settings, struct imported *model,
                    struct servable **out, struct error *err)
{
    const struct model_calls *calls = settings->calls ? settings->calls : &model_calls_imported;
    struct servable *servable = memory_allocate(sizeof *servable);
    if (!servable) {
        calls->destroy(model);
        return error_set(err, ERROR_MEMORY, "no memory for a model");
    }
    servable->settings = *settings;
    servable->settings.calls = calls;
    if (servable->settings.threads < 1)
        servable->settings.threads = threads_available(); /* once: it reads a dozen files */
    if (servable->settings.workers < 1)
        servable->settings.workers = 1;
    if (servable->settings.quick_seconds <= 0)
        servable->settings.quick_seconds = usual_quick_seconds;
    servable->model = model;
    servable->queue.servable = servable;
    atomic_init(&servable->holders, 1);
    int status = fill(servable, err);
    plans_forget();
    if (status < 0) {
        destroy(servable);
        return -1;
    }
    *out = servable;
    return 0;
}

void servable_hold(struct servable *servable)
{
    atomic_fetch_add(&servable->holders, 1);
}

void servable_release(struct servable *servable)
{
    if (servable && atomic_fetch_sub(&servable->holders, 1) == 1)
        destroy(servable);
}

/* --- what others ask of it ------------------------------------------------------------------- */

const char *servable_name(const struct servable *servable)
{
    return servable->settings.name;
}

int64_t servable_version(const struct servable *servable)
{
    return servable->settings.version;
}

const struct imported *servable_model(const struct servable *servable)
{
    return servable->model;
}

int servable_max_batch(const struct servable *servable)
{
    return servable->settings.max_batch;
}

struct batch_queue *servable_queue(struct servable *servable)
{
    return &servable->queue;
}

static const struct plan *largest_plan(const struct servable *servable, const struct lane *lane)
{
    int last = servable->size_count - 1;
    while (!lane->plans[last]) /* a helper's has only quick ones */
        last--;
    return lane->plans[last];
}

size_t servable_memory(const struct servable *servable)
{
    size_t bytes = 0;
    for (int l = 0; l < servable->lane_count; l++) {
        struct plan_memory memory;
        plan_memory(largest_plan(servable, &servable->lanes[l]), &memory);
        bytes += memory.peak + servable->lanes[l].memory.bytes;
        if (l == 0)
            bytes += memory.parameters;
    }
    return bytes;
}

/* The smallest plan that has room. */
static int size_for(const struct servable *servable, int64_t rows)
{
    int size = 0;
    while (servable->sizes[size] < rows && size < servable->size_count - 1)
        size++;
    return size;
}

bool servable_is_quick(const struct servable *servable, int64_t rows)
{
    return rows <= servable->quick_rows;
}

int servable_quick_rows(const struct servable *servable)
{
    return servable->quick_rows;
}

/* --- computing ------------------------------------------------------------------------------- */

static enum serve_status status_of(const struct error *err)
{
    if (err->code == ERROR_FORMAT || err->code == ERROR_USAGE)
        return SERVE_INVALID;
    return err->code == ERROR_MEMORY ? SERVE_EXHAUSTED : SERVE_INTERNAL;
}

static void prepare(struct servable *servable, struct lane *lane, struct inference *inference,
                    const struct tensor *inputs, int64_t rows, int64_t at)
{
    if (servable->settings.calls->prepare(servable->model, inference->signature, inputs, rows,
                                          lane->inputs, at, &inference->error) < 0)
        inference->status = status_of(&inference->error);
}

static struct tensor *take_reply(struct inference *inference)
{
    struct tensor *reply =
        ARENA_ARRAY(inference->arena, struct tensor, inference->signature->output_count + 1);
    if (!reply) {
        inference->status = SERVE_EXHAUSTED;
        error_set(&inference->error, ERROR_MEMORY, "no memory for the answer");
    }
    return reply;
}

static void finish(struct servable *servable, struct lane *lane, struct inference *inference,
                   int64_t at, int64_t rows, struct tensor *reply)
{
    if (inference->status == SERVE_OK &&
        servable->settings.calls->finish(servable->model, inference->signature, lane->outputs, at,
                                         rows, inference->arena, reply, &inference->error) < 0)
        inference->status = status_of(&inference->error);
}

static void set_batch(struct servable *servable, struct lane *lane, int size)
{
    for (int i = 0; i < servable->model->input_count; i++)
        lane->inputs[i].shape.dim[0] = servable->sizes[size];
}

static void run_together(struct servable *servable, struct lane *lane,
                         struct inference *const *batch, int count, struct stats_batch *told)
{
    int64_t rows = 0, at = 0;
    double start = clock_seconds();
    bool any = false;
    for (int i = 0; i < count; i++)
        rows += batch[i]->rows;
    int size = size_for(servable, rows);
    set_batch(servable, lane, size);
    for (int i = 0; i < count; at += batch[i]->rows, i++) {
        prepare(servable, lane, batch[i], batch[i]->inputs, batch[i]->rows, at);
        any |= batch[i]->status == SERVE_OK;
    }
    double prepared = clock_seconds();
    if (any)
        run_plan(servable, lane, size);
    double ran = clock_seconds();
    at = 0;
    for (int i = 0; i < count; at += batch[i]->rows, i++) {
        batch[i]->outputs = take_reply(batch[i]);
        if (batch[i]->outputs)
            finish(servable, lane, batch[i], at, batch[i]->rows, batch[i]->outputs);
    }
    told->input_seconds = prepared - start;
    told->run_seconds = ran - prepared;
    told->output_seconds = clock_seconds() - ran;
    told->rows = (int)rows;
    told->padded = servable->sizes[size];
}

void servable_run(struct servable *servable, int worker, struct inference *const *batch, int count,
                  struct stats_batch *told)
{
    struct lane *lane = &servable->lanes[worker];
    for (int i = 0; i < count; i++)
        batch[i]->status = SERVE_OK;
    run_together(servable, lane, batch, count, told);
}
