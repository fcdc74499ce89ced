#include "serve/rest.h"

#include <errno.h>
#include <math.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "net/server.h"
#include "net/tls.h"
#include "serve/core.h"
#include "serve/rest_internal.h"

/* --- health, metrics, the rest --------------------------------------------------------------- */

static void send_text(struct server_request *request, int status, const char *type,
                      const char *text)
{
    server_reply(request, status, type, text, strlen(text));
}

static void on_live(void *context, struct server_request *request)
{
    (void)context;
    send_text(request, 200, "application/json", "{\"live\": true}\n");
}

static void on_ready(void *context, struct server_request *request)
{
    const struct rest_door *door = context;
    bool ready = core_ready(door->core);
    send_text(request, ready ? 200 : 503, "application/json",
              ready ? "{\"ready\": true}\n" : "{\"ready\": false}\n");
}

static void on_v2(void *context, struct server_request *request)
{
    (void)context;
    send_text(request, 200, "application/json",
              "{\"name\": \"lockstep\", \"version\": \"" LOCKSTEP_VERSION
              "\", \"extensions\": [\"binary_tensor_data\"]}\n");
}

static void on_metrics(void *context, struct server_request *request)
{
    struct rest_door *door = context;
    struct strbuf text;
    strbuf_init(&text);
    stats_exposition(core_stats(door->core), &text);
    server_reply(request, text.failed ? 503 : 200, "text/plain; version=0.0.4; charset=utf-8",
                 text.text, text.length);
    strbuf_release(&text);
}

/* A browser asks first whether a page from elsewhere may. */
static void on_preflight(void *context, struct server_request *request)
{
    (void)context;
    server_reply_header(request, "Access-Control-Allow-Origin", "*");
    server_reply_header(request, "Access-Control-Allow-Methods", "POST, GET");
    server_reply_header(request, "Access-Control-Allow-Headers", "Content-Type, Authorization");
    send_text(request, 200, "text/plain; charset=utf-8", "");
}

/* --- opening and closing --------------------------------------------------------------------- */

/* Probes know no token. */
static bool is_open(const char *path)
{
    static const char *const open[] = {"/livez", "/readyz", "/healthz", "/v2/health/live",
                                       "/v2/health/ready"};
    for (size_t i = 0; i < sizeof open / sizeof *open; i++)
        if (strcmp(path, open[i]) == 0)
            return true;
    return false;
}

static bool admits(void *context, const char *given)
{
    const struct rest_door *door = context;
    char authorization[768];
    if (!given)
        return core_admits(door->core, NULL);
    if (snprintf(authorization, sizeof authorization, "Bearer %s", given) >=
        (int)sizeof authorization)
        return false;
    return core_admits(door->core, authorization);
}

static void on_refused(void *context)
{
    const struct rest_door *door = context;
    stats_refused(core_stats(door->core), DOOR_REST);
}

static int add_routes(struct rest_door *door, struct error *err)
{
    const struct {
        const char *method, *path;
        server_handler *handler;
    } routes[] = {
        {"GET", "/v1/models/*", rest_call_begin},
        {"POST", "/v1/models/*", rest_call_begin},
        {"GET", "/v2/models/*", rest_call_begin},
        {"POST", "/v2/models/*", rest_call_begin},
        {"GET", "/livez", on_live},
        {"GET", "/healthz", on_live},
        {"GET", "/readyz", on_ready},
        {"GET", "/v2/health/live", on_live},
        {"GET", "/v2/health/ready", on_ready},
        {"GET", "/v2", on_v2},
    };
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (server_route(door->server, routes[i].method, routes[i].path, routes[i].handler, door,
                         err) < 0)
            return -1;
    if (door->options.metrics_path &&
        server_route(door->server, "GET", door->options.metrics_path, on_metrics, door, err) < 0)
        return -1;
    if (door->options.cors &&
        (server_route(door->server, "OPTIONS", "/v1/*", on_preflight, door, err) < 0 ||
         server_route(door->server, "OPTIONS", "/v2/*", on_preflight, door, err) < 0))
        return -1;
    return door->options.status_page ? rest_page_route(door, err) : 0;
}

