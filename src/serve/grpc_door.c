#include "serve/grpc_door.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/threads.h"
#include "net/tls.h"
#include "serve/grpc_call.h"
#include "serve/grpc_connection.h"

enum {
    MOST_STREAMS = 1024, /* of one connection at a time */
    HEADER_BYTES = 16 << 10,
    BACKLOG = 1024,
};
static const struct timeval tick_time = {.tv_usec = 250000};
static const struct timeval ending_time = {.tv_usec = 25000}; /* the last ticks come faster */
static const double keepalive_timeout = 20;                   /* as gRPC's */

/* ---- threads -------------------------------------------------------------------------------- */

void door_ring(struct door_thread *thread)
{
    if (!thread->rung)
        eventfd_write(thread->bell, 1);
    thread->rung = true;
}

void door_count_down(struct grpc_door *door, atomic_int *count)
{
    if (atomic_fetch_sub(count, 1) != 1 || !atomic_load(&door->ending))
        return;
    pthread_mutex_lock(&door->lock);
    pthread_cond_broadcast(&door->changed);
    pthread_mutex_unlock(&door->lock);
}

static void ring(struct door_thread *thread)
{
    pthread_mutex_lock(&thread->lock);
    door_ring(thread);
    pthread_mutex_unlock(&thread->lock);
}

static void ring_all(struct grpc_door *door)
{
    for (int i = 0; i < door->thread_count; i++)
        if (door->threads[i].running)
            ring(&door->threads[i]);
}

static void take_newcomers(struct door_thread *thread)
{
    pthread_mutex_lock(&thread->lock);
    int *sockets = thread->newcomers, count = thread->newcomer_count;
    thread->newcomers = NULL;
    thread->newcomer_count = thread->newcomer_room = 0;
    pthread_mutex_unlock(&thread->lock);
    for (int i = 0; i < count; i++)
        connection_open(thread, sockets[i]);
    memory_free(sockets);
}

static void begin_ending(struct door_thread *thread)
{
    struct grpc_door *door = thread->door;
    for (int i = 0; thread == &door->threads[0] && i < door->listener_count; i++) {
        evconnlistener_free(door->listeners[i]);
        door->listeners[i] = NULL;
    }
    if (thread == &door->threads[0])
        door->listener_count = 0;
    event_add(thread->on_tick, &ending_time);
    connection_tick_all(thread);
}

static void on_bell(evutil_socket_t bell, short what, void *context)
{
    struct door_thread *thread = context;
    eventfd_t unused;
    (void)what;
    eventfd_read(bell, &unused);
    pthread_mutex_lock(&thread->lock);
    thread->rung = false;
    pthread_mutex_unlock(&thread->lock);
    take_newcomers(thread);
    call_settle_answered(thread);
    if (atomic_load(&thread->door->ending))
        begin_ending(thread);
    if (atomic_load(&thread->door->cutting))
        connection_close_all(thread);
}

static void on_tick(evutil_socket_t unused, short what, void *context)
{
    struct door_thread *thread = context;
    struct grpc_door *door = thread->door;
    (void)unused, (void)what;
    for (int i = 0; thread == &door->threads[0] && i < door->listener_count; i++)
        evconnlistener_enable(door->listeners[i]); /* if descriptors were short */
    connection_tick_all(thread);
}

/* Reads what there is, lets the core compute what is quickly computed, writes; waits when there is
 * nothing of all that. */
static void *turn(void *context)
{
    struct door_thread *thread = context;
    struct grpc_door *door = thread->door;
    const struct grpc_backend *backend = &door->backend;
    bool busy = false;
    thread_take_short_turns();
    call_set_thread(thread);
    while (!atomic_load(&door->over)) {
        event_base_loop(thread->base, EVLOOP_ONCE | (busy ? EVLOOP_NONBLOCK : 0));
        connection_flush_all(thread);
        busy = call_unpack_next(thread);
        busy |= backend->help && backend->help(backend->context);
        if (busy)
            connection_flush_all(thread);
    }
    connection_close_all(thread);
    call_settle_answered(thread);
    call_set_thread(NULL);
    return NULL;
}

