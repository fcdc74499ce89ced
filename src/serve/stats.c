#include "serve/stats.h"

#include <math.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "serve/stats_internal.h"

enum { VERSIONS_KEPT = 32 }; /* of one model, after they are let go */

double latency_limit(int bucket)
{
    return bucket < LATENCY_BUCKETS - 1 ? 10 * pow(1.8, bucket) : INFINITY;
}

int batch_bucket(int rows)
{
    int bucket = 0;
    while (bucket < BATCH_BUCKETS - 1 && 1 << bucket < rows)
        bucket++;
    return bucket;
}

const char *api_name(enum serve_door door, enum serve_api api)
{
    static const char *const names[APIS][DOORS] = {
        {"predict", "Predict"},           {"classify", "Classify"},
        {"regress", "Regress"},           {"multiInference", "MultiInference"},
        {"metadata", "GetModelMetadata"}, {"status", "GetModelStatus"},
        {"infer", "ModelInfer"},
    };
    return names[api][door];
}

const char *door_name(enum serve_door door)
{
    return door == DOOR_REST ? "REST" : "GRPC";
}

/* --- finding ---------------------------------------------------------------------------------- */

static struct model_counts *find_model(struct serve_stats *stats, const char *name)
{
    struct model_counts *model = stats->models;
    while (model && strcmp(model->name, name) != 0)
        model = model->next;
    return model;
}

static struct model_counts *add_model(struct serve_stats *stats, const char *name)
{
    struct model_counts **end = &stats->models;
    struct model_counts *model = memory_allocate(sizeof *model);
    if (model && !(model->name = memory_copy_text(name))) {
        memory_free(model);
        model = NULL;
    }
    while (*end)
        end = &(*end)->next;
    *end = model;
    return model;
}

static struct version_counts *find_version(const struct model_counts *model, int64_t number)
{
    struct version_counts *version = model ? model->versions : NULL;
    while (version && version->version != number)
        version = version->next;
    return version;
}

static struct version_counts *find(struct serve_stats *stats, const char *name, int64_t number)
{
    return find_version(find_model(stats, name), number);
}

static struct version_counts *add_version(struct model_counts *model, int64_t number)
{
    struct version_counts **at = &model->versions;
    struct version_counts *version = memory_allocate(sizeof *version);
    if (!version)
        return NULL;
    while (*at && (*at)->version > number)
        at = &(*at)->next;
    *version = (struct version_counts){.next = *at, .version = number};
    *at = version;
    return version;
}

static void forget_versions(struct model_counts *model)
{
    int kept = 0;
    for (struct version_counts **at = &model->versions; *at;) {
        struct version_counts *version = *at;
        if (version->loaded || version->pending || ++kept <= VERSIONS_KEPT) {
            at = &version->next;
        } else {
            *at = version->next;
            memory_free(version);
        }
    }
}

/* --- counting --------------------------------------------------------------------------------- */

static void add_latency(struct latency *latency, double microseconds)
{
    int bucket = 0, last = LATENCY_BUCKETS - 1;
    while (bucket < last) {
        int middle = (bucket + last) / 2;
        if (microseconds > latency_limit(middle))
            bucket = middle + 1;
        else
            last = middle;
    }
    latency->counts[bucket]++;
    latency->count++;
    latency->sum += microseconds;
}

static void count_request(struct model_counts *model, enum serve_door door, enum serve_api api,
                          int64_t number, enum serve_status status, double seconds)
{
    bool inference = api != API_METADATA && api != API_STATUS;
    model->status[(int)status < STATUSES ? (int)status : SERVE_UNKNOWN]++;
    if (status == SERVE_OK)
        add_latency(&model->latency[door][api], seconds * 1e6);
    struct version_counts *version = find_version(model, number);
    if (!version || !inference)
        return;
    if (status == SERVE_OK)
        version->success++;
    else
        version->failure++;
    version->request_us += seconds * 1e6;
}

void stats_request(struct serve_stats *stats, enum serve_door door, enum serve_api api,
                   const char *model, int64_t version, enum serve_status status, double seconds)
{
    pthread_mutex_lock(&stats->lock);
    struct model_counts *counts = model ? find_model(stats, model) : NULL;
    if (counts)
        count_request(counts, door, api, version, status, seconds);
    else
        stats->unknown_models[door]++;
    pthread_mutex_unlock(&stats->lock);
}

void stats_refused(struct serve_stats *stats, enum serve_door door)
{
    pthread_mutex_lock(&stats->lock);
    stats->refused[door]++;
    pthread_mutex_unlock(&stats->lock);
}

void stats_gone(struct serve_stats *stats, enum serve_door door)
{
    pthread_mutex_lock(&stats->lock);
    stats->gone[door]++;
    pthread_mutex_unlock(&stats->lock);
}

void stats_batch(struct serve_stats *stats, const struct stats_batch *batch)
{
    pthread_mutex_lock(&stats->lock);
    struct model_counts *model = find_model(stats, batch->model);
    struct version_counts *version = find_version(model, batch->version);
    if (model)
        add_latency(&model->runtime, batch->run_seconds * 1e6);
    if (version) {
        version->rows += (uint64_t)batch->rows;
        version->padded += (uint64_t)batch->padded;
        version->batch_requests += (uint64_t)batch->requests;
        version->executions++;
        version->queue_us += batch->queue_seconds * 1e6;
        version->input_us += batch->input_seconds * 1e6;
        version->run_us += batch->run_seconds * 1e6;
        version->output_us += batch->output_seconds * 1e6;
        version->batches[batch_bucket(batch->rows)]++;
    }
    pthread_mutex_unlock(&stats->lock);
}

