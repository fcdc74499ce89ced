#include "net/server.h"

#include <dirent.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <event2/thread.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "net/server_connections.h"
#include "net/server_head.h"
#include "net/server_internal.h"
#include "net/tls.h"

enum {
    METHODS = EVHTTP_REQ_GET | EVHTTP_REQ_HEAD | EVHTTP_REQ_POST | EVHTTP_REQ_OPTIONS,
    OPEN_BODY_LIMIT = 4 << 10, /* of who comes in without the token that others need */
};
static const double LAST_WORDS_SECONDS = 0.5;

struct route {
    struct route *next;
    enum evhttp_cmd_type method;
    char *path;
    size_t prefix; /* letters that must be the same; 0: the whole path */
    server_handler *handler;
    void *context;
};

struct timer {
    struct timer *next;
    struct event *event;
    server_function *function;
    void *context;
};

struct posted {
    struct posted *next;
    server_function *function;
    void *context;
};

struct server {
    struct server_settings settings;
    size_t body_limit;
    struct server_gate gate;
    struct event_base *base;
    struct evhttp *http;
    struct evhttp_bound_socket *socket;
    int port;
    struct route *routes;
    struct timer *timers;
    struct server_stream *streams;
    struct event *wake, *ending; /* `ending` looks whether the last words have left */
    struct event *breath;        /* looks how many descriptors are left */
    int accepted;                /* since its last look */
    struct tls *tls;             /* NULL: none */
    struct server_connections connections;
    bool closing; /* no new connections, and each ends behind its reply */
    bool leaving; /* the last words are being said */
    int replying; /* replies that have not left yet; the server's thread only */
    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* guards the two below; held for a few instructions only */
    struct posted *posted, **posted_end;
    bool stopping;
};

/* --- requests -------------------------------------------------------------------------------- */

static const struct route *find_route(const struct server *server, const char *path,
                                      enum evhttp_cmd_type method, bool *path_known)
{
    const struct route *best = NULL;
    if (method == EVHTTP_REQ_HEAD)
        method = EVHTTP_REQ_GET;
    *path_known = false;
    for (const struct route *route = server->routes; route; route = route->next) {
        if (route->prefix ? strncmp(route->path, path, route->prefix) != 0
                          : strcmp(route->path, path) != 0)
            continue;
        *path_known = true;
        if (route->method != method)
            continue;
        if (!route->prefix)
            return route;
        if (!best || route->prefix > best->prefix)
            best = route;
    }
    return best;
}

static struct server_connection *connection_of(struct server *server, struct evhttp_request *inner)
{
    struct evhttp_connection *connection = evhttp_request_get_connection(inner);
    return connection ? server_connections_find(&server->connections,
                                                evhttp_connection_get_bufferevent(connection))
                      : NULL;
}

/* From here on the connection waits for its next request. */
static void on_refusal_left(struct evhttp_request *inner, void *context)
{
    struct server_connection *connection = connection_of(context, inner);
    if (connection)
        server_connection_answered(connection);
}

static void on_reply_left(struct evhttp_request *inner, void *context)
{
    struct server *server = context;
    server->replying--;
    on_refusal_left(inner, context);
}

static void on_request(struct evhttp_request *inner, void *context)
{
    struct server *server = context;
    const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(inner));
    bool path_known;
    struct server_connection *connection = connection_of(server, inner);
    if (connection) {
        connection->busy = true;
        connection->since = 0;
    }
    evhttp_request_set_on_complete_cb(inner, on_refusal_left, server);
    if (server->closing)
        evhttp_add_header(evhttp_request_get_output_headers(inner), "Connection", "close");
    if (connection && connection->refusal.status) {
        connection->stand_in = NULL;
        server_refuse(&server->gate, inner, &connection->refusal);
        return;
    }
    if (!server_admit(&server->gate, inner))
        return;
    const struct route *route = find_route(server, path && *path ? path : "/",
                                           evhttp_request_get_command(inner), &path_known);
    if (!route) {
        server_send_text(&server->gate, inner, path_known ? 405 : 404,
                         path_known ? "not by this method" : "there is nothing here");
        return;
    }
    struct server_request *request = memory_allocate(sizeof *request);
    if (!request) {
        server_send_text(&server->gate, inner, 503, "no memory");
        return;
    }
    *request = (struct server_request){.server = server, .inner = inner};
    route->handler(route->context, request);
}

const char *server_request_path(const struct server_request *request)
{
    return evhttp_uri_get_path(evhttp_request_get_evhttp_uri(request->inner));
}

