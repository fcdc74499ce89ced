/* Workers and a launcher under the MPI Operator: the documents' "multi-node". */
#include "k8s/deployment.h"
#include "k8s/kind.h"
#include "k8s/network.h"
#include "k8s/storage.h"
#include "k8s/training.h"

static int check(const struct deployment *deployment, struct error *err)
{
    return storage_check(deployment, err) < 0 ? -1 : training_check_exec(deployment, err);
}

static void launcher_words(struct node *words, const struct deployment *deployment)
{
    if (training_exec(words, deployment))
        return;
    training_mpirun(words, deployment, "mpirun", NULL);
    node_text(words, NULL, "-output-filename");
    node_text(words, NULL, "$(OUTPUT_DIR)"); /* the kubelet puts the variable there */
    training_words(words, deployment);
}

static void render(const struct deployment *deployment, struct manifest *out)
{
    static const enum parameter open[] = {P_DASHBOARD_PORT};
    const char *key = deployment_is(deployment, P_SECRET, "none") ? TRAINING_KEYS "/id_rsa"
                                                                  : TRAINING_SECRET
                          "/${SECRET_FILE}";
    storage_config_map(out, deployment);
    manifest_object(out, "v1", "ServiceAccount", "${SELF}");
    storage_objects(out, deployment);
    struct training_mpijob job = training_mpijob(out, deployment, "${SELF}");
    struct pod *pods[] = {&job.launcher, &job.worker};
    for (int i = 0; i < 2; i++) {
        pod_env_from(pods[i], "configMapRef", "${SELF}");
        storage_mounts(pods[i], deployment);
        if (!deployment_is(deployment, P_SECRET, "none"))
            pod_mount_secret(pods[i], "secret", "${SECRET}", TRAINING_SECRET);
    }
    launcher_words(job.launcher.command, deployment);
    training_launcher(&job.launcher, deployment, key);
    training_worker(job.worker.command, deployment, key);
    if (deployment_integer(deployment, P_DASHBOARD_PORT))
        pod_port(&job.worker, "dashboard", P_DASHBOARD_PORT);
    network_dashboard(out, deployment, "worker", "training.kubeflow.org/replica-index");
    network_policy(out, open, deployment_integer(deployment, P_DASHBOARD_PORT) ? 1 : 0);
}

static const struct kind_use uses[] = {
    KIND_USE(NAMESPACE), KIND_USE(MODEL),          KIND_USE(MODEL_NAME),
    KIND_USES_STORAGE,   KIND_USES_COMMAND,        KIND_USE(EPOCHS),
    KIND_USES_RANKS,     KIND_USES_SECRET,         KIND_USE(BACKOFF_LIMIT),
    KIND_USES_QUEUE,     KIND_USE(DASHBOARD_PORT), {.parameter = PARAMETER_COUNT},
};

const struct kind kind_multi_node = {
    .name = "multi-node",
    .summary = "an MPIJob: a launcher and workers that train together",
    .origin = "ResNet50 v1.5: multi-node",
    .name_from = P_MODEL_NAME,
    .uses = uses,
    .package = "multi-node",
    .check = check,
    .render = render,
    KIND_IS_MPIJOB,
    .shows = "mpijobs.kubeflow.org",
};
