/* One pod trains: the documents' "single-node". */
#include "k8s/deployment.h"
#include "k8s/kind.h"
#include "k8s/network.h"
#include "k8s/storage.h"
#include "k8s/training.h"

static int check(const struct deployment *deployment, struct error *err)
{
    return storage_check(deployment, err) < 0 ? -1 : training_check_exec(deployment, err);
}

static void render(const struct deployment *deployment, struct manifest *out)
{
    bool foreign = !deployment_runs_lockstep(deployment);
    storage_config_map(out, deployment);
    manifest_object(out, "v1", "ServiceAccount", "${SELF}");
    storage_objects(out, deployment);
    struct node *object = manifest_object(out, "v1", "Pod", "${SELF}");
    pod_queue(object, deployment);
    pod_identity_comment(out, deployment);
    struct pod pod = pod_begin(object, deployment,
                               &(struct pod_settings){.container = "training",
                                                      .image = "${IMAGE}",
                                                      .role = "training",
                                                      .restart = "OnFailure",
                                                      .cpu = P_CPU,
                                                      .memory = P_MEMORY,
                                                      .account = "${SELF}",
                                                      .gpus = foreign,
                                                      .foreign = foreign});
    training_command(pod.command, deployment);
    pod_env_from(&pod, "configMapRef", "${SELF}");
    if (deployment_integer(deployment, P_DASHBOARD_PORT))
        pod_port(&pod, "dashboard", P_DASHBOARD_PORT);
    storage_mounts(&pod, deployment);
    network_dashboard(out, deployment, "training", NULL);
}

static const struct kind_use uses[] = {
    KIND_USE(NAMESPACE),      KIND_USE(MODEL),
    KIND_USE(MODEL_NAME),     KIND_USES_STORAGE,
    KIND_USES_COMMAND,        KIND_USE(EPOCHS),
    KIND_USES_SIZE,           KIND_USE(GPU),
    KIND_USE(GRACE_SECONDS),  KIND_USES_QUEUE,
    KIND_USE(DASHBOARD_PORT), {.parameter = PARAMETER_COUNT},
};

const struct kind kind_single_node = {
    .name = "single-node",
    .summary = "a pod that trains",
    .origin = "ResNet50 v1.5, Wide and Deep: single-node",
    .name_from = P_MODEL_NAME,
    .uses = uses,
    .package = "single-node",
    .check = check,
    .render = render,
    .log_target = "pod/${SELF}",
    .main_object = "pod/${SELF}",
    .end = KIND_HAS_PHASE,
};
