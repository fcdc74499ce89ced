/* A connection of the gRPC door: HTTP/2 by nghttp2 on a socket, in the clear or by TLS. All of it on
 * its thread. */
#ifndef SERVE_GRPC_CONNECTION_H
#define SERVE_GRPC_CONNECTION_H

#include "serve/grpc_internal.h"

/* What nghttp2 calls, the same for all connections of a door. */
int connection_make_callbacks(struct grpc_door *door, struct error *err);

/* Takes over the socket, also when it fails for want of memory. */
void connection_open(struct door_thread *thread, int socket);
/* At once; calls that the door owes an answer live on without it. */
void connection_close(struct door_connection *connection);
/* Writes what is to be said on all connections of the thread. */
void connection_flush_all(struct door_thread *thread);
/* Looks at all clocks of all connections; ends them when the door does. */
void connection_tick_all(struct door_thread *thread);
void connection_close_all(struct door_thread *thread);

/* ---- for calls ------------------------------------------------------------------------------ */

const char *connection_peer(const struct door_connection *connection);
/* More bytes of messages and answers are held for calls of this connection, or less (negative). */
void connection_hold(struct door_connection *connection, int64_t bytes);
/* Neither this connection nor all together hold more than they may. */
bool connection_may_hold(const struct door_connection *connection);
/* Headers, then whatever `outgoing` has and gets. */
void connection_greet(struct door_call *call);
/* Headers with the call's status, and nothing behind them; `http` 200, or why it is no gRPC. */
void connection_refuse(struct door_call *call, int http);
/* `outgoing` has more, or the call was answered. */
void connection_resume(struct door_call *call);
/* Ends the stream without another word. */
void connection_reset(struct door_call *call, uint32_t code);

#endif
