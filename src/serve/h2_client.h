/* Unary gRPC calls, several at a time over one connection in the clear, by nghttp2: for who makes a
 * load on the server's own machine, where gRPC's library takes as much of the cores for a call as the
 * server does, and ends its waiting up to a millisecond late. For everything else there is
 * grpc_client.h. */
#ifndef SERVE_H2_CLIENT_H
#define SERVE_H2_CLIENT_H

#include "serve/grpc_client.h"

struct h2_client;

/* At most `streams` calls at a time. Does not connect yet. `server` is "host:port"; `token` NULL:
 * none. Copies what it keeps. */
int h2_client_create(const char *server, const char *token, int streams, struct h2_client **out,
                     struct error *err);
void h2_client_destroy(struct h2_client *client); /* accepts NULL */

/* As grpc_client_begin and grpc_client_next, but what is begun may leave only with the next call of
 * h2_client_next. */
int h2_client_begin(struct h2_client *client, const char *method, const void *message, size_t bytes,
                    double seconds, bool patient, struct grpc_reply *reply, struct error *err);
struct grpc_reply *h2_client_next(struct h2_client *client, double seconds);

#endif