const char *server_request_header(const struct server_request *request, const char *name)
{
    return evhttp_find_header(evhttp_request_get_input_headers(request->inner), name);
}

const void *server_request_body(const struct server_request *request, size_t *bytes)
{
    struct evbuffer *body = evhttp_request_get_input_buffer(request->inner);
    *bytes = evbuffer_get_length(body);
    return *bytes ? evbuffer_pullup(body, -1) : NULL;
}

void server_reply_header(struct server_request *request, const char *name, const char *value)
{
    evhttp_add_header(evhttp_request_get_output_headers(request->inner), name, value);
}

const char *server_request_method(const struct server_request *request)
{
    switch (evhttp_request_get_command(request->inner)) {
    case EVHTTP_REQ_POST:
        return "POST";
    case EVHTTP_REQ_HEAD:
        return "HEAD";
    case EVHTTP_REQ_OPTIONS:
        return "OPTIONS";
    default:
        return "GET";
    }
}

const char *server_request_peer(const struct server_request *request)
{
    struct evhttp_connection *connection = evhttp_request_get_connection(request->inner);
    char *address = NULL;
    ev_uint16_t port;
    if (connection)
        evhttp_connection_get_peer(connection, &address, &port);
    return address ? address : "";
}

void server_request_watch(struct server_request *request, server_function *gone, void *context)
{
    struct server_connection *connection = connection_of(request->server, request->inner);
    if (!connection)
        return;
    connection->gone = gone;
    connection->context = context;
}

void server_reply(struct server_request *request, int status, const char *content_type,
                  const void *body, size_t bytes)
{
    struct evhttp_request *inner = request->inner;
    struct evkeyvalq *headers = evhttp_request_get_output_headers(inner);
    struct evbuffer *buffer = evbuffer_new();
    char length[32];
    if (!buffer || evbuffer_add(buffer, body, bytes) < 0)
        status = 503;
    else
        evhttp_add_header(headers, "Content-Type", content_type);
    if (evhttp_request_get_command(inner) == EVHTTP_REQ_HEAD && buffer) {
        snprintf(length, sizeof length, "%zu", bytes);
        evhttp_add_header(headers, "Content-Length", length);
        evbuffer_drain(buffer, bytes); /* evhttp would send it */
    }
    server_add_common_headers(inner);
    struct server_connection *connection = connection_of(request->server, inner);
    if (connection) {
        connection->gone = NULL;
        server_connection_hold(connection, bytes);
    }
    if (evhttp_request_get_connection(inner)) {
        request->server->replying++;
        evhttp_request_set_on_complete_cb(inner, on_reply_left, request->server);
    }
    evhttp_send_reply(inner, status, NULL, buffer);
    if (buffer)
        evbuffer_free(buffer);
    memory_free(request);
}

/* --- the thread ------------------------------------------------------------------------------ */

static struct posted *take_posted(struct server *server, bool *stopping)
{
    pthread_mutex_lock(&server->lock);
    struct posted *first = server->posted;
    server->posted = NULL;
    server->posted_end = &server->posted;
    *stopping = server->stopping;
    pthread_mutex_unlock(&server->lock);
    return first;
}

static bool run_posted(struct server *server)
{
    bool stopping;
    for (struct posted *next, *posted = take_posted(server, &stopping); posted; posted = next) {
        next = posted->next;
        posted->function(posted->context);
        memory_free(posted);
    }
    return stopping;
}

static void on_ending(evutil_socket_t none, short what, void *context)
{
    struct server *server = context;
    (void)none, (void)what;
    int waiting = server->replying;
    for (struct server_stream *stream = server->streams; stream; stream = stream->next)
        waiting += stream->count;
    if (waiting <= 0)
        event_base_loopbreak(server->base);
}

static void stop_listening(void *context)
{
    struct server *server = context;
    server->closing = true;
    if (server->socket) /* closed, not paused: the kernel would go on taking connections for us */
        evhttp_del_accept_socket(server->http, server->socket);
    server->socket = NULL;
}

void server_stop_listening(struct server *server)
{
    server_post(server, stop_listening, server, NULL);
}

/* No new connections; streams are told that they are over; then a short while to say it. */
static void begin_ending(struct server *server)
{
    server->leaving = true;
    stop_listening(server);
    for (struct server_stream *stream = server->streams; stream; stream = stream->next)
        server_stream_end(stream, false);
    struct timeval look = {.tv_usec = 5000};
    struct timeval limit = {.tv_usec = (suseconds_t)(LAST_WORDS_SECONDS * 1e6)};
    event_add(server->ending, &look);
    event_base_loopexit(server->base, &limit);
}

