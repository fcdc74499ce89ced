#include "serve/grpc_connection.h"

#include <errno.h>
#include <event2/event.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "net/tls.h"
#include "serve/grpc_call.h"

enum {
    STREAM_WINDOW = 4 << 20,      /* what a client may send unasked, of one call */
    CONNECTION_WINDOW = 16 << 20, /* and of all */
    WRITE_BYTES = 256 << 10,      /* about, that wait for the socket */
    READS = 8,                    /* in a row, before others have their turn */
    ALIVE_SECONDS = 120,          /* of silence, before TCP asks whether the other is still there */
};
static const double farewell_seconds = 5;  /* at most, between "no more, please" and "no more" */
static const double complaint_seconds = 1; /* from one line in the log to the next */

struct door_connection {
    struct door_thread *thread;
    struct door_connection *next, **link;
    struct door_connection *next_unflushed;
    bool unflushed;
    int socket;
    struct tls_stream *tls; /* NULL: none */
    nghttp2_session *session;
    struct event *readable, *writable;
    bool blocked;      /* the socket takes no more: `writable` is awaited */
    struct strbuf out; /* that the socket did not take yet, from `written` on */
    size_t written;
    struct door_call *calls;
    int64_t held;         /* bytes of their messages */
    bool greeted;         /* the client's first words were HTTP/2's */
    bool over;            /* is closed before the thread waits again */
    double opened, heard; /* clock_seconds(): the beginning, the last bytes that came */
    double moved;         /* the last that the socket took, or when it first had to wait */
    double busy;          /* when it last had a call */
    double asked;         /* whether it is still there; 0: it was not */
    double farewell;      /* when it was told that it should go; 0: it was not */
    bool heard_farewell;  /* all that it said before it knew is here */
    bool last_word;       /* no new call is taken */
    char peer[80];
};

static struct door_call *call_of(struct door_connection *connection, int32_t stream)
{
    const struct h2_library *h2 = connection->thread->door->h2;
    return h2->nghttp2_session_get_stream_user_data(connection->session, stream);
}

static void will_write(struct door_connection *connection)
{
    struct door_thread *thread = connection->thread;
    if (connection->unflushed)
        return;
    connection->unflushed = true;
    connection->next_unflushed = thread->unflushed;
    thread->unflushed = connection;
}

/* ---- calls ---------------------------------------------------------------------------------- */

static void link_call(struct door_connection *connection, struct door_call *call)
{
    call->next = connection->calls;
    call->link = &connection->calls;
    if (call->next)
        call->next->link = &call->next;
    connection->calls = call;
}

/* The call may be gone behind it. */
static void part(struct door_connection *connection, struct door_call *call)
{
    *call->link = call->next;
    if (call->next)
        call->next->link = call->link;
    connection->busy = clock_seconds();
    call_detach(call);
}

const char *connection_peer(const struct door_connection *connection)
{
    return connection->peer;
}

void connection_hold(struct door_connection *connection, int64_t bytes)
{
    connection->held += bytes;
    atomic_fetch_add(&connection->thread->door->held, bytes);
}

bool connection_may_hold(const struct door_connection *connection)
{
    const struct grpc_door *door = connection->thread->door;
    size_t message = door->limits.message_bytes;
    return message == 0 || (connection->held <= (int64_t)door_most_held_by_one(message) &&
                            atomic_load(&door->held) <= (int64_t)door_most_held(message));
}

static nghttp2_nv header(const char *name, const char *value, size_t bytes)
{
    return (nghttp2_nv){.name = (uint8_t *)name,
                        .value = (uint8_t *)value,
                        .namelen = strlen(name),
                        .valuelen = bytes,
                        .flags = NGHTTP2_NV_FLAG_NO_COPY_NAME};
}

