/* The server's open connections: how many there may be, how long a request may take to arrive, and
 * whether who waits for an answer is still there. evhttp knows no limit on the whole time of a
 * request, and stops looking at a connection while its answer is being made. */
#ifndef NET_SERVER_CONNECTIONS_H
#define NET_SERVER_CONNECTIONS_H

#include <stdbool.h>

struct bufferevent;

enum { CONNECTION_BUCKETS = 1024 };

struct server_connection {
    struct server_connection *next;
    struct bufferevent *buffer;  /* held, so that it can be looked at after evhttp let it go */
    double since;                /* when the request began to arrive; 0: between two */
    bool busy;                   /* its request is being answered */
    void (*gone)(void *context); /* called once when the client leaves meanwhile; or NULL */
    void *context;
};

/* All zero is none. For the server's thread. */
struct server_connections {
    struct server_connection *buckets[CONNECTION_BUCKETS];
    int count;
    double request_seconds; /* 0: no limit */
};

/* From the moment it is accepted. False when memory is short. */
bool server_connections_add(struct server_connections *connections, struct bufferevent *buffer);
struct server_connection *server_connections_find(struct server_connections *connections,
                                                  const struct bufferevent *buffer);
/* Forgets those that evhttp closed, closes those whose request takes too long, and tells of clients
 * that left. */
void server_connections_sweep(struct server_connections *connections);
void server_connections_release(struct server_connections *connections);

#endif