static int prepare_thread(struct grpc_door *door, struct door_thread *thread, struct error *err)
{
    thread->door = door;
    thread->answered_end = &thread->answered;
    thread->packed_end = &thread->packed;
    pthread_mutex_init(&thread->lock, NULL);
    thread->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    thread->base = event_base_new();
    thread->room = memory_allocate(READ_BYTES);
    if (thread->base && thread->bell >= 0) {
        thread->on_bell =
            event_new(thread->base, thread->bell, EV_READ | EV_PERSIST, on_bell, thread);
        thread->on_tick = event_new(thread->base, -1, EV_PERSIST, on_tick, thread);
    }
    if (!thread->room || !thread->on_bell || !thread->on_tick ||
        event_add(thread->on_bell, NULL) < 0 || event_add(thread->on_tick, &tick_time) < 0)
        return error_set(err, ERROR_MEMORY, "no memory or descriptors for the gRPC door");
    return 0;
}

static void release_thread(struct door_thread *thread)
{
    for (int i = 0; i < thread->newcomer_count; i++)
        close(thread->newcomers[i]);
    memory_free(thread->newcomers);
    call_destroy_spare(thread);
    if (thread->on_bell)
        event_free(thread->on_bell);
    if (thread->on_tick)
        event_free(thread->on_tick);
    if (thread->base)
        event_base_free(thread->base);
    if (thread->bell >= 0)
        close(thread->bell);
    pthread_mutex_destroy(&thread->lock);
    memory_free(thread->room);
}

static int make_threads(struct grpc_door *door, struct error *err)
{
    /* The other half is the core's: a thread that computes leaves one to read and write. */
    int half = (threads_available() + 1) / 2;
    int wanted = door->options.threads > 0 ? door->options.threads : half;
    int count = wanted < DOOR_MOST_THREADS ? wanted : DOOR_MOST_THREADS;
    door->threads = memory_allocate((size_t)count * sizeof *door->threads);
    if (!door->threads)
        return error_set(err, ERROR_MEMORY, "no memory for the gRPC door");
    for (; door->thread_count < count; door->thread_count++) {
        door->threads[door->thread_count].bell = -1;
        if (prepare_thread(door, &door->threads[door->thread_count], err) < 0) {
            door->thread_count++;
            return -1;
        }
    }
    return 0;
}

static int start_threads(struct grpc_door *door, struct error *err)
{
    for (int i = 0; i < door->thread_count; i++) {
        int problem = thread_start(&door->threads[i].thread, turn, &door->threads[i]);
        if (problem)
            return error_set(err, ERROR_IO, "no thread for the gRPC door: %s", strerror(problem));
        door->threads[i].running = true;
    }
    return 0;
}

/* ---- listening ------------------------------------------------------------------------------ */

/* With the thread's lock. */
static bool add_newcomer(struct door_thread *thread, int socket)
{
    if (thread->newcomer_count == thread->newcomer_room) {
        int room = thread->newcomer_room ? 2 * thread->newcomer_room : 16;
        int *sockets = memory_resize(thread->newcomers, (size_t)room * sizeof *sockets);
        if (!sockets)
            return false;
        thread->newcomers = sockets;
        thread->newcomer_room = room;
    }
    thread->newcomers[thread->newcomer_count++] = socket;
    return true;
}

static void turn_away(struct grpc_door *door, int socket)
{
    struct door_thread *thread = &door->threads[0];
    double now = clock_seconds();
    close(socket);
    if (now - thread->complained >= 1)
        log_line(LOG_WARNING, "gRPC turns connections away: there are %d, and no more may be",
                 door->options.connections);
    thread->complained = now;
}

/* To the threads in turns. On the first one. */
static void on_connection(struct evconnlistener *listener, evutil_socket_t socket,
                          struct sockaddr *address, int bytes, void *context)
{
    struct grpc_door *door = context;
    struct door_thread *thread = &door->threads[door->next_thread];
    (void)listener, (void)address, (void)bytes;
    int most = door->options.connections;
    if (most > 0 && atomic_load(&door->connections) >= most) {
        turn_away(door, socket);
        return;
    }
    door->next_thread = (door->next_thread + 1) % door->thread_count;
    if (thread == &door->threads[0]) {
        connection_open(thread, socket);
        return;
    }
    pthread_mutex_lock(&thread->lock);
    bool taken = add_newcomer(thread, socket);
    door_ring(thread);
    pthread_mutex_unlock(&thread->lock);
    if (!taken)
        close(socket);
}

