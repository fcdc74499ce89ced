/* The server's core as the door sees it. */
#include "convert/imported.h"
#include "serve/core.h"
#include "serve/grpc_door.h"
#include "serve/servable.h"

static struct servable *hold(void *core, const struct serve_target *target,
                             enum serve_status *status, struct error *err)
{
    return repository_hold(core_repository(core), target, status, err);
}

static void ask(void *core, struct inference *inference)
{
    inference->asker_helps = true;
    inference_ask(core, inference);
}

static bool help(void *core)
{
    return batcher_help(core_batcher(core));
}

static enum serve_status status_of(void *core, const struct serve_target *target,
                                   struct arena *arena, struct model_status *out, struct error *err)
{
    return repository_model_status(core_repository(core), target, arena, out, err);
}

static int configure(void *core, const struct model_list *models, struct error *err)
{
    return repository_configure(core_repository(core), models, err);
}

static bool admits(void *core, const char *authorization)
{
    return core_admits(core, authorization);
}

static bool ready(void *core)
{
    return core_ready(core);
}

static void count(void *core, enum serve_api api, const char *model, int64_t version,
                  enum serve_status status, double seconds)
{
    stats_request(core_stats(core), DOOR_GRPC, api, model, version, status, seconds);
}

static void refused(void *core)
{
    stats_refused(core_stats(core), DOOR_GRPC);
}

static void gone(void *core)
{
    stats_gone(core_stats(core), DOOR_GRPC);
}

int grpc_door_start(struct serve_core *core, const struct door_options *options,
                    struct grpc_door **out, struct error *err)
{
    struct grpc_backend backend = {.context = core,
                                   .hold = hold,
                                   .release = servable_release,
                                   .model = servable_model,
                                   .version = servable_version,
                                   .ask = ask,
                                   .help = help,
                                   .status = status_of,
                                   .configure = configure,
                                   .admits = admits,
                                   .ready = ready,
                                   .count = count,
                                   .refused = refused,
                                   .gone = gone};
    return grpc_door_open(&backend, options, out, err);
}
