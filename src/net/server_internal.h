/* What the server's files share. */
#ifndef NET_SERVER_INTERNAL_H
#define NET_SERVER_INTERNAL_H

#include <event2/event.h>
#include <event2/http.h>

#include "net/server.h"
#include "net/server_connections.h"
#include "net/token.h"

struct server_request {
    struct server *server;
    struct evhttp_request *inner;
};

struct server_stream {
    struct server *server;
    struct server_stream *next; /* of the server */
    struct listener *listeners;
    int count;
    double idle_seconds;
};

struct server_gate {
    bool local_only;               /* the Host header must name the loopback */
    char token[TOKEN_LETTERS + 1]; /* "": none needed */
    char cookie[32];               /* its name; ports share cookies, so it has ours in it */
    const char *open_path;         /* or NULL */
    bool (*admits)(void *context, const char *given); /* instead of the token; or NULL */
    bool (*is_open)(const char *path);
    void (*refused)(void *context);
    void *context;
    bool json_errors;
    bool cors; /* pages from elsewhere may ask: their preflights need no token */
};

/* May come in; may come in like everybody, to little; or may not. */
enum server_entry { ENTRY_ADMITTED, ENTRY_OPEN, ENTRY_REFUSED };
/* Asked of a head; *refusal is set when it is ENTRY_REFUSED. */
enum server_entry server_judge(const struct server_gate *gate, enum evhttp_cmd_type method,
                               const struct evhttp_uri *uri, const struct evkeyvalq *headers,
                               struct server_refusal *refusal);
void server_refuse(const struct server_gate *gate, struct evhttp_request *inner,
                   const struct server_refusal *refusal);
/* Replies to who may not; true when the request may go on. */
bool server_admit(const struct server_gate *gate, struct evhttp_request *inner);
/* One line of plain text, or the same as JSON, as the reply. */
void server_send_text(const struct server_gate *gate, struct evhttp_request *inner, int status,
                      const char *text);
/* Headers every reply has. */
void server_add_common_headers(struct evhttp_request *inner);
/* Called at the end of the server: listeners get the end of their stream, or (at_once) none. */
void server_stream_end(struct server_stream *stream, bool at_once);

#endif
