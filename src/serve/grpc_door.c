#include "serve/grpc_door.h"

#include <errno.h>
#include <limits.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/threads.h"
#include "serve/grpc_call.h"

enum {
    MOST_THREADS = 64,
    MOST_STREAMS = 1024, /* of one connection at a time */
    METADATA_BYTES = 16 << 10,
    SLOTS = 4, /* calls of a method that gRPC may hand over before it is asked again */
    MOST_ARGUMENTS = 64,
};
static const double tick_seconds = 0.25;

/* ---- threads -------------------------------------------------------------------------------- */

static gpr_timespec next_tick(const struct door_thread *thread)
{
    return grpc_library_moment(thread->door->grpc, thread->streams ? tick_seconds : 0);
}

static void note_shutdown(struct grpc_door *door)
{
    pthread_mutex_lock(&door->lock);
    door->shut_down = true;
    pthread_cond_broadcast(&door->changed);
    pthread_mutex_unlock(&door->lock);
}

static void *turn(void *context)
{
    struct door_thread *thread = context;
    struct grpc_door *door = thread->door;
    double ticked = clock_seconds();
    thread_take_short_turns();
    for (;;) {
        grpc_event event =
            door->grpc->grpc_completion_queue_next(thread->queue, next_tick(thread), NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN)
            return NULL;
        if (event.type == GRPC_OP_COMPLETE && event.tag == &door->shutdown_tag)
            note_shutdown(door);
        else if (event.type == GRPC_OP_COMPLETE)
            call_event(event.tag, event.success);
        if (thread->streams && clock_seconds() - ticked >= tick_seconds) {
            call_tick(thread);
            ticked = clock_seconds();
        }
    }
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

static bool request_calls(struct door_thread *thread)
{
    for (int i = 0; i < method_count(); i++)
        for (int slot = 0; slot < SLOTS; slot++)
            if (!call_request(thread, i))
                return false;
    return call_request(thread, -1);
}

/* ---- the server ----------------------------------------------------------------------------- */

static int milliseconds(double seconds)
{
    return seconds <= 0 || seconds * 1000 > INT_MAX ? INT_MAX : (int)(seconds * 1000);
}

static grpc_arg integer_argument(const char *key, int value)
{
    return (grpc_arg){.type = GRPC_ARG_INTEGER, .key = (char *)key, .value.integer = value};
}

/* What users say: "name=value,name=value"; numbers are given as numbers. The text is cut up. */
static int add_arguments(char *text, grpc_arg *arguments, size_t *count, struct error *err)
{
    for (char *rest, *word = text; word && *word; word = rest) {
        rest = strchr(word, ',');
        if (rest)
            *rest++ = '\0';
        char *value = strchr(word, '='), *end;
        if (!value || value == word)
            return error_set(err, ERROR_USAGE,
                             "gRPC channel argument '%.100s' is not of the form name=value", word);
        if (*count == MOST_ARGUMENTS)
            return error_set(err, ERROR_USAGE, "more than %d gRPC channel arguments",
                             MOST_ARGUMENTS);
        *value++ = '\0';
        errno = 0;
        long number = strtol(value, &end, 10);
        bool numeric = *value && !*end && !errno && number >= INT_MIN && number <= INT_MAX;
        arguments[(*count)++] =
            numeric ? integer_argument(word, (int)number)
                    : (grpc_arg){.type = GRPC_ARG_STRING, .key = word, .value.string = value};
    }
    return 0;
}

/* Two servers on one port would share the calls without a word, so that is refused. */
static int make_server(struct grpc_door *door, struct error *err)
{
    const struct door_options *options = &door->options;
    size_t limit = options->message_limit;
    int bytes = limit == 0 || limit > INT_MAX ? INT_MAX : (int)limit;
    grpc_arg arguments[MOST_ARGUMENTS] = {
        integer_argument(GRPC_ARG_ALLOW_REUSEPORT, 0),
        integer_argument(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, bytes),
        integer_argument(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1),
        integer_argument(GRPC_ARG_MAX_CONCURRENT_STREAMS, MOST_STREAMS),
        integer_argument(GRPC_ARG_MAX_METADATA_SIZE, METADATA_BYTES),
        integer_argument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, milliseconds(options->idle_seconds)),
        integer_argument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                         milliseconds(options->request_seconds)),
        integer_argument(GRPC_ARG_ENABLE_CHANNELZ, 0),
    };
    grpc_channel_args list = {.num_args = 8, .args = arguments};
    char *text = memory_copy_text(options->channel_arguments ? options->channel_arguments : "");
    if (!text)
        return error_set(err, ERROR_MEMORY, "no memory for the gRPC door");
    int status = add_arguments(text, arguments, &list.num_args, err);
    if (status == 0)
        door->server = door->grpc->grpc_server_create(&list, NULL);
    memory_free(text);
    if (status == 0 && !door->server)
        return error_set(err, ERROR_IO, "gRPC made no server");
    return status;
}

