/* NVIDIA's device plugin, for images that bring their own GPU code. The one kind that cannot be
 * restricted: it talks to the kubelet through a directory of the node. */
#include "k8s/deployment.h"
#include "k8s/kind.h"
#include "k8s/pods.h"

static void spec(struct node *pod)
{
    struct node *toleration = node_map(node_list(pod, "tolerations"), NULL);
    node_text(toleration, "key", "nvidia.com/gpu");
    node_text(toleration, "operator", "Exists");
    node_text(toleration, "effect", "NoSchedule");
    node_text(pod, "priorityClassName", "system-node-critical");
    struct node *container = node_map(node_list(pod, "containers"), NULL);
    node_text(container, "name", "nvidia-device-plugin");
    node_pattern(container, "image", "${IMAGE}");
    struct node *variable = node_map(node_list(container, "env"), NULL);
    node_text(variable, "name", "FAIL_ON_INIT_ERROR"); /* or it crashes on nodes without a GPU */
    node_text(variable, "value", "false");
    pod_resources(container, "${CPU}", "${MEMORY}");
    pod_container_security(container, true);
    struct node *mount = node_map(node_list(container, "volumeMounts"), NULL);
    node_text(mount, "name", "device-plugin");
    node_text(mount, "mountPath", "/var/lib/kubelet/device-plugins");
    struct node *volume = node_map(node_list(pod, "volumes"), NULL);
    node_text(volume, "name", "device-plugin");
    node_text(node_map(volume, "hostPath"), "path", "/var/lib/kubelet/device-plugins");
}

static void render(const struct deployment *deployment, struct manifest *out)
{
    (void)deployment;
    struct node *object = manifest_object(out, "apps/v1", "DaemonSet", "${SELF}");
    manifest_comment(out,
                     "lockstep computes on CPUs; this is for other images. It needs a hostPath, "
                     "so its namespace cannot be restricted.");
    struct node *body = node_map(object, "spec");
    pod_selector(node_map(node_map(body, "selector"), "matchLabels"), NULL);
    struct node *template = node_map(body, "template");
    pod_selector(node_map(node_map(template, "metadata"), "labels"), NULL);
    spec(node_map(template, "spec"));
}

static const struct kind_use uses[] = {
    KIND_USE(NAMESPACE, .initial = "kube-system"),
    KIND_USE(NAME, .initial = "nvidia-device-plugin-daemonset"),
    KIND_USE(IMAGE, .initial = "nvcr.io/nvidia/k8s-device-plugin:v0.17.1"),
    KIND_USE(CPU, .initial = "50m"),
    KIND_USE(MEMORY, .initial = "128Mi"),
    {.parameter = PARAMETER_COUNT},
};

const struct kind kind_device_plugin = {
    .name = "device-plugin",
    .summary = "NVIDIA's device plugin, for images that use GPUs",
    .origin = "Deep learning on EKS",
    .name_from = P_NAME,
    .uses = uses,
    .render = render,
    .log_target = "daemonset/${SELF}",
    .main_object = "daemonsets.apps/${SELF}",
    .end = KIND_NEVER_ENDS,
    .shows = "daemonsets.apps",
};
