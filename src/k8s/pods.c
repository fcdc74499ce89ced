#include "k8s/pods.h"

#include "base/arena.h"
#include "k8s/deployment.h"

void pod_container_security(struct node *container, bool foreign)
{
    struct node *security = node_map(container, "securityContext");
    node_bool(security, "allowPrivilegeEscalation", false);
    if (!foreign)
        node_bool(security, "readOnlyRootFilesystem", true);
    node_text(node_list(node_map(security, "capabilities"), "drop"), NULL, "ALL");
}

void pod_security(struct node *spec, const struct deployment *deployment)
{
    struct node *security = node_map(spec, "securityContext");
    node_bool(security, "runAsNonRoot", deployment_integer(deployment, P_USER_ID) != 0);
    node_number(security, "runAsUser", P_USER_ID);
    node_number(security, "runAsGroup", P_GROUP_ID);
    node_number(security, "fsGroup", P_FS_ID);
    node_text(security, "fsGroupChangePolicy", "OnRootMismatch");
    node_text(node_map(security, "seccompProfile"), "type", "RuntimeDefault");
}

void pod_resources(struct node *container, const char *cpu, const char *memory)
{
    static const char *const parts[] = {"requests", "limits"};
    struct node *resources = node_map(container, "resources");
    for (int i = 0; i < 2; i++) {
        struct node *part = node_map(resources, parts[i]);
        node_pattern(part, "cpu", cpu);
        node_pattern(part, "memory", memory);
    }
}

static void resources(struct node *container, const struct deployment *deployment,
                      const struct pod_settings *settings)
{
    char cpu[64], memory[64];
    snprintf(cpu, sizeof cpu, "${%s}", parameter_row(settings->cpu)->name);
    snprintf(memory, sizeof memory, "${%s}", parameter_row(settings->memory)->name);
    pod_resources(container, cpu, memory);
    if (settings->gpus && deployment_integer(deployment, P_GPU) > 0)
        node_pattern(node_child(node_child(container, "resources"), "limits"), "nvidia.com/gpu",
                     "${GPU}");
}

void pod_fill_spec(struct pod *pod, const struct deployment *deployment,
                   const struct pod_settings *settings)
{
    struct node *spec = pod->spec;
    if (settings->restart)
        node_text(spec, "restartPolicy", settings->restart);
    node_number(spec, "terminationGracePeriodSeconds", P_GRACE_SECONDS);
    if (settings->account)
        node_pattern(spec, "serviceAccountName", settings->account);
    node_bool(spec, "automountServiceAccountToken", settings->token);
    node_bool(spec, "enableServiceLinks", false);
    if (deployment_is(deployment, P_SCHEDULER, "volcano"))
        node_text(spec, "schedulerName", "volcano");
    if (*deployment_text(deployment, P_IMAGE_PULL_SECRET))
        node_text(node_map(node_list(spec, "imagePullSecrets"), NULL), "name",
                  deployment_text(deployment, P_IMAGE_PULL_SECRET));
    pod_security(spec, deployment);
    pod->container = node_map(node_list(spec, "containers"), NULL);
    node_text(pod->container, "name", settings->container);
    node_pattern(pod->container, "image", settings->image);
    pod->command = node_list(pod->container, "command");
    pod->env_from = node_list(pod->container, "envFrom");
    pod->env = node_list(pod->container, "env");
    pod->ports = node_list(pod->container, "ports");
    resources(pod->container, deployment, settings);
    pod_container_security(pod->container, settings->foreign);
    pod->mounts = node_list(pod->container, "volumeMounts");
    pod->volumes = node_list(spec, "volumes");
    if (!settings->foreign)
        pod_mount_memory(pod, "tmp", "/tmp");
}

