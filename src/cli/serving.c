#include "cli/serving.h"

#include <errno.h>
#include <limits.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/stop.h"
#include "cli/access_log.h"
#include "cli/command.h"
#include "convert/imported.h"
#include "serve/core.h"
#include "serve/door.h"
#include "serve/grpc_door.h"
#include "serve/rest.h"

enum { MOST_WORKERS = 1024 };
static const double LOOK_EVERY_SECONDS = 0.2;

struct serving {
    const struct serve_settings *settings;
    const struct options *parsed;
    FILE *out;
    struct arena *arena; /* of what was read */
    struct serve_core *core;
    struct rest_door *rest;
    struct grpc_door *grpc;
    struct access_log *log;
    struct door_options door; /* what both have in common */
};

/* --- files ----------------------------------------------------------------------------------- */

static const char *read_text(struct serving *serving, const char *path, size_t *bytes,
                             struct error *err)
{
    char *text;
    if (file_read(path, CONFIG_MAX_BYTES, &text, bytes, err) < 0)
        return NULL;
    char *copy = arena_copy_text(serving->arena, text);
    memory_free(text);
    if (!copy)
        error_set(err, ERROR_MEMORY, "no memory for %s", path);
    return copy;
}

/* --- which models ---------------------------------------------------------------------------- */

/* "models/digits" is "digits", and so is "models/digits.onnx". */
static char *name_of(struct arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *name = arena_copy_text(arena, slash ? slash + 1 : path);
    if (name && imported_is_file(path))
        name[strlen(name) - strlen(".onnx")] = '\0';
    return name;
}

/* "NAME=DIR", or "DIR". */
static int parse_model(struct arena *arena, const char *text, struct model_config *out,
                       struct error *err)
{
    const char *equals = strchr(text, '=');
    const char *path = equals ? equals + 1 : text;
    char *copy = arena_copy_text(arena, path), *name;
    if (!copy)
        return error_set(err, ERROR_MEMORY, "no memory for the models");
    for (size_t length = strlen(copy); length > 1 && copy[length - 1] == '/'; length--)
        copy[length - 1] = '\0';
    name = equals ? arena_format(arena, "%.*s", (int)(equals - text), text) : name_of(arena, copy);
    if (!name)
        return error_set(err, ERROR_MEMORY, "no memory for the models");
    if (!*name || !*path)
        return error_set(err, ERROR_USAGE, "%s: which model? Write NAME=DIR", text);
    *out = (struct model_config){.name = name, .base_path = copy, .latest = 1};
    return 0;
}

static int models_from_flags(struct serving *serving, struct model_list *out, struct error *err)
{
    const struct serve_settings *settings = serving->settings;
    struct model_config *models =
        ARENA_ARRAY(serving->arena, struct model_config, settings->models.count + 2);
    if (!models)
        return error_set(err, ERROR_MEMORY, "no memory for the models");
    int count = 0;
    for (; count < settings->models.count; count++)
        if (parse_model(serving->arena, settings->models.items[count], &models[count], err) < 0)
            return -1;
    if (settings->path && parse_model(serving->arena, settings->path, &models[count++], err) < 0)
        return -1;
    const char *name = settings->model_name ? settings->model_name : "model";
    const char *path = settings->base_path;
    if (!path && settings->models_dir)
        path = arena_format(serving->arena, "%s/%s", settings->models_dir, name);
    if (path)
        models[count++] = (struct model_config){.name = name, .base_path = path, .latest = 1};
    *out = (struct model_list){models, count};
    return config_check_models(out, err);
}

static int read_models(struct serving *serving, struct model_list *out, struct error *err)
{
    const struct serve_settings *settings = serving->settings;
    const char *file = settings->config_file;
    if (!file) {
        if (!settings->models.count && !settings->path && !settings->base_path &&
            !settings->models_dir)
            return error_set(err, ERROR_USAGE,
                             "which models? Give a directory or an ONNX file, --model NAME=DIR or "
                             "--model-config-file FILE");
        return models_from_flags(serving, out, err);
    }
    if (settings->models.count || settings->path || settings->base_path)
        return error_set(err, ERROR_USAGE,
                         "--model-config-file says which models; leave --model and "
                         "--model-base-path out");
    size_t bytes;
    const char *text = read_text(serving, file, &bytes, err);
    return text ? config_read_models(file, text, bytes, serving->arena, out, err) : -1;
}

/* A file that became wrong is a warning; what is served stays. */
static void read_models_again(struct serving *serving)
{
    struct error err = {0};
    struct model_list models;
    struct arena *kept = serving->arena;
    serving->arena = arena_create();
    if (!serving->arena || read_models(serving, &models, &err) < 0 ||
        repository_configure(core_repository(serving->core), &models, &err) < 0)
        log_line(LOG_WARNING, "%s; the models stay as they are", err.message);
    arena_destroy(serving->arena);
    serving->arena = kept;
}

