#include "k8s/training.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "k8s/deployment.h"
#include "k8s/words.h"

void training_add_words(struct node *words, const struct deployment *deployment,
                        enum parameter parameter)
{
    const char *const *list;
    struct error ignored; /* it was checked */
    struct arena *memory = arena_create();
    if (memory && words_split(deployment_text(deployment, parameter), memory, &list, &ignored) == 0)
        for (; *list; list++)
            node_text(words, NULL, *list);
    arena_destroy(memory);
}

bool training_exec(struct node *words, const struct deployment *deployment)
{
    if (!*deployment_text(deployment, P_EXEC))
        return false;
    training_add_words(words, deployment, P_EXEC);
    return true;
}

static void add_number(struct node *words, const char *option, const struct deployment *deployment,
                       enum parameter parameter)
{
    int64_t value = deployment_integer(deployment, parameter);
    if (value == 0)
        return;
    node_text(words, NULL, option);
    node_word_number(words, value, PARAMETER_COUNT);
}

static void add_dashboard(struct node *words, const struct deployment *deployment)
{
    if (deployment_integer(deployment, P_DASHBOARD_PORT) == 0)
        return;
    node_text(words, NULL, "--dashboard");
    node_pattern(words, NULL, "0.0.0.0:${DASHBOARD_PORT}");
}

void training_words(struct node *words, const struct deployment *deployment)
{
    node_text(words, NULL, "lockstep");
    node_text(words, NULL, "train");
    node_text(words, NULL, deployment_text(deployment, P_MODEL));
    if (*deployment_text(deployment, P_DATA)) {
        node_text(words, NULL, "--data");
        node_text(words, NULL, deployment_text(deployment, P_DATA));
    }
    add_number(words, "--batch-size", deployment, P_BATCH_SIZE);
    add_number(words, "--steps", deployment, P_STEPS);
    add_number(words, "--epochs", deployment, P_EPOCHS);
    add_dashboard(words, deployment);
    training_add_words(words, deployment, P_ARGS);
}

void training_command(struct node *words, const struct deployment *deployment)
{
    if (!training_exec(words, deployment))
        training_words(words, deployment);
}

int training_check_exec(const struct deployment *deployment, struct error *err)
{
    static const char *const shells[] = {"sh", "bash", "/bin/sh", "/bin/bash"};
    const char *const *words;
    struct arena *memory = arena_create();
    int status = 0;
    if (!memory)
        return error_set(err, ERROR_MEMORY, "no memory for a command line");
    if (!deployment_runs_lockstep(deployment))
        goto out;
    status = words_split(deployment_text(deployment, P_EXEC), memory, &words, err);
    for (; status == 0 && *words; words++)
        for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
            if (strcmp(*words, shells[i]) == 0)
                status = error_set(err, ERROR_USAGE,
                                   "EXEC calls %s, which is not in our image: give the words "
                                   "themselves (PROGRAM=other if your image has a shell)",
                                   *words);
out:
    arena_destroy(memory);
    return status;
}

static void add_all(struct node *words, const char *const *list)
{
    for (; *list; list++)
        node_text(words, NULL, *list);
}

void training_mpirun(struct node *words, const struct deployment *deployment, const char *program,
                     const char *hostfile)
{
    static const char *const fabric[] = {"-mca",       "pml",      "ob1",  "-mca",
                                         "btl",        "^openib",  "-mca", "btl_tcp_if_exclude",
                                         "lo,docker0", "-bind-to", "none", "-map-by",
                                         "slot",       NULL};
    /* mpirun tells ranks to end (by SIGCONT) and kills them after twice this time; saving takes longer than
     * its second. Its daemons sleep all the while, and a new launcher cannot start before. */
    static const char *const patience[] = {"-mca", "odls_base_sigkill_timeout", "15", NULL};
    int64_t slots = deployment_integer(deployment, P_SLOTS);
    node_text(words, NULL, program);
    node_text(words, NULL, "-np");
    node_word_number(words, slots * deployment_integer(deployment, P_WORKERS),
                     slots == 1 ? P_WORKERS : PARAMETER_COUNT);
    if (hostfile) {
        node_text(words, NULL, "--hostfile");
        node_text(words, NULL, hostfile);
    }
    node_text(words, NULL, "--allow-run-as-root"); /* USER_ID=0, and setters may say so later */
    add_all(words, fabric);
    add_all(words, patience);
}