/* The status, with its text if there is one; `status` and `text` are the caller's memory. */
static size_t add_status(const struct door_call *call, nghttp2_nv *headers, char status[12],
                         char *text, size_t bytes)
{
    int length = snprintf(status, 12, "%d", (int)call->status);
    headers[0] = header("grpc-status", status, (size_t)length);
    if (!call->why[0] || call->status == SERVE_OK)
        return 1;
    headers[1] = header("grpc-message", text, grpc_text_escape(call->why, text, bytes));
    return 2;
}

static void submit_trailers(struct door_connection *connection, const struct door_call *call)
{
    nghttp2_nv headers[2];
    char status[12], text[3 * sizeof call->why];
    size_t count = add_status(call, headers, status, text, sizeof text);
    connection->thread->door->h2->nghttp2_submit_trailer(connection->session, call->stream, headers,
                                                         count);
}

/* What nghttp2 asks for when there is room for it. */
static ssize_t on_wanted(nghttp2_session *session, int32_t stream, uint8_t *room, size_t bytes,
                         uint32_t *flags, nghttp2_data_source *source, void *context)
{
    struct door_call *call = call_of(context, stream);
    (void)session, (void)source;
    if (!call)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    size_t left = call->outgoing.length - call->sent, count = left < bytes ? left : bytes;
    memcpy(room, call->outgoing.text + call->sent, count);
    call->sent += count;
    call->moved = clock_seconds();
    if (call->sent == call->outgoing.length && call->state == CALL_ANSWERED) {
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        submit_trailers(context, call);
    } else if (count == 0)
        return NGHTTP2_ERR_DEFERRED;
    return (ssize_t)count;
}

void connection_greet(struct door_call *call)
{
    struct door_connection *connection = call->connection;
    nghttp2_nv headers[] = {header(":status", "200", 3),
                            header("content-type", "application/grpc", 16),
                            header("grpc-accept-encoding", GRPC_CODINGS, strlen(GRPC_CODINGS))};
    nghttp2_data_provider body = {.read_callback = on_wanted};
    call->greeted = true;
    connection->thread->door->h2->nghttp2_submit_response(connection->session, call->stream,
                                                          headers, 3, &body);
    will_write(connection);
}

void connection_refuse(struct door_call *call, int http)
{
    struct door_connection *connection = call->connection;
    nghttp2_nv headers[5];
    char number[12], status[12], text[3 * sizeof call->why];
    size_t count = 0;
    headers[count++] = header(":status", number, (size_t)snprintf(number, 12, "%d", http));
    if (http == 200) {
        headers[count++] = header("content-type", "application/grpc", 16);
        count += add_status(call, headers + count, status, text, sizeof text);
        headers[count++] = header("grpc-accept-encoding", GRPC_CODINGS, strlen(GRPC_CODINGS));
    }
    connection->thread->door->h2->nghttp2_submit_response(connection->session, call->stream,
                                                          headers, count, NULL);
    will_write(connection);
}

void connection_resume(struct door_call *call)
{
    struct door_connection *connection = call->connection;
    connection->thread->door->h2->nghttp2_session_resume_data(connection->session, call->stream);
    will_write(connection);
}

void connection_reset(struct door_call *call, uint32_t code)
{
    struct door_connection *connection = call->connection;
    connection->thread->door->h2->nghttp2_submit_rst_stream(connection->session, NGHTTP2_FLAG_NONE,
                                                            call->stream, code);
    will_write(connection);
}

/* ---- farewells ------------------------------------------------------------------------------ */

static const uint8_t farewell_ping[8] = "farewell";

/* First that no more calls are wanted, while those on their way are still taken; and when the client
 * has heard that, for it answers a ping sent behind it, that no more are taken. The last of those that
 * were ends the connection. */
