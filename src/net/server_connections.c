#include "net/server_connections.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <malloc.h>
#include <poll.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/memory.h"

enum { TRIM_BYTES = 8 << 20 };
static const double TRIM_EVERY_SECONDS = 1;
/* Closed while it still sends, a client would be told that the connection broke, not why. */
static const double LINGER_SECONDS = 2;

static size_t bucket_of(const struct bufferevent *buffer)
{
    return ((uintptr_t)buffer >> 6) % CONNECTION_BUCKETS;
}

static void on_bytes(struct evbuffer *input, const struct evbuffer_cb_info *info, void *context)
{
    struct server_connection *connection = context;
    (void)input;
    if (connection->editing || !info->n_added)
        return;
    if (!connection->busy && connection->since <= 0)
        connection->since = clock_seconds();
    server_connection_received(connection, info->n_added);
}

bool server_connections_add(struct server_connections *connections, struct bufferevent *buffer)
{
    struct server_connection *connection = memory_allocate(sizeof *connection);
    if (!connection)
        return false;
    struct server_connection **bucket = &connections->buckets[bucket_of(buffer)];
    *connection = (struct server_connection){
        .next = *bucket, .all = connections, .buffer = buffer, .since = clock_seconds()};
    strbuf_init(&connection->head);
    *bucket = connection;
    connections->count++;
    bufferevent_incref(buffer);
    evbuffer_add_cb(bufferevent_get_input(buffer), on_bytes, connection);
    return true;
}

struct server_connection *server_connections_find(struct server_connections *connections,
                                                  const struct bufferevent *buffer)
{
    struct server_connection *connection = connections->buckets[bucket_of(buffer)];
    while (connection && connection->buffer != buffer)
        connection = connection->next;
    return connection;
}

/* bufferevent_free takes the callbacks away, whoever else still holds it. */
static bool is_closed(const struct server_connection *connection)
{
    bufferevent_data_cb read = NULL, write = NULL;
    bufferevent_event_cb event = NULL;
    void *context;
    bufferevent_getcb(connection->buffer, &read, &write, &event, &context);
    return !read && !write && !event;
}

static void check_time(const struct server_connections *connections,
                       struct server_connection *connection, double now)
{
    double limit = connections->request_seconds;
    if (connection->busy || connection->since <= 0 || limit <= 0 || now - connection->since < limit)
        return;
    int descriptor = bufferevent_getfd(connection->buffer);
    if (descriptor >= 0)
        shutdown(descriptor, SHUT_RDWR); /* evhttp sees the end and lets it go */
}

static void check_presence(struct server_connection *connection)
{
    struct pollfd look = {.fd = bufferevent_getfd(connection->buffer), .events = POLLRDHUP};
    if (!connection->busy || !connection->gone || look.fd < 0 || poll(&look, 1, 0) < 1)
        return;
    void (*gone)(void *) = connection->gone;
    connection->gone = NULL;
    gone(connection->context);
}

void server_connection_hold(struct server_connection *connection, size_t bytes)
{
    connection->held += bytes;
    connection->all->held += bytes;
}

void server_connection_let_go(struct server_connection *connection)
{
    connection->all->held -= connection->held;
    connection->all->released += connection->held;
    connection->held = 0;
}

void server_connection_answered(struct server_connection *connection)
{
    server_connection_let_go(connection);
    connection->busy = false;
    connection->since = 0;
    size_t more = evbuffer_get_length(bufferevent_get_input(connection->buffer));
    if (connection->arrival == ARRIVING_IN_VAIN)
        return;
    connection->arrival = ARRIVING_HEAD;
    if (more) { /* the next one came with it */
        connection->since = clock_seconds();
        server_connection_received(connection, more);
    }
}

/* Whether it is to be kept a little longer though evhttp has let it go. */
static bool lingers(struct server_connection *connection, double now)
{
    struct pollfd look = {.fd = bufferevent_getfd(connection->buffer), .events = POLLRDHUP};
    if (connection->arrival != ARRIVING_IN_VAIN || look.fd < 0 || poll(&look, 1, 0) > 0)
        return false;
    if (connection->lingering <= 0) {
        connection->lingering = now;
        bufferevent_enable(connection->buffer, EV_READ);
    }
    return now - connection->lingering < LINGER_SECONDS;
}

void server_connections_trim(struct server_connections *connections)
{
    double now = clock_seconds();
    if (connections->released < TRIM_BYTES || now - connections->trimmed < TRIM_EVERY_SECONDS)
        return;
    malloc_trim(0);
    connections->released = 0;
    connections->trimmed = now;
}

static void drop(struct server_connections *connections, struct server_connection *connection)
{
    server_connection_let_go(connection);
    strbuf_release(&connection->head);
    evbuffer_remove_cb(bufferevent_get_input(connection->buffer), on_bytes, connection);
    bufferevent_decref(connection->buffer);
    memory_free(connection);
    connections->count--;
}

void server_connections_sweep(struct server_connections *connections)
{
    double now = clock_seconds();
    for (int i = 0; i < CONNECTION_BUCKETS; i++)
        for (struct server_connection **at = &connections->buckets[i]; *at;) {
            struct server_connection *connection = *at;
            if (is_closed(connection) && !lingers(connection, now)) {
                *at = connection->next;
                drop(connections, connection);
                continue;
            }
            if (connection->lingering > 0) {
                at = &connection->next;
                continue;
            }
            check_time(connections, connection, now);
            check_presence(connection);
            at = &connection->next;
        }
}

void server_connections_release(struct server_connections *connections)
{
    for (int i = 0; i < CONNECTION_BUCKETS; i++)
        for (struct server_connection *next, *connection = connections->buckets[i]; connection;
             connection = next) {
            next = connection->next;
            drop(connections, connection);
        }
}