static void on_wake(evutil_socket_t none, short what, void *context)
{
    struct server *server = context;
    (void)none, (void)what;
    if (run_posted(server) && !server->leaving)
        begin_ending(server);
}

static void on_timer(evutil_socket_t none, short what, void *context)
{
    struct timer *timer = context;
    (void)none, (void)what;
    timer->function(timer->context);
}

/* Signals are the main thread's; a client that left is an error of write(), not a reason to die. */
static void *serve(void *context)
{
    struct server *server = context;
    if (server->settings.niceness)
        thread_step_back(server->settings.niceness);
    event_base_loop(server->base, EVLOOP_NO_EXIT_ON_EMPTY);
    return NULL;
}

int server_start(struct server *server, struct error *err)
{
    int status = thread_start(&server->thread, serve, server);
    if (status)
        return error_set(err, ERROR_IO, "no thread for the server: %s", strerror(status));
    server->started = true;
    return 0;
}

int server_post(struct server *server, server_function *function, void *context, struct error *err)
{
    struct posted *posted = memory_allocate(sizeof *posted);
    if (!posted)
        return error_set(err, ERROR_MEMORY, "no memory to tell the server something");
    *posted = (struct posted){.function = function, .context = context};
    pthread_mutex_lock(&server->lock);
    *server->posted_end = posted;
    server->posted_end = &posted->next;
    pthread_mutex_unlock(&server->lock);
    event_active(server->wake, 0, 0);
    return 0;
}

/* --- making and ending ----------------------------------------------------------------------- */

static pthread_once_t threads_once = PTHREAD_ONCE_INIT;

/* What libevent has to say ("too many open files", again and again) is no line for the user. */
static void say_nothing(int severity, const char *message)
{
    (void)severity;
    (void)message;
}

static void use_threads(void)
{
    event_set_log_callback(say_nothing);
    evthread_use_pthreads();
}

static int find_port(struct server *server)
{
    struct sockaddr_storage bound = {0};
    socklen_t bytes = sizeof bound;
    if (getsockname(evhttp_bound_socket_get_fd(server->socket), (struct sockaddr *)&bound, &bytes) <
        0)
        return -1;
    const struct sockaddr_in *four = (const struct sockaddr_in *)&bound;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&bound;
    return ntohs(bound.ss_family == AF_INET6 ? six->sin6_port : four->sin_port);
}

static int bind_socket(struct server *server, struct error *err)
{
    const struct address *address = &server->settings.address;
    char text[96];
    server->socket =
        evhttp_bind_socket_with_handle(server->http, address->host, (ev_uint16_t)address->port);
    if (!server->socket)
        return error_set(err, ERROR_IO, "cannot listen on %s: %s%s",
                         address_text(address, text, sizeof text), strerror(errno),
                         errno == EADDRINUSE ? "; another port, or 0 for any, may be free" : "");
    server->port = find_port(server);
    if (server->port < 0)
        return error_set(err, ERROR_IO, "no port: %s", strerror(errno));
    snprintf(server->gate.cookie, sizeof server->gate.cookie, "lockstep-%d", server->port);
    return 0;
}

/* --- not more connections than there is room for ------------------------------------------------ */

enum { ACCEPTED_AT_ONCE = 32 };

static int open_descriptors(void)
{
    int count = 0;
    DIR *entries = opendir("/proc/self/fd");
    while (entries && readdir(entries))
        count++;
    if (entries)
        closedir(entries);
    return count;
}

/* With so many more. Those that were closed a moment ago do not count. */
static bool is_full(struct server *server, int more)
{
    int limit = server->settings.connections;
    if (limit && server->connections.count + more >= limit)
        server_connections_sweep(&server->connections);
    return limit && server->connections.count + more >= limit;
}

static void on_breath(evutil_socket_t unused, short events, void *context)
{
    struct server *server = context;
    struct rlimit limit;
    (void)unused;
    (void)events;
    server->accepted = 0;
    server_connections_trim(&server->connections);
    server_connections_sweep(&server->connections);
    if (!server->socket) /* the server ends */
        return;
    struct evconnlistener *listener = evhttp_bound_socket_get_listener(server->socket);
    if (!is_full(server, 0) &&
        (getrlimit(RLIMIT_NOFILE, &limit) < 0 || (rlim_t)open_descriptors() < limit.rlim_cur / 2))
        evconnlistener_enable(listener);
    else
        evconnlistener_disable(listener);
}

