/* What arrives on a connection, before evhttp gets it. The head of a request is kept back until it is
 * whole and was judged. Where it is refused, evhttp gets a request without a body in its place, which
 * on_request answers with the refusal: so whatever is refused is answered in one way, and nothing of
 * its body is kept. */
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <sys/socket.h>

#include "net/server_connections.h"
#include "net/server_head.h"

static void drain(struct evbuffer *input)
{
    evbuffer_drain(input, evbuffer_get_length(input));
}

static void refuse(struct server_connection *connection, struct server_refusal refusal, bool silent)
{
    struct evbuffer *input = bufferevent_get_input(connection->buffer);
    connection->stand_in = silent ? "HEAD / HTTP/1.1\r\nConnection: close\r\n\r\n"
                                  : "GET / HTTP/1.1\r\nConnection: close\r\n\r\n";
    connection->refusal = refusal;
    connection->arrival = ARRIVING_IN_VAIN;
    strbuf_release(&connection->head);
    drain(input);
    evbuffer_prepend(input, connection->stand_in, strlen(connection->stand_in));
}

/* True when evhttp may have it. */
static bool judge(struct server_connection *connection, const char *head, size_t bytes)
{
    const struct server_connections *all = connection->all;
    struct server_refusal refusal = {431, "the headers are longer than this server takes"};
    if (bytes <= all->header_limit)
        refusal = all->judge(all->context, head, bytes);
    if (refusal.status)
        refuse(connection, refusal, strncmp(head, "HEAD ", strlen("HEAD ")) == 0);
    else
        connection->arrival = ARRIVING_BODY;
    return !refusal.status;
}

/* Most heads come in one piece. */
static bool read_whole_head(struct server_connection *connection, struct evbuffer *input)
{
    size_t most = connection->all->header_limit + 1, bytes = evbuffer_get_length(input);
    if (bytes > most)
        bytes = most;
    const char *text = (const char *)evbuffer_pullup(input, (ev_ssize_t)bytes);
    size_t length = text ? server_head_length(text, bytes, 0) : 0;
    if (length)
        judge(connection, text, length);
    return length > 0;
}

static void read_piece_of_head(struct server_connection *connection, struct evbuffer *input)
{
    struct strbuf *head = &connection->head;
    size_t seen = head->length, bytes = evbuffer_get_length(input);
    strbuf_add_bytes(head, evbuffer_pullup(input, -1), bytes);
    drain(input);
    if (head->failed) {
        refuse(connection, (struct server_refusal){503, "no memory"}, false);
        return;
    }
    size_t length = server_head_length(head->text, head->length, seen);
    if (!length && head->length <= connection->all->header_limit)
        return;
    if (judge(connection, head->text, length ? length : head->length)) {
        evbuffer_prepend(input, head->text, head->length);
        strbuf_release(head);
    }
}

/* evhttp is in the middle of the body: there is no way left to answer. */
static void cut(struct server_connection *connection, struct evbuffer *input)
{
    connection->arrival = ARRIVING_IN_VAIN;
    drain(input);
    shutdown(bufferevent_getfd(connection->buffer), SHUT_RDWR);
}

/* More of what was refused; evhttp may not have come to what stands in its place. */
static void throw_away(const struct server_connection *connection, struct evbuffer *input)
{
    drain(input);
    if (connection->stand_in)
        evbuffer_prepend(input, connection->stand_in, strlen(connection->stand_in));
}

void server_connection_received(struct server_connection *connection, size_t bytes)
{
    const struct server_connections *all = connection->all;
    struct evbuffer *input = bufferevent_get_input(connection->buffer);
    connection->editing = true;
    server_connection_hold(connection, bytes);
    switch (connection->arrival) {
    case ARRIVING_HEAD:
        if (connection->head.length || !read_whole_head(connection, input))
            read_piece_of_head(connection, input);
        break;
    case ARRIVING_BODY:
        if (all->most_held && all->held > all->most_held)
            cut(connection, input);
        break;
    case ARRIVING_IN_VAIN:
        throw_away(connection, input);
    }
    if (connection->arrival == ARRIVING_IN_VAIN)
        server_connection_let_go(connection);
    connection->editing = false;
}
