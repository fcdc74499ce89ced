/* The server's open connections: how many there may be, how long a request may take to arrive, how
 * many bytes all of them may hold, and whether who waits for an answer is still there. evhttp knows no
 * limit on the whole time of a request nor on all requests together, and stops looking at a connection
 * while its answer is being made. */
#ifndef NET_SERVER_CONNECTIONS_H
#define NET_SERVER_CONNECTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

struct bufferevent;
struct server_connections;

enum { CONNECTION_BUCKETS = 1024 };

/* What a request is refused with; the text is a constant. */
struct server_refusal {
    int status; /* 0: it is not */
    const char *text;
};

enum server_arrival {
    ARRIVING_HEAD,   /* evhttp gets it when it is whole and was admitted */
    ARRIVING_BODY,   /* or an answer is being made */
    ARRIVING_IN_VAIN /* the request was refused: what still comes is thrown away */
};

struct server_connection {
    struct server_connection *next;
    struct server_connections *all;
    struct bufferevent *buffer;  /* held, so that it can be looked at after evhttp let it go */
    double since;                /* when the request began to arrive; 0: between two */
    bool busy;                   /* its request is being answered */
    void (*gone)(void *context); /* called once when the client leaves meanwhile; or NULL */
    void *context;
    enum server_arrival arrival;
    struct strbuf head;            /* of a head that is not whole yet; kept from evhttp */
    struct server_refusal refusal; /* what on_request is to say */
    const char *stand_in;          /* what evhttp gets instead of the request; NULL: it has it */
    size_t held;                   /* bytes of its request and of the reply to it */
    bool editing;                  /* its input is being changed by us, not by the client */
    double lingering;              /* since when a refused client's bytes are read all the same */
};

/* All zero is none. For the server's thread. */
struct server_connections {
    struct server_connection *buckets[CONNECTION_BUCKETS];
    int count;
    double request_seconds; /* 0: no limit */
    size_t header_limit;
    size_t held, most_held; /* by all connections; most 0: no limit */
    size_t released;        /* bytes let go since memory was given back */
    double trimmed;         /* when that was */
    /* Looks at the head of a request before more of it is taken. */
    struct server_refusal (*judge)(void *context, const char *head, size_t bytes);
    void *context;
};

/* From the moment it is accepted. False when memory is short. */
bool server_connections_add(struct server_connections *connections, struct bufferevent *buffer);
struct server_connection *server_connections_find(struct server_connections *connections,
                                                  const struct bufferevent *buffer);
/* Forgets those that evhttp closed, closes those whose request takes too long, and tells of clients
 * that left. */
void server_connections_sweep(struct server_connections *connections);
/* The answer has left: what comes now is another request. */
void server_connection_answered(struct server_connection *connection);
/* The connection holds so many bytes more, until it has answered. */
void server_connection_hold(struct server_connection *connection, size_t bytes);
void server_connection_let_go(struct server_connection *connection); /* of all it holds */
/* server_arrival.c: so many bytes came in. */
void server_connection_received(struct server_connection *connection, size_t bytes);
/* Gives memory back to the system when much was let go since it last did. Now and then. */
void server_connections_trim(struct server_connections *connections);
void server_connections_release(struct server_connections *connections);

#endif
