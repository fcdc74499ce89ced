/* Pods that serve an exported model, by our program or by TensorFlow Serving. */
#ifndef K8S_SERVING_H
#define K8S_SERVING_H

#include "k8s/pods.h"

enum { SERVING_GRPC_PORT = 8500, SERVING_REST_PORT = 8501 };

/* Patterns. */
struct serving {
    const char *name;         /* of the Deployment */
    const char *claim, *path; /* the claim with the model, and where it is mounted */
    const char *directory;    /* of the model's versions */
};

/* A Deployment of REPLICAS pods with probes, rolled out one by one without a gap. */
void serving_deployment(struct manifest *manifest, const struct deployment *deployment,
                        const struct serving *serving);
/* A Service for them: `port` leads to gRPC, as the documents have it. */
struct node *serving_service(struct manifest *manifest, const char *name, const char *type,
                             enum parameter port);

#endif
