/* The other end of the gRPC door: unary calls, one or several at a time over one connection. */
#ifndef SERVE_GRPC_CLIENT_H
#define SERVE_GRPC_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"
#include "serve/status.h"

struct error;
struct grpc_client;

struct grpc_client_settings {
    const char *server;            /* "host:port"; also "unix:PATH" */
    bool tls;                      /* the server has a certificate */
    const char *ca;                /* PEM text of who signed it; NULL: the system's */
    const char *certificate, *key; /* PEM texts, for a server that wants to know us; NULL: none */
    const char *server_name;       /* that the certificate has, when it is not the address's */
    const char *token;             /* bearer token; NULL: none */
};

struct grpc_reply {
    enum serve_status status;
    char message[1024]; /* why, unless SERVE_OK */
    double ended;       /* clock_seconds() when it was there */
    struct strbuf body;
};
void grpc_reply_init(struct grpc_reply *reply);
void grpc_reply_release(struct grpc_reply *reply);

/* Does not connect yet. Each client has a connection of its own. Copies what it keeps. */
int grpc_client_create(const struct grpc_client_settings *settings, struct grpc_client **out,
                       struct error *err);
void grpc_client_destroy(struct grpc_client *client); /* accepts NULL */

/* Sends one message to "/package.Service/Method" and waits for the reply, which may be used again
 * and again. `seconds` until the deadline; 0: none. `patient`: waits for a server that does not
 * answer yet, until the deadline. What the server or the network refuses is in the reply's status;
 * fails only when memory is short. For one thread at a time. */
int grpc_client_call(struct grpc_client *client, const char *method, const void *message,
                     size_t bytes, double seconds, bool patient, struct grpc_reply *reply,
                     struct error *err);

/* The same in two halves, for several calls at a time: the reply is the client's until
 * grpc_client_next gives it back. All that were begun must have ended before anything else. */
int grpc_client_begin(struct grpc_client *client, const char *method, const void *message,
                      size_t bytes, double seconds, bool patient, struct grpc_reply *reply,
                      struct error *err);
/* Waits so long for the next to end; 0: only looks, less: as long as it takes. NULL: none has. */
struct grpc_reply *grpc_client_next(struct grpc_client *client, double seconds);

#endif
