#include "cli/foreign_variables.h"

#include "base/log.h"
#include "cli/options.h"

static const struct foreign_variable variables[] = {
    {"OMPI_COMM_WORLD_SIZE", "train, pipeline, bench",
     "set by mpirun (Open MPI): the ranks that train together", false},
    {"OMPI_COMM_WORLD_SIZE", "eval, bench --forward-only",
     "refused when it names several ranks: these compute in one process", false},
    {"TF_CONFIG", "train, pipeline",
     "as TensorFlow reads it: the members that train together, and which of them this is; its own "
     "port is the agent's. ps is refused; the evaluator follows the checkpoints",
     false},
    {"TF_CONFIG", "eval, bench",
     "refused when it names several members: eval computes in one process, and mpirun starts the "
     "ranks of bench",
     false},
    {"PMI_SIZE HOROVOD_SIZE", "train, pipeline, eval, bench",
     "refused when it names several ranks: Open MPI's mpirun starts them, or TF_CONFIG and --peers "
     "name the members",
     false},
    {"OMPI_MCA_plm_rsh_args", "agent --exec",
     "ssh's options that the MPI Operator adds: -p is the agent's port, -l must be its user, the "
     "others concern ssh alone",
     false},
    {"K_MPI_JOB_ROLE", "agent, train, pipeline, status",
     "set by the MPI Operator: the key pair that it mounts is the secret, unless --secret-file "
     "says "
     "otherwise",
     false},
    {"HOROVOD_FUSION_THRESHOLD HOROVOD_AUTOTUNE HOROVOD_STALL_CHECK_TIME_SECONDS "
     "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS HOROVOD_STALL_CHECK_DISABLE",
     "eval", "not read: it computes in one process and exchanges no gradients", false},
    {"HOROVOD_TIMELINE", "eval", "not read: write lockstep bench --forward-only --trace FILE",
     false},
    {"HOROVOD_CYCLE_TIME HOROVOD_TIMELINE_MARK_CYCLES", "all",
     "no effect: there are no cycles; a bucket goes out when its last gradient is there", true},
    {"HOROVOD_CACHE_CAPACITY HOROVOD_BATCH_D2D_MEMCOPIES HOROVOD_DISABLE_GROUP_FUSION", "all",
     "no effect: the order of gradients is fixed, so nothing is negotiated, cached or copied "
     "together",
     true},
    {"HOROVOD_HIERARCHICAL_ALLREDUCE HOROVOD_HIERARCHICAL_ALLGATHER HOROVOD_TORUS_ALLREDUCE", "all",
     "no effect: Open MPI chooses how sums travel; its own parameters (OMPI_MCA_coll_...) do",
     true},
    {"HOROVOD_CPU_OPERATIONS HOROVOD_CONTROLLER HOROVOD_MPI_THREADS_DISABLE "
     "HOROVOD_THREAD_AFFINITY",
     "all", "no effect: ranks talk through Open MPI, on a thread of their own", true},
    {"HOROVOD_AUTOTUNE_LOG HOROVOD_AUTOTUNE_WARMUP_SAMPLES HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE "
     "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE",
     "all",
     "no effect: only the size of buckets is tuned, in the first steps; the dashboard shows "
     "the one in use",
     true},
    {"HOROVOD_LOG_LEVEL HOROVOD_LOG_HIDE_TIME", "all", "no effect: write --verbose or --quiet",
     true},
    {"KMP_AFFINITY KMP_BLOCKTIME KMP_SETTINGS", "all",
     "no effect: it tunes another OpenMP library than the one used here; choose processors with "
     "taskset or numactl",
     true},
    {"NCCL_SOCKET_IFNAME NCCL_MIN_NRINGS NCCL_DEBUG", "all",
     "no effect: this program computes on CPUs", true},
    {"FS_ID GROUP_ID GROUP_NAME NFS_PATH NFS_SERVER PVC_NAME PVC_PATH USER_ID USER_NAME REPLICAS "
     "TF_SERVING_PORT IMAGE_SUFFIX IMAGE_VERSION MODEL_DIR MODEL_SCRIPT REGISTRY "
     "WORKERS",
     "all", "not read: a parameter of Kubernetes manifests, which this version does not make",
     false},
};
enum { VARIABLES = sizeof variables / sizeof *variables };

const struct foreign_variable *foreign_variable_at(int index)
{
    return index < VARIABLES ? &variables[index] : NULL;
}

/* The first of the names that is set, or NULL. */
static const char *first_set(const char *names, char *(*environment)(const char *name), char *name,
                             size_t bytes)
{
    const char *word;
    for (size_t length; (length = option_next_word(&names, &word)) > 0;) {
        snprintf(name, bytes, "%.*s", (int)length, word);
        const char *value = environment(name);
        if (value && *value)
            return name;
    }
    return NULL;
}

void foreign_variables_tell(char *(*environment)(const char *name))
{
    char name[64];
    for (int i = 0; i < VARIABLES; i++)
        if (variables[i].said && first_set(variables[i].names, environment, name, sizeof name))
            log_line(LOG_INFO, "%s has %s", name, variables[i].outcome);
}
