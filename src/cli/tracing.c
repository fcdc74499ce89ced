#include "cli/tracing.h"

#include <inttypes.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/trace.h"
#include "data/loader.h"
#include "exec/plan.h"
#include "watch/tracer.h"

enum {
    DEFAULT_STEPS = 5,
    MAX_STEPS = 1000,
    READS_PER_STEP = 512, /* spans of one loader thread, at most */
};

/* A loader and a track for each of its threads. */
struct traced_loader {
    struct loader *loader; /* NULL: none */
    struct trace_track **tracks;
};

struct tracing {
    struct arena *arena; /* of the texts and lists */
    const char *path, *process;
    int64_t first_step, steps;
    struct plan *plan;
    struct traced_loader loaders[2];
    struct trace *trace;
    struct trace_track *track; /* of the training */
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

static int choose_steps(struct tracing *tracing, const char *text, const struct tracing_run *run,
                        struct error *err)
{
    tracing->first_step = run->first_step + run->warmup_steps + 1;
    tracing->steps = DEFAULT_STEPS;
    if (!text)
        return 0;
    if (parse_steps(text, &tracing->first_step, &tracing->steps, err) < 0)
        return -1;
    if (tracing->first_step > run->total_steps)
        return error_set(err, ERROR_USAGE,
                         "--trace-steps=%s begins behind the last of %" PRId64 " steps", text,
                         run->total_steps);
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
            trace_add_track(tracing->trace, text, (size_t)tracing->steps * READS_PER_STEP);
        failed = !traced->tracks[i];
    }
    traced->loader = loader;
    return failed ? error_set(err, ERROR_MEMORY, "no memory for the trace") : 0;
}

static void record(void *context, bool on)
{
    struct tracing *tracing = context;
    plan_profile(tracing->plan, on);
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
    size_t capacity = tracer_capacity(tracing->steps, plan_step_count(run->plan));
    if (trace_create(&tracing->trace, err) < 0)
        return -1;
    tracing->track = trace_add_track(tracing->trace, "training",
                                     capacity + (size_t)tracing->steps * READS_PER_STEP);
    if (!tracing->track)
        return error_set(err, ERROR_MEMORY, "no memory for the trace");
    if (add_loader(tracing, &tracing->loaders[0], run->loader, "loader", err) < 0 ||
        add_loader(tracing, &tracing->loaders[1], run->evaluation_loader, "evaluation loader",
                   err) < 0)
        return -1;
    struct tracer_options options = {.trace = tracing->trace,
                                     .track = tracing->track,
                                     .first_step = tracing->first_step,
                                     .steps = tracing->steps,
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

static int fill(struct tracing *tracing, const struct tracing_settings *settings,
                const struct tracing_run *run, struct error *err)
{
    tracing->arena = arena_create();
    if (tracing->arena)
        tracing->process = arena_format(tracing->arena, "lockstep %s %s", run->command, run->model);
    if (!tracing->process)
        return error_set(err, ERROR_MEMORY, "no memory for the trace");
    tracing->path = settings->file;
    tracing->plan = run->plan;
    if (choose_steps(tracing, settings->steps, run, err) < 0 ||
        check_place(settings->file, err) < 0)
        return -1;
    return make_tracks(tracing, run, err);
}

int tracing_create(const struct tracing_settings *settings, const struct tracing_run *run,
                   struct tracing **out, struct error *err)
{
    *out = NULL;
    if (!settings->file && settings->steps)
        return error_set(err, ERROR_USAGE, "--trace-steps needs --trace=FILE");
    if (!settings->file)
        return 0;
    struct tracing *tracing = memory_allocate(sizeof *tracing);
    if (!tracing)
        return error_set(err, ERROR_MEMORY, "no memory for the trace");
    if (fill(tracing, settings, run, err) < 0) {
        tracing_destroy(tracing);
        return -1;
    }
    *out = tracing;
    return 0;
}

/* --- running -------------------------------------------------------------------------------- */

void tracing_observe(void *context, const struct train_event *event)
{
    struct tracing *tracing = context;
    if (tracing)
        tracer_observe(tracing->tracer, event);
}

void tracing_finish(struct tracing *tracing)
{
    struct error err = {0};
    if (!tracing)
        return;
    record(tracing, false); /* after a failure the last event never came */
    if (trace_write(tracing->trace, tracing->process, tracing->path, &err) < 0)
        log_line(LOG_WARNING, "--trace: %s", err.message);
    if (trace_left_out(tracing->trace))
        log_line(LOG_WARNING, "%s: %" PRIu64 " spans were left out", tracing->path,
                 trace_left_out(tracing->trace));
    tracing_destroy(tracing);
}