void stats_pending(struct serve_stats *stats, const char *model, int64_t version, int change)
{
    pthread_mutex_lock(&stats->lock);
    struct version_counts *counts = find(stats, model, version);
    if (counts)
        counts->pending += change;
    pthread_mutex_unlock(&stats->lock);
}

void stats_version(struct serve_stats *stats, const char *name, int64_t number, bool loaded)
{
    pthread_mutex_lock(&stats->lock);
    struct model_counts *model = find_model(stats, name);
    if (!model)
        model = add_model(stats, name);
    struct version_counts *version = find_version(model, number);
    if (model && !version)
        version = add_version(model, number);
    if (version) {
        version->loaded = loaded;
        model->loads += loaded;
        forget_versions(model);
    }
    pthread_mutex_unlock(&stats->lock);
}

void stats_failed_load(struct serve_stats *stats, const char *name)
{
    pthread_mutex_lock(&stats->lock);
    struct model_counts *model = find_model(stats, name);
    if (!model)
        model = add_model(stats, name);
    if (model)
        model->failed_loads++;
    pthread_mutex_unlock(&stats->lock);
}

/* --- for the page ----------------------------------------------------------------------------- */

static struct json *version_json(const struct version_counts *version)
{
    struct json *out = json_object_create(), *batches = json_array_create();
    json_set_integer(out, "version", version->version);
    json_set_bool(out, "loaded", version->loaded);
    json_set_integer(out, "requests", (int64_t)(version->success + version->failure));
    json_set_integer(out, "rows", (int64_t)version->rows);
    json_set_integer(out, "padded", (int64_t)version->padded);
    json_set_integer(out, "executions", (int64_t)version->executions);
    json_set_integer(out, "pending", version->pending);
    json_set_number(out, "queue_us", version->queue_us);
    json_set_number(out, "input_us", version->input_us);
    json_set_number(out, "run_us", version->run_us);
    json_set_number(out, "output_us", version->output_us);
    for (int i = 0; i < BATCH_BUCKETS; i++)
        json_append_integer(batches, (int64_t)version->batches[i]);
    json_set(out, "batches", batches);
    return out;
}

static struct json *latency_json(const struct model_counts *model)
{
    struct json *out = json_array_create();
    for (int bucket = 0; bucket < LATENCY_BUCKETS; bucket++) {
        uint64_t count = 0;
        for (int door = 0; door < DOORS; door++)
            for (int api = 0; api < APIS; api++)
                if (api != API_METADATA && api != API_STATUS)
                    count += model->latency[door][api].counts[bucket];
        json_append_integer(out, (int64_t)count);
    }
    return out;
}

static struct json *model_json(const struct model_counts *model)
{
    struct json *out = json_object_create(), *versions = json_array_create();
    struct json *statuses = json_object_create();
    json_set_text(out, "name", model->name);
    for (int i = 0; i < STATUSES; i++)
        if (model->status[i])
            json_set_integer(statuses, serve_status_name(i), (int64_t)model->status[i]);
    json_set(out, "statuses", statuses);
    json_set(out, "latency", latency_json(model));
    json_set_integer(out, "failed_loads", (int64_t)model->failed_loads);
    for (const struct version_counts *version = model->versions; version; version = version->next)
        json_append(versions, version_json(version));
    json_set(out, "versions", versions);
    return out;
}

void stats_json(struct serve_stats *stats, struct json *out)
{
    struct json *models = json_array_create(), *limits = json_array_create();
    for (int i = 0; i < LATENCY_BUCKETS - 1; i++)
        json_append_number(limits, latency_limit(i));
    json_set(out, "latency_limits_us", limits);
    pthread_mutex_lock(&stats->lock);
    json_set_number(out, "uptime", clock_seconds() - stats->started);
    json_set_integer(out, "refused", (int64_t)(stats->refused[0] + stats->refused[1]));
    json_set_integer(out, "unknown_models",
                     (int64_t)(stats->unknown_models[0] + stats->unknown_models[1]));
    for (const struct model_counts *model = stats->models; model; model = model->next)
        json_append(models, model_json(model));
    pthread_mutex_unlock(&stats->lock);
    json_set(out, "counts", models);
}

/* --- making and ending ------------------------------------------------------------------------ */

int stats_create(struct serve_stats **out, struct error *err)
{
    struct serve_stats *stats = memory_allocate(sizeof *stats);
    if (!stats)
        return error_set(err, ERROR_MEMORY, "no memory for counters");
    pthread_mutex_init(&stats->lock, NULL);
    stats->started = clock_seconds();
    *out = stats;
    return 0;
}

void stats_destroy(struct serve_stats *stats)
{
    if (!stats)
        return;
    for (struct model_counts *next, *model = stats->models; model; model = next) {
        next = model->next;
        for (struct version_counts *later, *version = model->versions; version; version = later) {
            later = version->next;
            memory_free(version);
        }
        memory_free(model->name);
        memory_free(model);
    }
    pthread_mutex_destroy(&stats->lock);
    memory_free(stats);
}
