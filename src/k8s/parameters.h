/* What a deployment can be told: one table of names, types, defaults and words about each. The
 * names and defaults are those of the documents that users come from; who runs it is not: unless
 * told, not root. */
#ifndef K8S_PARAMETERS_H
#define K8S_PARAMETERS_H

#include <stdbool.h>

/* What a value must be; checks.c says how it is told. */
enum parameter_type {
    PARAMETER_IS_TEXT,      /* one line of anything */
    PARAMETER_IS_NAME,      /* a DNS label: part of names of objects and hosts */
    PARAMETER_IS_SUBDOMAIN, /* names separated by dots: of objects that are no hosts */
    PARAMETER_IS_USER,      /* a login name: also part of a path */
    PARAMETER_IS_PATH,      /* absolute, as a volume can be mounted at */
    PARAMETER_IS_PLACE,     /* a path below the volume's, or an absolute one */
    PARAMETER_IS_HOST,      /* a name or an address */
    PARAMETER_IS_IMAGE,     /* a reference without blanks */
    PARAMETER_IS_WORDS,     /* words as a shell would read them */
    PARAMETER_IS_JSON,      /* a list of objects */
    PARAMETER_IS_INTEGER,   /* at least 0 */
    PARAMETER_IS_COUNT,     /* at least 1 */
    PARAMETER_IS_PORT,      /* 1 to 65535; 0: none */
    PARAMETER_IS_ID,        /* of a user or group */
    PARAMETER_IS_FRACTION,  /* 0 to 1, or nothing */
    PARAMETER_IS_QUANTITY,  /* 500m, 2, 4Gi */
    PARAMETER_IS_BOOL,      /* true or false, in any case */
    PARAMETER_IS_CHOICE,    /* one of the words that its help starts with, separated by bars */
};

