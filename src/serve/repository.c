#include "serve/repository.h"

#include <inttypes.h>
#include <limits.h>
#include <malloc.h>
#include <math.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/threads.h"
#include "serve/repository_internal.h"
#include "serve/servable.h"
#include "serve/version_files.h"
#include "serve/warmup.h"

enum {
    ENDED_KEPT = 8, /* versions no longer served whose end is still told */
    LOADING_NICENESS = 10,
};

/* --- state ----------------------------------------------------------------------------------- */

/* The model's, where it is now. */
static struct version *find_version(const struct model *model, int64_t number)
{
    struct version *version = model->versions;
    while (version && (version->former || version->number != number))
        version = version->next;
    return version;
}

/* Another has its number: who is told of numbers would take one's end for the other's. */
static bool is_replaced(const struct model *model, const struct version *version)
{
    return version->former && find_version(model, version->number);
}

static void set_state(struct repository *repository, const struct model *model,
                      struct version *version, enum version_state state, enum serve_status code,
                      const char *message)
{
    pthread_mutex_lock(&repository->lock);
    version->state = state;
    version->code = code;
    snprintf(version->message, sizeof version->message, "%s", message);
    pthread_cond_broadcast(&repository->changed);
    pthread_mutex_unlock(&repository->lock);
    if (repository->settings.changed && !is_replaced(model, version))
        repository->settings.changed(repository->settings.context, model->config.name,
                                     version->number, state, message);
}

static struct version *add_version(struct repository *repository, struct model *model,
                                   int64_t number)
{
    size_t path_bytes = strlen(model->config.base_path) + 1;
    struct version *version = memory_allocate(sizeof *version + path_bytes);
    if (!version)
        return NULL;
    memcpy(version->base_path, model->config.base_path, path_bytes);
    version->number = number;
    version->state = VERSION_START;
    pthread_mutex_lock(&repository->lock);
    struct version **at = &model->versions;
    while (*at && (*at)->number > number)
        at = &(*at)->next;
    version->next = *at;
    *at = version;
    pthread_mutex_unlock(&repository->lock);
    return version;
}

/* --- loading and letting go ------------------------------------------------------------------ */

static bool has_available(const struct model *model)
{
    for (const struct version *version = model->versions; version; version = version->next)
        if (version->servable)
            return true;
    return false;
}

static void version_path(const struct model *model, const struct version *version,
                         char path[PATH_MAX])
{
    version_files_path(model->config.base_path, version->number, path);
}

static int read_version(struct repository *repository, const struct model *model,
                        const struct version *version, struct servable **out, struct error *err)
{
    const struct repository_settings *settings = &repository->settings;
    const struct model_calls *calls = settings->calls ? settings->calls : &model_calls_imported;
    struct imported *imported;
    char path[PATH_MAX];
    version_path(model, version, path);
    if (calls->read(path, &imported, err) < 0)
        return -1;
    struct servable_settings servable = {.name = model->config.name,
                                         .version = version->number,
                                         .max_batch = settings->max_batch,
                                         .workers = settings->workers,
                                         .threads = settings->threads,
                                         .warm_all = has_available(model),
                                         .calls = calls};
    if (servable_create(&servable, imported, out, err) < 0)
        return -1;
    bool same = version_files_stamp(path) == version->stamp;
    if (!same)
        error_set(err, ERROR_IO, "its files changed while they were read");
    if (!same || (settings->warm_up && warmup_replay(*out, path, err) < 0)) {
        servable_release(*out);
        return -1;
    }
    return 0;
}

struct loading {
    struct repository *repository;
    const struct model *model;
    const struct version *version;
    struct servable *servable;
    struct error err;
    int status;
};

static void *load_after_others(void *context)
{
    struct loading *loading = context;
    setpriority(PRIO_PROCESS, (id_t)gettid(), LOADING_NICENESS);
    loading->status = read_version(loading->repository, loading->model, loading->version,
                                   &loading->servable, &loading->err);
    return NULL;
}

/* Beside a version that answers, loading steps back: on a thread of its own, whose helpers inherit
 * that they come after everyone else. */
static void load(struct loading *loading)
{
    pthread_t thread;
    if (has_available(loading->model) && thread_start(&thread, load_after_others, loading) == 0) {
        pthread_join(thread, NULL);
        return;
    }
    loading->status = read_version(loading->repository, loading->model, loading->version,
                                   &loading->servable, &loading->err);
}