static void say_farewell(struct door_connection *connection, double now)
{
    const struct h2_library *h2 = connection->thread->door->h2;
    if (connection->farewell == 0) {
        connection->farewell = now;
        h2->nghttp2_submit_shutdown_notice(connection->session);
        h2->nghttp2_submit_ping(connection->session, NGHTTP2_FLAG_NONE, farewell_ping);
    } else if (!connection->last_word &&
               (connection->heard_farewell || now - connection->farewell >= farewell_seconds)) {
        connection->last_word = true;
        h2->nghttp2_submit_goaway(connection->session, NGHTTP2_FLAG_NONE,
                                  h2->nghttp2_session_get_last_proc_stream_id(connection->session),
                                  NGHTTP2_NO_ERROR, NULL, 0);
    }
    will_write(connection);
}

/* ---- what nghttp2 tells --------------------------------------------------------------------- */

static int on_begin(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    struct door_connection *connection = context;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    struct door_call *call = call_begin(connection, connection->thread, frame->hd.stream_id);
    if (!call)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    link_call(connection, call);
    connection->thread->door->h2->nghttp2_session_set_stream_user_data(session, frame->hd.stream_id,
                                                                       call);
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_bytes, const uint8_t *value, size_t value_bytes, uint8_t flags,
                     void *context)
{
    struct door_call *call = call_of(context, frame->hd.stream_id);
    (void)session, (void)flags;
    if (call && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        grpc_request_header(&call->incoming, (const char *)name, name_bytes, (const char *)value,
                            value_bytes);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *bytes,
                   size_t count, void *context)
{
    struct door_call *call = call_of(context, stream);
    (void)session, (void)flags;
    if (call)
        call_take(call, bytes, count);
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    struct door_connection *connection = context;
    (void)session;
    if (frame->hd.type == NGHTTP2_SETTINGS)
        connection->greeted = true;
    if (frame->hd.type == NGHTTP2_PING && frame->hd.flags & NGHTTP2_FLAG_ACK &&
        memcmp(frame->ping.opaque_data, farewell_ping, sizeof farewell_ping) == 0) {
        connection->heard_farewell = true;
        say_farewell(connection, clock_seconds());
    }
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
        return 0;
    struct door_call *call = call_of(connection, frame->hd.stream_id);
    if (call && frame->hd.type == NGHTTP2_HEADERS)
        call_headers_end(call);
    if (call && frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
        call_said_all(call); /* which is the last that is known of the call here */
    return 0;
}

/* Who was answered before all was said need not say the rest. */
static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    const struct h2_library *h2 = ((struct door_connection *)context)->thread->door->h2;
    bool last = (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
                frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    if (last && h2->nghttp2_session_get_stream_remote_close(session, frame->hd.stream_id) == 0)
        h2->nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                      NGHTTP2_NO_ERROR);
    return 0;
}

static int on_stream_end(nghttp2_session *session, int32_t stream, uint32_t code, void *context)
{
    struct door_call *call = call_of(context, stream);
    (void)code;
    if (call) {
        ((struct door_connection *)context)
            ->thread->door->h2->nghttp2_session_set_stream_user_data(session, stream, NULL);
        part(context, call);
    }
    return 0;
}

int connection_make_callbacks(struct grpc_door *door, struct error *err)
{
    const struct h2_library *h2 = door->h2;
    if (h2->nghttp2_session_callbacks_new(&door->callbacks) != 0)
        return error_set(err, ERROR_MEMORY, "no memory for the gRPC door");
    h2->nghttp2_session_callbacks_set_on_begin_headers_callback(door->callbacks, on_begin);
    h2->nghttp2_session_callbacks_set_on_header_callback(door->callbacks, on_header);
    h2->nghttp2_session_callbacks_set_on_data_chunk_recv_callback(door->callbacks, on_data);
    h2->nghttp2_session_callbacks_set_on_frame_recv_callback(door->callbacks, on_frame);
    h2->nghttp2_session_callbacks_set_on_frame_send_callback(door->callbacks, on_sent);
    h2->nghttp2_session_callbacks_set_on_stream_close_callback(door->callbacks, on_stream_end);
    return 0;
}

/* ---- the socket ----------------------------------------------------------------------------- */

static void await_room(struct door_connection *connection, bool blocked)
{
    if (blocked == connection->blocked)
        return;
    connection->blocked = blocked;
    if (blocked)
        event_add(connection->writable, NULL);
    else
        event_del(connection->writable);
}

/* What nghttp2 has is taken when all of the last was written: who reads slowly must not fill our
 * memory. */
static void fill_out(struct door_connection *connection)
{
    const struct h2_library *h2 = connection->thread->door->h2;
    const uint8_t *bytes;
    ssize_t count = 0;
    strbuf_clear(&connection->out);
    connection->written = 0;
    while (connection->out.length < WRITE_BYTES &&
           (count = h2->nghttp2_session_mem_send(connection->session, &bytes)) > 0)
        strbuf_add_bytes(&connection->out, bytes, (size_t)count);
    if (count < 0 || connection->out.failed)
        connection->over = true;
}

static ssize_t write_some(struct door_connection *connection)
{
    const char *text = connection->out.text + connection->written;
    size_t left = connection->out.length - connection->written;
    return connection->tls ? tls_stream_write(connection->tls, text, left)
                           : send(connection->socket, text, left, MSG_NOSIGNAL);
}

static void flush(struct door_connection *connection)
{
    const struct h2_library *h2 = connection->thread->door->h2;
    ssize_t done = 1;
    while (!connection->over && done > 0) {
        if (connection->written == connection->out.length)
            fill_out(connection);
        if (connection->over || connection->out.length == 0)
            break;
        done = write_some(connection);
        if (done <= 0)
            break;
        connection->written += (size_t)done;
        connection->moved = clock_seconds();
    }
    bool later = done < 0 && (errno == EAGAIN || errno == EINTR);
    if (done <= 0 && !later)
        connection->over = true;
    if (later && !connection->blocked)
        connection->moved = clock_seconds();
    if (!h2->nghttp2_session_want_read(connection->session) &&
        !h2->nghttp2_session_want_write(connection->session) && !later)
        connection->over = true; /* both have said farewell */
    /* TLS may have to hear something first, which it does when it comes. */
    if (!connection->over)
        await_room(connection, connection->tls ? tls_stream_must_write(connection->tls) : later);
}

void connection_flush_all(struct door_thread *thread)
{
    for (struct door_connection *connection; (connection = thread->unflushed);) {
        thread->unflushed = connection->next_unflushed;
        connection->unflushed = false;
        flush(connection);
        if (connection->over)
            connection_close(connection);
    }
}

static ssize_t read_some(struct door_connection *connection)
{
    unsigned char *room = connection->thread->room;
    return connection->tls ? tls_stream_read(connection->tls, room, READ_BYTES)
                           : recv(connection->socket, room, READ_BYTES, 0);
}

/* Clients' faults are theirs, but who set up a server wants to know why nobody gets in; no client shall
 * fill the log. */
static void complain(struct door_connection *connection, const char *why)
{
    struct door_thread *thread = connection->thread;
    double now = clock_seconds();
    if (now - thread->complained < complaint_seconds)
        return;
    thread->complained = now;
    log_line(LOG_WARNING, "gRPC: %s is let go: %s", connection->peer, why);
}

static void read_waiting(struct door_connection *connection)
{
    struct door_thread *thread = connection->thread;
    for (int i = 0; i < READS && !connection->over; i++) {
        ssize_t count = read_some(connection);
        if (count < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        ssize_t used = count <= 0 ? -1
                                  : thread->door->h2->nghttp2_session_mem_recv(
                                        connection->session, thread->room, (size_t)count);
        connection->heard = clock_seconds();
        connection->asked = 0;
        if (count < 0 && errno == EPROTO)
            complain(connection, tls_stream_problem(connection->tls));
        else if (count > 0 && used == NGHTTP2_ERR_BAD_CLIENT_MAGIC)
            complain(connection, thread->door->tls ? "it speaks no HTTP/2"
                                                   : "it speaks no HTTP/2 in the clear");
        else if (count > 0 && used < 0)
            complain(connection, thread->door->h2->nghttp2_strerror((int)used));
        if (count <= 0 || used < 0)
            connection->over = true;
        else if (!connection->tls && count < READ_BYTES)
            break; /* there is no more; TLS gives a record at a time */
    }
    will_write(connection);
}

/* Closed in connection_flush_all, when no event of it is being told. */
static void on_readable(evutil_socket_t socket, short what, void *context)
{
    struct door_connection *connection = context;
    (void)socket, (void)what;
    read_waiting(connection);
    if (connection->tls && tls_stream_must_write(connection->tls))
        await_room(connection, true);
}

static void on_writable(evutil_socket_t socket, short what, void *context)
{
    struct door_connection *connection = context;
    (void)socket, (void)what;
    connection->blocked = false; /* the event is for once */
    if (connection->tls)
        read_waiting(connection); /* which is what a handshake waits to go on with */
    will_write(connection);
}

/* ---- beginning and end ---------------------------------------------------------------------- */

static void name_peer(struct door_connection *connection)
{
    struct sockaddr_storage address = {0};
    socklen_t bytes = sizeof address;
    char host[48], port[8];
    if (getpeername(connection->socket, (struct sockaddr *)&address, &bytes) < 0) {
        snprintf(connection->peer, sizeof connection->peer, "gone");
        return;
    }
    if (address.ss_family == AF_UNIX ||
        getnameinfo((struct sockaddr *)&address, bytes, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        snprintf(connection->peer, sizeof connection->peer, "unix:");
        return;
    }
    bool six = address.ss_family == AF_INET6, mapped = strncmp(host, "::ffff:", 7) == 0;
    if (six && !mapped)
        snprintf(connection->peer, sizeof connection->peer, "ipv6:[%s]:%s", host, port);
    else
        snprintf(connection->peer, sizeof connection->peer, "ipv4:%s:%s", host + (mapped ? 7 : 0),
                 port);
}

static int start_session(struct door_connection *connection)
{
    const struct grpc_door *door = connection->thread->door;
    const struct h2_library *h2 = door->h2;
    nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, (uint32_t)door->limits.streams},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)door->limits.header_bytes}};
    size_t count = door->limits.header_bytes > 0 ? 3 : 2;
    if (h2->nghttp2_session_server_new(&connection->session, door->callbacks, connection) != 0 ||
        h2->nghttp2_submit_settings(connection->session, NGHTTP2_FLAG_NONE, settings, count) != 0 ||
        h2->nghttp2_session_set_local_window_size(connection->session, NGHTTP2_FLAG_NONE, 0,
                                                  CONNECTION_WINDOW) != 0)
        return -1;
    return 0;
}

