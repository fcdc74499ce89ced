/* What others ask the repository: which version answers, how all of them are, and to serve something
 * else from now on. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "serve/repository_internal.h"
#include "serve/servable.h"

const char *version_state_name(enum version_state state)
{
    switch (state) {
    case VERSION_START:
        return "START";
    case VERSION_LOADING:
        return "LOADING";
    case VERSION_AVAILABLE:
        return "AVAILABLE";
    case VERSION_UNLOADING:
        return "UNLOADING";
    case VERSION_END:
        return "END";
    case VERSION_UNKNOWN:
        break;
    }
    return "UNKNOWN";
}

void model_destroy(struct model *model)
{
    if (!model)
        return;
    for (struct version *next, *version = model->versions; version; version = next) {
        next = version->next;
        servable_release(version->servable);
        memory_free(version);
    }
    arena_destroy(model->arena);
    memory_free(model);
}

struct model *repository_find(const struct repository *repository, const char *name)
{
    struct model *model = repository->models;
    while (model && strcmp(model->config.name, name) != 0)
        model = model->next;
    return model;
}

/* --- one that answers ------------------------------------------------------------------------ */

static const struct version_label *find_label(const struct model *model, const char *name)
{
    for (int i = 0; i < model->config.label_count; i++)
        if (strcmp(model->config.labels[i].name, name) == 0)
            return &model->config.labels[i];
    return NULL;
}

/* One from the path that the model had before only when there is no other. */
static struct version *choose(const struct model *model, int64_t number)
{
    struct version *former = NULL;
    for (struct version *version = model->versions; version; version = version->next) {
        if (!version->servable || (number >= 0 && version->number != number))
            continue;
        if (!version->former)
            return version;
        if (!former)
            former = version;
    }
    return former;
}

static bool still_loads(const struct model *model)
{
    for (const struct version *version = model->versions; version; version = version->next)
        if (version->state == VERSION_START || version->state == VERSION_LOADING)
            return true;
    return !model->looked;
}

/* TF Serving's own words first, which clients may look for. */
static void say_not_found(const struct model *model, const struct serve_target *target,
                          int64_t number, struct error *err)
{
    char what[192], there[192] = "";
    int used = 0;
    if (number >= 0)
        snprintf(what, sizeof what, "Specific(%.128s, %" PRId64 ")", target->model, number);
    else
        snprintf(what, sizeof what, "Latest(%.128s)", target->model);
    for (const struct version *version = model ? model->versions : NULL;
         version && used < (int)sizeof there - 24; version = version->next)
        if (version->servable)
            used += snprintf(there + used, sizeof there - (size_t)used, "%s%" PRId64,
                             used ? ", " : "; available: ", version->number);
    error_set(err, ERROR_ABSENT, "Servable not found for request: %s%s%s", what, there,
              model ? "" : "; no model of this name is served");
}

static struct servable *hold_version(const struct model *model, const struct serve_target *target,
                                     enum serve_status *status, struct error *err)
{
    int64_t number = target->version;
    if (target->label && *target->label) {
        const struct version_label *label = find_label(model, target->label);
        if (!label) {
            *status = SERVE_NOT_FOUND;
            error_set(err, ERROR_ABSENT, "Unrecognized servable version label: %.128s",
                      target->label);
            return NULL;
        }
        number = label->version;
    }
    struct version *version = choose(model, number);
    if (version) {
        servable_hold(version->servable);
        *status = SERVE_OK;
        return version->servable;
    }
    *status = number < 0 && still_loads(model) ? SERVE_UNAVAILABLE : SERVE_NOT_FOUND;
    if (*status == SERVE_UNAVAILABLE)
        error_set(err, ERROR_ABSENT, "model %.128s is still being loaded", target->model);
    else
        say_not_found(model, target, number, err);
    return NULL;
}

struct servable *repository_hold(struct repository *repository, const struct serve_target *target,
                                 enum serve_status *status, struct error *err)
{
    if (target->version >= 0 && target->label && *target->label) {
        *status = SERVE_INVALID;
        error_set(err, ERROR_FORMAT, "a version and a label were given; one of them is enough");
        return NULL;
    }
    struct servable *servable = NULL;
    pthread_mutex_lock(&repository->lock);
    const struct model *model = repository_find(repository, target->model);
    if (model) {
        servable = hold_version(model, target, status, err);
    } else {
        *status = SERVE_NOT_FOUND;
        say_not_found(NULL, target, target->version, err);
    }
    pthread_mutex_unlock(&repository->lock);
    return servable;
}

/* --- how all of them are --------------------------------------------------------------------- */

