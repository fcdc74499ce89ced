#include "cli/watchers.h"

#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/run_facts.h"
#include "cli/tensorboard.h"
#include "comm/comm.h"
#include "net/address.h"
#include "watch/argo.h"
#include "watch/dashboard.h"
#include "watch/events.h"
#include "watch/lines.h"
#include "watch/progress.h"
#include "watch/record.h"
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
                                              .ranks = comm_size(run->comm),
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
                                 .total_steps = run->total_steps,
                                 .comm = run->comm};
    return tracing_create(&settings->trace, &traced, &watchers->tracing, err);
}

int watchers_check(const struct watchers_settings *settings, struct error *err)
{
    struct address unused;
    if (settings->histogram_every && !settings->tensorboard)
        return error_set(err, ERROR_USAGE,
                         "--tensorboard-histograms needs --tensorboard=DIR, where they go");
    if (settings->tensorboard && !strncmp(settings->tensorboard, "s3://", 5))
        return error_set(err, ERROR_USAGE,
                         "--tensorboard=%s: event files grow, and S3 has no such files; write to a "
                         "directory and copy it",
                         settings->tensorboard);
    if (settings->dashboard && address_parse(settings->dashboard, "--dashboard", &unused, err) < 0)
        return -1;
    if (settings->metrics && address_parse(settings->metrics, "--metrics-port", &unused, err) < 0)
        return -1;
    return 0;
}

bool watchers_want_profile(const struct watchers_settings *settings, const char *output_dir)
{
    return settings->dashboard || output_dir;
}

static void copy_log_line(void *context, enum log_level level, const char *line)
{
    char text[1100];
    snprintf(text, sizeof text, "%s%s", level == LOG_WARNING ? "warning: " : "", line);
    record_log(context, text);
}

static int open_record(const struct watchers_settings *settings, const struct watchers_run *run,
                       struct watchers *watchers, struct error *err)
{
    struct record_facts facts;
    struct record_options options = {.readers = settings->dashboard || settings->metrics};
    watchers->arena = arena_create();
    if (!watchers->arena)
        return error_set(err, ERROR_MEMORY, "no memory for the record of the training");
    if (run_facts(run, watchers->arena, &facts, err) < 0)
        return -1;
    if (!watchers_want_profile(settings, run->output_dir))
        facts.layer_seconds = NULL;
    return record_create(&facts, &options, &watchers->record, err);
}

static int serve(const struct watchers_settings *settings, struct watchers *watchers,
                 struct error *err)
{
    struct address page, metrics;
    struct dashboard_options options = {.page = settings->dashboard ? &page : NULL,
                                        .metrics = settings->metrics ? &metrics : NULL};
    if ((options.page && address_parse(settings->dashboard, "--dashboard", &page, err) < 0) ||
        (options.metrics &&
         address_parse(settings->metrics, "--metrics-port", &metrics, err) < 0) ||
        dashboard_create(&options, watchers->record, &watchers->dashboard, err) < 0)
        return -1;
    const char *page_url = dashboard_page_url(watchers->dashboard);
    const char *metrics_url = dashboard_metrics_url(watchers->dashboard);
    if (page_url)
        log_line(LOG_INFO, "dashboard: %s", page_url);
    if (metrics_url)
        log_line(LOG_INFO, "metrics: %s", metrics_url);
    return 0;
}

/* With a directory for results the run can be looked at later, whether or not anybody looks now. */
static int watch_for_the_page(const struct watchers_settings *settings,
                              const struct watchers_run *run, struct watchers *watchers,
                              struct error *err)
{
    bool serves = settings->dashboard || settings->metrics;
    if (!serves && !run->output_dir)
        return 0;
    if (open_record(settings, run, watchers, err) < 0)
        return -1;
    if (run->output_dir)
        snprintf(watchers->page_path, sizeof watchers->page_path, "%s/dashboard.html",
                 run->output_dir);
    if (serves && serve(settings, watchers, err) < 0)
        return -1;
    log_set_copy(copy_log_line, watchers->record); /* without the token */
    return 0;
}

/* The first of the ranks tells of all; another only shows lines on request, and records its part of
 * the timeline. */
static int watch_another_rank(const struct watchers_settings *settings,
                              const struct watchers_run *run, struct watchers *out,
                              struct error *err)
{
    struct watchers_settings lines = {.quiet = !settings->verbose, .verbose = settings->verbose};
    *out = (struct watchers){0};
    if (trace(settings, run, out, err) == 0 && watch_on_standard_error(&lines, out, err) == 0)
        return 0;
    watchers_release(out);
    return -1;
}

int watchers_create(const struct watchers_settings *settings, const struct watchers_run *run,
                    struct watchers *out, struct error *err)
{
    struct watchers watchers = {0};
    if (comm_rank(run->comm) > 0)
        return watch_another_rank(settings, run, out, err);
    if (watch_in_files(settings, run, &watchers, err) < 0 ||
        trace(settings, run, &watchers, err) < 0 ||
        watch_for_the_page(settings, run, &watchers, err) < 0 ||
        watch_on_standard_error(settings, &watchers, err) < 0) {
        watchers.page_path[0] = '\0'; /* there was no run */
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
    double start = clock_seconds();
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
    if (watchers->record)
        record_observe(watchers->record, event);
    watchers->seconds += clock_seconds() - start;
}

void watchers_fail(struct watchers *watchers, const struct error *err)
{
    if (watchers->record)
        record_fail(watchers->record, err->message);
}

void watchers_end_line(struct watchers *watchers)
{
    if (watchers->progress)
        progress_end_line(watchers->progress);
}

void watchers_end(struct watchers *watchers, enum run_outcome outcome)
{
    watchers_end_line(watchers);
    remote_end(&watchers->remote, outcome);
}

static void close_record(struct watchers *watchers)
{
    struct error err;
    log_set_copy(NULL, NULL);
    record_close(watchers->record);
    dashboard_destroy(watchers->dashboard);
    if (watchers->page_path[0] && dashboard_save(watchers->record, watchers->page_path, &err) < 0)
        log_line(LOG_WARNING, "the page of this run is not saved: %s", err.message);
    record_destroy(watchers->record);
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
    if (watchers->record)
        close_record(watchers);
    arena_destroy(watchers->arena);
    *watchers = (struct watchers){0};
}