static int start_events(struct door_connection *connection)
{
    struct event_base *base = connection->thread->base;
    connection->readable =
        event_new(base, connection->socket, EV_READ | EV_PERSIST, on_readable, connection);
    connection->writable = event_new(base, connection->socket, EV_WRITE, on_writable, connection);
    return connection->readable && connection->writable &&
                   event_add(connection->readable, NULL) == 0
               ? 0
               : -1;
}

/* A machine that vanished without a word is found out some day. */
static void set_options(int socket)
{
    int one = 1, silence = ALIVE_SECONDS;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &silence, sizeof silence);
}

void connection_open(struct door_thread *thread, int socket)
{
    struct grpc_door *door = thread->door;
    struct door_connection *connection = memory_allocate(sizeof *connection);
    atomic_fetch_add(&door->connections, 1);
    if (!connection) {
        close(socket);
        door_count_down(door, &door->connections);
        return;
    }
    double now = clock_seconds();
    *connection = (struct door_connection){.thread = thread,
                                           .next = thread->connections,
                                           .link = &thread->connections,
                                           .socket = socket,
                                           .opened = now,
                                           .heard = now,
                                           .moved = now,
                                           .busy = now};
    if (connection->next)
        connection->next->link = &connection->next;
    thread->connections = connection;
    strbuf_init(&connection->out);
    name_peer(connection);
    set_options(socket);
    if (door->tls)
        connection->tls = tls_stream_create(door->tls, socket);
    if ((door->tls && !connection->tls) || start_session(connection) < 0 ||
        start_events(connection) < 0) {
        connection_close(connection);
        return;
    }
    will_write(connection);
}

