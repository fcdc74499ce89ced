/* A Job and a Service for each worker, told about each other by TF_CONFIG, for
 * MultiWorkerMirroredStrategy and for our agents. */
#include <inttypes.h>

#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "k8s/deployment.h"
#include "k8s/group.h"
#include "k8s/kind.h"
#include "k8s/network.h"
#include "k8s/training.h"

/* What the document's programs are here. */
static const char *model_of(const char *script)
{
    const char *slash = strrchr(script, '/');
    const char *name = slash ? slash + 1 : script;
    if (strcmp(name, "keras_mnist.py") == 0)
        return "mnist_keras";
    return strcmp(name, "custom_training_mnist.py") == 0 ? "mnist_custom" : NULL;
}

static int check(const struct deployment *deployment, struct error *err)
{
    bool deploy = deployment_flag(deployment, P_DEPLOY);
    bool inspect = deployment_flag(deployment, P_CREATE_VOLUME_INSPECTOR);
    if (deploy && inspect)
        return error_set(
            err, ERROR_USAGE,
            "deploy and create_volume_inspector cannot both be True: only one node can "
            "mount the checkpoint volume. Inspect it when the training is over");
    if (!deploy && !inspect && !deployment_flag(deployment, P_CREATE_PVC_CHECKPOINT))
        return error_set(err, ERROR_USAGE,
                         "deploy, create_pvc_checkpoint and "
                         "create_volume_inspector are all False: nothing to do");
    if (deployment_integer(deployment, P_AGENT_PORT) == 0)
        return error_set(err, ERROR_USAGE, "port=0: workers need one: 1 to 65535");
    const char *script = deployment_text(deployment, P_SCRIPT);
    if (deploy && deployment_runs_lockstep(deployment) && !*deployment_text(deployment, P_EXEC) &&
        !model_of(script))
        return error_set(err, ERROR_USAGE,
                         "script=%s: our image has no Python; it knows keras_mnist.py and "
                         "custom_training_mnist.py as networks. Give image, or EXEC",
                         script);
    if (!deployment_runs_lockstep(deployment) &&
        (deployment_gave(deployment, P_DATA) || deployment_gave(deployment, P_SECRET)))
        return error_set(err, ERROR_USAGE, "%s is for our program; %s is told by TF_CONFIG alone",
                         deployment_gave(deployment, P_DATA) ? "DATA" : "SECRET",
                         deployment_text(deployment, P_IMAGE));
    return training_check_exec(deployment, err);
}

/* As TensorFlow reads it. */
static char *tf_config(const struct deployment *deployment, int64_t index)
{
    struct json *config = json_object_create(), *cluster = json_object_create();
    struct json *task = json_object_create(), *workers = json_array_create();
    for (int64_t i = 0; i < deployment_integer(deployment, P_WORKERS); i++) {
        char host[160];
        snprintf(host, sizeof host, "%s-worker-%" PRId64 ":%s", deployment_name(deployment), i,
                 deployment_text(deployment, P_AGENT_PORT));
        json_append_text(workers, host);
    }
    json_set(cluster, "worker", workers);
    json_set_text(task, "type", "worker");
    json_set_integer(task, "index", index);
    json_set(config, "cluster", cluster);
    json_set(config, "task", task);
    char *text = json_text(config, false);
    json_release(config);
    if (text)
        text[strcspn(text, "\n")] = '\0';
    return text;
}

static void worker_words(struct pod *pod, const struct deployment *deployment, bool chief)
{
    struct node *words = pod->command;
    if (training_exec(words, deployment))
        return;
    if (!deployment_runs_lockstep(deployment)) {
        node_text(words, NULL, "python");
        node_pattern(words, NULL, "${SCRIPT}");
        return;
    }
    node_text(words, NULL, "lockstep");
    node_text(words, NULL, "train");
    node_text(words, NULL, model_of(deployment_text(deployment, P_SCRIPT)));
    if (*deployment_text(deployment, P_DATA)) {
        node_text(words, NULL, "--data");
        node_pattern(words, NULL, "${DATA}");
    }
    if (chief) {
        node_text(words, NULL, "--checkpoint-dir");
        node_pattern(words, NULL, "${MODEL_CHECKPOINT_DIR}/checkpoints");
        node_text(words, NULL, "--export-dir");
        node_pattern(words, NULL, "${MODEL_CHECKPOINT_DIR}/workertemp_0");
    }
    group_secret(pod, words, deployment);
    training_add_words(words, deployment, P_ARGS);
}

static void add_labels(struct node *labels, const char *index)
{
    node_pattern(labels, "name", "${SELF}");
    node_text(labels, "job", "worker");
    node_text(labels, "task", index);
}

static void worker_service(struct manifest *out, const char *name, const char *index)
{
    struct node *spec = network_headless(out, name);
    add_labels(node_map(spec, "selector"), index);
    network_port(spec, "worker", P_AGENT_PORT, 0);
}

