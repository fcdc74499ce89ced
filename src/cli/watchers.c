#include "cli/watchers.h"

#include <unistd.h>

#include "watch/lines.h"
#include "watch/progress.h"

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

int watchers_create(const struct watchers_settings *settings, const struct watchers_run *run,
                    struct watchers *out, struct error *err)
{
    struct watchers watchers = {0};
    if (watch_on_standard_error(settings, &watchers, err) < 0) {
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
    if (watchers->progress)
        progress_observe(watchers->progress, event);
    if (watchers->lines)
        lines_observe(watchers->lines, event);
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
    lines_destroy(watchers->lines);
    progress_destroy(watchers->progress);
    *watchers = (struct watchers){0};
}