static void forget_unflushed(struct door_connection *connection)
{
    struct door_connection **at = &connection->thread->unflushed;
    while (*at && *at != connection)
        at = &(*at)->next_unflushed;
    if (*at)
        *at = connection->next_unflushed;
}

void connection_close(struct door_connection *connection)
{
    struct grpc_door *door = connection->thread->door;
    while (connection->calls)
        part(connection, connection->calls);
    *connection->link = connection->next;
    if (connection->next)
        connection->next->link = connection->link;
    forget_unflushed(connection);
    if (connection->readable)
        event_free(connection->readable);
    if (connection->writable)
        event_free(connection->writable);
    if (connection->session)
        door->h2->nghttp2_session_del(connection->session);
    tls_stream_destroy(connection->tls);
    close(connection->socket);
    strbuf_release(&connection->out);
    memory_free(connection);
    door_count_down(door, &door->connections);
}

void connection_close_all(struct door_thread *thread)
{
    while (thread->connections)
        connection_close(thread->connections);
}

/* ---- time ----------------------------------------------------------------------------------- */

static bool passed(double seconds, double since, double now)
{
    return seconds > 0 && now - since > seconds;
}

static bool should_leave(const struct door_connection *connection, double now)
{
    const struct grpc_door *door = connection->thread->door;
    const struct door_limits *limits = &door->limits;
    return connection->farewell > 0 || atomic_load(&door->ending) ||
           (!connection->calls && passed(limits->idle_seconds, connection->busy, now)) ||
           passed(limits->age_seconds, connection->opened, now);
}

