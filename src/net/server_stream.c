#include <event2/buffer.h>
#include <event2/bufferevent.h>

#include "base/error.h"
#include "base/memory.h"
#include "net/server_internal.h"

/* One request whose reply goes on and on. */
struct listener {
    struct server_stream *stream;
    struct listener *before, *next;
    struct evhttp_connection *connection;
    struct evhttp_request *request; /* NULL once it is ended: evhttp's from then on */
};

enum { LISTENER_INPUT_LIMIT = 1024 }; /* it has nothing more to say; what it sends stays outside */

static void unlink_listener(struct listener *listener)
{
    struct server_stream *stream = listener->stream;
    if (listener->before)
        listener->before->next = listener->next;
    else
        stream->listeners = listener->next;
    if (listener->next)
        listener->next->before = listener->before;
    stream->count--;
    memory_free(listener);
}

/* The connection is going. When the client closed it, evhttp has taken the request out and it is
 * ours to end; when we did, it goes with the connection. */
static void on_close(struct evhttp_connection *connection, void *context)
{
    struct listener *listener = context;
    (void)connection;
    if (listener->request && !evhttp_request_get_connection(listener->request))
        evhttp_send_reply_end(listener->request);
    unlink_listener(listener);
}

static void drop(struct listener *listener)
{
    evhttp_connection_free(listener->connection); /* calls on_close */
}

/* The client only listens from here on: its silence is no reason to close, its chatter is not
 * read, and one that takes nothing for long is given up. */
static void tune_connection(const struct server_stream *stream, struct listener *listener)
{
    struct bufferevent *bufferevent = evhttp_connection_get_bufferevent(listener->connection);
    struct timeval patience = {.tv_sec = (time_t)stream->idle_seconds + 1};
    bufferevent_set_timeouts(bufferevent, NULL, &patience);
    bufferevent_setwatermark(bufferevent, EV_READ, 0, LISTENER_INPUT_LIMIT);
    evhttp_connection_set_closecb(listener->connection, on_close, listener);
}

static void send_text(struct listener *listener, struct evbuffer *text)
{
    struct bufferevent *bufferevent = evhttp_connection_get_bufferevent(listener->connection);
    if (evbuffer_get_length(bufferevent_get_output(bufferevent)) > SERVER_STREAM_BACKLOG)
        drop(listener);
    else
        evhttp_send_reply_chunk(listener->request, text);
}

void server_stream_join(struct server_stream *stream, struct server_request *request)
{
    struct listener *listener = NULL;
    if (stream->count < SERVER_STREAM_CLIENTS && evhttp_request_get_connection(request->inner))
        listener = memory_allocate(sizeof *listener);
    if (!listener) {
        static const char full[] = "too many pages are open already\n";
        server_reply(request, 503, "text/plain; charset=utf-8", full, sizeof full - 1);
        return;
    }
    *listener = (struct listener){.stream = stream,
                                  .next = stream->listeners,
                                  .connection = evhttp_request_get_connection(request->inner),
                                  .request = request->inner};
    if (stream->listeners)
        stream->listeners->before = listener;
    stream->listeners = listener;
    stream->count++;
    struct evkeyvalq *headers = evhttp_request_get_output_headers(listener->request);
    server_add_common_headers(listener->request);
    evhttp_add_header(headers, "Content-Type", "text/event-stream");
    evhttp_add_header(headers, "Connection", "close"); /* when the stream ends, not before */
    tune_connection(stream, listener);
    evhttp_send_reply_start(listener->request, 200, "OK");
    memory_free(request);
}

void server_stream_send(struct server_stream *stream, const char *event, const char *data)
{
    struct evbuffer *text = evbuffer_new();
    for (struct listener *next, *listener = stream->listeners; text && listener; listener = next) {
        next = listener->next;
        if (!listener->request)
            continue;
        evbuffer_add_printf(text, "event: %s\ndata: ", event);
        evbuffer_add(text, data, strcspn(data, "\n"));
        evbuffer_add(text, "\n\n", 2);
        send_text(listener, text);
        evbuffer_drain(text, evbuffer_get_length(text));
    }
    if (text)
        evbuffer_free(text);
}

int server_stream_listeners(const struct server_stream *stream)
{
    return stream->count;
}

void server_stream_end(struct server_stream *stream, bool at_once)
{
    for (struct listener *next, *listener = stream->listeners; listener; listener = next) {
        next = listener->next;
        if (at_once) {
            drop(listener);
        } else { /* what is written still leaves; then evhttp closes, and on_close forgets it */
            struct evhttp_request *request = listener->request;
            listener->request = NULL;
            evhttp_send_reply_end(request);
        }
    }
}
