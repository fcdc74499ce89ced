#include "serve/h2_client.h"

#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "net/reach.h"
#include "serve/grpc_answer.h"
#include "serve/h2_library.h"

static const double connect_seconds = 20; /* for a call without a deadline */
static const double retry_seconds = 1;    /* after a connection that could not be made */
static const double patient_nap = 0.05;   /* of a call that waits for a server */

enum {
    WINDOW = 1 << 30, /* what the server may send unasked: a client that looks never holds it up */
    READ_BYTES = 1 << 16,
    SEND_BYTES = 1 << 18, /* about, that wait for the socket */
};

struct call {
    struct call *next; /* of the idle ones, or of the ended ones */
    bool under_way;
    int32_t stream;
    double deadline;       /* clock_seconds(); INFINITY: none */
    struct strbuf message; /* with its prefix */
    size_t sent;
    struct grpc_answer answer;
};

struct h2_client {
    const struct h2_library *h2;
    nghttp2_session_callbacks *callbacks;
    nghttp2_session *session; /* NULL: not connected */
    int socket;
    char *host, *port; /* port points into host's memory */
    struct strbuf authority, authorization;
    struct call *calls;
    int count, under_way;
    struct call *idle, *ended, **ended_tail;
    double earliest;      /* no deadline is before it */
    double retry_after;   /* clock_seconds() */
    struct error refusal; /* why there is no connection */
    struct strbuf out;    /* that the socket did not take yet, from `written` on */
    size_t written;
    unsigned char in[READ_BYTES];
};

/* ---- how a call ends ------------------------------------------------------------------------ */

static void end_call(struct h2_client *client, struct call *call, enum serve_status status,
                     const char *why)
{
    grpc_answer_end(&call->answer, status, why);
    call->answer.reply->ended = clock_seconds();
    client->under_way -= call->under_way;
    call->under_way = false;
    call->next = NULL;
    *client->ended_tail = call;
    client->ended_tail = &call->next;
}

/* By us, and not by the server. */
static void give_up(struct h2_client *client, struct call *call, enum serve_status status,
                    const char *why)
{
    struct grpc_reply *reply = call->answer.reply;
    call->answer.status = (int)status;
    snprintf(reply->message, sizeof reply->message, "%s", why);
    end_call(client, call, status, NULL);
}

static struct grpc_reply *take_ended(struct h2_client *client)
{
    struct call *call = client->ended;
    client->ended = call->next;
    if (!client->ended)
        client->ended_tail = &client->ended;
    call->next = client->idle;
    client->idle = call;
    return call->answer.reply;
}

/* Those whose time is over: the server is told, and what it still sends is dropped. */
static void end_late(struct h2_client *client, double now)
{
    double earliest = INFINITY;
    for (int i = 0; i < client->count; i++) {
        struct call *call = &client->calls[i];
        if (!call->under_way)
            continue;
        if (call->deadline > now) {
            earliest = fmin(earliest, call->deadline);
            continue;
        }
        client->h2->nghttp2_session_set_stream_user_data(client->session, call->stream, NULL);
        client->h2->nghttp2_submit_rst_stream(client->session, NGHTTP2_FLAG_NONE, call->stream,
                                              NGHTTP2_CANCEL);
        give_up(client, call, SERVE_DEADLINE, "Deadline Exceeded");
    }
    client->earliest = earliest;
}

/* ---- what nghttp2 tells --------------------------------------------------------------------- */

static struct call *call_of(struct h2_client *client, int32_t stream)
{
    return client->h2->nghttp2_session_get_stream_user_data(client->session, stream);
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_bytes, const uint8_t *value, size_t value_bytes, uint8_t flags,
                     void *context)
{
    struct call *call = call_of(context, frame->hd.stream_id);
    (void)session, (void)flags;
    if (call)
        grpc_answer_header(&call->answer, (const char *)name, name_bytes, (const char *)value,
                           value_bytes);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *bytes,
                   size_t count, void *context)
{
    struct call *call = call_of(context, stream);
    (void)session, (void)flags;
    if (call)
        grpc_answer_bytes(&call->answer, bytes, count);
    return 0;
}

