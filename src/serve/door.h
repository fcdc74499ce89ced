/* What a way into the server is told when it opens. The REST door is rest.h's; the gRPC door gives
 *
 *     int  grpc_door_start(struct serve_core *core, const struct door_options *options,
 *                          struct grpc_door **out, struct error *err);
 *     int  grpc_door_port(const struct grpc_door *door);
 *     void grpc_door_close(struct grpc_door *door);
 *     int  grpc_door_drain(struct grpc_door *door, double seconds);
 *     void grpc_door_stop(struct grpc_door *door);    (accepts NULL)
 *
 * where close takes no new calls, and drain lets those in flight end within `seconds` and cancels the
 * rest. */
#ifndef SERVE_DOOR_H
#define SERVE_DOOR_H

#include <stdbool.h>
#include <stddef.h>

#include "net/address.h"
#include "serve/stats.h"

enum { DOOR_MOST_THREADS = 64 };

/* PEM texts; all NULL: no TLS. */
struct door_tls {
    const char *certificate, *key;
    const char *client_ca; /* who signed the clients' certificates; NULL: they need none */
};

struct door_options {
    struct address address;
    const char *socket_path; /* a UNIX socket beside it (gRPC only); NULL: none */
    struct door_tls tls;
    size_t message_limit;          /* bytes of one request */
    int connections;               /* at the same time; 0: as many as descriptors allow */
    int threads;                   /* at most DOOR_MOST_THREADS; 0: the door's own choice */
    double idle_seconds;           /* a connection that says nothing for so long is closed */
    double request_seconds;        /* from a request's first byte to its last */
    double answer_seconds;         /* a deadline for requests that bring none; 0: none */
    const char *metrics_path;      /* REST; NULL: no metrics */
    bool cors;                     /* REST: pages from elsewhere may ask */
    bool status_page;              /* REST: "/" shows models and rates */
    const char *channel_arguments; /* gRPC: "name=value,..."; NULL: none */
    bool tensor_content;           /* gRPC: replies carry tensor_content instead of *_val */
    /* Called for each answered request where an access log is wanted, else NULL; any thread. */
    void (*log)(void *context, const char *peer, const char *what, enum serve_status status,
                size_t request_bytes, size_t reply_bytes, double seconds);
    void *log_context;
};

/* Bytes of requests and answers that one connection may have under way, and all of a door together.
 * 0: no limit, as `message_limit` is. */
size_t door_most_held_by_one(size_t message_limit);
size_t door_most_held(size_t message_limit);

#endif