/* Descriptors are short: tried again with the next tick. */
static void on_problem(struct evconnlistener *listener, void *context)
{
    (void)context;
    log_line(LOG_WARNING, "gRPC takes no connection: %s", strerror(errno));
    evconnlistener_disable(listener);
}

/* A used port may be noticed only here; libevent's own call of listen would leak what it made. */
static int add_listener(struct grpc_door *door, int socket)
{
    struct evconnlistener *listener =
        listen(socket, BACKLOG) == 0
            ? evconnlistener_new(door->threads[0].base, on_connection, door,
                                 LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, socket)
            : NULL;
    if (!listener)
        return -1;
    evconnlistener_set_error_cb(listener, on_problem);
    door->listeners[door->listener_count++] = listener;
    return 0;
}

static int bind_socket(const struct sockaddr *address, socklen_t bytes, bool both)
{
    int off = 0, one = 1;
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (both)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, address, bytes) == 0)
        return fd;
    int problem = errno;
    close(fd);
    errno = problem;
    return -1;
}

/* "0.0.0.0" is every address, those of IPv6 among them, as gRPC has it; where there is no IPv6, it is
 * what it says. */
static int bind_port(const struct address *address)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6,
                               .sin6_port = htons((uint16_t)address->port),
                               .sin6_addr = IN6ADDR_ANY_INIT};
    bool all = strcmp(address->host, "0.0.0.0") == 0;
    int fd = all ? bind_socket((struct sockaddr *)&six, sizeof six, true) : -1;
    if (fd >= 0 || (all && errno == EADDRINUSE))
        return fd;
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                             .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    char port[16];
    snprintf(port, sizeof port, "%d", address->port);
    if (getaddrinfo(address->host, port, &hints, &found) != 0) {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    fd = bind_socket(found->ai_addr, found->ai_addrlen, found->ai_family == AF_INET6);
    freeaddrinfo(found);
    return fd;
}

static int port_of(int socket)
{
    struct sockaddr_storage address = {0};
    socklen_t bytes = sizeof address;
    getsockname(socket, (struct sockaddr *)&address, &bytes);
    return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                               : ((struct sockaddr_in *)&address)->sin_port);
}

/* A socket that a server which was killed left behind is in the way of nobody; one at which somebody
 * answers is. */