static const char *labels_of(const struct model *model, int64_t number, struct arena *arena)
{
    const char *text = "";
    for (int i = 0; text && i < model->config.label_count; i++)
        if (model->config.labels[i].version == number)
            text =
                arena_format(arena, "%s%s%s", text, *text ? " " : "", model->config.labels[i].name);
    return text;
}

/* `number` < 0: all versions. */
static bool describe(const struct model *model, int64_t number, struct arena *arena,
                     struct model_status *out)
{
    int count = 0;
    for (const struct version *version = model->versions; version; version = version->next)
        count++;
    *out = (struct model_status){
        .name = arena_copy_text(arena, model->config.name),
        .base_path = arena_copy_text(arena, model->config.base_path),
        .versions = ARENA_ARRAY(arena, struct version_status, count + 1),
    };
    if (!out->name || !out->base_path || !out->versions)
        return false;
    for (const struct version *version = model->versions; version; version = version->next) {
        if (number >= 0 && version->number != number)
            continue;
        struct version_status *status = &out->versions[out->count++];
        *status = (struct version_status){
            .version = version->number,
            .state = version->state,
            .code = version->code,
            .message = arena_copy_text(arena, version->message),
            .labels = labels_of(model, version->number, arena),
            .loaded_seconds = version->loaded_seconds,
        };
        if (!status->message || !status->labels)
            return false;
    }
    return true;
}

int repository_status(struct repository *repository, struct arena *arena, struct model_status **out)
{
    int count = 0, filled = 0;
    bool whole = true;
    pthread_mutex_lock(&repository->lock);
    for (const struct model *model = repository->models; model; model = model->next)
        count++;
    *out = ARENA_ARRAY(arena, struct model_status, count + 1);
    whole = *out != NULL;
    for (const struct model *model = repository->models; whole && model; model = model->next)
        whole = describe(model, -1, arena, &(*out)[filled++]);
    pthread_mutex_unlock(&repository->lock);
    return whole ? count : -1;
}

enum serve_status repository_model_status(struct repository *repository,
                                          const struct serve_target *target, struct arena *arena,
                                          struct model_status *out, struct error *err)
{
    enum serve_status status = SERVE_NOT_FOUND;
    int64_t number = target->version;
    pthread_mutex_lock(&repository->lock);
    const struct model *model = repository_find(repository, target->model);
    const struct version_label *label =
        model && target->label && *target->label ? find_label(model, target->label) : NULL;
    if (label)
        number = label->version;
    bool known = model && (label || !target->label || !*target->label);
    if (known && !describe(model, number, arena, out)) {
        status = SERVE_EXHAUSTED;
        error_set(err, ERROR_MEMORY, "no memory for the answer");
    } else if (known && (number < 0 || out->count > 0)) {
        status = SERVE_OK;
    } else {
        error_set(err, ERROR_ABSENT, "Could not find any versions of model %.128s%s", target->model,
                  model ? " that fit the request" : "");
    }
    pthread_mutex_unlock(&repository->lock);
    return status;
}

static bool all_available(const struct repository *repository)
{
    for (const struct model *model = repository->models; model; model = model->next)
        if (!choose(model, -1))
            return false;
    return repository->models && !repository->reconfigure;
}

bool repository_ready(struct repository *repository)
{
    pthread_mutex_lock(&repository->lock);
    bool ready = all_available(repository);
    pthread_mutex_unlock(&repository->lock);
    return ready;
}

bool repository_wait(struct repository *repository, double seconds)
{
    double until = clock_seconds() + seconds;
    pthread_mutex_lock(&repository->lock);
    while (!all_available(repository) &&
           (repository->reconfigure || repository->looks < repository->configured) &&
           !repository->ending) {
        double left = until - clock_seconds();
        if (left <= 0)
            break;
        struct timespec when;
        clock_gettime(CLOCK_MONOTONIC, &when);
        when.tv_sec += (time_t)left;
        when.tv_nsec += (long)((left - floor(left)) * 1e9);
        when.tv_sec += when.tv_nsec / 1000000000;
        when.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&repository->changed, &repository->lock, &when);
    }
    bool ready = all_available(repository);
    pthread_mutex_unlock(&repository->lock);
    return ready;
}

/* --- another configuration ------------------------------------------------------------------- */

static bool copy_lists(const struct model_config *from, struct arena *arena,
                       struct model_config *to)
{
    int64_t *versions = ARENA_ARRAY(arena, int64_t, from->version_count + 1);
    struct version_label *labels = ARENA_ARRAY(arena, struct version_label, from->label_count + 1);
    if (!versions || !labels)
        return false;
    if (from->version_count)
        memcpy(versions, from->versions, sizeof *versions * (size_t)from->version_count);
    for (int i = 0; i < from->label_count; i++) {
        labels[i] = from->labels[i];
        labels[i].name = arena_copy_text(arena, from->labels[i].name);
        if (!labels[i].name)
            return false;
    }
    to->versions = versions;
    to->labels = labels;
    return true;
}