/* "--insecure" without a key: then a NetworkPolicy is what keeps strangers out. */
static void add_key(struct strbuf *line, const char *key)
{
    if (key)
        strbuf_addf(line, " --secret-file %s", key);
    else
        strbuf_add(line, " --insecure");
}

void training_worker(struct node *words, const struct deployment *deployment, const char *key)
{
    static const char *const sshd[] = {"/usr/sbin/sshd", "-De", "-f", "/home/mpiuser/.sshd_config",
                                       NULL};
    if (*deployment_text(deployment, P_WORKER_EXEC)) {
        training_add_words(words, deployment, P_WORKER_EXEC);
        return;
    }
    if (!deployment_uses_agents(deployment)) {
        add_all(words, sshd);
        return;
    }
    node_text(words, NULL, "lockstep");
    node_text(words, NULL, "agent");
    node_text(words, NULL, "--port");
    node_pattern(words, NULL, "${AGENT_PORT}");
    node_text(words, NULL, key ? "--secret-file" : "--insecure");
    if (key)
        node_pattern(words, NULL, key);
}

void training_launcher(struct pod *pod, const struct deployment *deployment, const char *key)
{
    struct strbuf line;
    if (!deployment_uses_agents(deployment))
        return;
    strbuf_init(&line);
    strbuf_add(&line, "lockstep agent --port ${AGENT_PORT}");
    add_key(&line, key);
    strbuf_add(&line, " --exec"); /* last: what follows are ssh's words */
    /* As a variable, so that it also holds for a mpirun in EXEC. */
    pod_env(pod, "OMPI_MCA_plm_rsh_agent", line.text);
    strbuf_release(&line);
}

static void run_policy(struct node *spec, const struct deployment *deployment)
{
    struct node *policy = node_map(spec, "runPolicy");
    node_text(policy, "cleanPodPolicy", "Running");
    node_number(policy, "backoffLimit", P_BACKOFF_LIMIT);
    if (!deployment_is(deployment, P_SCHEDULER, "volcano"))
        return;
    struct node *scheduling = node_map(policy, "schedulingPolicy");
    node_pattern(scheduling, "queue", "${QUEUE}");
    node_integer(scheduling, "minAvailable", 1 + deployment_integer(deployment, P_WORKERS));
}

static struct pod replica(struct node *specs, const char *type, const struct deployment *deployment,
                          const struct pod_settings *settings, bool workers)
{
    struct node *spec = node_map(specs, type);
    if (workers)
        node_number(spec, "replicas", P_WORKERS);
    else
        node_integer(spec, "replicas", 1);
    node_text(spec, "restartPolicy", "OnFailure");
    return pod_begin(node_map(spec, "template"), deployment, settings);
}

struct training_mpijob training_mpijob(struct manifest *manifest,
                                       const struct deployment *deployment, const char *account)
{
    struct training_mpijob job;
    bool foreign = !deployment_runs_lockstep(deployment);
    struct node *object = manifest_object(manifest, "kubeflow.org/v2beta1", "MPIJob", "${SELF}");
    pod_queue(object, deployment);
    pod_identity_comment(manifest, deployment);
    struct node *spec = node_map(object, "spec");
    node_number(spec, "slotsPerWorker", P_SLOTS);
    node_text(spec, "mpiImplementation", "OpenMPI");
    /* Or it may be quicker than the workers' names. */
    node_text(spec, "launcherCreationPolicy", "WaitForWorkersReady");
    node_pattern(spec, "sshAuthMountPath",
                 deployment_uses_agents(deployment) ? TRAINING_KEYS : "${SSH_DIR}");
    run_policy(spec, deployment);
    struct node *specs = node_map(spec, "mpiReplicaSpecs");
    job.launcher = replica(specs, "Launcher", deployment,
                           &(struct pod_settings){.container = "launcher",
                                                  .image = "${IMAGE}",
                                                  .role = "launcher",
                                                  .cpu = P_LAUNCHER_CPU,
                                                  .memory = P_LAUNCHER_MEMORY,
                                                  .account = account,
                                                  .foreign = foreign},
                           false);
    job.worker = replica(specs, "Worker", deployment,
                         &(struct pod_settings){.container = "worker",
                                                .image = "${IMAGE}",
                                                .role = "worker",
                                                .cpu = P_CPU,
                                                .memory = P_MEMORY,
                                                .account = account,
                                                .gpus = foreign,
                                                .foreign = foreign},
                         true);
    pod_mount_memory(&job.worker, "shm", "/dev/shm");
    return job;
}