static int register_methods(struct grpc_door *door, struct error *err)
{
    door->handles = memory_allocate((size_t)method_count() * sizeof *door->handles);
    if (!door->handles)
        return error_set(err, ERROR_MEMORY, "no memory for the gRPC door");
    for (int i = 0; i < method_count(); i++) {
        const struct door_method *method = method_at(i);
        door->handles[i] = door->grpc->grpc_server_register_method(
            door->server, method->path, NULL,
            method->stream ? GRPC_SRM_PAYLOAD_NONE : GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
        if (!door->handles[i])
            return error_set(err, ERROR_IO, "gRPC does not take the method %s", method->path);
    }
    return 0;
}

static grpc_server_credentials *make_credentials(const struct grpc_door *door)
{
    const struct door_tls *tls = &door->options.tls;
    if (!tls->certificate)
        return door->grpc->grpc_insecure_server_credentials_create();
    grpc_ssl_pem_key_cert_pair pair = {.private_key = tls->key, .cert_chain = tls->certificate};
    return door->grpc->grpc_ssl_server_credentials_create_ex(
        tls->client_ca, &pair, 1,
        tls->client_ca ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                       : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
        NULL);
}

static int bind_one(struct grpc_door *door, const char *address,
                    grpc_server_credentials *credentials, int *port, struct error *err)
{
    *port = door->grpc->grpc_server_add_http2_port(door->server, address, credentials);
    if (*port > 0)
        return 0;
    return error_set(err, ERROR_IO, "gRPC cannot listen on %s: is it in use%s?", address,
                     door->options.tls.certificate ? ", or the certificate or key wrong" : "");
}

/* An address without a host is none: then there is only the socket. */
static int bind_ports(struct grpc_door *door, struct error *err)
{
    const struct door_options *options = &door->options;
    char address[256];
    int status = 0, unused;
    grpc_server_credentials *credentials = make_credentials(door);
    if (!credentials)
        return error_set(err, ERROR_IO, "gRPC takes no such certificate and key");
    if (options->address.host[0]) {
        address_text(&options->address, address, sizeof address);
        status = bind_one(door, address, credentials, &door->port, err);
    }
    if (status == 0 && options->socket_path) {
        snprintf(address, sizeof address, "unix:%s", options->socket_path);
        status = bind_one(door, address, credentials, &unused, err);
    }
    door->grpc->grpc_server_credentials_release(credentials);
    return status;
}

/* ---- opening and closing -------------------------------------------------------------------- */

static int make_threads(struct grpc_door *door, struct error *err)
{
    /* The other half is the core's: a thread that computes leaves one to turn the queue. */
    int half = (threads_available() + 1) / 2;
    int wanted = door->options.threads > 0 ? door->options.threads : half;
    door->thread_count = wanted < MOST_THREADS ? wanted : MOST_THREADS;
    door->threads = memory_allocate((size_t)door->thread_count * sizeof *door->threads);
    if (!door->threads)
        return error_set(err, ERROR_MEMORY, "no memory for the gRPC door");
    for (int i = 0; i < door->thread_count; i++) {
        struct door_thread *thread = &door->threads[i];
        thread->door = door;
        pthread_mutex_init(&thread->lock, NULL);
        thread->queue = door->grpc->grpc_completion_queue_create_for_next(NULL);
        door->grpc->grpc_server_register_completion_queue(door->server, thread->queue, NULL);
    }
    return 0;
}

static int open_door(struct grpc_door *door, struct error *err)
{
    if (make_server(door, err) < 0 || register_methods(door, err) < 0 ||
        make_threads(door, err) < 0 || bind_ports(door, err) < 0)
        return -1;
    door->grpc->grpc_server_start(door->server);
    for (int i = 0; i < door->thread_count; i++)
        if (!request_calls(&door->threads[i]))
            return error_set(err, ERROR_MEMORY, "no memory for the gRPC door");
    return start_threads(door, err);
}

int grpc_door_open(const struct grpc_backend *backend, const struct door_options *options,
                   struct grpc_door **out, struct error *err)
{
    const struct grpc_library *grpc = grpc_library_load(err);
    if (!grpc)
        return -1;
    struct grpc_door *door = memory_allocate(sizeof *door);
    if (!door)
        return error_set(err, ERROR_MEMORY, "no memory for the gRPC door");
    door->grpc = grpc;
    door->backend = *backend;
    door->options = *options;
    pthread_mutex_init(&door->lock, NULL);
    pthread_cond_init(&door->changed, NULL);
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

/* Until gRPC has shut down and no call is left, or the moment came (NULL: as long as it takes). */
static bool wait_for_end(struct grpc_door *door, const struct timespec *until)
{
    bool over;
    pthread_mutex_lock(&door->lock);
    while (!(over = door->shut_down && door->calls == 0)) {
        int problem = until ? pthread_cond_timedwait(&door->changed, &door->lock, until)
                            : pthread_cond_wait(&door->changed, &door->lock);
        if (problem == ETIMEDOUT)
            break;
    }
    pthread_mutex_unlock(&door->lock);
    return over;
}

void grpc_door_drain(struct grpc_door *door, double seconds)
{
    struct timespec until;
    if (door->drained)
        return;
    door->drained = true;
    atomic_store(&door->ending, true);
    clock_gettime(CLOCK_REALTIME, &until);
    int64_t nanoseconds = until.tv_nsec + (int64_t)(seconds * 1e9);
    until.tv_sec += nanoseconds / 1000000000;
    until.tv_nsec = nanoseconds % 1000000000;
    door->grpc->grpc_server_shutdown_and_notify(door->server, door->threads[0].queue,
                                                &door->shutdown_tag);
    if (wait_for_end(door, &until))
        return;
    door->grpc->grpc_server_cancel_all_calls(door->server);
    wait_for_end(door, NULL);
}

/* Of a door whose threads never ran: what would wait for them is taken from the queues here. */
static void turn_without_threads(struct grpc_door *door)
{
    for (int i = 0; i < door->thread_count; i++)
        if (!door->threads[i].running)
            turn(&door->threads[i]);
}

static void release_thread(struct grpc_door *door, struct door_thread *thread)
{
    struct door_call *next;
    if (thread->running)
        pthread_join(thread->thread, NULL);
    for (struct door_call *call = thread->spare; call; call = next) {
        next = call->next;
        call_destroy(call);
    }
    door->grpc->grpc_completion_queue_destroy(thread->queue);
    pthread_mutex_destroy(&thread->lock);
}

void grpc_door_stop(struct grpc_door *door)
{
    if (!door)
        return;
    bool ran = door->threads && door->threads[0].running;
    if (ran)
        grpc_door_drain(door, 0);
    else if (door->server && door->threads)
        door->grpc->grpc_server_shutdown_and_notify(door->server, door->threads[0].queue,
                                                    &door->shutdown_tag);
    for (int i = 0; door->threads && i < door->thread_count; i++)
        door->grpc->grpc_completion_queue_shutdown(door->threads[i].queue);
    if (door->threads)
        turn_without_threads(door);
    for (int i = 0; door->threads && i < door->thread_count; i++)
        release_thread(door, &door->threads[i]);
    if (door->server)
        door->grpc->grpc_server_destroy(door->server);
    pthread_cond_destroy(&door->changed);
    pthread_mutex_destroy(&door->lock);
    memory_free(door->handles);
    memory_free(door->threads);
    memory_free(door);
}
