/* The VGG16 benchmark on Open MPI, under the MPI Operator. */
#include "k8s/component.h"
#include "k8s/deployment.h"
#include "k8s/kind.h"
#include "k8s/network.h"
#include "k8s/training.h"

static void render(const struct deployment *deployment, struct manifest *out)
{
    bool own = !deployment_is(deployment, P_SECRET, "none");
    const char *key = own ? TRAINING_SECRET "/${SECRET_FILE}" : TRAINING_KEYS "/id_rsa";
    component_volume(out, deployment);
    struct training_mpijob job = training_mpijob(out, deployment, NULL);
    struct pod *pods[] = {&job.launcher, &job.worker};
    for (int i = 0; i < 2; i++) {
        component_mounts(pods[i], deployment);
        if (own)
            pod_mount_secret(pods[i], "secret", "${SECRET}", TRAINING_SECRET);
        if (deployment_runs_lockstep(deployment))
            pod_env(pods[i], "HOME", "/tmp");
    }
    component_words(job.launcher.command, deployment);
    component_hostfile(&job.launcher, "${SELF}-config"); /* the operator's */
    training_launcher(&job.launcher, deployment, key);
    training_worker(job.worker.command, deployment, key);
    network_policy(out, NULL, 0);
}

static const struct kind_use uses[] = {
    KIND_USES_COMPONENT("none"),
    KIND_USE(BACKOFF_LIMIT),
    {.parameter = PARAMETER_COUNT},
};

const struct kind kind_mpi_benchmark = {
    .name = "mpi-benchmark",
    .summary = "an MPIJob: VGG16 on Open MPI, with the volume nfs-data",
    .origin = "TensorFlow and Horovod on EKS with ImageNet",
    .name_from = P_COMPONENT,
    .uses = uses,
    .check = component_check,
    .render = render,
    KIND_IS_MPIJOB,
    .shows = "mpijobs.kubeflow.org,persistentvolumeclaims",
};
