#include "k8s/serving.h"

#include "base/arena.h"
#include "base/strbuf.h"
#include "k8s/deployment.h"
#include "k8s/network.h"

/* A pod that is deleted is told to end while nodes and clients still send it requests. So it goes on for a
 * while; and since a gRPC connection stays with the pod it once got, each is renewed before it is that
 * old: by the server's end all have moved to other pods, and no call is under way that it would have to cut
 * off. It also spreads clients over pods that come later. */
static const char *const FAREWELL_SECONDS = "12";
#define CONNECTION_AGE "grpc.max_connection_age_ms=10000" /* and up to a tenth more */

static void add_words(struct node *words, const char *const *list)
{
    for (; *list; list++)
        node_pattern(words, NULL, *list);
}

/* Both are told the model's name; the stock image's own start script would call it "model". */
static void server_words(struct node *words, const struct deployment *deployment,
                         const struct serving *serving)
{
    struct strbuf model;
    strbuf_init(&model);
    if (deployment_is(deployment, P_SERVER, "tensorflow")) {
        strbuf_addf(&model, "--model_base_path=%s", serving->directory);
        add_words(words, (const char *const[]){"tensorflow_model_server", "--port=8500",
                                               "--rest_api_port=8501", "--model_name=${SELF}",
                                               "--grpc_channel_arguments=" CONNECTION_AGE,
                                               model.text, NULL});
    } else {
        strbuf_addf(&model, "${SELF}=%s", serving->directory);
        add_words(words, (const char *const[]){
                             "lockstep", "serve", "--model", model.text, "--port", "8500",
                             "--rest-port", "8501", "--grpc-channel-arguments", CONNECTION_AGE,
                             "--drain-delay", FAREWELL_SECONDS, "--drain-timeout", "15", NULL});
    }
    strbuf_release(&model);
}

/* The stock server stops listening at once when it is told to end. */
static void wait_before_ending(struct node *container)
{
    struct node *command = node_list(
        node_map(node_map(node_map(container, "lifecycle"), "preStop"), "exec"), "command");
    add_words(command, (const char *const[]){"sleep", FAREWELL_SECONDS, NULL});
}

static void probe(struct node *container, const char *kind, const char *path, int period,
                  int failures)
{
    struct node *entry = node_map(container, kind);
    struct node *get = node_map(entry, "httpGet");
    node_pattern(get, "path", path);
    node_text(get, "port", "rest");
    node_integer(entry, "periodSeconds", period);
    node_integer(entry, "failureThreshold", failures);
}

static void probes(struct node *container, const struct deployment *deployment)
{
    bool stock = deployment_is(deployment, P_SERVER, "tensorflow");
    const char *ready = stock ? "/v1/models/${SELF}" : "/readyz";
    probe(container, "startupProbe", ready, 1, 300);
    probe(container, "readinessProbe", ready, 2, 2);
    probe(container, "livenessProbe", stock ? ready : "/livez", 10, 6);
}

static void named_port(struct pod *pod, const char *name, int port)
{
    struct node *entry = node_map(pod->ports, NULL);
    node_text(entry, "name", name);
    node_integer(entry, "containerPort", port);
}

static void spread(struct node *spec)
{
    struct node *rule = node_map(node_list(spec, "topologySpreadConstraints"), NULL);
    node_integer(rule, "maxSkew", 1);
    node_text(rule, "topologyKey", "kubernetes.io/hostname");
    node_text(rule, "whenUnsatisfiable", "ScheduleAnyway");
    pod_selector(node_map(node_map(rule, "labelSelector"), "matchLabels"), "serving");
}

void serving_deployment(struct manifest *manifest, const struct deployment *deployment,
                        const struct serving *serving)
{
    struct node *spec =
        node_map(manifest_object(manifest, "apps/v1", "Deployment", serving->name), "spec");
    node_number(spec, "replicas", P_REPLICAS);
    pod_selector(node_map(node_map(spec, "selector"), "matchLabels"), "serving");
    struct node *strategy = node_map(spec, "strategy");
    node_text(strategy, "type", "RollingUpdate");
    struct node *rolling = node_map(strategy, "rollingUpdate");
    node_integer(rolling, "maxUnavailable", 0);
    node_integer(rolling, "maxSurge", 1);
    struct pod pod =
        pod_begin(node_map(spec, "template"), deployment,
                  &(struct pod_settings){
                      .container = "server",
                      .image = *deployment_text(deployment, P_SERVING_IMAGE) ? "${SERVING_IMAGE}"
                                                                             : "${IMAGE}",
                      .role = "serving",
                      .cpu = P_CPU,
                      .memory = P_MEMORY,
                      .foreign = deployment_is(deployment, P_SERVER, "tensorflow")});
    server_words(pod.command, deployment, serving);
    named_port(&pod, "grpc", SERVING_GRPC_PORT);
    named_port(&pod, "rest", SERVING_REST_PORT);
    probes(pod.container, deployment);
    if (deployment_is(deployment, P_SERVER, "tensorflow"))
        wait_before_ending(pod.container);
    pod_mount_claim(&pod, "models", serving->claim, serving->path, true);
    spread(pod.spec);
}

struct node *serving_service(struct manifest *manifest, const char *name, const char *type,
                             enum parameter port)
{
    struct node *spec = node_map(manifest_object(manifest, "v1", "Service", name), "spec");
    node_text(spec, "type", type);
    pod_selector(node_map(spec, "selector"), "serving");
    network_port(spec, "grpc", port, SERVING_GRPC_PORT);
    struct node *rest = node_map(node_child(spec, "ports"), NULL);
    node_text(rest, "name", "rest");
    node_integer(rest, "port", 8080);
    node_integer(rest, "targetPort", SERVING_REST_PORT);
    return spec;
}