/* --- the core -------------------------------------------------------------------------------- */

static bool given(const struct serving *serving, const char *option)
{
    return options_source(serving->parsed, option) >= OPTION_FROM_ENVIRONMENT;
}

/* A flag beats the file. */
static int read_batching(struct serving *serving, struct batcher_settings *out, struct error *err)
{
    const struct serve_settings *settings = serving->settings;
    struct batching_config file = {0};
    if (settings->batching_file) {
        size_t bytes;
        const char *text = read_text(serving, settings->batching_file, &bytes, err);
        if (!text || config_read_batching(settings->batching_file, text, bytes, &file, err) < 0)
            return -1;
    }
    bool from_file = file.max_batch_size && !given(serving, "max-batch-size");
    int64_t max_rows = from_file ? file.max_batch_size : settings->max_batch;
    if (max_rows > 4096)
        return error_set(err, ERROR_USAGE, "%s: max_batch_size %lld; at most 4096 rows",
                         settings->batching_file, (long long)max_rows);
    if (!given(serving, "num-batch-threads") && file.num_batch_threads > MOST_WORKERS)
        return error_set(err, ERROR_USAGE, "%s: num_batch_threads %lld; at most %d",
                         settings->batching_file, (long long)file.num_batch_threads, MOST_WORKERS);
    int64_t micros = file.timeout_given && !given(serving, "batch-timeout-micros")
                         ? file.batch_timeout_micros
                         : settings->timeout_micros;
    int64_t batches = file.max_enqueued_batches && !given(serving, "max-enqueued-batches")
                          ? file.max_enqueued_batches
                          : settings->max_batches;
    int64_t workers = file.num_batch_threads && !given(serving, "num-batch-threads")
                          ? file.num_batch_threads
                          : settings->workers;
    *out = (struct batcher_settings){
        .rules = {.max_rows = (int)max_rows,
                  .wait_seconds = (double)micros / 1e6,
                  .max_batches = batches < INT_MAX ? (int)batches : INT_MAX,
                  .alone = !settings->batching},
        .workers = (int)workers,
    };
    return 0;
}

static int open_core(struct serving *serving, struct error *err)
{
    const struct serve_settings *settings = serving->settings;
    struct core_settings core = {
        .repository = {.poll_seconds = settings->poll_seconds,
                       .load_retries = settings->load_retries,
                       .retry_seconds = (double)settings->retry_micros / 1e6,
                       .labels_ahead = settings->labels_ahead,
                       .warm_up = settings->warm_up,
                       .threads = settings->threads},
        .token_file = settings->token_file,
        .start = true,
    };
    struct model_list models;
    if (read_models(serving, &models, err) < 0 || read_batching(serving, &core.batcher, err) < 0 ||
        core_create(&core, &serving->core, err) < 0)
        return -1;
    return repository_configure(core_repository(serving->core), &models, err);
}

/* --- the doors ------------------------------------------------------------------------------- */

/* *use is false for "0": that door stays closed. */
static int read_address(const char *host, const char *option, const char *text, struct address *out,
                        bool *use, struct error *err)
{
    char place[160];
    *use = strcmp(text, "0") != 0;
    bool six = strchr(host, ':') && host[0] != '[';
    snprintf(place, sizeof place, "%s%s%s:%s", six ? "[" : "", host, six ? "]" : "",
             strcmp(text, "auto") == 0 ? "0" : text);
    return *use ? address_parse(place, option, out, err) : 0;
}

static int read_tls(struct serving *serving, struct error *err)
{
    const struct serve_settings *settings = serving->settings;
    struct door_tls *tls = &serving->door.tls;
    size_t bytes;
    if (settings->ssl_file) {
        struct ssl_config config;
        if (settings->tls_cert || settings->tls_key)
            return error_set(err, ERROR_USAGE,
                             "--ssl-config-file has the certificate and its key; "
                             "leave --tls-cert and --tls-key out");
        const char *text = read_text(serving, settings->ssl_file, &bytes, err);
        if (!text ||
            config_read_ssl(settings->ssl_file, text, bytes, serving->arena, &config, err) < 0)
            return -1;
        tls->certificate = config.server_cert;
        tls->key = config.server_key;
        tls->client_ca = config.client_verify ? config.custom_ca : NULL;
        return 0;
    }
    if (!settings->tls_cert != !settings->tls_key ||
        (settings->tls_client_ca && !settings->tls_cert))
        return error_set(err, ERROR_USAGE, "TLS needs both --tls-cert and --tls-key");
    if (!settings->tls_cert)
        return 0;
    tls->certificate = read_text(serving, settings->tls_cert, &bytes, err);
    tls->key = tls->certificate ? read_text(serving, settings->tls_key, &bytes, err) : NULL;
    if (tls->key && settings->tls_client_ca)
        tls->client_ca = read_text(serving, settings->tls_client_ca, &bytes, err);
    return tls->key && (tls->client_ca || !settings->tls_client_ca) ? 0 : -1;
}

