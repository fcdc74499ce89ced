#include "k8s/network.h"

#include "k8s/deployment.h"

struct node *network_headless(struct manifest *manifest, const char *name)
{
    struct node *spec = node_map(manifest_object(manifest, "v1", "Service", name), "spec");
    node_text(spec, "clusterIP", "None");
    node_bool(spec, "publishNotReadyAddresses", true);
    return spec;
}

struct node *network_port(struct node *spec, const char *name, enum parameter port,
                          int64_t target_port)
{
    struct node *ports = node_child(spec, "ports");
    struct node *entry = node_map(ports ? ports : node_list(spec, "ports"), NULL);
    node_text(entry, "name", name);
    node_number(entry, "port", port);
    if (target_port)
        node_integer(entry, "targetPort", target_port);
    return entry;
}

static void open_port(struct node *ingress, enum parameter port)
{
    struct node *entry = node_map(node_list(node_map(ingress, NULL), "ports"), NULL);
    node_text(entry, "protocol", "TCP");
    node_number(entry, "port", port);
}

void network_policy(struct manifest *manifest, const enum parameter *open, int count)
{
    struct node *spec = node_map(
        manifest_object(manifest, "networking.k8s.io/v1", "NetworkPolicy", "${SELF}"), "spec");
    pod_selector(node_map(node_map(spec, "podSelector"), "matchLabels"), NULL);
    node_text(node_list(spec, "policyTypes"), NULL, "Ingress");
    struct node *ingress = node_list(spec, "ingress");
    struct node *from = node_map(node_list(node_map(ingress, NULL), "from"), NULL);
    pod_selector(node_map(node_map(from, "podSelector"), "matchLabels"), NULL);
    for (int i = 0; i < count; i++)
        open_port(ingress, open[i]);
}

void network_dashboard(struct manifest *manifest, const struct deployment *deployment,
                       const char *role, const char *index_label)
{
    if (deployment_integer(deployment, P_DASHBOARD_PORT) == 0)
        return;
    struct node *object = manifest_object(manifest, "v1", "Service", "${SELF}-dashboard");
    manifest_comment(manifest, "The page asks for the token that the training prints with its "
                               "address: `lockstep k8s logs`.");
    struct node *spec = node_map(object, "spec");
    struct node *selector = node_map(spec, "selector");
    pod_selector(selector, role);
    if (index_label)
        node_text(selector, index_label, "0");
    network_port(spec, "dashboard", P_DASHBOARD_PORT, 0);
}
