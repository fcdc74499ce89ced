/* A kind of deployment. Each file in k8s/kinds/ defines one, named kind_<file name>. */
#ifndef K8S_KIND_H
#define K8S_KIND_H

#include "k8s/parameters.h"

struct deployment;
struct error;
struct manifest;
struct strbuf;

/* A parameter that a kind takes, and what is different about it there. */
struct kind_use {
    enum parameter parameter;
    const char *spelling; /* as the kind's document has it; NULL: the table's name */
    const char *initial;  /* NULL: the table's */
    const char *help;     /* NULL: the table's */
};
enum { KIND_MAX_USES = 64 };

/* What several kinds take, in the order in which `params` shows it. */
#define KIND_USE(name, ...)                                                                        \
    {                                                                                              \
        .parameter = P_##name, __VA_ARGS__                                                         \
    }
#define KIND_USES_IMAGE KIND_USE(IMAGE), KIND_USE(IMAGE_PULL_SECRET), KIND_USE(PROGRAM)
/* What is run, and for how long. */
#define KIND_USES_COMMAND KIND_USE(EXEC), KIND_USE(ARGS), KIND_USE(BATCH_SIZE), KIND_USE(STEPS)
#define KIND_USES_SIZE KIND_USE(CPU), KIND_USE(MEMORY)
/* Who it runs as, where names do not matter. */
#define KIND_USES_IDS KIND_USE(USER_ID), KIND_USE(GROUP_ID), KIND_USE(FS_ID)
#define KIND_USES_QUEUE KIND_USE(SCHEDULER), KIND_USE(QUEUE)
#define KIND_USES_SECRET KIND_USE(SECRET), KIND_USE(SECRET_FILE)
/* Training on data of one's own, with a place for results, as a user of one's own. */
#define KIND_USES_STORAGE                                                                          \
    KIND_USE(DATASET_DIR), KIND_USE(DATASET_CLAIM), KIND_USE(DATA), KIND_USE(STORAGE),             \
        KIND_USE(PVC_NAME), KIND_USE(PVC_PATH), KIND_USE(NFS_SERVER), KIND_USE(NFS_PATH),          \
        KIND_USE(OUTPUT_DIR), KIND_USE(CHECKPOINT_DIR), KIND_USE(USER_ID), KIND_USE(USER_NAME),    \
        KIND_USE(GROUP_ID), KIND_USE(GROUP_NAME), KIND_USE(FS_ID), KIND_USES_IMAGE
/* An MPI job: its launcher, and how that reaches the workers. */
#define KIND_USES_LAUNCHER                                                                         \
    KIND_USE(LAUNCHER_CPU), KIND_USE(LAUNCHER_MEMORY), KIND_USE(GRACE_SECONDS), KIND_USE(LAUNCH),  \
        KIND_USE(SSH_DIR), KIND_USE(WORKER_EXEC), KIND_USE(AGENT_PORT)
/* What workers an MPI job has, and what each of them gets. */
#define KIND_USES_RANKS                                                                            \
    KIND_USE(WORKERS), KIND_USE(SLOTS), KIND_USE(GPU), KIND_USES_SIZE, KIND_USES_LAUNCHER
/* The component of the document about VGG16: its variables, its volumes. */
#define KIND_USES_COMPONENT(secret)                                                                \
    KIND_USE(NAMESPACE, .initial = "kubeflow-dist-train"), KIND_USE(COMPONENT), KIND_USES_IMAGE,   \
        KIND_USE(SECRET, .initial = secret), KIND_USE(SECRET_FILE), KIND_USE(WORKERS),             \
        KIND_USE(GPU, .initial = "4"), KIND_USE(SLOTS, .initial = "0"),                            \
        KIND_USE(MODEL, .initial = "vgg16"), KIND_USES_COMMAND, KIND_USES_VOLUMES, KIND_USES_SIZE, \
        KIND_USES_LAUNCHER, KIND_USES_IDS, KIND_USES_QUEUE
#define KIND_USES_VOLUMES                                                                          \
    KIND_USE(CREATE_VOLUME), KIND_USE(NFS_SERVER), KIND_USE(NFS_EXPORT), KIND_USE(CAPACITY),       \
        KIND_USE(VOLUMES, .spelling = "volumes",                                                   \
                 .initial = "[{\"name\": \"efs-pvc\", \"persistentVolumeClaim\": {\"claimName\": " \
                            "\"nfs-external\"}}]"),                                                \
        KIND_USE(VOLUME_MOUNTS, .spelling = "volumeMounts",                                        \
                 .initial = "[{\"name\": \"efs-pvc\", \"mountPath\": \"/mnt\"}]")
/* Fields of a kind whose main object is an MPIJob. */
#define KIND_IS_MPIJOB                                                                             \
    .log_target = "-l training.kubeflow.org/job-name=${SELF},"                                     \
                  "training.kubeflow.org/job-role=launcher",                                       \
    .main_object = "mpijobs.kubeflow.org/${SELF}", .end = KIND_HAS_CONDITIONS,                     \
    .needs_mpi_operator = true

/* How its end is told: the object to ask for, and what its status must say. */
enum kind_end {
    KIND_NEVER_ENDS,     /* it is ready, or not yet */
    KIND_HAS_PHASE,      /* status.phase: Succeeded, or Failed or Error */
    KIND_HAS_CONDITIONS, /* Complete or Succeeded; Failed */
};

/* Pure: no clock, no cluster, no environment; the same deployment gives the same objects. */
struct kind {
    const char *name, *summary;
    const char *origin;          /* the document it comes from, in a few words */
    enum parameter name_from;    /* whose value names the objects */
    const struct kind_use *uses; /* the last one has parameter PARAMETER_COUNT */
    const char *package;         /* its directory in the package's tree, or NULL */
    /* Contradictions between its parameters; each alone is right. NULL: none are possible. */
    int (*check)(const struct deployment *deployment, struct error *err);
    void (*render)(const struct deployment *deployment, struct manifest *out);
    const char *log_target;  /* pattern: what kubectl logs is given: pod/${NAME}, or -l SELECTOR */
    const char *main_object; /* pattern: TYPE/NAME whose end counts */
    enum kind_end end;
    const char *shows; /* types that status lists, beside pods */
    bool needs_mpi_operator, needs_argo;
};

const struct kind *const *kind_list(void);      /* NULL-terminated, by name */
const struct kind *kind_find(const char *name); /* or NULL */
/* Its name for a parameter, or NULL when it does not take it. */
const char *kind_spelling(const struct kind *kind, enum parameter parameter);
/* What it means to a kind, for people. */
const char *kind_help(const struct kind_use *use);
/* The parameter of this name, whatever the case, or -1 when it takes none such. */
int kind_parameter(const struct kind *kind, const char *name, int length);

#endif