static int read_monitoring(struct serving *serving, struct error *err)
{
    const char *file = serving->settings->monitoring_file;
    struct monitoring_config config = {.enable = true};
    if (file) {
        size_t bytes;
        const char *text = read_text(serving, file, &bytes, err);
        if (!text || config_read_monitoring(file, text, bytes, serving->arena, &config, err) < 0)
            return -1;
    }
    serving->door.metrics_path =
        config.enable ? config.path ? config.path : "/monitoring/prometheus/metrics" : NULL;
    return 0;
}

static void log_request(void *context, const char *peer, const char *what, enum serve_status status,
                        size_t request_bytes, size_t reply_bytes, double seconds)
{
    access_log_write(context, peer, what, serve_status_name(status), request_bytes, reply_bytes,
                     seconds);
}

static int prepare_doors(struct serving *serving, struct error *err)
{
    const struct serve_settings *settings = serving->settings;
    struct rlimit limit;
    int connections = settings->connections;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / 2 < (rlim_t)connections)
        connections = (int)(limit.rlim_cur / 2);
    if (connections < settings->connections)
        log_line(LOG_INFO,
                 "at most %d connections to each port: half of the %llu open files allowed",
                 connections, (unsigned long long)limit.rlim_cur);
    serving->door = (struct door_options){.message_limit = settings->message_limit,
                                          .connections = connections,
                                          .idle_seconds = settings->idle_seconds,
                                          .request_seconds = settings->request_seconds,
                                          .cors = settings->cors,
                                          .status_page = settings->status_page};
    if (settings->access_log) {
        if (access_log_open(settings->access_log, &serving->log, err) < 0)
            return -1;
        serving->door.log = log_request;
        serving->door.log_context = serving->log;
    }
    return read_tls(serving, err) < 0 ? -1 : read_monitoring(serving, err);
}

static int open_rest(struct serving *serving, struct error *err)
{
    const struct serve_settings *settings = serving->settings;
    struct door_options door = serving->door;
    bool use;
    if (read_address(settings->host, "--rest-port", settings->rest_port, &door.address, &use, err) <
        0)
        return -1;
    if (!use)
        return 0;
    door.threads = settings->rest_threads;
    door.answer_seconds = (double)settings->rest_timeout_ms / 1e3;
    if (rest_door_start(serving->core, &door, &serving->rest, err) < 0)
        return error_wrap(err, "--rest-port");
    fprintf(serving->out, "Exporting HTTP/REST API at:%s:%d ...\n", settings->host,
            rest_door_port(serving->rest));
    if (settings->status_page) {
        char url[256];
        fprintf(serving->out, "Status page: %s\n", rest_door_url(serving->rest, url, sizeof url));
    }
    return 0;
}

static int open_grpc(struct serving *serving, struct error *err)
{
    const struct serve_settings *settings = serving->settings;
    struct door_options door = serving->door;
    bool use;
    if (read_address(settings->host, "--port", settings->port, &door.address, &use, err) < 0)
        return -1;
    if (!use && !settings->socket_path)
        return 0;
    door.socket_path = settings->socket_path;
    door.threads = settings->grpc_threads;
    door.channel_arguments = settings->channel_arguments;
    door.tensor_content = settings->tensor_content;
    if (grpc_door_start(serving->core, &door, &serving->grpc, err) < 0)
        return err->code == ERROR_USAGE ? -1 : error_wrap(err, "--port");
    fprintf(serving->out, "Running gRPC ModelServer at %s:%d ...\n", settings->host,
            grpc_door_port(serving->grpc));
    return 0;
}

/* --- running --------------------------------------------------------------------------------- */

static void serve_until(struct serving *serving, const atomic_int *stop)
{
    double poll = serving->settings->config_file ? serving->settings->config_poll_seconds : 0;
    double next = clock_seconds() + poll;
    bool ready = false;
    while (!stop_wanted(stop)) {
        struct timespec nap = {.tv_nsec = (long)(LOOK_EVERY_SECONDS * 1e9)};
        nanosleep(&nap, NULL);
        if (!ready && core_ready(serving->core)) {
            ready = true;
            fprintf(serving->out, "Ready after %.2f s\n", clock_since_process_start());
            fflush(serving->out);
        }
        if (poll > 0 && clock_seconds() >= next) {
            read_models_again(serving);
            next = clock_seconds() + poll;
        }
    }
}

