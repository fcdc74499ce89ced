/* grpc.reflection.v1 and v1alpha: tools ask what there is to be called. */
#include "base/error.h"
#include "serve/grpc_internal.h"
#include "serve/reflection_message.h"

void reflection_handle(struct door_call *call)
{
    struct error err = {0};
    size_t bytes;
    const void *descriptors = services_descriptors(&bytes);
    if (reflection_answer(descriptors, bytes, call->message, call->bytes, &call->reply, &err) < 0)
        door_refuse(call, &err);
    else
        door_write(call);
}