static struct model *make_model(const struct model_config *config)
{
    struct model *model = memory_allocate(sizeof *model);
    if (!model)
        return NULL;
    model->config = *config;
    if (model->config.latest < 1)
        model->config.latest = 1;
    model->arena = arena_create();
    if (model->arena) {
        model->config.name = arena_copy_text(model->arena, config->name);
        model->config.base_path = arena_copy_text(model->arena, config->base_path);
    }
    if (!model->arena || !model->config.name || !model->config.base_path ||
        !copy_lists(config, model->arena, &model->config)) {
        model_destroy(model);
        return NULL;
    }
    return model;
}

/* Whether a version that answers now will under this configuration. Of another path nothing is known
 * yet. */
static bool will_be_kept(const struct model *model, const struct model_config *config,
                         int64_t number)
{
    int newer = 0;
    if (config->policy != POLICY_LATEST)
        return config_wants(config, number);
    if (strcmp(model->config.base_path, config->base_path) != 0)
        return true;
    for (const struct version *version = model->versions; version; version = version->next)
        newer += version->servable && !version->former && version->number > number;
    return newer < (config->latest > 1 ? config->latest : 1);
}

/* A label that clients use may only move to a version that answers and goes on to; a new one too,
 * unless the user said that it may wait. */
static int check_label(const struct repository *repository, const struct model_config *config,
                       const struct version_label *label, struct error *err)
{
    const struct model *model = repository_find(repository, config->name);
    bool answers = model && choose(model, label->version);
    if (answers && !will_be_kept(model, config, label->version))
        return error_set(err, ERROR_FORMAT,
                         "model %s: label '%s' names version %" PRId64
                         ", which the policy beside it does not keep",
                         config->name, label->name, label->version);
    if (answers)
        return 0;
    const struct version_label *before = model ? find_label(model, label->name) : NULL;
    if (before && before->version == label->version)
        return 0;
    if (!before && repository->settings.labels_ahead)
        return 0;
    return error_set(err, ERROR_FORMAT,
                     "model %s: label '%s' names version %" PRId64 ", which is not available%s",
                     config->name, label->name, label->version,
                     before ? "; it stays where it is"
                            : "; --allow-version-labels-for-unavailable-models allows that");
}

static int check_labels(const struct repository *repository, const struct model_list *models,
                        struct error *err)
{
    for (int i = 0; i < models->count; i++)
        for (int j = 0; j < models->models[i].label_count; j++)
            if (check_label(repository, &models->models[i], &models->models[i].labels[j], err) < 0)
                return -1;
    return 0;
}

static bool has_path(const struct model *list, const struct model_config *config)
{
    for (const struct model *model = list; model; model = model->next)
        if (strcmp(model->config.name, config->name) == 0 &&
            strcmp(model->config.base_path, config->base_path) == 0)
            return true;
    return false;
}

/* At the start a path may be missing, and is waited for. Who moves or adds a model while others are
 * served had better hear of it. */
static int check_path(struct repository *repository, const struct model_config *config,
                      struct error *err)
{
    pthread_mutex_lock(&repository->lock);
    bool at_start = repository->configured == 0 && !repository->reconfigure;
    bool known = has_path(repository->models, config) || has_path(repository->wanted, config);
    pthread_mutex_unlock(&repository->lock);
    if (at_start || known || access(config->base_path, F_OK) == 0)
        return 0;
    return error_set(err, ERROR_ABSENT, "model %s: %s: %s", config->name, config->base_path,
                     strerror(errno));
}

static void destroy_list(struct model *model)
{
    for (struct model *next; model; model = next) {
        next = model->next;
        model_destroy(model);
    }
}

int repository_configure(struct repository *repository, const struct model_list *models,
                         struct error *err)
{
    struct model *first = NULL, **end = &first;
    if (config_check_models(models, err) < 0)
        return -1;
    for (int i = 0; i < models->count; i++)
        if (check_path(repository, &models->models[i], err) < 0)
            return -1;
    for (int i = 0; i < models->count; i++) {
        *end = make_model(&models->models[i]);
        if (!*end) {
            destroy_list(first);
            return error_set(err, ERROR_MEMORY, "no memory for the models");
        }
        end = &(*end)->next;
    }
    pthread_mutex_lock(&repository->lock);
    int status = check_labels(repository, models, err);
    if (status == 0) {
        struct model *replaced = repository->wanted;
        repository->wanted = first;
        first = replaced;
        repository->reconfigure = true;
        pthread_cond_broadcast(&repository->changed);
    }
    pthread_mutex_unlock(&repository->lock);
    destroy_list(first);
    return status;
}