/* A balancer goes on sending until it has seen that this server is not ready; a connection that is
 * refused until then is a request that failed. */
static void take_leave(struct serving *serving)
{
    double seconds = serving->settings->farewell_seconds;
    core_begin_ending(serving->core);
    if (seconds <= 0)
        return;
    log_line(LOG_INFO, "ending: not ready any more, requests are answered for another %.3g s",
             seconds);
    struct timespec rest = {.tv_sec = (time_t)seconds,
                            .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&rest, &rest) < 0 && errno == EINTR)
        ;
}

/* Both doors close before either is waited for: they drain beside each other, within one time. */
static int drain(struct serving *serving)
{
    take_leave(serving);
    double until = clock_seconds() + serving->settings->drain_seconds;
    log_line(LOG_INFO, "draining: no new connections, requests in flight finish");
    rest_door_close(serving->rest);
    if (serving->grpc)
        grpc_door_close(serving->grpc);
    rest_door_drain(serving->rest, serving->settings->drain_seconds);
    int left = serving->grpc ? grpc_door_drain(serving->grpc, until - clock_seconds()) : 0;
    left += batcher_pending(core_batcher(serving->core));
    if (left > 0)
        log_line(LOG_WARNING, "%d requests were not answered within %.0f s", left,
                 serving->settings->drain_seconds);
    int64_t lost = access_log_lost(serving->log);
    if (lost > 0)
        log_line(LOG_WARNING, "%lld lines of the access log are missing", (long long)lost);
    return left > 0 || lost > 0 ? STATUS_FAILED : STATUS_DONE;
}

void serving_close(struct serving *serving)
{
    if (!serving)
        return;
    rest_door_stop(serving->rest);
    if (serving->grpc)
        grpc_door_stop(serving->grpc);
    core_destroy(serving->core);
    access_log_close(serving->log);
    arena_destroy(serving->arena);
    memory_free(serving);
}

static int open_all(struct serving *serving, struct error *err)
{
    if (prepare_doors(serving, err) < 0 || open_core(serving, err) < 0 ||
        open_grpc(serving, err) < 0 || open_rest(serving, err) < 0)
        return -1;
    if (!serving->rest && !serving->grpc)
        return error_set(err, ERROR_USAGE, "no door is open: give --port or --rest-port");
    return 0;
}

int serving_open(const struct serve_settings *settings, const struct options *parsed, FILE *out,
                 struct serving **opened, struct error *err)
{
    struct serving *serving = memory_allocate(sizeof *serving);
    if (!serving)
        return error_set(err, ERROR_MEMORY, "no memory for the server");
    *serving = (struct serving){
        .settings = settings, .parsed = parsed, .out = out, .arena = arena_create()};
    int status = serving->arena ? open_all(serving, err)
                                : error_set(err, ERROR_MEMORY, "no memory for the server");
    fflush(out);
    if (status < 0)
        serving_close(serving);
    else
        *opened = serving;
    return status;
}

int serving_grpc_port(const struct serving *serving)
{
    return serving->grpc ? grpc_door_port(serving->grpc) : 0;
}

/* Why the first model that cannot be asked cannot. */
static int tell_reason(struct serving *serving, struct arena *arena, struct error *err)
{
    struct model_status *models;
    int count = repository_status(core_repository(serving->core), arena, &models);
    for (int i = 0; i < count; i++) {
        const struct version_status *newest = models[i].count ? models[i].versions : NULL;
        if (newest && newest->state == VERSION_END)
            return error_set(err, ERROR_FORMAT, "%s: version %lld: %s", models[i].name,
                             (long long)newest->version, newest->message);
        if (!newest || newest->state != VERSION_AVAILABLE)
            return error_set(err, ERROR_FORMAT, "%s: %s has no version that is ready",
                             models[i].name, models[i].base_path);
    }
    return error_set(err, ERROR_FORMAT, "the server does not get ready");
}

int serving_await(struct serving *serving, double seconds, struct error *err)
{
    if (repository_wait(core_repository(serving->core), seconds))
        return 0;
    struct arena *arena = arena_create();
    if (!arena)
        return error_set(err, ERROR_MEMORY, "no memory for the server's state");
    int status = tell_reason(serving, arena, err);
    arena_destroy(arena);
    return status;
}

int serving_go_on(struct serving *serving, const atomic_int *stop)
{
    serve_until(serving, stop);
    return drain(serving);
}

int serving_run(const struct serve_settings *settings, const struct options *parsed,
                const atomic_int *stop, struct error *err)
{
    struct serving *serving;
    if (serving_open(settings, parsed, stdout, &serving, err) < 0)
        return -1;
    int status = serving_go_on(serving, stop);
    serving_close(serving);
    return status;
}
