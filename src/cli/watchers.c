#include "cli/watchers.h"

#include <unistd.h>

#include "base/error.h"
#include "cli/tensorboard.h"
#include "watch/argo.h"
#include "watch/events.h"
#include "watch/lines.h"
#include "watch/progress.h"
#include "watch/spool.h"

static int watch_on_standard_error(const struct watchers_settings *settings,
                                   struct watchers *watchers, struct error *err)
{
    if (settings->quiet)
        return 0;
    if (isatty(STDERR_FILENO) && !settings->verbose)
        return progress_create(&(struct progress_options){.out = stderr}, &watchers->progress, err);
    struct lines_options lines = {.out = stderr, .interval_seconds = settings->verbose ? 0 : 10};
    return lines_create(&lines, &watchers->lines, err);
}

static int check_settings(const struct watchers_settings *settings, struct error *err)
{
    if (settings->histogram_every && !settings->tensorboard)
        return error_set(err, ERROR_USAGE,
                         "--tensorboard-histograms needs --tensorboard=DIR, where they go");
    if (settings->tensorboard && !strncmp(settings->tensorboard, "s3://", 5))
        return error_set(err, ERROR_USAGE,
                         "--tensorboard=%s: event files grow, and S3 has no such files; write to a "
                         "directory and copy it",
                         settings->tensorboard);
    return 0;
}

static int watch_in_files(const struct watchers_settings *settings, const struct watchers_run *run,
                          struct watchers *watchers, struct error *err)
{
    if (!settings->tensorboard && !settings->progress_file)
        return 0;
    if (spool_create(&(struct spool_options){0}, &watchers->spool, err) < 0)
        return -1;
    struct tensorboard_options tensorboard = {.directory = settings->tensorboard,
                                              .histogram_every = settings->histogram_every,
                                              .graph = run->graph,
                                              .params = run->params,
                                              .spool = watchers->spool};
    if (settings->tensorboard && tensorboard_create(&tensorboard, &watchers->tensorboard, err) < 0)
        return error_wrap(err, "--tensorboard");
    struct argo_options argo = {.path = settings->progress_file, .spool = watchers->spool};
    return settings->progress_file ? argo_create(&argo, &watchers->argo, err) : 0;
}

static int trace(const struct watchers_settings *settings, const struct watchers_run *run,
                 struct watchers *watchers, struct error *err)
{
    struct tracing_run traced = {.command = run->command,
                                 .model = run->model,
                                 .plan = run->plan,
                                 .loader = run->loader,
                                 .evaluation_loader = run->evaluation_loader,
                                 .first_step = run->first_step,
                                 .warmup_steps = run->warmup_steps,
                                 .total_steps = run->total_steps};
    return tracing_create(&settings->trace, &traced, &watchers->tracing, err);
}

int watchers_create(const struct watchers_settings *settings, const struct watchers_run *run,
                    struct watchers *out, struct error *err)
{
    struct watchers watchers = {0};
    if (check_settings(settings, err) < 0 || watch_in_files(settings, run, &watchers, err) < 0 ||
        trace(settings, run, &watchers, err) < 0 ||
        watch_on_standard_error(settings, &watchers, err) < 0) {
        watchers_release(&watchers);
        return -1;
    }
    remote_create(run, getenv, &watchers.remote);
    *out = watchers;
    return 0;
}

void watchers_observe(void *context, const struct train_event *event)
{
    struct watchers *watchers = context;
    tracing_observe(watchers->tracing, event); /* first: the others take time */
    if (watchers->progress)
        progress_observe(watchers->progress, event);
    if (watchers->lines)
        lines_observe(watchers->lines, event);
    if (watchers->tensorboard)
        events_observe(tensorboard_events(watchers->tensorboard), event);
    if (watchers->argo)
        argo_observe(watchers->argo, event);
    remote_observe(&watchers->remote, event);
}

void watchers_end_line(struct watchers *watchers)
{
    progress_destroy(watchers->progress);
    watchers->progress = NULL;
}

void watchers_end(struct watchers *watchers, enum run_outcome outcome)
{
    watchers_end_line(watchers);
    remote_end(&watchers->remote, outcome);
}

void watchers_release(struct watchers *watchers)
{
    remote_release(&watchers->remote);
    tracing_finish(watchers->tracing);
    tensorboard_destroy(watchers->tensorboard);
    argo_destroy(watchers->argo);
    spool_destroy(watchers->spool);
    lines_destroy(watchers->lines);
    progress_destroy(watchers->progress);
    *watchers = (struct watchers){0};
}