static int open_door(struct rest_door *door, struct error *err)
{
    const struct door_options *options = &door->options;
    struct tls_settings tls = {.certificate = options->tls.certificate,
                               .key = options->tls.key,
                               .client_ca = options->tls.client_ca};
    bool guarded = !core_admits(door->core, NULL);
    struct server_settings settings = {.address = options->address,
                                       .body_limit = options->message_limit,
                                       .held_limit = door_most_held(options->message_limit),
                                       .header_limit = 64 << 10,
                                       .idle_seconds = options->idle_seconds,
                                       .request_seconds = options->request_seconds,
                                       .connections = options->connections,
                                       .admits = guarded ? admits : NULL,
                                       .is_open = is_open,
                                       .refused = on_refused,
                                       .admit_context = door,
                                       .tls = options->tls.certificate ? &tls : NULL,
                                       .cors = options->cors,
                                       .json_errors = true};
    int threads = options->threads > 0 ? options->threads : 2;
    if (rest_pool_create(threads, &door->pool, err) < 0 ||
        server_create(&settings, &door->server, err) < 0 || add_routes(door, err) < 0)
        return -1;
    return server_start(door->server, err);
}

int rest_door_start(struct serve_core *core, const struct door_options *options,
                    struct rest_door **out, struct error *err)
{
    struct rest_door *door = memory_allocate(sizeof *door);
    if (!door)
        return error_set(err, ERROR_MEMORY, "no memory for the REST door");
    door->core = core;
    door->options = *options;
    pthread_mutex_init(&door->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&door->quiet, &attributes);
    pthread_condattr_destroy(&attributes);
    if (open_door(door, err) < 0) {
        rest_door_stop(door);
        return -1;
    }
    *out = door;
    return 0;
}

int rest_door_port(const struct rest_door *door)
{
    return server_port(door->server);
}

const char *rest_door_url(const struct rest_door *door, char *text, size_t bytes)
{
    return server_url(door->server, text, bytes);
}

/* Until nothing is in flight; seconds < 0: however long it takes. */
static void wait_until_quiet(struct rest_door *door, double seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    if (seconds > 0) {
        until.tv_sec += (time_t)seconds;
        until.tv_nsec += (long)((seconds - floor(seconds)) * 1e9);
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
    }
    pthread_mutex_lock(&door->lock);
    int status = 0;
    while (door->calls > 0 && status != ETIMEDOUT)
        status = seconds < 0 ? pthread_cond_wait(&door->quiet, &door->lock)
                             : pthread_cond_timedwait(&door->quiet, &door->lock, &until);
    pthread_mutex_unlock(&door->lock);
}

/* How long a client that just got an answer may take to send its next request on the same connection,
 * not knowing that the server is about to end. */
static const double NEXT_REQUEST_SECONDS = 0.5;

static bool next_may_come(struct rest_door *door, double until)
{
    double now = clock_seconds();
    pthread_mutex_lock(&door->lock);
    bool may = door->calls > 0 || now < door->answered + NEXT_REQUEST_SECONDS;
    pthread_mutex_unlock(&door->lock);
    return may && now < until;
}

void rest_door_close(struct rest_door *door)
{
    if (door)
        server_stop_listening(door->server);
}

void rest_door_drain(struct rest_door *door, double seconds)
{
    static const struct timespec nap = {.tv_nsec = 10000000};
    if (!door)
        return;
    double until = clock_seconds() + seconds;
    rest_door_close(door);
    wait_until_quiet(door, seconds > 0 ? seconds : 0);
    while (next_may_come(door, until))
        nanosleep(&nap, NULL);
}

static void cancel_all(void *context)
{
    const struct rest_door *door = context;
    for (struct rest_call *call = door->flying; call; call = call->next)
        atomic_store(&call->inference.cancelled, true);
}

void rest_door_stop(struct rest_door *door)
{
    if (!door)
        return;
    if (door->server) {
        server_stop_listening(door->server);
        server_post(door->server, cancel_all, door, NULL);
        wait_until_quiet(door, -1);
    }
    server_destroy(door->server);
    rest_pool_destroy(door->pool);
    for (struct rest_call *next, *call = door->free; call; call = next) {
        next = call->next;
        rest_call_free(call);
    }
    pthread_cond_destroy(&door->quiet);
    pthread_mutex_destroy(&door->lock);
    memory_free(door);
}
