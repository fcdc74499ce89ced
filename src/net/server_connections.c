#include "net/server_connections.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <poll.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/memory.h"

static size_t bucket_of(const struct bufferevent *buffer)
{
    return ((uintptr_t)buffer >> 6) % CONNECTION_BUCKETS;
}

static void on_bytes(struct evbuffer *input, const struct evbuffer_cb_info *info, void *context)
{
    struct server_connection *connection = context;
    (void)input;
    if (info->n_added && !connection->busy && connection->since <= 0)
        connection->since = clock_seconds();
}

bool server_connections_add(struct server_connections *connections, struct bufferevent *buffer)
{
    struct server_connection *connection = memory_allocate(sizeof *connection);
    if (!connection)
        return false;
    struct server_connection **bucket = &connections->buckets[bucket_of(buffer)];
    *connection =
        (struct server_connection){.next = *bucket, .buffer = buffer, .since = clock_seconds()};
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

static void drop(struct server_connections *connections, struct server_connection *connection)
{
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
            if (is_closed(connection)) {
                *at = connection->next;
                drop(connections, connection);
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