/* PARAMETER(name, type, default, help) */
#define PARAMETERS(PARAMETER)                                                                      \
    PARAMETER(NAMESPACE, NAME, "", "namespace of all objects; else the one kubectl is given")      \
    PARAMETER(MODEL, TEXT, "resnet50", "network of `lockstep models`")                             \
    PARAMETER(MODEL_NAME, NAME, "",                                                                \
              "name of all objects; unless told, the model's in the packages")                     \
    PARAMETER(DATASET_DIR, PATH, "/datasets", "input dataset directory, on every node")            \
    PARAMETER(DATASET_CLAIM, SUBDOMAIN, "",                                                        \
              "claim with the dataset, instead of the nodes' directory")                           \
    PARAMETER(DATA, TEXT, "",                                                                      \
              "what --data gets instead of DATASET_DIR: synthetic, imagenet:s3://BUCKET/PREFIX")   \
    PARAMETER(STORAGE, CHOICE, "pvc", "pvc|nfs: where results go")                                 \
    PARAMETER(PVC_NAME, SUBDOMAIN, "workdisk", "pvc name")                                         \
    PARAMETER(PVC_PATH, PATH, "/pvc", "pvc path")                                                  \
    PARAMETER(NFS_SERVER, HOST, "0.0.0.0", "nfs server")                                           \
    PARAMETER(NFS_PATH, PATH, "/nfs", "nfs path, of the server and in the pods")                   \
    PARAMETER(OUTPUT_DIR, PLACE, "output", "results, below PATH/USER_NAME/MODEL_NAME")             \
    PARAMETER(CHECKPOINT_DIR, PLACE, "checkpoints",                                                \
              "checkpoints, below PATH/USER_NAME/MODEL_NAME")                                      \
    PARAMETER(USER_ID, ID, "1000", "process owner id")                                             \
    PARAMETER(USER_NAME, USER, "lockstep", "process owner name")                                   \
    PARAMETER(GROUP_ID, ID, "1000", "process group id")                                            \
    PARAMETER(GROUP_NAME, USER, "lockstep", "process group name")                                  \
    PARAMETER(FS_ID, ID, "1000", "owner id of mounted volumes")                                    \
    PARAMETER(IMAGE, IMAGE, "lockstep:" LOCKSTEP_VERSION, "container image")                       \
    PARAMETER(IMAGE_PULL_SECRET, SUBDOMAIN, "", "secret for pulling it")                           \
    PARAMETER(PROGRAM, CHOICE, "",                                                                 \
              "lockstep|other: what is in the image; unless told, by its name")                    \
    PARAMETER(EXEC, WORDS, "", "command line instead of ours")                                     \
    PARAMETER(ARGS, WORDS, "", "more options behind ours")                                         \
    PARAMETER(BATCH_SIZE, INTEGER, "0", "examples per process and step; 0: the model's")           \
    PARAMETER(STEPS, INTEGER, "0", "steps; 0: the model's")                                        \
    PARAMETER(EPOCHS, INTEGER, "0", "passes over the data; 0: the model's")                        \
    PARAMETER(CPU, QUANTITY, "2", "processors of each pod that computes")                          \
    PARAMETER(MEMORY, QUANTITY, "",                                                                \
              "memory of each pod that computes; unless told, by model and batch, from 4Gi on")    \
    PARAMETER(LAUNCHER_CPU, QUANTITY, "500m", "processors of the launcher")                        \
    PARAMETER(LAUNCHER_MEMORY, QUANTITY, "512Mi", "memory of the launcher")                        \
    PARAMETER(GRACE_SECONDS, COUNT, "120", "time a pod has to save after it is told to end")       \
    PARAMETER(WORKERS, COUNT, "2", "worker pods")                                                  \
    PARAMETER(SLOTS, INTEGER, "1", "processes per worker; 0: as many as GPU")                      \
    PARAMETER(GPU, INTEGER, "0", "GPUs per worker, for images that can use them")                  \
    PARAMETER(LAUNCH, CHOICE, "", "agent|ssh: how workers are reached; unless told, by PROGRAM")   \
    PARAMETER(SSH_DIR, PATH, "/home/mpiuser/.ssh", "ssh: where the image looks for its keys")      \
    PARAMETER(WORKER_EXEC, WORDS, "", "ssh: what a worker runs")                                   \
    PARAMETER(AGENT_PORT, PORT, "7077", "port of the agents")                                      \
    PARAMETER(SECRET, SUBDOMAIN, "none",                                                           \
              "secret that members share; none: the operator's, or nobody's")                      \
    PARAMETER(SECRET_FILE, TEXT, "id_rsa", "its file")                                             \
    PARAMETER(BACKOFF_LIMIT, INTEGER, "6", "how often a failed pod is tried again")                \
    PARAMETER(SCHEDULER, CHOICE, "none", "none|kueue|volcano: who admits the job")                 \
    PARAMETER(QUEUE, SUBDOMAIN, "default", "its queue")                                            \
    PARAMETER(DASHBOARD_PORT, PORT, "0", "port of the live page and its Service; 0: none")         \
    PARAMETER(REPLICAS, COUNT, "3", "replica number")                                              \
    PARAMETER(RETRY_LIMIT, INTEGER, "10", "how often training goes on below the target")           \
    PARAMETER(TARGET_ACCURACY, FRACTION, "0.74", "target accuracy; empty: no gate")                \
    PARAMETER(TF_SERVING_PORT, PORT, "8501", "tf serving port")                                    \
    PARAMETER(NODE_PORT, INTEGER, "0", "port of the nodes, 30000 to 32767; 0: any")                \
    PARAMETER(SERVER, CHOICE, "lockstep", "lockstep|tensorflow: who serves")                       \
    PARAMETER(SERVING_IMAGE, IMAGE, "",                                                            \
              "image of the server; unless told, IMAGE or tensorflow/serving")                     \
    PARAMETER(SERVICE_TYPE, CHOICE, "ClusterIP",                                                   \
              "ClusterIP|NodePort|LoadBalancer: kind of Service")                                  \
    PARAMETER(MODEL_PATH, PATH, "/models", "where the claim with the model is mounted")            \
    PARAMETER(MODEL_DIR, PLACE, "model", "directory of the model's versions on it")                \
    PARAMETER(MAX_REPLICAS, COUNT, "10", "replicas under load")                                    \
    PARAMETER(CPU_TARGET, COUNT, "70", "load in percent at which replicas are added")              \
    PARAMETER(MIN_AVAILABLE, INTEGER, "1", "replicas that a drained node may not take")            \
    PARAMETER(MIN_RANKS, INTEGER, "0", "members enough to go on while others are away; 0: all")    \
    PARAMETER(COMPONENT, NAME, "openmpi", "name of all objects")                                   \
    PARAMETER(NFS_EXPORT, TEXT, "/", "directory that the nfs server exports")                      \
    PARAMETER(CREATE_VOLUME, BOOL, "True", "render the volume and its claim")                      \
    PARAMETER(CAPACITY, QUANTITY, "85Gi",                                                          \
              "capacity of the volume; EFS has none, FSx 1200Gi or more")                          \
    PARAMETER(VOLUMES, JSON, "", "volumes, as a pod has them, in JSON")                            \
    PARAMETER(VOLUME_MOUNTS, JSON, "", "where they are mounted, in JSON")                          \
    PARAMETER(CLUSTER_NAME, NAME, "lockstep", "name of the EKS cluster")                           \
    PARAMETER(REGION, NAME, "us-west-2", "AWS region")                                             \
    PARAMETER(ZONE, NAME, "us-west-2a", "the one availability zone of the nodes")                  \
    PARAMETER(OTHER_ZONE, NAME, "us-west-2b", "a second one, which EKS wants for itself")          \
    PARAMETER(NODE_TYPE, TEXT, "c6i.16xlarge", "EC2 instance type")                                \
    PARAMETER(NODES, COUNT, "1", "number of nodes")                                                \
    PARAMETER(PLACEMENT_GROUP, TEXT, "", "EC2 placement group of the nodes; empty: none")          \
    PARAMETER(SSH_PUBLIC_KEY, TEXT, "", "file of a key that may log in to the nodes; empty: none") \
    PARAMETER(FILE_SYSTEM, CHOICE, "fsx", "efs|fsx: kind of file system")                          \
    PARAMETER(PROVISIONING, CHOICE, "static",                                                      \
              "static|dynamic: is it there, or made for the claim")                                \
    PARAMETER(FILE_SYSTEM_ID, TEXT, "", "fs-..., of the file system that is there")                \
    PARAMETER(DNS_NAME, TEXT, "", "of the FSx file system; unless told, by its id and REGION")     \
    PARAMETER(MOUNT_NAME, TEXT, "fsx", "of the FSx file system")                                   \
    PARAMETER(SUBNET_ID, TEXT, "", "subnet-... of the nodes, for a new FSx file system")           \
    PARAMETER(SECURITY_GROUP_IDS, TEXT, "", "sg-..., for a new FSx file system")                   \
    PARAMETER(S3_IMPORT_PATH, TEXT, "", "s3://... that a new FSx file system shows")               \
    PARAMETER(S3_EXPORT_PATH, TEXT, "", "s3://... that it writes back to")                         \
    PARAMETER(SOURCE, CHOICE, "fsx", "efs|fsx|s3|synthetic: where the data is")                    \
    PARAMETER(S3_PATH, TEXT, "", "s3://BUCKET/PREFIX of the records")                              \
    PARAMETER(S3_SECRET, SUBDOMAIN, "", "secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY") \
    PARAMETER(S3_ENDPOINT, TEXT, "", "URL of the S3 server, where it is not AWS")                  \
    PARAMETER(SERVICE_ACCOUNT, SUBDOMAIN, "", "service account of the pods")                       \
    PARAMETER(SCRIPT, TEXT, "keras_mnist.py", "training program")                                  \
    PARAMETER(NAME, NAME, "tf-learning", "prefix of all objects")                                  \
    PARAMETER(MODEL_CHECKPOINT_DIR, PATH, "/pvcmnt", "directory of the chief's checkpoints")       \
    PARAMETER(CHECKPOINT_PVC_NAME, SUBDOMAIN, "pvc-demo", "claim that is mounted there")           \
    PARAMETER(CHECKPOINT_SIZE, QUANTITY, "10G", "size of the claim")                               \
    PARAMETER(DEPLOY, BOOL, "False", "render the jobs")                                            \
    PARAMETER(CREATE_PVC_CHECKPOINT, BOOL, "True", "render the claim")                             \
    PARAMETER(CREATE_VOLUME_INSPECTOR, BOOL, "True", "render a pod to look into the claim")        \
    PARAMETER(INSPECTOR_IMAGE, IMAGE, "busybox", "image of that pod; it needs a shell")

enum parameter {
#define PARAMETER(name, type, initial, help) P_##name,
    PARAMETERS(PARAMETER)
#undef PARAMETER
        PARAMETER_COUNT
};

struct parameter_row {
    const char *name;
    enum parameter_type type;
    const char *initial, *help;
};

const struct parameter_row *parameter_row(enum parameter parameter);
/* The one of this name, whatever the case, or -1. */
int parameter_find(const char *name, int length);
/* The nth word of a choice's help, or NULL behind the last; `length` letters of it count. */
const char *parameter_choice(enum parameter parameter, int index, int *length);

#endif