static void load_version(struct repository *repository, const struct model *model,
                         struct version *version)
{
    struct loading loading = {.repository = repository, .model = model, .version = version};
    double start = clock_seconds();
    version->tried = version->stamp;
    set_state(repository, model, version, VERSION_LOADING, SERVE_OK, "");
    load(&loading);
    threads_dismiss_helpers(); /* else those of the workers would sleep between two operations */
    malloc_trim(0);
    if (loading.status < 0) {
        version->failures++;
        version->next_try = clock_seconds() + repository->settings.retry_seconds;
        set_state(repository, model, version, VERSION_END, SERVE_UNKNOWN, loading.err.message);
        return;
    }
    pthread_mutex_lock(&repository->lock);
    version->servable = loading.servable;
    version->failures = 0;
    version->loaded_seconds = clock_seconds() - start;
    pthread_mutex_unlock(&repository->lock);
    set_state(repository, model, version, VERSION_AVAILABLE, SERVE_OK, "");
}

/* Who still computes with it holds it: it goes with the last of them. */
static void unload_version(struct repository *repository, const struct model *model,
                           struct version *version)
{
    set_state(repository, model, version, VERSION_UNLOADING, SERVE_OK, "");
    pthread_mutex_lock(&repository->lock);
    struct servable *servable = version->servable;
    version->servable = NULL;
    pthread_mutex_unlock(&repository->lock);
    servable_release(servable);
    malloc_trim(0);
    version->tried = 0;
    set_state(repository, model, version, VERSION_END, SERVE_OK, "");
}

/* A version is read when its files look as they did at the look before, so that one that is being
 * copied is left alone; at the first look, at once. One that failed is read again when its files
 * have changed, or after a while. */
static bool worth_a_try(const struct repository *repository, const struct model *model,
                        const struct version *version, uint64_t before)
{
    bool settled = version->stamp == before || !model->looked;
    if (version->servable || !settled)
        return false;
    if (version->failures == 0 || version->tried != version->stamp)
        return true;
    return version->failures <= repository->settings.load_retries &&
           clock_seconds() >= version->next_try;
}

/* Loads what the policy wants, newest first. A newest one that cannot be read does not count: the
 * next older one is better than none. Returns how many are available. */
static int load_wanted(struct repository *repository, struct model *model)
{
    const struct model_config *config = &model->config;
    int available = 0;
    for (struct version *version = model->versions; version; version = version->next) {
        bool enough = config->policy == POLICY_LATEST && available >= config->latest;
        if (enough || version->former || !version->present ||
            !config_wants(config, version->number))
            continue;
        char path[PATH_MAX];
        uint64_t before = version->seen ? version->stamp : 0;
        version_path(model, version, path);
        version->stamp = version_files_stamp(path);
        version->seen = true;
        if (worth_a_try(repository, model, version, before))
            load_version(repository, model, version);
        available += version->servable != NULL;
    }
    return available;
}

/* What the policy no longer wants goes once something it wants is there. */
static void unload_unwanted(struct repository *repository, struct model *model)
{
    const struct model_config *config = &model->config;
    int kept = 0;
    for (struct version *version = model->versions; version; version = version->next) {
        bool enough = config->policy == POLICY_LATEST && kept >= config->latest;
        bool wanted = !enough && !version->former && version->present &&
                      config_wants(config, version->number);
        if (version->servable && !wanted)
            unload_version(repository, model, version);
        kept += version->servable && wanted;
    }
}

/* Old ends, and failures whose files are gone, are of no interest any more. */
static void forget_ended(struct repository *repository, struct model *model)
{
    int ended = 0;
    pthread_mutex_lock(&repository->lock);
    for (struct version **at = &model->versions; *at;) {
        struct version *version = *at;
        bool failed = version->code != SERVE_OK;
        bool old = !version->servable && (!version->present || !failed) &&
                   version->state != VERSION_START && ++ended > ENDED_KEPT;
        bool gone = !version->servable && !version->present && failed;
        bool former = version->former && !version->servable;
        if (old || gone || former || (version->state == VERSION_START && !version->present)) {
            *at = version->next;
            memory_free(version);
        } else {
            at = &version->next;
        }
    }
    pthread_mutex_unlock(&repository->lock);
}

/* --- looking --------------------------------------------------------------------------------- */

static void complain(struct model *model, const char *what)
{
    if (!model->complained)
        log_line(LOG_WARNING, "model %s: %s; looking again and again", model->config.name, what);
    model->complained = true;
}

/* Marks what is on disk. False: nothing, which is no reason to let go of what is served. */
static bool list_versions(struct repository *repository, struct model *model)
{
    int64_t *numbers = memory_allocate(sizeof *numbers * VERSION_FILES_MAX);
    struct error err = {0};
    int count = numbers ? version_files_list(model->config.base_path, numbers, &err) : 0;
    if (count <= 0) {
        char none[PATH_MAX + 64];
        snprintf(none, sizeof none, "no versions (directories named by a number) in %s",
                 model->config.base_path);
        complain(model, count < 0 ? err.message : none);
        memory_free(numbers);
        return false;
    }
    model->complained = false;
    for (struct version *version = model->versions; version; version = version->next)
        version->present = false;
    for (int i = 0; i < count; i++) {
        struct version *version = find_version(model, numbers[i]);
        if (!version && config_wants(&model->config, numbers[i]))
            version = add_version(repository, model, numbers[i]);
        if (version)
            version->present = true;
    }
    memory_free(numbers);
    return true;
}