/* Who is silent is asked, when the user wants it. */
static void look_for_life(struct door_connection *connection, double now)
{
    const struct door_limits *limits = &connection->thread->door->limits;
    if (connection->asked > 0)
        connection->over |= passed(limits->keepalive_timeout, connection->asked, now);
    else if (passed(limits->keepalive_seconds, connection->heard, now)) {
        connection->asked = now;
        connection->thread->door->h2->nghttp2_submit_ping(connection->session, NGHTTP2_FLAG_NONE,
                                                          NULL);
        will_write(connection);
    }
}

/* Closed by the flush that follows. */
static void tick(struct door_connection *connection, double now)
{
    const struct grpc_door *door = connection->thread->door;
    double patience = door->options.request_seconds;
    for (struct door_call *next, *call = connection->calls; call; call = next) {
        next = call->next;
        call_tick(call, now);
    }
    double grace = door->limits.age_seconds + door->limits.grace_seconds;
    connection->over |= atomic_load(&door->cutting) ||
                        (door->limits.grace_seconds > 0 && door->limits.age_seconds > 0 &&
                         passed(grace, connection->opened, now)) ||
                        (!connection->greeted && passed(patience, connection->opened, now)) ||
                        (connection->blocked && passed(patience, connection->moved, now));
    look_for_life(connection, now);
    if (should_leave(connection, now))
        say_farewell(connection, now);
    if (connection->over)
        will_write(connection);
}

void connection_tick_all(struct door_thread *thread)
{
    double now = clock_seconds();
    for (struct door_connection *connection = thread->connections; connection;
         connection = connection->next)
        tick(connection, now);
}
