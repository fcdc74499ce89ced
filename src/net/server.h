/* An HTTP/1.1 server on a thread of its own: routes to handlers, limits on every size, and streams
 * of server-sent events to as many as want them. Nobody outside waits for it, and it waits for no
 * client: who reads too slowly is let go.
 *
 * Handlers, timers and posted functions run on the server's thread, one at a time, so what only
 * they touch needs no lock. */
#ifndef NET_SERVER_H
#define NET_SERVER_H

#include <stdbool.h>
#include <stddef.h>

#include "net/address.h"

struct error;
struct server;
struct server_request;
struct server_stream;
struct tls_settings;

/* Who may come in, and with how much, is decided when the head of a request is there: of a body that
 * is refused nothing is kept, and its connection is closed behind the answer.
 * Connections that nobody admitted hold descriptors, too: from half of those the process may have on,
 * no more are taken until some are gone, so that whoever else needs one finds it. */
struct server_settings {
    struct address address;
    size_t header_limit, body_limit; /* 0: 16 KiB, 64 KiB */
    /* Bytes of requests and replies that all connections may hold together; 0: no limit. Beyond it
     * new requests are refused, and bodies that go on growing are cut. */
    size_t held_limit;
    double idle_seconds; /* a connection that says nothing for so long is closed; 0: 60 */
    int niceness;        /* of the thread: 0 as the caller's, 10 after it and its like */
    /* Who comes in must know it, as ?token=, as a cookie or as "Authorization: Bearer"; NULL: all
     * may. On a loopback address the Host header must name the loopback, too. */
    const char *token;
    const char *open_path; /* needs no token all the same; NULL: none. Borrowed */
    /* The same for many tokens and paths: whether one may come in with `given` (which may be NULL),
     * and whether `path` needs none. NULL: as above. Any token, on the server's thread. */
    bool (*admits)(void *context, const char *given);
    bool (*is_open)(const char *path);
    void (*refused)(void *context); /* somebody was turned away; may be NULL */
    void *admit_context;
    const struct tls_settings *tls; /* NULL: none. Read during server_create */
    int connections;                /* at the same time; 0: as many as descriptors allow */
    double request_seconds; /* from a request's first byte to its last, the handshake included; 0:
                             * as long as bytes come */
    bool cors; /* pages from elsewhere may ask: preflights need no token, refusals can be read */
    bool json_errors; /* what the server itself refuses is told as {"error": "..."} */
};

/* Binds, so that the port is known and a used one is found out; serves nothing yet. */
int server_create(const struct server_settings *settings, struct server **out, struct error *err);
/* Before server_start. Methods other than GET (and HEAD, which comes with it), POST and OPTIONS are
 * refused. A path that ends in * is for all that begin so; the longest that fits is taken. */
typedef void server_handler(void *context, struct server_request *request);
int server_route(struct server *server, const char *method, const char *path,
                 server_handler *handler, void *context, struct error *err);
/* Before server_start: calls `function` again and again. */
typedef void server_function(void *context);
int server_every(struct server *server, double seconds, server_function *function, void *context,
                 struct error *err);
int server_start(struct server *server, struct error *err);
/* Ends streams and connections, after giving what was written to them up to half a second to
 * leave. Accepts NULL and one that was not started. */
void server_destroy(struct server *server);

/* From any thread: no new connections from now on; each open one is closed behind its next reply. */
void server_stop_listening(struct server *server);

int server_port(const struct server *server);
/* "http://127.0.0.1:8080/" (https with TLS), with the token if there is one; in the caller's buffer. */
const char *server_url(const struct server *server, char *text, size_t bytes);

/* From any thread: runs `function` on the server's thread soon. Functions that are still waiting
 * when the server is destroyed are run before it ends. Fails when memory is short. */
int server_post(struct server *server, server_function *function, void *context, struct error *err);

/* ---- requests: on the server's thread only -------------------------------------------------- */

const char *server_request_path(const struct server_request *request);
const char *server_request_method(const struct server_request *request); /* "GET", "POST", ... */
const char *server_request_peer(const struct server_request *request);   /* its address, or "" */
/* Calls `gone` once, on the server's thread, when the client leaves before the reply; noticed about
 * four times a second. */
void server_request_watch(struct server_request *request, server_function *gone, void *context);
const char *server_request_header(const struct server_request *request, const char *name);
/* The body as it came; NULL when there is none. */
const void *server_request_body(const struct server_request *request, size_t *bytes);

/* Every request gets exactly one reply, at once or from a posted function later; it is gone then.
 * Replying to a client that has left is fine. Bytes are copied. */
void server_reply_header(struct server_request *request, const char *name, const char *value);
void server_reply(struct server_request *request, int status, const char *content_type,
                  const void *body, size_t bytes);

/* ---- server-sent events --------------------------------------------------------------------- */

enum { SERVER_STREAM_CLIENTS = 64, SERVER_STREAM_BACKLOG = 1 << 20 };

/* A channel that requests can join; the server owns it. Before server_start. */
int server_stream_create(struct server *server, struct server_stream **out, struct error *err);
/* The request's reply becomes the stream, or 503 when it has too many listeners. */
void server_stream_join(struct server_stream *stream, struct server_request *request);
/* To all who listen. Who has more than SERVER_STREAM_BACKLOG bytes waiting is let go. `data` may
 * have no newline. */
void server_stream_send(struct server_stream *stream, const char *event, const char *data);
int server_stream_listeners(const struct server_stream *stream);

#endif