static struct bufferevent *on_connection(struct event_base *base, void *context)
{
    struct server *server = context;
    /* Its descriptor stays open as long as we look at it: one that was given to another connection
     * meanwhile would never be waited for. */
    struct bufferevent *buffer = server->tls
                                     ? tls_accept(server->tls, base)
                                     : bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    /* Asked before it is added: until evhttp has it, it looks as if it were closed. */
    bool pause =
        server->settings.connections ? is_full(server, 1) : ++server->accepted >= ACCEPTED_AT_ONCE;
    if (buffer)
        server_connections_add(&server->connections, buffer);
    if (pause)
        evconnlistener_disable(evhttp_bound_socket_get_listener(server->socket));
    return buffer;
}

static struct server_refusal judge_head(const struct server *server, const struct server_head *head)
{
    const struct server_connections *all = &server->connections;
    struct server_refusal refusal = {0};
    bool open = false;
    if (head->uri) {
        enum server_entry entry =
            server_judge(&server->gate, head->method, head->uri, &head->headers, &refusal);
        if (entry == ENTRY_REFUSED)
            return refusal;
        open = entry == ENTRY_OPEN;
    }
    if (!head->method)
        return (struct server_refusal){501, "HTTP has no such method"};
    if (!(head->method & METHODS))
        return (struct server_refusal){405, "not by this method"};
    if (head->body_bytes > server->body_limit || (open && head->chunked) ||
        (open && head->body_bytes > OPEN_BODY_LIMIT))
        return (struct server_refusal){413, "the body is larger than this server takes"};
    if (all->most_held &&
        (all->held > all->most_held || head->body_bytes > all->most_held - all->held))
        return (struct server_refusal){429, "too much is being received already; try again later"};
    return refusal;
}

static struct server_refusal on_head(void *context, const char *text, size_t bytes)
{
    struct server_head head;
    struct server_refusal refusal;
    refusal.status = server_head_read(text, bytes, &head, &refusal.text);
    if (!refusal.status)
        refusal = judge_head(context, &head);
    server_head_release(&head);
    return refusal;
}

static int watch_connections(struct server *server, struct error *err)
{
    static const struct timeval quarter = {.tv_usec = 250000};
    server->connections.judge = on_head;
    server->connections.context = server;
    evhttp_set_bevcb(server->http, on_connection, server);
    server->breath = event_new(server->base, -1, EV_PERSIST, on_breath, server);
    if (!server->breath || event_add(server->breath, &quarter) < 0)
        return error_set(err, ERROR_MEMORY, "no memory for the server");
    return 0;
}

static void set_limits(struct server *server)
{
    const struct server_settings *settings = &server->settings;
    size_t header_limit = settings->header_limit ? settings->header_limit : 16 << 10;
    server->body_limit = settings->body_limit ? settings->body_limit : 64 << 10;
    server->connections.header_limit = header_limit;
    server->connections.most_held = settings->held_limit;
    evhttp_set_max_headers_size(server->http, (ev_ssize_t)header_limit);
    evhttp_set_max_body_size(server->http, (ev_ssize_t)server->body_limit);
    evhttp_set_timeout(server->http, (int)(settings->idle_seconds + 0.999));
    evhttp_set_allowed_methods(server->http, METHODS);
    evhttp_set_gencb(server->http, on_request, server);
}

static int open_server(struct server *server, struct error *err)
{
    pthread_once(&threads_once, use_threads);
    if (server->settings.tls && tls_create(server->settings.tls, &server->tls, err) < 0)
        return -1;
    server->base = event_base_new();
    server->http = server->base ? evhttp_new(server->base) : NULL;
    if (server->http) {
        server->wake = event_new(server->base, -1, EV_PERSIST, on_wake, server);
        server->ending = event_new(server->base, -1, EV_PERSIST, on_ending, server);
    }
    if (!server->wake || !server->ending)
        return error_set(err, ERROR_MEMORY, "no memory for the server");
    set_limits(server);
    return bind_socket(server, err) < 0 ? -1 : watch_connections(server, err);
}

int server_create(const struct server_settings *settings, struct server **out, struct error *err)
{
    struct server *server = memory_allocate(sizeof *server);
    if (!server)
        return error_set(err, ERROR_MEMORY, "no memory for the server");
    server->settings = *settings;
    if (!(settings->idle_seconds > 0))
        server->settings.idle_seconds = 60;
    server->gate.local_only = settings->address.loopback;
    server->gate.open_path = settings->open_path;
    server->gate.admits = settings->admits;
    server->gate.is_open = settings->is_open;
    server->gate.refused = settings->refused;
    server->gate.context = settings->admit_context;
    server->gate.json_errors = settings->json_errors;
    server->gate.cors = settings->cors;
    server->connections.request_seconds = settings->request_seconds;
    if (settings->token)
        snprintf(server->gate.token, sizeof server->gate.token, "%s", settings->token);
    server->posted_end = &server->posted;
    pthread_mutex_init(&server->lock, NULL);
    if (open_server(server, err) < 0) {
        server_destroy(server);
        return -1;
    }
    *out = server;
    return 0;
}