/* As gRPC has it; a server that knows our deadline may be the first to act on it. */
static enum serve_status status_of_reset(const struct call *call, uint32_t code)
{
    if (clock_seconds() >= call->deadline)
        return SERVE_DEADLINE;
    switch (code) {
    case NGHTTP2_REFUSED_STREAM:
        return SERVE_UNAVAILABLE;
    case NGHTTP2_CANCEL:
        return SERVE_CANCELLED;
    case NGHTTP2_ENHANCE_YOUR_CALM:
        return SERVE_EXHAUSTED;
    default:
        return SERVE_INTERNAL;
    }
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t code, void *context)
{
    struct h2_client *client = context;
    struct call *call = call_of(client, stream);
    (void)session;
    if (call)
        end_call(client, call, status_of_reset(call, code),
                 code == NGHTTP2_NO_ERROR ? NULL : client->h2->nghttp2_http2_strerror(code));
    return 0;
}

static ssize_t on_wanted(nghttp2_session *session, int32_t stream, uint8_t *room, size_t bytes,
                         uint32_t *flags, nghttp2_data_source *source, void *context)
{
    struct call *call = call_of(context, stream);
    (void)session, (void)source;
    if (!call)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* its time was over: the stream ends */
    size_t left = call->message.length - call->sent, count = left < bytes ? left : bytes;
    memcpy(room, call->message.text + call->sent, count);
    call->sent += count;
    if (call->sent == call->message.length)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)count;
}

/* ---- the connection ------------------------------------------------------------------------- */

/* All that is under way ends with `why`. */
static void disconnect(struct h2_client *client, const char *why)
{
    if (!client->session)
        return;
    client->h2->nghttp2_session_del(client->session);
    client->session = NULL;
    close(client->socket);
    strbuf_clear(&client->out);
    client->written = 0;
    client->earliest = INFINITY;
    for (int i = 0; i < client->count; i++)
        if (client->calls[i].under_way)
            end_call(client, &client->calls[i], SERVE_UNAVAILABLE, why);
}

static int start_session(struct h2_client *client)
{
    const struct h2_library *h2 = client->h2;
    nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
                                         {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW}};
    int one = 1;
    setsockopt(client->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (h2->nghttp2_session_client_new(&client->session, client->callbacks, client) == 0) {
        if (h2->nghttp2_submit_settings(client->session, NGHTTP2_FLAG_NONE, settings, 2) == 0 &&
            h2->nghttp2_session_set_local_window_size(client->session, NGHTTP2_FLAG_NONE, 0,
                                                      WINDOW) == 0)
            return 0;
        h2->nghttp2_session_del(client->session);
        client->session = NULL;
    }
    close(client->socket);
    return error_set(&client->refusal, ERROR_MEMORY, "no memory for a connection");
}

/* Until `deadline`, when patient as often as it takes. False: client->refusal says why. */
static bool make_connection(struct h2_client *client, double deadline, bool patient)
{
    double now = clock_seconds();
    if (!patient && now < client->retry_after)
        return false;
    do {
        double left = isinf(deadline) ? connect_seconds : fmax(deadline - now, 0.001);
        client->socket = reach(client->host, client->port, left, &client->refusal);
        if (client->socket >= 0)
            return start_session(client) == 0;
        if (patient)
            nanosleep(&(struct timespec){.tv_nsec = (long)(patient_nap * 1e9)}, NULL);
        now = clock_seconds();
    } while (patient && now < deadline);
    client->retry_after = now + retry_seconds;
    return false;
}

/* After a farewell (GOAWAY) from either side there comes a moment when nothing is left to be said. */
static void leave_if_over(struct h2_client *client)
{
    if (client->session && !client->h2->nghttp2_session_want_read(client->session) &&
        !client->h2->nghttp2_session_want_write(client->session))
        disconnect(client, "the connection ended by a farewell");
}

/* What nghttp2 has is taken when all of the last was written: a server that is slower than we are
 * must not fill our memory. */
static void fill_out(struct h2_client *client)
{
    const uint8_t *bytes;
    ssize_t count = 0;
    if (client->written < client->out.length)
        return;
    strbuf_clear(&client->out);
    client->written = 0;
    while (client->out.length < SEND_BYTES &&
           (count = client->h2->nghttp2_session_mem_send(client->session, &bytes)) > 0)
        strbuf_add_bytes(&client->out, bytes, (size_t)count);
    if (count < 0 || client->out.failed)
        disconnect(client, count < 0 ? client->h2->nghttp2_strerror((int)count)
                                     : "no memory for what is to be sent");
}

static void send_waiting(struct h2_client *client)
{
    ssize_t done = 1;
    while (client->session && done > 0) {
        fill_out(client);
        size_t left = client->out.length - client->written;
        if (!client->session || left == 0)
            return;
        done = send(client->socket, client->out.text + client->written, left, MSG_NOSIGNAL);
        client->written += done > 0 ? (size_t)done : 0;
    }
    if (client->session && errno != EAGAIN && errno != EINTR)
        disconnect(client, strerror(errno));
}