struct pod pod_begin(struct node *owner, const struct deployment *deployment,
                     const struct pod_settings *settings)
{
    struct pod pod = {.metadata = node_child(owner, "metadata")};
    if (!pod.metadata)
        pod.metadata = node_map(owner, "metadata");
    struct node *labels = node_child(pod.metadata, "labels");
    if (!labels) {
        labels = node_map(pod.metadata, "labels");
        node_text(labels, "app.kubernetes.io/name", "lockstep");
        node_pattern(labels, "app.kubernetes.io/instance", "${SELF}");
    }
    node_text(labels, "app.kubernetes.io/component", settings->role);
    if (deployment_is(deployment, P_SCHEDULER, "volcano"))
        node_pattern(node_map(pod.metadata, "annotations"), "scheduling.volcano.sh/queue-name",
                     "${QUEUE}");
    pod.spec = node_map(owner, "spec");
    pod_fill_spec(&pod, deployment, settings);
    return pod;
}

void pod_env(struct pod *pod, const char *name, const char *pattern)
{
    struct node *variable = node_map(pod->env, NULL);
    node_text(variable, "name", name);
    node_pattern(variable, "value", pattern);
}

void pod_env_from(struct pod *pod, const char *type, const char *name)
{
    node_pattern(node_map(node_map(pod->env_from, NULL), type), "name", name);
}

void pod_port(struct pod *pod, const char *name, enum parameter port)
{
    struct node *entry = node_map(pod->ports, NULL);
    node_text(entry, "name", name);
    node_number(entry, "containerPort", port);
}

static void add_mount(struct pod *pod, const char *volume, const char *path, bool read_only)
{
    struct node *mount = node_map(pod->mounts, NULL);
    node_text(mount, "name", volume);
    node_pattern(mount, "mountPath", path);
    if (read_only)
        node_bool(mount, "readOnly", true);
}

static struct node *add_volume(struct pod *pod, const char *volume)
{
    struct node *entry = node_map(pod->volumes, NULL);
    node_text(entry, "name", volume);
    return entry;
}

void pod_mount_claim(struct pod *pod, const char *volume, const char *claim, const char *path,
                     bool read_only)
{
    struct node *source = node_map(add_volume(pod, volume), "persistentVolumeClaim");
    node_pattern(source, "claimName", claim);
    if (read_only)
        node_bool(source, "readOnly", true);
    add_mount(pod, volume, path, read_only);
}

void pod_mount_again(struct pod *pod, const char *volume, const char *path, bool read_only)
{
    add_mount(pod, volume, path, read_only);
}

void pod_mount_secret(struct pod *pod, const char *volume, const char *secret, const char *path)
{
    struct node *source = node_map(add_volume(pod, volume), "secret");
    node_pattern(source, "secretName", secret);
    node_integer(source, "defaultMode", 0440);
    add_mount(pod, volume, path, true);
}

void pod_mount_memory(struct pod *pod, const char *volume, const char *path)
{
    struct node *source = node_map(add_volume(pod, volume), "emptyDir");
    if (strcmp(volume, "tmp") != 0)
        node_text(source, "medium", "Memory");
    add_mount(pod, volume, path, false);
}

void pod_selector(struct node *map, const char *role)
{
    node_text(map, "app.kubernetes.io/name", "lockstep");
    node_pattern(map, "app.kubernetes.io/instance", "${SELF}");
    if (role)
        node_text(map, "app.kubernetes.io/component", role);
}

void pod_queue(struct node *object, const struct deployment *deployment)
{
    if (deployment_is(deployment, P_SCHEDULER, "kueue"))
        node_pattern(node_child(node_child(object, "metadata"), "labels"),
                     "kueue.x-k8s.io/queue-name", "${QUEUE}");
}

void pod_identity_comment(struct manifest *manifest, const struct deployment *deployment)
{
    if (!deployment_gave(deployment, P_USER_ID))
        manifest_comment(manifest, "Nobody was named to run as: user 1000, not root. Set USER_ID, "
                                   "GROUP_ID and FS_ID to your own.");
}