static void worker_job(const struct deployment *deployment, struct manifest *out, const char *name,
                       int64_t index)
{
    char task[24];
    bool foreign = !deployment_runs_lockstep(deployment);
    snprintf(task, sizeof task, "%" PRId64, index);
    struct node *object = manifest_object(out, "batch/v1", "Job", name);
    pod_queue(object, deployment);
    pod_identity_comment(out, deployment);
    struct node *spec = node_map(object, "spec");
    node_integer(spec, "ttlSecondsAfterFinished", 600);
    node_number(spec, "backoffLimit", P_BACKOFF_LIMIT);
    struct pod pod = pod_begin(node_map(spec, "template"), deployment,
                               &(struct pod_settings){.container = "tensorflow",
                                                      .image = "${IMAGE}",
                                                      .role = "worker",
                                                      .restart = "Never",
                                                      .cpu = P_CPU,
                                                      .memory = P_MEMORY,
                                                      .gpus = foreign,
                                                      .foreign = foreign});
    add_labels(node_child(pod.metadata, "labels"), task);
    worker_words(&pod, deployment, index == 0);
    char *config = tf_config(deployment, index);
    struct node *variable = node_map(pod.env, NULL);
    node_text(variable, "name", "TF_CONFIG");
    node_text(variable, "value", config ? config : "");
    if (!config)
        manifest_fail(out);
    memory_free(config);
    if (!foreign)
        pod_env(&pod, "HOME", "/tmp");
    pod_port(&pod, "worker", P_AGENT_PORT);
    if (index == 0)
        pod_mount_claim(&pod, "pvc-mount", "${CHECKPOINT_PVC_NAME}", "${MODEL_CHECKPOINT_DIR}",
                        false);
}

static void claim(struct manifest *out)
{
    struct node *spec = node_map(
        manifest_object(out, "v1", "PersistentVolumeClaim", "${CHECKPOINT_PVC_NAME}"), "spec");
    node_text(node_list(spec, "accessModes"), NULL, "ReadWriteOnce");
    node_pattern(node_map(node_map(spec, "resources"), "requests"), "storage",
                 "${CHECKPOINT_SIZE}");
}

static void inspector(const struct deployment *deployment, struct manifest *out)
{
    struct node *object = manifest_object(out, "v1", "Pod", "volume-inspector");
    pod_identity_comment(out, deployment);
    struct pod pod = pod_begin(object, deployment,
                               &(struct pod_settings){.container = "debugger",
                                                      .image = "${INSPECTOR_IMAGE}",
                                                      .role = "inspector",
                                                      .restart = "Never",
                                                      .cpu = P_LAUNCHER_CPU,
                                                      .memory = P_LAUNCHER_MEMORY,
                                                      .foreign = true});
    node_text(pod.command, NULL, "sleep");
    node_text(pod.command, NULL, "3600");
    pod_mount_claim(&pod, "volume-to-inspect", "${CHECKPOINT_PVC_NAME}", "${MODEL_CHECKPOINT_DIR}",
                    false);
}

static void render(const struct deployment *deployment, struct manifest *out)
{
    bool deploy = deployment_flag(deployment, P_DEPLOY);
    if (deployment_flag(deployment, P_CREATE_PVC_CHECKPOINT))
        claim(out);
    for (int64_t i = 0; deploy && i < deployment_integer(deployment, P_WORKERS); i++) {
        char name[48], task[24];
        snprintf(name, sizeof name, "${SELF}-worker-%" PRId64, i);
        snprintf(task, sizeof task, "%" PRId64, i);
        worker_service(out, name, task);
        worker_job(deployment, out, name, i);
    }
    if (deploy)
        network_policy(out, NULL, 0);
    if (deployment_flag(deployment, P_CREATE_VOLUME_INSPECTOR))
        inspector(deployment, out);
}

static const struct kind_use uses[] = {
    KIND_USE(NAMESPACE),
    KIND_USE(NAME, .spelling = "name"),
    KIND_USE(SCRIPT, .spelling = "script"),
    KIND_USE(WORKERS, .spelling = "worker_replicas"),
    KIND_USE(AGENT_PORT, .spelling = "port", .initial = "5000",
             .help = "port of the workers, of TF_CONFIG"),
    KIND_USE(MODEL_CHECKPOINT_DIR, .spelling = "model_checkpoint_dir"),
    KIND_USE(CHECKPOINT_PVC_NAME, .spelling = "checkpoint_pvc_name"),
    KIND_USE(IMAGE, .spelling = "image"),
    KIND_USE(DEPLOY, .spelling = "deploy"),
    KIND_USE(CREATE_PVC_CHECKPOINT, .spelling = "create_pvc_checkpoint"),
    KIND_USE(CREATE_VOLUME_INSPECTOR, .spelling = "create_volume_inspector"),
    KIND_USE(INSPECTOR_IMAGE, .spelling = "inspector_image"),
    KIND_USE(CHECKPOINT_SIZE, .spelling = "checkpoint_size"),
    KIND_USE(IMAGE_PULL_SECRET),
    KIND_USE(PROGRAM),
    KIND_USE(EXEC),
    KIND_USE(ARGS),
    KIND_USE(DATA, .help = "what --data gets: digits, mnist:s3://BUCKET/PREFIX"),
    KIND_USES_SECRET,
    KIND_USE(GPU),
    KIND_USES_SIZE,
    KIND_USE(LAUNCHER_CPU, .spelling = "INSPECTOR_CPU", .help = "processors of the inspector"),
    KIND_USE(LAUNCHER_MEMORY, .spelling = "INSPECTOR_MEMORY", .help = "memory of the inspector"),
    KIND_USE(GRACE_SECONDS),
    KIND_USE(BACKOFF_LIMIT),
    KIND_USES_IDS,
    KIND_USES_QUEUE,
    {.parameter = PARAMETER_COUNT},
};

const struct kind kind_multi_worker = {
    .name = "multi-worker",
    .summary = "a Job and a Service per worker with TF_CONFIG, and the chief's claim",
    .origin = "MultiWorkerMirrored strategy",
    .name_from = P_NAME,
    .uses = uses,
    .check = check,
    .render = render,
    .log_target = "-l batch.kubernetes.io/job-name=${SELF}-worker-0",
    .main_object = "jobs.batch/${SELF}-worker-0",
    .end = KIND_HAS_CONDITIONS,
    .shows = "jobs.batch,services,persistentvolumeclaims",
};
