/* Every method that the door answers. */
#include <string.h>

#include "serve/grpc_internal.h"

#define PREDICTION "/tensorflow.serving.PredictionService/"
#define MODEL "/tensorflow.serving.ModelService/"
#define INFERENCE "/inference.GRPCInferenceService/"

static const struct door_method methods[] = {
    {PREDICTION "Predict", .counted = true, .api = API_PREDICT, .handle = predict_handle,
     .finish = predict_finish},
    {PREDICTION "Classify", .counted = true, .api = API_CLASSIFY, .handle = classify_handle,
     .finish = classify_finish},
    {PREDICTION "Regress", .counted = true, .api = API_REGRESS, .handle = regress_handle,
     .finish = regress_finish},
    {PREDICTION "MultiInference", .counted = true, .api = API_MULTI_INFERENCE,
     .handle = multi_handle, .finish = multi_finish},
    {PREDICTION "GetModelMetadata", .counted = true, .api = API_METADATA,
     .handle = metadata_handle},
    {MODEL "GetModelStatus", .counted = true, .api = API_STATUS, .handle = status_handle},
    {MODEL "HandleReloadConfigRequest", .handle = reload_handle},
    {INFERENCE "ModelInfer", .counted = true, .api = API_INFER, .handle = infer_handle,
     .finish = infer_finish},
    {INFERENCE "ServerLive", .open = true, .handle = infer_live_handle},
    {INFERENCE "ServerReady", .open = true, .handle = infer_ready_handle},
    {INFERENCE "ModelReady", .handle = infer_model_ready_handle},
    {INFERENCE "ServerMetadata", .handle = infer_server_handle},
    {INFERENCE "ModelMetadata", .counted = true, .api = API_METADATA, .handle = infer_model_handle},
    /* Whoever watches over the process seldom has a token. */
    {"/grpc.health.v1.Health/Check", .open = true, .handle = health_check_handle},
    {"/grpc.health.v1.Health/Watch", .open = true, .stream = true, .handle = health_watch_handle,
     .tick = health_watch_tick},
    {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", .stream = true,
     .handle = reflection_handle},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", .stream = true,
     .handle = reflection_handle},
};

const struct door_method *method_find(const char *path)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(methods[i].path, path) == 0)
            return &methods[i];
    return NULL;
}