int server_route(struct server *server, const char *method, const char *path,
                 server_handler *handler, void *context, struct error *err)
{
    struct route *route = memory_allocate(sizeof *route);
    char *copy = memory_copy_text(path);
    if (!route || !copy) {
        memory_free(route);
        memory_free(copy);
        return error_set(err, ERROR_MEMORY, "no memory for the server");
    }
    *route = (struct route){
        .next = server->routes,
        .method = strcmp(method, "POST") == 0      ? EVHTTP_REQ_POST
                  : strcmp(method, "OPTIONS") == 0 ? EVHTTP_REQ_OPTIONS
                                                   : EVHTTP_REQ_GET,
        .path = copy,
        .prefix = strchr(path, '*') ? strlen(path) - 1 : 0,
        .handler = handler,
        .context = context,
    };
    server->routes = route;
    return 0;
}

int server_every(struct server *server, double seconds, server_function *function, void *context,
                 struct error *err)
{
    struct timer *timer = memory_allocate(sizeof *timer);
    if (!timer)
        return error_set(err, ERROR_MEMORY, "no memory for the server");
    *timer = (struct timer){.next = server->timers, .function = function, .context = context};
    server->timers = timer;
    struct timeval period = {.tv_sec = (time_t)seconds,
                             .tv_usec = (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6)};
    timer->event = event_new(server->base, -1, EV_PERSIST, on_timer, timer);
    if (!timer->event || event_add(timer->event, &period) < 0)
        return error_set(err, ERROR_MEMORY, "no memory for the server");
    return 0;
}

int server_stream_create(struct server *server, struct server_stream **out, struct error *err)
{
    struct server_stream *stream = memory_allocate(sizeof *stream);
    if (!stream)
        return error_set(err, ERROR_MEMORY, "no memory for the server");
    *stream = (struct server_stream){
        .server = server, .next = server->streams, .idle_seconds = server->settings.idle_seconds};
    server->streams = stream;
    *out = stream;
    return 0;
}

static void stop_thread(struct server *server)
{
    pthread_mutex_lock(&server->lock);
    server->stopping = true;
    pthread_mutex_unlock(&server->lock);
    event_active(server->wake, 0, 0);
    pthread_join(server->thread, NULL);
    run_posted(server);
}

static void free_parts(struct server *server)
{
    for (struct server_stream *next, *stream = server->streams; stream; stream = next) {
        next = stream->next;
        server_stream_end(stream, true);
        memory_free(stream);
    }
    for (struct timer *next, *timer = server->timers; timer; timer = next) {
        next = timer->next;
        if (timer->event)
            event_free(timer->event);
        memory_free(timer);
    }
    for (struct route *next, *route = server->routes; route; route = next) {
        next = route->next;
        memory_free(route->path);
        memory_free(route);
    }
}

void server_destroy(struct server *server)
{
    if (!server)
        return;
    if (server->started)
        stop_thread(server);
    free_parts(server);
    if (server->breath)
        event_free(server->breath);
    if (server->http)
        evhttp_free(server->http);
    server_connections_release(&server->connections);
    tls_destroy(server->tls);
    if (server->wake)
        event_free(server->wake);
    if (server->ending)
        event_free(server->ending);
    if (server->base)
        event_base_free(server->base);
    pthread_mutex_destroy(&server->lock);
    memory_free(server);
}

int server_port(const struct server *server)
{
    return server->port;
}

/* Who listens everywhere is found under any of the machine's names. */
const char *server_url(const struct server *server, char *text, size_t bytes)
{
    struct address address = server->settings.address;
    char name[64], place[96];
    address.port = server->port;
    bool everywhere = strcmp(address.host, "0.0.0.0") == 0 || strcmp(address.host, "::") == 0;
    if (everywhere && gethostname(name, sizeof name) == 0)
        snprintf(place, sizeof place, "%.63s:%d", name, server->port);
    else
        address_text(&address, place, sizeof place);
    snprintf(text, bytes, "http%s://%s/%s%s", server->tls ? "s" : "", place,
             server->gate.token[0] ? "?token=" : "", server->gate.token);
    return text;
}
