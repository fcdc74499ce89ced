/* The same without an operator, as ksonnet's component had it: pods COMPONENT-master and
 * COMPONENT-worker-N, and a hostfile. */
#include <inttypes.h>

#include "base/strbuf.h"
#include "k8s/component.h"
#include "k8s/deployment.h"
#include "k8s/kind.h"
#include "k8s/network.h"
#include "k8s/training.h"

static void hostfile(const struct deployment *deployment, struct manifest *out)
{
    struct strbuf lines;
    strbuf_init(&lines);
    for (int64_t i = 0; i < deployment_integer(deployment, P_WORKERS); i++)
        strbuf_addf(&lines, "%s-worker-%" PRId64 ".%s slots=%s\n", deployment_name(deployment), i,
                    deployment_name(deployment), deployment_text(deployment, P_SLOTS));
    node_text(node_map(manifest_object(out, "v1", "ConfigMap", "${SELF}-assets"), "data"),
              "hostfile", lines.text);
    if (lines.failed)
        manifest_fail(out);
    strbuf_release(&lines);
}

/* A pod with a name of its own below the headless Service. */
static struct pod member(const struct deployment *deployment, struct manifest *out,
                         const char *name, const char *role)
{
    bool foreign = !deployment_runs_lockstep(deployment);
    bool master = strcmp(role, "master") == 0;
    struct node *object = manifest_object(out, "v1", "Pod", name);
    pod_queue(object, deployment);
    struct pod pod =
        pod_begin(object, deployment,
                  &(struct pod_settings){.container = "openmpi",
                                         .image = "${IMAGE}",
                                         .role = role,
                                         .restart = "OnFailure",
                                         .cpu = master ? P_LAUNCHER_CPU : P_CPU,
                                         .memory = master ? P_LAUNCHER_MEMORY : P_MEMORY,
                                         .gpus = foreign && !master,
                                         .foreign = foreign});
    node_pattern(pod.spec, "hostname", name);
    node_pattern(pod.spec, "subdomain", "${SELF}");
    component_mounts(&pod, deployment);
    if (!deployment_is(deployment, P_SECRET, "none"))
        pod_mount_secret(&pod, "secret", "${SECRET}",
                         deployment_uses_agents(deployment) ? TRAINING_SECRET : "${SSH_DIR}");
    if (!foreign)
        pod_env(&pod, "HOME", "/tmp");
    return pod;
}

static void render(const struct deployment *deployment, struct manifest *out)
{
    const char *key =
        deployment_is(deployment, P_SECRET, "none") ? NULL : TRAINING_SECRET "/${SECRET_FILE}";
    component_volume(out, deployment);
    hostfile(deployment, out);
    struct node *service = network_headless(out, "${SELF}");
    pod_selector(node_map(service, "selector"), NULL);
    struct pod master = member(deployment, out, "${SELF}-master", "master");
    pod_identity_comment(out, deployment);
    component_words(master.command, deployment);
    component_hostfile(&master, "${SELF}-assets");
    training_launcher(&master, deployment, key);
    /* Or mpirun cuts the Service's name off the workers'. */
    pod_env(&master, "OMPI_MCA_orte_keep_fqdn_hostnames", "1");
    for (int64_t i = 0; i < deployment_integer(deployment, P_WORKERS); i++) {
        char name[48];
        snprintf(name, sizeof name, "${SELF}-worker-%" PRId64, i);
        struct pod worker = member(deployment, out, name, "worker");
        training_worker(worker.command, deployment, key);
        pod_mount_memory(&worker, "shm", "/dev/shm");
    }
    network_policy(out, NULL, 0);
}

static const struct kind_use uses[] = {
    KIND_USES_COMPONENT("openmpi-secret"),
    {.parameter = PARAMETER_COUNT},
};

const struct kind kind_openmpi = {
    .name = "openmpi",
    .summary = "a master, workers and a hostfile: VGG16 on Open MPI, without an operator",
    .origin = "TensorFlow and Horovod on EKS with ImageNet",
    .name_from = P_COMPONENT,
    .uses = uses,
    .check = component_check,
    .render = render,
    .log_target = "pod/${SELF}-master",
    .main_object = "pod/${SELF}-master",
    .end = KIND_HAS_PHASE,
    .shows = "services,persistentvolumeclaims",
};
