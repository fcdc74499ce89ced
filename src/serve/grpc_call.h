/* The life of a call, for the threads that turn the completion queues. */
#ifndef SERVE_GRPC_CALL_H
#define SERVE_GRPC_CALL_H

#include "serve/grpc_internal.h"

/* Asks gRPC for the next call of a method (NULL: of one that nobody knows) at this thread. False
 * when memory is short or the server is ending. */
bool call_request(struct door_thread *thread, int method);
/* What one batch's end means. */
void call_event(struct door_tag *tag, bool success);
/* Lets the thread's open streams look again, or ends them with the server. */
void call_tick(struct door_thread *thread);
void call_destroy(struct door_call *call); /* one that no queue knows any more; accepts NULL */

#endif