static int bind_path(struct grpc_door *door, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat about;
    if (strlen(path) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(address.sun_path, path, strlen(path));
    if (lstat(path, &about) == 0 && S_ISSOCK(about.st_mode)) {
        int other = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool answers =
            other >= 0 && connect(other, (struct sockaddr *)&address, sizeof address) == 0;
        if (other >= 0)
            close(other);
        if (!answers)
            unlink(path);
    }
    int bound = bind_socket((struct sockaddr *)&address, sizeof address, false);
    if (bound >= 0 && lstat(path, &door->socket_file) < 0)
        door->socket_file.st_ino = 0;
    return bound;
}

/* If it is still the one that was made here. */
static void unlink_path(const struct grpc_door *door)
{
    const struct stat *made = &door->socket_file;
    struct stat found;
    if (made->st_ino != 0 && lstat(door->options.socket_path, &found) == 0 &&
        found.st_ino == made->st_ino && found.st_dev == made->st_dev)
        unlink(door->options.socket_path);
}

static int listen_at(struct grpc_door *door, int socket, const char *place, struct error *err)
{
    if (socket >= 0 && add_listener(door, socket) == 0)
        return 0;
    int problem = errno;
    if (socket >= 0)
        close(socket);
    return error_set(err, ERROR_IO, "gRPC cannot listen on %s: %s%s", place, strerror(problem),
                     problem == EADDRINUSE ? "; is it in use by another server?" : "");
}

/* An address without a host is none: then there is only the socket. Two servers on one port would
 * share the calls without a word, so that is refused. */
static int bind_ports(struct grpc_door *door, struct error *err)
{
    const struct door_options *options = &door->options;
    char place[256];
    if (options->address.host[0]) {
        int socket = bind_port(&options->address);
        if (listen_at(door, socket, address_text(&options->address, place, sizeof place), err) < 0)
            return -1;
        door->port = port_of(socket);
    }
    if (!options->socket_path)
        return 0;
    snprintf(place, sizeof place, "unix:%s", options->socket_path);
    return listen_at(door, bind_path(door, options->socket_path), place, err);
}

/* ---- opening and closing -------------------------------------------------------------------- */

static int open_door(struct grpc_door *door, struct error *err)
{
    const struct door_options *options = &door->options;
    struct tls_settings tls = {.certificate = options->tls.certificate,
                               .key = options->tls.key,
                               .client_ca = options->tls.client_ca,
                               .protocol = "h2"};
    door->limits = (struct door_limits){.message_bytes = options->message_limit,
                                        .header_bytes = HEADER_BYTES,
                                        .streams = MOST_STREAMS,
                                        .idle_seconds = options->idle_seconds,
                                        .keepalive_timeout = keepalive_timeout};
    if (door_limits_read(options->channel_arguments, &door->limits, err) < 0 ||
        (tls.certificate && tls_create(&tls, &door->tls, err) < 0) ||
        connection_make_callbacks(door, err) < 0 || make_threads(door, err) < 0 ||
        bind_ports(door, err) < 0)
        return -1;
    return start_threads(door, err);
}

int grpc_door_open(const struct grpc_backend *backend, const struct door_options *options,
                   struct grpc_door **out, struct error *err)
{
    const struct h2_library *h2 = h2_library_load(err);
    if (!h2)
        return -1;
    struct grpc_door *door = memory_allocate(sizeof *door);
    if (!door)
        return error_set(err, ERROR_MEMORY, "no memory for the gRPC door");
    door->h2 = h2;
    door->backend = *backend;
    door->options = *options;
    pthread_mutex_init(&door->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&door->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    if (open_door(door, err) < 0) {
        grpc_door_stop(door);
        return -1;
    }
    *out = door;
    return 0;
}

int grpc_door_port(const struct grpc_door *door)
{
    return door->port;
}

/* Until no call and no connection is left, or the moment came (NULL: as long as it takes). */
static bool wait_for_end(struct grpc_door *door, const struct timespec *until)
{
    bool over;
    pthread_mutex_lock(&door->lock);
    while (!(over = atomic_load(&door->connections) == 0 && atomic_load(&door->calls) == 0)) {
        int problem = until ? pthread_cond_timedwait(&door->changed, &door->lock, until)
                            : pthread_cond_wait(&door->changed, &door->lock);
        if (problem == ETIMEDOUT)
            break;
    }
    pthread_mutex_unlock(&door->lock);
    return over;
}

void grpc_door_close(struct grpc_door *door)
{
    atomic_store(&door->ending, true);
    ring_all(door);
}

int grpc_door_drain(struct grpc_door *door, double seconds)
{
    struct timespec until;
    if (door->drained)
        return 0;
    door->drained = true;
    grpc_door_close(door);
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t nanoseconds = until.tv_nsec + (int64_t)(seconds > 0 ? seconds * 1e9 : 0);
    until.tv_sec += nanoseconds / 1000000000;
    until.tv_nsec = nanoseconds % 1000000000;
    if (wait_for_end(door, &until))
        return 0;
    atomic_store(&door->cutting, true);
    ring_all(door);
    wait_for_end(door, NULL);
    return atomic_load(&door->cut);
}

void grpc_door_stop(struct grpc_door *door)
{
    if (!door)
        return;
    if (door->thread_count > 0 && door->threads[0].running)
        grpc_door_drain(door, 0);
    atomic_store(&door->over, true);
    ring_all(door);
    for (int i = 0; i < door->thread_count; i++)
        if (door->threads[i].running)
            pthread_join(door->threads[i].thread, NULL);
    for (int i = 0; i < door->listener_count; i++)
        evconnlistener_free(door->listeners[i]);
    for (int i = 0; i < door->thread_count; i++)
        release_thread(&door->threads[i]);
    unlink_path(door);
    if (door->callbacks)
        door->h2->nghttp2_session_callbacks_del(door->callbacks);
    tls_destroy(door->tls);
    pthread_cond_destroy(&door->changed);
    pthread_mutex_destroy(&door->lock);
    memory_free(door->threads);
    memory_free(door);
}
