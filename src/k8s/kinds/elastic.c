/* Members of one group as an Indexed Job: one that is lost comes back under its own name, and the
 * group goes on where it was. */
#include <inttypes.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "k8s/deployment.h"
#include "k8s/group.h"
#include "k8s/kind.h"
#include "k8s/network.h"
#include "k8s/storage.h"
#include "k8s/training.h"

static int check(const struct deployment *deployment, struct error *err)
{
    if (!deployment_runs_lockstep(deployment))
        return error_set(err, ERROR_USAGE,
                         "IMAGE=%s: the members are lockstep's agents "
                         "(PROGRAM=lockstep if it is in there)",
                         deployment_text(deployment, P_IMAGE));
    if (deployment_integer(deployment, P_AGENT_PORT) == 0)
        return error_set(err, ERROR_USAGE, "AGENT_PORT=0: members need one: 1 to 65535");
    if (deployment_integer(deployment, P_MIN_RANKS) > deployment_integer(deployment, P_WORKERS))
        return error_set(err, ERROR_USAGE, "MIN_RANKS=%s: is more than WORKERS=%s",
                         deployment_text(deployment, P_MIN_RANKS),
                         deployment_text(deployment, P_WORKERS));
    return storage_check(deployment, err);
}

static void peers(struct node *words, const struct deployment *deployment)
{
    struct strbuf list;
    const char *name = deployment_name(deployment);
    strbuf_init(&list);
    for (int64_t i = 0; i < deployment_integer(deployment, P_WORKERS); i++)
        strbuf_addf(&list, "%s%s-%" PRId64 ".%s:%s", i ? "," : "", name, i, name,
                    deployment_text(deployment, P_AGENT_PORT));
    node_text(words, NULL, "--peers");
    node_text(words, NULL, list.text);
    node_text(words, NULL, "--index");
    node_text(words, NULL, "$(JOB_COMPLETION_INDEX)"); /* the Job's controller sets it */
    strbuf_release(&list);
}

static void job_spec(struct node *spec)
{
    node_text(spec, "completionMode", "Indexed");
    node_number(spec, "completions", P_WORKERS);
    node_number(spec, "parallelism", P_WORKERS);
    node_number(spec, "backoffLimit", P_BACKOFF_LIMIT);
    /* Kubernetes waits twice as long after each failure before it makes the next pod. Counted by member,
     * one that was lost for the first time comes back after 10 s, whatever the others have been through. */
    node_number(spec, "backoffLimitPerIndex", P_BACKOFF_LIMIT);
    /* A pod that a drained node took is no failure. */
    struct node *rule = node_map(node_list(node_map(spec, "podFailurePolicy"), "rules"), NULL);
    node_text(rule, "action", "Ignore");
    struct node *condition = node_map(node_list(rule, "onPodConditions"), NULL);
    node_text(condition, "type", "DisruptionTarget");
    node_text(condition, "status", "True");
}

static void render(const struct deployment *deployment, struct manifest *out)
{
    static const enum parameter open[] = {P_DASHBOARD_PORT};
    bool dashboard = deployment_integer(deployment, P_DASHBOARD_PORT) != 0;
    storage_config_map(out, deployment);
    storage_objects(out, deployment);
    struct node *service = network_headless(out, "${SELF}");
    pod_selector(node_map(service, "selector"), "member");
    network_port(service, "agent", P_AGENT_PORT, 0);
    struct node *object = manifest_object(out, "batch/v1", "Job", "${SELF}");
    pod_queue(object, deployment);
    pod_identity_comment(out, deployment);
    struct node *spec = node_map(object, "spec");
    job_spec(spec);
    struct pod pod = pod_begin(node_map(spec, "template"), deployment,
                               &(struct pod_settings){.container = "member",
                                                      .image = "${IMAGE}",
                                                      .role = "member",
                                                      .restart = "Never",
                                                      .cpu = P_CPU,
                                                      .memory = P_MEMORY});
    node_pattern(pod.spec, "subdomain", "${SELF}");
    training_words(pod.command, deployment);
    peers(pod.command, deployment);
    if (deployment_integer(deployment, P_MIN_RANKS)) {
        node_text(pod.command, NULL, "--min-ranks");
        node_pattern(pod.command, NULL, "${MIN_RANKS}");
    }
    group_secret(&pod, pod.command, deployment);
    pod_env_from(&pod, "configMapRef", "${SELF}");
    pod_port(&pod, "agent", P_AGENT_PORT);
    if (dashboard)
        pod_port(&pod, "dashboard", P_DASHBOARD_PORT);
    storage_mounts(&pod, deployment);
    network_dashboard(out, deployment, "member", "batch.kubernetes.io/job-completion-index");
    network_policy(out, open, dashboard ? 1 : 0);
}

static const struct kind_use uses[] = {
    KIND_USE(NAMESPACE), KIND_USE(MODEL),          KIND_USE(MODEL_NAME),
    KIND_USES_STORAGE,   KIND_USE(ARGS),           KIND_USE(BATCH_SIZE),
    KIND_USE(STEPS),     KIND_USE(EPOCHS),         KIND_USE(WORKERS),
    KIND_USE(MIN_RANKS), KIND_USE(AGENT_PORT),     KIND_USES_SECRET,
    KIND_USES_SIZE,      KIND_USE(GRACE_SECONDS),  KIND_USE(BACKOFF_LIMIT, .initial = "100"),
    KIND_USES_QUEUE,     KIND_USE(DASHBOARD_PORT), {.parameter = PARAMETER_COUNT},
};

const struct kind kind_elastic = {
    .name = "elastic",
    .summary = "an Indexed Job whose members may be lost and come back",
    .origin = "ours",
    .name_from = P_MODEL_NAME,
    .uses = uses,
    .check = check,
    .render = render,
    .log_target = "-l "
                  "batch.kubernetes.io/job-name=${SELF},batch.kubernetes.io/job-completion-index=0",
    .main_object = "jobs.batch/${SELF}",
    .end = KIND_HAS_CONDITIONS,
    .shows = "jobs.batch,services",
};
