#include "cli/foreign_variables.h"

#include "base/log.h"
#include "cli/options.h"

static const struct foreign_variable variables[] = {
    {"TF_CONFIG OMPI_COMM_WORLD_SIZE PMI_SIZE HOROVOD_SIZE", "train, pipeline, bench",
     "refused when it names several ranks: this version trains in one process", false},
    {"HOROVOD_FUSION_THRESHOLD HOROVOD_CYCLE_TIME HOROVOD_CACHE_CAPACITY HOROVOD_TIMELINE "
     "HOROVOD_TIMELINE_MARK_CYCLES HOROVOD_AUTOTUNE HOROVOD_AUTOTUNE_LOG "
     "HOROVOD_STALL_CHECK_TIME_SECONDS HOROVOD_STALL_SHUTDOWN_TIME_SECONDS "
     "HOROVOD_STALL_CHECK_DISABLE HOROVOD_HIERARCHICAL_ALLREDUCE HOROVOD_CPU_OPERATIONS",
     "all", "no effect: this version trains in one process and exchanges no gradients", true},
    {"KMP_AFFINITY KMP_BLOCKTIME KMP_SETTINGS", "all",
     "no effect: it tunes another OpenMP library than the one used here; choose processors with "
     "taskset or numactl",
     true},
    {"NCCL_SOCKET_IFNAME NCCL_MIN_NRINGS NCCL_DEBUG", "all",
     "no effect: this program computes on CPUs", true},
    {"FS_ID GROUP_ID GROUP_NAME NFS_PATH NFS_SERVER PVC_NAME PVC_PATH USER_ID USER_NAME REPLICAS "
     "TF_SERVING_PORT IMAGE_SUFFIX IMAGE_VERSION MODEL_DIR MODEL_NAME MODEL_SCRIPT REGISTRY "
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
