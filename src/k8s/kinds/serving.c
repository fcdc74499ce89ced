/* Servers for an exported model, as production wants them. */
#include "k8s/serving.h"
#include "base/error.h"
#include "k8s/deployment.h"
#include "k8s/kind.h"
#include "k8s/network.h"

static int check(const struct deployment *deployment, struct error *err)
{
    int64_t replicas = deployment_integer(deployment, P_REPLICAS);
    if (deployment_integer(deployment, P_MAX_REPLICAS) < replicas)
        return error_set(err, ERROR_USAGE, "MAX_REPLICAS=%s: is less than REPLICAS=%s",
                         deployment_text(deployment, P_MAX_REPLICAS),
                         deployment_text(deployment, P_REPLICAS));
    if (deployment_integer(deployment, P_MIN_AVAILABLE) >= replicas && replicas > 1)
        return error_set(
            err, ERROR_USAGE, "MIN_AVAILABLE=%s of REPLICAS=%s: no node could ever be drained",
            deployment_text(deployment, P_MIN_AVAILABLE), deployment_text(deployment, P_REPLICAS));
    if (deployment_integer(deployment, P_CPU_TARGET) > 100)
        return error_set(err, ERROR_USAGE, "CPU_TARGET=%s: is more than 100 percent",
                         deployment_text(deployment, P_CPU_TARGET));
    if (deployment_text(deployment, P_MODEL_DIR)[0] == '/')
        return error_set(err, ERROR_USAGE,
                         "MODEL_DIR=%s: must be a path on the claim, without / "
                         "in front",
                         deployment_text(deployment, P_MODEL_DIR));
    int64_t port = deployment_integer(deployment, P_TF_SERVING_PORT);
    if (port == 0 || port == 8080)
        return error_set(err, ERROR_USAGE, "TF_SERVING_PORT=%lld: %s", (long long)port,
                         port ? "is REST's already; take another" : "is no port: 1 to 65535");
    return 0;
}

static void scaler(struct manifest *out)
{
    struct node *spec = node_map(
        manifest_object(out, "autoscaling/v2", "HorizontalPodAutoscaler", "${SELF}"), "spec");
    struct node *target = node_map(spec, "scaleTargetRef");
    node_text(target, "apiVersion", "apps/v1");
    node_text(target, "kind", "Deployment");
    node_pattern(target, "name", "${SELF}");
    node_number(spec, "minReplicas", P_REPLICAS);
    node_number(spec, "maxReplicas", P_MAX_REPLICAS);
    struct node *metric = node_map(node_list(spec, "metrics"), NULL);
    node_text(metric, "type", "Resource");
    struct node *resource = node_map(metric, "resource");
    node_text(resource, "name", "cpu");
    struct node *goal = node_map(resource, "target");
    node_text(goal, "type", "Utilization");
    node_number(goal, "averageUtilization", P_CPU_TARGET);
}

static void budget(struct manifest *out, const struct deployment *deployment)
{
    /* A budget of the only replica would keep its node from ever being drained. */
    if (deployment_integer(deployment, P_REPLICAS) == 1)
        return;
    struct node *spec =
        node_map(manifest_object(out, "policy/v1", "PodDisruptionBudget", "${SELF}"), "spec");
    node_number(spec, "minAvailable", P_MIN_AVAILABLE);
    pod_selector(node_map(node_map(spec, "selector"), "matchLabels"), "serving");
}

/* Anyone may ask on the two ports; nothing else is reachable. */
static void policy(struct manifest *out)
{
    static const int ports[] = {SERVING_GRPC_PORT, SERVING_REST_PORT};
    struct node *spec =
        node_map(manifest_object(out, "networking.k8s.io/v1", "NetworkPolicy", "${SELF}"), "spec");
    pod_selector(node_map(node_map(spec, "podSelector"), "matchLabels"), "serving");
    node_text(node_list(spec, "policyTypes"), NULL, "Ingress");
    struct node *list = node_list(node_map(node_list(spec, "ingress"), NULL), "ports");
    for (int i = 0; i < 2; i++) {
        struct node *entry = node_map(list, NULL);
        node_text(entry, "protocol", "TCP");
        node_integer(entry, "port", ports[i]);
    }
}

static void render(const struct deployment *deployment, struct manifest *out)
{
    serving_deployment(out, deployment,
                       &(struct serving){.name = "${SELF}",
                                         .claim = "${PVC_NAME}",
                                         .path = "${MODEL_PATH}",
                                         .directory = "${MODEL_PATH}/${MODEL_DIR}"});
    pod_identity_comment(out, deployment);
    serving_service(out, "${SELF}", deployment_text(deployment, P_SERVICE_TYPE), P_TF_SERVING_PORT);
    scaler(out);
    budget(out, deployment);
    policy(out);
}

static const struct kind_use uses[] = {
    KIND_USE(NAMESPACE),
    KIND_USE(MODEL_NAME, .initial = "model-serving"),
    KIND_USE(PVC_NAME),
    KIND_USE(MODEL_PATH),
    KIND_USE(MODEL_DIR),
    KIND_USE(REPLICAS),
    KIND_USE(MAX_REPLICAS),
    KIND_USE(CPU_TARGET),
    KIND_USE(MIN_AVAILABLE),
    KIND_USE(TF_SERVING_PORT, .initial = "8500"),
    KIND_USE(SERVICE_TYPE),
    KIND_USE(SERVER),
    KIND_USE(IMAGE),
    KIND_USE(SERVING_IMAGE),
    KIND_USE(IMAGE_PULL_SECRET),
    KIND_USES_IDS,
    KIND_USES_SIZE,
    KIND_USE(GRACE_SECONDS, .initial = "30"),
    {.parameter = PARAMETER_COUNT},
};

const struct kind kind_serving = {
    .name = "serving",
    .summary = "servers for an exported model: probes, budget, scaling, network policy",
    .origin = "ours",
    .name_from = P_MODEL_NAME,
    .uses = uses,
    .check = check,
    .render = render,
    .log_target = "deployment/${SELF}",
    .main_object = "deployment/${SELF}",
    .end = KIND_NEVER_ENDS,
    .shows = "deployments.apps,services,horizontalpodautoscalers.autoscaling",
};
