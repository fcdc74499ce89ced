/* An MPIJob on either file system, on S3 itself, or on numbers drawn at random. */
#include "base/error.h"
#include "k8s/deployment.h"
#include "k8s/kind.h"
#include "k8s/network.h"
#include "k8s/recipes.h"
#include "k8s/storage.h"
#include "k8s/training.h"

static bool from(const struct deployment *deployment, const char *source)
{
    return deployment_is(deployment, P_SOURCE, source);
}

static bool has_claim(const struct deployment *deployment)
{
    return from(deployment, "efs") || from(deployment, "fsx");
}

static int check(const struct deployment *deployment, struct error *err)
{
    const char *path = deployment_text(deployment, P_S3_PATH);
    if (from(deployment, "s3") && strncmp(path, "s3://", 5) != 0)
        return error_set(err, ERROR_USAGE, "S3_PATH=%s: must be s3://BUCKET/PREFIX", path);
    if (!from(deployment, "s3") && *path)
        return error_set(err, ERROR_USAGE, "S3_PATH is given, but SOURCE=%s",
                         deployment_text(deployment, P_SOURCE));
    if (!has_claim(deployment) && deployment_gave(deployment, P_DATASET_CLAIM))
        return error_set(err, ERROR_USAGE, "DATASET_CLAIM is given, but SOURCE=%s reads no files",
                         deployment_text(deployment, P_SOURCE));
    return training_check_exec(deployment, err);
}

static void words(struct node *list, const struct deployment *deployment)
{
    const char *kind = recipes_data_kind(deployment);
    char data[64];
    if (training_exec(list, deployment))
        return;
    training_mpirun(list, deployment, "mpirun", NULL);
    if (has_claim(deployment)) {
        node_text(list, NULL, "-output-filename");
        node_pattern(list, NULL, "${DATASET_DIR}/results/${SELF}");
    }
    training_words(list, deployment);
    node_text(list, NULL, "--data");
    snprintf(data, sizeof data, "%s%s%s", kind ? kind : "", kind ? ":" : "",
             from(deployment, "s3") ? "${S3_PATH}" : "${DATASET_DIR}");
    node_pattern(list, NULL, from(deployment, "synthetic") ? "synthetic" : data);
    if (has_claim(deployment)) {
        node_text(list, NULL, "--checkpoint-dir");
        node_pattern(list, NULL, "${DATASET_DIR}/checkpoints/${SELF}");
    }
}

/* Claims as eks-storage makes them, unless told otherwise. */
static const char *claim(const struct deployment *deployment)
{
    if (*deployment_text(deployment, P_DATASET_CLAIM))
        return "${DATASET_CLAIM}";
    return from(deployment, "efs") ? "efs-claim" : "fsx-claim";
}

static void environment(struct pod *pod, const struct deployment *deployment)
{
    if (deployment_runs_lockstep(deployment))
        pod_env(pod, "HOME", "/tmp");
    if (!from(deployment, "s3"))
        return;
    pod_env(pod, "AWS_REGION", "${REGION}");
    if (*deployment_text(deployment, P_S3_ENDPOINT))
        pod_env(pod, "AWS_ENDPOINT_URL_S3", "${S3_ENDPOINT}");
    if (*deployment_text(deployment, P_S3_SECRET))
        pod_env_from(pod, "secretRef", "${S3_SECRET}");
}

static void render(const struct deployment *deployment, struct manifest *out)
{
    const char *account =
        *deployment_text(deployment, P_SERVICE_ACCOUNT) ? "${SERVICE_ACCOUNT}" : NULL;
    struct training_mpijob job = training_mpijob(out, deployment, account);
    struct pod *pods[] = {&job.launcher, &job.worker};
    for (int i = 0; i < 2; i++) {
        environment(pods[i], deployment);
        if (has_claim(deployment))
            pod_mount_claim(pods[i], "data", claim(deployment), "${DATASET_DIR}", false);
    }
    words(job.launcher.command, deployment);
    training_launcher(&job.launcher, deployment, TRAINING_KEYS "/id_rsa");
    training_worker(job.worker.command, deployment, TRAINING_KEYS "/id_rsa");
    network_policy(out, NULL, 0);
}

static const struct kind_use uses[] = {
    KIND_USE(NAMESPACE),
    KIND_USE(MODEL),
    KIND_USE(MODEL_NAME),
    KIND_USE(SOURCE),
    KIND_USE(DATASET_DIR, .initial = "/data"),
    KIND_USE(DATASET_CLAIM),
    KIND_USE(S3_PATH),
    KIND_USE(S3_SECRET),
    KIND_USE(S3_ENDPOINT),
    KIND_USE(REGION),
    KIND_USE(SERVICE_ACCOUNT),
    KIND_USES_IMAGE,
    KIND_USES_COMMAND,
    KIND_USE(EPOCHS),
    KIND_USES_RANKS,
    KIND_USE(BACKOFF_LIMIT),
    KIND_USES_IDS,
    KIND_USES_QUEUE,
    {.parameter = PARAMETER_COUNT},
};

const struct kind kind_eks_training = {
    .name = "eks-training",
    .summary = "an MPIJob on EFS, on FSx, on S3 itself, or on synthetic data",
    .origin = "Deep learning on EKS",
    .name_from = P_MODEL_NAME,
    .uses = uses,
    .check = check,
    .render = render,
    KIND_IS_MPIJOB,
    .shows = "mpijobs.kubeflow.org,persistentvolumeclaims",
};
