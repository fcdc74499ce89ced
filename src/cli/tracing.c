#include "cli/tracing.h"

#include <inttypes.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/trace.h"
#include "cli/trace_ranks.h"
#include "comm/comm.h"
#include "data/loader.h"
#include "exec/plan.h"
#include "train/trainer.h"
#include "watch/tracer.h"

enum {
    DEFAULT_STEPS = 5,
    MAX_STEPS = 1000,
    READS_PER_STEP = 512, /* spans of one loader thread, at most */
    SUMS_PER_STEP = 512,  /* spans of the thread that talks to other ranks, at most */
};

/* A loader and a track for each of its threads. */
struct traced_loader {
    struct loader *loader; /* NULL: none */
    struct trace_track **tracks;
};

struct tracing {
    struct arena *arena; /* of the texts and lists */
    const char *path;    /* NULL: another rank writes */
    const char *process;
    struct trace_steps steps;
    struct comm *comm; /* NULL: alone */
    struct plan *plan;
    struct traced_loader loaders[2];
    struct trace *trace;
    struct trace_track *track; /* of the training */
    struct trace_track *sums;  /* of the reductions; NULL: alone */
    struct tracer *tracer;
};

/* --- options -------------------------------------------------------------------------------- */

static int parse_steps(const char *text, int64_t *first, int64_t *steps, struct error *err)
{
    char *end;
    long long from = strtoll(text, &end, 10), count = 0;
    bool whole = end != text && *end == ':';
    if (whole) {
        const char *rest = end + 1;
        count = strtoll(rest, &end, 10);
        whole = end != rest && !*end;
    }
    if (!whole || from < 1 || count < 1 || count > MAX_STEPS)
        return error_set(err, ERROR_USAGE,
                         "--trace-steps=%s: expected FIRST:COUNT, such as 100:5, with at most %d "
                         "steps",
                         text, MAX_STEPS);
    *first = from;
    *steps = count;
    return 0;
}

static int choose_steps(struct trace_steps *steps, const char *text, const struct tracing_run *run,
                        struct error *err)
{
    steps->first = run->first_step + run->warmup_steps + 1;
    steps->count = DEFAULT_STEPS;
    if (text && parse_steps(text, &steps->first, &steps->count, err) < 0)
        return -1;
    if (text && steps->first > run->total_steps)
        return error_set(err, ERROR_USAGE,
                         "--trace-steps=%s begins behind the last of %" PRId64 " steps", text,
                         run->total_steps);
    int64_t left = run->total_steps - steps->first + 1;
    if (steps->count > left) /* so that they end before the run does */
        steps->count = left > 1 ? left : 1;
    return 0;
}

/* --- making --------------------------------------------------------------------------------- */

/* Without threads the training reads by itself, and its track shows that. */
static int add_loader(struct tracing *tracing, struct traced_loader *traced, struct loader *loader,
                      const char *name, struct error *err)
{
    if (!loader)
        return 0;
    int threads = loader_threads(loader);
    traced->tracks = ARENA_ARRAY(tracing->arena, struct trace_track *, threads + 1);
    bool failed = !traced->tracks;
    if (!failed)
        traced->tracks[0] = tracing->track;
    for (int i = 0; i < threads && !failed; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s %d", name, i + 1);
        traced->tracks[i] =
            trace_add_track(tracing->trace, text, (size_t)tracing->steps.count * READS_PER_STEP);
        failed = !traced->tracks[i];
    }
    traced->loader = loader;
    return failed ? error_set(err, ERROR_MEMORY, "no memory for the trace") : 0;
}

static void record(void *context, bool on)
{
    struct tracing *tracing = context;
    plan_profile(tracing->plan, on);
    if (tracing->comm)
        comm_trace(tracing->comm, on ? tracing->sums : NULL);
    for (int i = 0; i < 2; i++)
        if (tracing->loaders[i].loader)
            loader_trace(tracing->loaders[i].loader, on ? tracing->loaders[i].tracks : NULL);
}

static void describe_op(void *context, int index, struct tracer_op *out)
{
    const struct tracing *tracing = context;
    struct plan_step_info info = plan_step(tracing->plan, index);
    *out = (struct tracer_op){.name = info.node,
                              .op = info.op,
                              .fused = info.fused,
                              .pass = info.pass,
                              .kernel = info.kernel,
                              .bytes = (int64_t)info.bytes,
                              .flops = (int64_t)info.flops,
                              .start = info.start,
                              .end = info.end};
}

