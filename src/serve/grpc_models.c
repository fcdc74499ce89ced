/* PredictionService/GetModelMetadata and ModelService: questions about models. */
#include "base/error.h"
#include "base/log.h"
#include "serve/grpc_internal.h"
#include "serve/model_message.h"

void metadata_handle(struct door_call *call)
{
    struct grpc_backend *backend = &call->thread->door->backend;
    struct metadata_request request;
    struct error err = {0};
    if (metadata_request_read(call->message, call->bytes, call->arena, &request, &err) < 0) {
        door_refuse(call, &err);
        return;
    }
    if (!request.spec.present) {
        door_answer(call, SERVE_INVALID, "Missing ModelSpec");
        return;
    }
    call->model = request.spec.name;
    if (request.field_count == 0) {
        door_answer(call, SERVE_INVALID,
                    "GetModelMetadataRequest must specify at least one metadata_field");
        return;
    }
    if (request.unknown) {
        error_set(&err, ERROR_FORMAT, "Metadata field %.200s is not supported", request.unknown);
        door_answer(call, SERVE_INVALID, err.message);
        return;
    }
    if (!door_hold(call, &request.spec))
        return;
    metadata_reply_write(request.spec.name, call->version, backend->model(call->servable),
                         &call->reply);
    door_answer(call, SERVE_OK, "");
}

void status_handle(struct door_call *call)
{
    struct grpc_backend *backend = &call->thread->door->backend;
    struct model_spec spec;
    struct model_status found;
    struct error err = {0};
    if (status_request_read(call->message, call->bytes, call->arena, &spec, &err) < 0) {
        door_refuse(call, &err);
        return;
    }
    if (!spec.present) {
        door_answer(call, SERVE_INVALID, "Missing ModelSpec");
        return;
    }
    call->model = spec.name;
    struct serve_target target;
    if (!door_target(call, &spec, &target))
        return;
    enum serve_status status =
        backend->status(backend->context, &target, call->arena, &found, &err);
    if (status == SERVE_OK)
        status_reply_write(&found, &call->reply);
    door_answer(call, status, err.message);
}

/* The new models are loaded beside the old ones, so the answer does not wait for them. */
void reload_handle(struct door_call *call)
{
    struct grpc_backend *backend = &call->thread->door->backend;
    struct reload_request request;
    struct model_list models;
    struct error err = {0};
    if (reload_request_read(call->message, call->bytes, call->arena, &request, &models, &err) < 0) {
        door_refuse(call, &err);
        return;
    }
    if (!request.has_list) {
        door_answer(call, SERVE_INVALID,
                    "ServerModelConfig type not supported by HandleReloadConfigRequest. Only "
                    "ModelConfigList is currently supported");
        return;
    }
    if (config_check_models(&models, &err) < 0 ||
        backend->configure(backend->context, &models, &err) < 0) {
        log_line(LOG_WARNING, "gRPC: a new configuration was refused: %s", err.message);
        door_refuse(call, &err);
        return;
    }
    log_line(LOG_INFO, "gRPC: a new configuration with %d models", models.count);
    reload_reply_write(&request, SERVE_OK, "", &call->reply);
    door_answer(call, SERVE_OK, "");
}
