/* The life of a call on its thread, as its connection tells it; the handlers' side is in
 * grpc_internal.h. */
#ifndef SERVE_GRPC_CALL_H
#define SERVE_GRPC_CALL_H

#include "serve/grpc_internal.h"

/* A stream begins; NULL when memory is short. */
struct door_call *call_begin(struct door_connection *connection, struct door_thread *thread,
                             int32_t stream);
void call_headers_end(struct door_call *call); /* all of them are in `incoming` */
void call_take(struct door_call *call, const unsigned char *bytes, size_t count);
void call_said_all(struct door_call *call);
/* The stream is over: nothing that is still to be said can be. The call is not the caller's any more. */
void call_detach(struct door_call *call);
/* Lets an open stream look again, and ends what takes too long. */
void call_tick(struct door_call *call, double now);

/* Unpacks and handles the next message that came packed; false: there is none. */
bool call_unpack_next(struct door_thread *thread);
/* Those that other threads answered meanwhile. */
void call_settle_answered(struct door_thread *thread);
void call_destroy_spare(struct door_thread *thread);
/* Whose calls this thread may settle itself; each thread of the door says it of itself. */
void call_set_thread(struct door_thread *thread);

#endif