static void read_waiting(struct h2_client *client)
{
    ssize_t count = recv(client->socket, client->in, sizeof client->in, 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (count <= 0) {
        disconnect(client, count == 0 ? "the server closed the connection" : strerror(errno));
        return;
    }
    ssize_t used = client->h2->nghttp2_session_mem_recv(client->session, client->in, (size_t)count);
    if (used < 0)
        disconnect(client, client->h2->nghttp2_strerror((int)used));
}

/* For bytes, or until a moment; without a connection only for that. */
static void wait_for_bytes(struct h2_client *client, double until)
{
    double left = fmax(until - clock_seconds(), 0);
    bool unsent = client->written < client->out.length;
    struct pollfd one = {.fd = client->session ? client->socket : -1,
                         .events = unsent ? POLLIN | POLLOUT : POLLIN};
    struct timespec span = {.tv_sec = isinf(left) ? 0 : (time_t)left};
    span.tv_nsec = isinf(left) ? 0 : (long)((left - (double)span.tv_sec) * 1e9);
    ppoll(&one, 1, isinf(left) ? NULL : &span, NULL);
}

/* ---- for all -------------------------------------------------------------------------------- */

static int make_callbacks(struct h2_client *client)
{
    const struct h2_library *h2 = client->h2;
    if (h2->nghttp2_session_callbacks_new(&client->callbacks) != 0)
        return -1;
    h2->nghttp2_session_callbacks_set_on_header_callback(client->callbacks, on_header);
    h2->nghttp2_session_callbacks_set_on_data_chunk_recv_callback(client->callbacks, on_data);
    h2->nghttp2_session_callbacks_set_on_stream_close_callback(client->callbacks, on_close);
    return 0;
}

/* "host:port" or "[address]:port". */
static int take_server(struct h2_client *client, const char *server, struct error *err)
{
    client->host = memory_copy_text(server);
    if (!client->host)
        return error_set(err, ERROR_MEMORY, "no memory for a client");
    char *colon = strrchr(client->host, ':');
    if (!colon || colon[1] == '\0' || colon == client->host)
        return error_set(err, ERROR_USAGE, "%s is no host:port", server);
    *colon = '\0';
    client->port = colon + 1;
    size_t length = strlen(client->host);
    if (client->host[0] == '[' && client->host[length - 1] == ']') {
        memmove(client->host, client->host + 1, length - 2);
        client->host[length - 2] = '\0';
    }
    return 0;
}

int h2_client_create(const char *server, const char *token, int streams, struct h2_client **out,
                     struct error *err)
{
    const struct h2_library *h2 = h2_library_load(err);
    if (!h2)
        return -1;
    struct h2_client *client = memory_allocate(sizeof *client);
    if (!client)
        return error_set(err, ERROR_MEMORY, "no memory for a client");
    client->h2 = h2;
    client->earliest = INFINITY;
    client->ended_tail = &client->ended;
    strbuf_init(&client->authority);
    strbuf_init(&client->authorization);
    strbuf_init(&client->out);
    strbuf_add(&client->authority, server);
    if (token)
        strbuf_addf(&client->authorization, "Bearer %s", token);
    client->calls = memory_allocate((size_t)streams * sizeof *client->calls);
    for (; client->calls && client->count < streams; client->count++) {
        struct call *call = &client->calls[client->count];
        strbuf_init(&call->message);
        call->next = client->idle;
        client->idle = call;
    }
    int status = take_server(client, server, err);
    if (status == 0 && (!client->calls || make_callbacks(client) < 0 || client->authority.failed ||
                        client->authorization.failed))
        status = error_set(err, ERROR_MEMORY, "no memory for a client");
    if (status < 0)
        h2_client_destroy(client);
    else
        *out = client;
    return status;
}

void h2_client_destroy(struct h2_client *client)
{
    if (!client)
        return;
    disconnect(client, "the client ended");
    if (client->callbacks)
        client->h2->nghttp2_session_callbacks_del(client->callbacks);
    for (int i = 0; i < client->count; i++)
        strbuf_release(&client->calls[i].message);
    memory_free(client->calls);
    memory_free(client->host);
    strbuf_release(&client->authority);
    strbuf_release(&client->authorization);
    strbuf_release(&client->out);
    memory_free(client);
}

/* ---- a call --------------------------------------------------------------------------------- */

static nghttp2_nv header(const char *name, const char *value, size_t bytes)
{
    return (nghttp2_nv){.name = (uint8_t *)name,
                        .value = (uint8_t *)value,
                        .namelen = strlen(name),
                        .valuelen = bytes,
                        .flags = NGHTTP2_NV_FLAG_NONE};
}

/* "grpc-timeout": at most eight digits and a unit. */
static void write_timeout(double seconds, char text[16])
{
    if (seconds < 99)
        snprintf(text, 16, "%.0fu", ceil(seconds * 1e6));
    else
        snprintf(text, 16, "%.0fS", fmin(ceil(seconds), 99999999));
}

static int submit(struct h2_client *client, struct call *call, const char *method, double seconds)
{
    char timeout[16];
    nghttp2_nv headers[9] = {
        header(":method", "POST", 4),
        header(":scheme", "http", 4),
        header(":path", method, strlen(method)),
        header(":authority", client->authority.text, client->authority.length),
        header("te", "trailers", 8),
        header("content-type", "application/grpc", 16),
        header("user-agent", "lockstep", 8),
    };
    size_t count = 7;
    if (!isinf(seconds)) {
        write_timeout(fmax(seconds, 1e-6), timeout);
        headers[count++] = header("grpc-timeout", timeout, strlen(timeout));
    }
    if (client->authorization.length > 0)
        headers[count++] =
            header("authorization", client->authorization.text, client->authorization.length);
    nghttp2_data_provider body = {.read_callback = on_wanted};
    return client->h2->nghttp2_submit_request(client->session, NULL, headers, count, &body, call);
}

static bool is_leaving(const struct h2_client *client)
{
    return client->session && !client->h2->nghttp2_session_check_request_allowed(client->session);
}

/* All that can be done now, or after a wait until a moment. */
static void turn(struct h2_client *client, double until, bool wait)
{
    if (client->session)
        send_waiting(client);
    leave_if_over(client);
    if (wait && (client->session || !client->ended))
        wait_for_bytes(client, fmin(until, client->earliest));
    if (client->session)
        read_waiting(client);
    if (client->session && clock_seconds() >= client->earliest)
        end_late(client, clock_seconds());
}

/* A connection that takes no more requests (GOAWAY) is left when those under way have ended. */
static void leave(struct h2_client *client, double deadline)
{
    double until = fmin(deadline, clock_seconds() + connect_seconds);
    while (is_leaving(client) && client->under_way > 0 && clock_seconds() < until)
        turn(client, until, true);
    if (is_leaving(client))
        disconnect(client, "the server left");
}

int h2_client_begin(struct h2_client *client, const char *method, const void *message, size_t bytes,
                    double seconds, bool patient, struct grpc_reply *reply, struct error *err)
{
    struct call *call = client->idle;
    if (bytes > UINT32_MAX)
        return error_set(err, ERROR_USAGE, "a message of %zu bytes is too large for gRPC", bytes);
    grpc_answer_begin(&call->answer, reply);
    call->deadline = seconds > 0 ? clock_seconds() + seconds : INFINITY;
    call->sent = 0;
    strbuf_clear(&call->message);
    if (!grpc_message_add(&call->message, message, bytes))
        return error_set(err, ERROR_MEMORY, "no memory for a call");
    leave(client, call->deadline);
    bool connected = client->session || make_connection(client, call->deadline, patient);
    if (connected) {
        call->stream = submit(client, call, method, call->deadline - clock_seconds());
        if (call->stream < 0)
            return error_set(err, ERROR_MEMORY, "a call cannot be begun: %s",
                             client->h2->nghttp2_strerror(call->stream));
        call->under_way = true;
        client->under_way++;
        client->earliest = fmin(client->earliest, call->deadline);
    }
    client->idle = call->next;
    if (!connected)
        give_up(client, call, patient ? SERVE_DEADLINE : SERVE_UNAVAILABLE,
                client->refusal.message);
    return 0;
}

struct grpc_reply *h2_client_next(struct h2_client *client, double seconds)
{
    double until = seconds < 0 ? INFINITY : clock_seconds() + seconds;
    do {
        if (client->session && client->ended)
            send_waiting(client);
        if (client->ended || (!client->session && isinf(until)))
            break;
        turn(client, until, seconds != 0);
    } while (!client->ended && clock_seconds() < until);
    return client->ended ? take_ended(client) : NULL;
}
