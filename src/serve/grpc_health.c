/* grpc.health.v1: whether the server, or one of its services, can be asked. */
#include "base/error.h"
#include "serve/grpc_internal.h"
#include "serve/model_spec.h"

enum { NOT_TOLD = 0, SERVING = 1, NOT_SERVING = 2, SERVICE_UNKNOWN = 3 };

/* "" is the whole server; TensorFlow Serving also gives its services without their package. */
static bool is_service(const char *name)
{
    static const char *const services[] = {
        "",
        "tensorflow.serving.PredictionService",
        "tensorflow.serving.ModelService",
        "PredictionService",
        "ModelService",
        "inference.GRPCInferenceService",
    };
    for (size_t i = 0; i < sizeof services / sizeof *services; i++)
        if (strcmp(services[i], name) == 0)
            return true;
    return false;
}

static int read_service(struct door_call *call, const char **out, struct error *err)
{
    struct proto_reader reader;
    struct proto_field field;
    int more;
    *out = "";
    proto_open(&reader, call->message, call->bytes);
    while ((more = proto_next(&reader, &field, err)) > 0)
        if (field.number == 1 && field_text(&reader, &field, call->arena, out, err) < 0)
            return -1;
    return more;
}

static int status_now(const struct door_call *call)
{
    const struct grpc_door *door = call->thread->door;
    return door->backend.ready(door->backend.context) ? SERVING : NOT_SERVING;
}

void health_check_handle(struct door_call *call)
{
    struct error err = {0};
    const char *service;
    if (read_service(call, &service, &err) < 0) {
        door_refuse(call, &err);
        return;
    }
    if (!is_service(service)) {
        door_answer(call, SERVE_NOT_FOUND, "unknown service");
        return;
    }
    proto_add_varint(&call->reply, 1, (uint64_t)status_now(call));
    door_answer(call, SERVE_OK, "");
}

static void tell(struct door_call *call, int status)
{
    call->told = status;
    proto_add_varint(&call->reply, 1, (uint64_t)status);
    door_write(call);
}

/* A service that nobody knows is told once and may yet come, as the protocol has it. */
void health_watch_handle(struct door_call *call)
{
    struct error err = {0};
    const char *service;
    if (read_service(call, &service, &err) < 0) {
        door_refuse(call, &err);
        return;
    }
    tell(call, is_service(service) ? status_now(call) : SERVICE_UNKNOWN);
}

void health_watch_tick(struct door_call *call)
{
    int now = status_now(call);
    if (call->told != NOT_TOLD && call->told != SERVICE_UNKNOWN && call->told != now)
        tell(call, now);
}