static void look_at_model(struct repository *repository, struct model *model)
{
    if (list_versions(repository, model)) {
        if (load_wanted(repository, model) > 0)
            unload_unwanted(repository, model);
        forget_ended(repository, model);
    }
    pthread_mutex_lock(&repository->lock);
    model->looked = true;
    pthread_mutex_unlock(&repository->lock);
}

static void retire_model(struct repository *repository, struct model *model)
{
    for (struct version *version = model->versions; version; version = version->next)
        if (version->servable)
            unload_version(repository, model, version);
    model_destroy(model);
}

/* With another path these are another model's, which answers until its successor does. Those of the
 * path that it has again are its own again. */
static void take_over_versions(struct model *model, struct model *next)
{
    next->versions = model->versions;
    next->looked = model->looked && strcmp(next->config.base_path, model->config.base_path) == 0;
    model->versions = NULL;
    for (struct version *version = next->versions; version; version = version->next)
        version->former = strcmp(version->base_path, next->config.base_path) != 0;
}

/* The next configuration takes over the versions of models that stay. */
static void apply_configuration(struct repository *repository)
{
    pthread_mutex_lock(&repository->lock);
    struct model *old = NULL;
    if (repository->reconfigure) {
        old = repository->models;
        repository->models = repository->wanted;
        repository->wanted = NULL;
        repository->reconfigure = false;
        repository->configured = repository->looks + 1;
        for (struct model *model = old; model; model = model->next) {
            struct model *next = repository_find(repository, model->config.name);
            if (next)
                take_over_versions(model, next);
        }
    }
    pthread_mutex_unlock(&repository->lock);
    for (struct model *next; old; old = next) {
        next = old->next;
        retire_model(repository, old);
    }
}

void repository_look(struct repository *repository)
{
    apply_configuration(repository);
    for (struct model *model = repository->models; model; model = model->next)
        look_at_model(repository, model);
    pthread_mutex_lock(&repository->lock);
    repository->looks++;
    pthread_cond_broadcast(&repository->changed);
    pthread_mutex_unlock(&repository->lock);
}

/* --- the thread ------------------------------------------------------------------------------ */

static void wait_seconds(struct repository *repository, double seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)seconds;
    until.tv_nsec += (long)((seconds - floor(seconds)) * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&repository->changed, &repository->lock, &until);
}

static void *look_on(void *context)
{
    struct repository *repository = context;
    pthread_mutex_lock(&repository->lock);
    while (!repository->ending) {
        pthread_mutex_unlock(&repository->lock);
        repository_look(repository);
        double next = clock_seconds() + repository->settings.poll_seconds;
        pthread_mutex_lock(&repository->lock);
        while (!repository->ending && !repository->reconfigure) {
            double left = next - clock_seconds();
            if (repository->settings.poll_seconds > 0 && left <= 0)
                break;
            wait_seconds(repository, repository->settings.poll_seconds > 0 ? left : 3600);
        }
    }
    pthread_mutex_unlock(&repository->lock);
    return NULL;
}

int repository_start(struct repository *repository, struct error *err)
{
    int status = thread_start(&repository->thread, look_on, repository);
    if (status)
        return error_set(err, ERROR_IO, "no thread to look for models: %s", strerror(status));
    repository->started = true;
    return 0;
}

int repository_create(const struct repository_settings *settings, struct repository **out,
                      struct error *err)
{
    struct repository *repository = memory_allocate(sizeof *repository);
    if (!repository)
        return error_set(err, ERROR_MEMORY, "no memory for the models");
    repository->settings = *settings;
    pthread_mutex_init(&repository->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&repository->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    *out = repository;
    return 0;
}

void repository_destroy(struct repository *repository)
{
    if (!repository)
        return;
    pthread_mutex_lock(&repository->lock);
    repository->ending = true;
    pthread_cond_broadcast(&repository->changed);
    pthread_mutex_unlock(&repository->lock);
    if (repository->started)
        pthread_join(repository->thread, NULL);
    struct model *lists[] = {repository->models, repository->wanted};
    for (int i = 0; i < 2; i++)
        for (struct model *next, *model = lists[i]; model; model = next) {
            next = model->next;
            model_destroy(model);
        }
    pthread_cond_destroy(&repository->changed);
    pthread_mutex_destroy(&repository->lock);
    memory_free(repository);
}