static int make_tracks(struct tracing *tracing, const struct tracing_run *run, struct error *err)
{
    size_t capacity = tracer_capacity(tracing->steps.count, plan_step_count(run->plan));
    if (trace_create(&tracing->trace, err) < 0)
        return -1;
    tracing->track = trace_add_track(tracing->trace, "training",
                                     capacity + (size_t)tracing->steps.count * READS_PER_STEP);
    if (!tracing->track)
        return error_set(err, ERROR_MEMORY, "no memory for the trace");
    if (tracing->comm)
        tracing->sums = trace_add_track(tracing->trace, "reductions",
                                        (size_t)tracing->steps.count * SUMS_PER_STEP);
    if (tracing->comm && !tracing->sums)
        return error_set(err, ERROR_MEMORY, "no memory for the trace");
    if (add_loader(tracing, &tracing->loaders[0], run->loader, "loader", err) < 0 ||
        add_loader(tracing, &tracing->loaders[1], run->evaluation_loader, "evaluation loader",
                   err) < 0)
        return -1;
    struct tracer_options options = {.trace = tracing->trace,
                                     .track = tracing->track,
                                     .first_step = tracing->steps.first,
                                     .steps = tracing->steps.count,
                                     .record = record,
                                     .op_count = plan_step_count(run->plan),
                                     .op = describe_op,
                                     .context = tracing};
    return tracer_create(&options, &tracing->tracer, err);
}

/* A place that cannot be written is found out before the training, not after. */
static int check_place(const char *path, struct error *err)
{
    struct file_draft draft;
    if (file_draft_begin(path, &draft, err) < 0)
        return error_wrap(err, "--trace");
    file_draft_drop(&draft);
    return 0;
}

static void tracing_destroy(struct tracing *tracing)
{
    tracer_destroy(tracing->tracer);
    trace_destroy(tracing->trace);
    arena_destroy(tracing->arena);
    memory_free(tracing);
}

static const char *name_process(const struct tracing *tracing, const struct tracing_run *run)
{
    char name[320];
    if (!tracing->comm)
        return arena_format(tracing->arena, "lockstep %s %s", run->command, run->model);
    trace_ranks_name(tracing->comm, name, sizeof name);
    return arena_copy_text(tracing->arena, name);
}

static int fill(struct tracing *tracing, const struct tracing_run *run, struct error *err)
{
    tracing->arena = arena_create();
    if (tracing->arena)
        tracing->process = name_process(tracing, run);
    if (!tracing->process)
        return error_set(err, ERROR_MEMORY, "no memory for the trace");
    tracing->plan = run->plan;
    if (make_tracks(tracing, run, err) < 0)
        return -1;
    if (tracing->comm)
        trace_set_place(tracing->trace, comm_rank(tracing->comm) + 1, tracing->steps.origin);
    return 0;
}

/* What the one who writes the file wants, checked. */
static int decide(const struct tracing_settings *settings, const struct tracing_run *run,
                  struct trace_steps *steps, struct error *err)
{
    if (!settings->file && settings->steps)
        return error_set(err, ERROR_USAGE, "--trace-steps needs --trace=FILE");
    steps->wanted = settings->file != NULL;
    steps->origin = clock_seconds();
    if (!steps->wanted)
        return 0;
    return choose_steps(steps, settings->steps, run, err) < 0 ? -1
                                                              : check_place(settings->file, err);
}

int tracing_create(const struct tracing_settings *settings, const struct tracing_run *run,
                   struct tracing **out, struct error *err)
{
    struct trace_steps steps = {0};
    bool several = run->comm && comm_size(run->comm) > 1;
    bool writes = !several || comm_rank(run->comm) == 0;
    *out = NULL;
    if ((writes && decide(settings, run, &steps, err) < 0) ||
        (several && trace_ranks_agree(run->comm, &steps, err) < 0))
        return -1;
    if (!steps.wanted)
        return 0;
    struct tracing *tracing = memory_allocate(sizeof *tracing);
    if (!tracing)
        return error_set(err, ERROR_MEMORY, "no memory for the trace");
    tracing->steps = steps;
    tracing->comm = several ? run->comm : NULL;
    tracing->path = writes ? settings->file : NULL;
    if (fill(tracing, run, err) < 0) {
        tracing_destroy(tracing);
        return -1;
    }
    *out = tracing;
    return 0;
}

/* --- running -------------------------------------------------------------------------------- */

/* All ranks are told of the same steps, so this is the same place for all of them. Should the group be
 * over, the training finds out by itself. */
static void merge(struct tracing *tracing)
{
    struct error err = {0};
    if (trace_ranks_merge(tracing->comm, tracing->trace, &tracing->steps, &err) < 0)
        log_line(LOG_WARNING, "--trace: without the other ranks: %s", err.message);
}

void tracing_observe(void *context, const struct train_event *event)
{
    struct tracing *tracing = context;
    if (!tracing)
        return;
    tracer_observe(tracing->tracer, event);
    if (tracing->comm && event->kind == TRAIN_STEP &&
        event->step == tracing->steps.first + tracing->steps.count - 1)
        merge(tracing);
}

static void write_file(const struct tracing *tracing)
{
    struct error err = {0};
    if (trace_write(tracing->trace, tracing->process, tracing->path, &err) < 0)
        log_line(LOG_WARNING, "--trace: %s", err.message);
    if (trace_left_out(tracing->trace))
        log_line(LOG_WARNING, "%s: %" PRIu64 " spans were left out", tracing->path,
                 trace_left_out(tracing->trace));
}

void tracing_finish(struct tracing *tracing)
{
    if (!tracing)
        return;
    record(tracing, false); /* after a failure the last event never came */
    if (tracing->path)
        write_file(tracing);
    tracing_destroy(tracing);
}
