#include "serve/core.h"

#include <inttypes.h>
#include <stdatomic.h>

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "serve/tokens.h"

struct serve_core {
    struct repository *repository;
    struct batcher *batcher;
    struct serve_stats *stats;
    struct tokens *tokens; /* NULL: all may ask */
    atomic_bool ending;
};

/* On the repository's thread. */
static void version_changed(void *context, const char *model, int64_t version,
                            enum version_state state, const char *message)
{
    struct serve_core *core = context;
    if (state == VERSION_AVAILABLE) {
        log_line(LOG_INFO, "model %s version %" PRId64 " is available", model, version);
        stats_version(core->stats, model, version, true);
    } else if (state == VERSION_UNLOADING) {
        log_line(LOG_INFO, "model %s version %" PRId64 " is let go", model, version);
        stats_version(core->stats, model, version, false);
    } else if (state == VERSION_END && *message) {
        log_line(LOG_WARNING, "model %s version %" PRId64 " is not served: %s", model, version,
                 message);
        stats_failed_load(core->stats, model);
    }
}

static int open_parts(struct serve_core *core, const struct core_settings *settings,
                      struct error *err)
{
    struct repository_settings repository = settings->repository;
    struct batcher_settings batcher = settings->batcher;
    if (settings->token_file && tokens_open(settings->token_file, &core->tokens, err) < 0)
        return -1;
    if (stats_create(&core->stats, err) < 0)
        return -1;
    repository.changed = version_changed;
    repository.context = core;
    repository.workers = batcher.workers;
    repository.max_batch = batcher.rules.max_rows;
    batcher.stats = core->stats;
    if (batcher_create(&batcher, &core->batcher, err) < 0 ||
        repository_create(&repository, &core->repository, err) < 0)
        return -1;
    if (!settings->start)
        return 0;
    return batcher_start(core->batcher, err) < 0 ? -1 : repository_start(core->repository, err);
}

int core_create(const struct core_settings *settings, struct serve_core **out, struct error *err)
{
    struct serve_core *core = memory_allocate(sizeof *core);
    if (!core)
        return error_set(err, ERROR_MEMORY, "no memory for the server");
    if (open_parts(core, settings, err) < 0) {
        core_destroy(core);
        return -1;
    }
    *out = core;
    return 0;
}

void core_destroy(struct serve_core *core)
{
    if (!core)
        return;
    batcher_destroy(core->batcher);
    repository_destroy(core->repository);
    stats_destroy(core->stats);
    tokens_close(core->tokens);
    memory_free(core);
}

struct repository *core_repository(struct serve_core *core)
{
    return core->repository;
}

struct batcher *core_batcher(struct serve_core *core)
{
    return core->batcher;
}

struct serve_stats *core_stats(struct serve_core *core)
{
    return core->stats;
}

bool core_admits(struct serve_core *core, const char *authorization)
{
    return !core->tokens || tokens_admit(core->tokens, authorization);
}

bool core_ready(struct serve_core *core)
{
    return !atomic_load(&core->ending) && repository_ready(core->repository);
}

void core_begin_ending(struct serve_core *core)
{
    atomic_store(&core->ending, true);
}
