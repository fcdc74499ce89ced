#include "support/test.h"

#include "base/arena.h"
#include "base/strbuf.h"
#include "k8s/deployment.h"

static struct arena *memory;

/* A finished deployment with these settings, or the reason why not in `err`. */
static int make(struct deployment *deployment, const char *kind, const char *const *settings,
                struct error *err)
{
    if (!memory)
        memory = arena_create();
    arena_reset(memory);
    *err = (struct error){0};
    deployment_init(deployment, kind_find(kind));
    for (; *settings; settings++)
        if (deployment_set(deployment, *settings, FROM_FLAG, memory, err) < 0)
            return -1;
    return deployment_finish(deployment, memory, err);
}

#define MAKE(deployment, kind, ...)                                                                \
    make(deployment, kind, (const char *const[]){__VA_ARGS__, NULL}, &err)
#define REFUSES(part, kind, ...)                                                                   \
    ASSERT_FAILS(make(&deployment, kind, (const char *const[]){__VA_ARGS__, NULL}, &err), err,     \
                 ERROR_USAGE, part)

TEST(deployment, has_the_documents_defaults)
{
    static const struct {
        const char *kind;
        enum parameter parameter;
        const char *value;
    } rows[] = {
        {"single-node", P_DATASET_DIR, "/datasets"},
        {"single-node", P_NFS_PATH, "/nfs"},
        {"single-node", P_NFS_SERVER, "0.0.0.0"},
        {"single-node", P_PVC_NAME, "workdisk"},
        {"single-node", P_PVC_PATH, "/pvc"},
        {"single-node", P_OUTPUT_DIR, "output"},
        {"single-node", P_MODEL_NAME, "resnet50v1-5-fp32-training"},
        {"multi-node", P_WORKERS, "2"},
        {"pipeline", P_REPLICAS, "3"},
        {"pipeline", P_RETRY_LIMIT, "10"},
        {"pipeline", P_TARGET_ACCURACY, "0.74"},
        {"pipeline", P_TF_SERVING_PORT, "8501"},
        {"pipeline", P_STEPS, "500"},
        {"pipeline", P_MODEL_NAME, "wide-deep-large-ds-fp32-training"},
        {"multi-worker", P_NAME, "tf-learning"},
        {"multi-worker", P_WORKERS, "2"},
        {"multi-worker", P_SCRIPT, "keras_mnist.py"},
        {"multi-worker", P_AGENT_PORT, "5000"},
        {"multi-worker", P_MODEL_CHECKPOINT_DIR, "/pvcmnt"},
        {"multi-worker", P_CHECKPOINT_PVC_NAME, "pvc-demo"},
        {"multi-worker", P_DEPLOY, "False"},
        {"mpi-benchmark", P_BATCH_SIZE, "64"},
        {"mpi-benchmark", P_STEPS, "100"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct deployment deployment;
        struct error err;
        if (strcmp(rows[i].kind, "mpi-benchmark") == 0)
            ASSERT_OK(MAKE(&deployment, rows[i].kind, "CREATE_VOLUME=False"), err);
        else
            ASSERT_OK(MAKE(&deployment, rows[i].kind, NULL), err);
        ASSERT_TEXT(deployment_text(&deployment, rows[i].parameter), rows[i].value);
        ASSERT_INT(deployment_integer(&deployment, P_USER_ID), ==, 1000);
    }
}

/* The peaks are measured: a process that needs more is killed, by its limit and without a word. */
TEST(deployment, memory_is_enough_for_the_documents_batches)
{
    struct deployment deployment;
    struct error err;
    ASSERT_OK(MAKE(&deployment, "single-node", NULL), err);
    ASSERT_TEXT(deployment_text(&deployment, P_MEMORY), "4Gi"); /* 1.7 GB at batch 16 */
    ASSERT_OK(MAKE(&deployment, "multi-node", NULL), err);
    ASSERT_TEXT(deployment_text(&deployment, P_MEMORY), "13Gi"); /* 11.1 GB at batch 128 */
    ASSERT_OK(MAKE(&deployment, "multi-node", "SLOTS=2"), err);
    ASSERT_TEXT(deployment_text(&deployment, P_MEMORY), "26Gi");
    ASSERT_OK(MAKE(&deployment, "mpi-benchmark", "CREATE_VOLUME=False"), err);
    ASSERT_TEXT(deployment_text(&deployment, P_MEMORY), "21Gi"); /* four of 3.7 GB */
    ASSERT_OK(MAKE(&deployment, "mpi-benchmark", "CREATE_VOLUME=False", "BATCH_SIZE=2", "GPU=1"),
              err);
    ASSERT_TEXT(deployment_text(&deployment, P_MEMORY), "4Gi");
    ASSERT_OK(MAKE(&deployment, "multi-node", "MEMORY=2Gi"), err);
    ASSERT_TEXT(deployment_text(&deployment, P_MEMORY), "2Gi");
    ASSERT_OK(MAKE(&deployment, "multi-node", "EXEC=mpirun true"), err);
    ASSERT_TEXT(deployment_text(&deployment, P_MEMORY), "4Gi");
    ASSERT_OK(MAKE(&deployment, "serving", NULL), err);
    ASSERT_TEXT(deployment_text(&deployment, P_MEMORY), "4Gi");
}

TEST(deployment, volumes_of_aws_have_the_documents_sizes)
{
    struct deployment deployment;
    struct error err;
    ASSERT_OK(MAKE(&deployment, "eks-storage", "FILE_SYSTEM=efs", "FILE_SYSTEM_ID=fs-1"), err);
    ASSERT_TEXT(deployment_text(&deployment, P_CAPACITY), "60Gi");
    ASSERT_OK(MAKE(&deployment, "eks-storage", "FILE_SYSTEM_ID=fs-1"), err);
    ASSERT_TEXT(deployment_text(&deployment, P_CAPACITY), "100Gi");
    ASSERT_OK(MAKE(&deployment, "eks-storage", "PROVISIONING=dynamic", "SUBNET_ID=subnet-1",
                   "SECURITY_GROUP_IDS=sg-1"),
              err);
    ASSERT_TEXT(deployment_text(&deployment, P_CAPACITY), "1200Gi");
}

TEST(deployment, names_are_taken_in_any_case_and_in_the_documents_spelling)
{
    struct deployment deployment;
    struct error err;
    ASSERT_OK(MAKE(&deployment, "multi-worker", "worker_replicas=3", "IMAGE=tensorflow/tensorflow",
                   "Port=5001"),
              err);
    ASSERT_INT(deployment_integer(&deployment, P_WORKERS), ==, 3);
    ASSERT_INT(deployment_integer(&deployment, P_AGENT_PORT), ==, 5001);
    ASSERT_FALSE(deployment_runs_lockstep(&deployment));
}

TEST(deployment, refuses_what_contradicts_itself)
{
    struct deployment deployment;
    struct error err;
    REFUSES("cannot both be True", "multi-worker", "deploy=True");
    REFUSES("nothing to do", "multi-worker", "create_pvc_checkpoint=False",
            "create_volume_inspector=False");
    REFUSES("placeholder", "single-node", "STORAGE=nfs");
    REFUSES("placeholder", "openmpi", NULL);
    REFUSES("both given", "single-node", "NFS_SERVER=10.0.0.1", "PVC_NAME=mine");
    REFUSES("makes its own claim", "single-node", "STORAGE=nfs", "NFS_SERVER=10.0.0.1",
            "PVC_NAME=mine");
    REFUSES("is no whole number from 1 on", "multi-node", "WORKERS=0");
    REFUSES("is no quantity", "multi-node", "MEMORY=4GB");
    REFUSES("is no name", "multi-node", "MODEL_NAME=My_Model");
    REFUSES("at most 50", "multi-node",
            "MODEL_NAME=a23456789012345678901234567890123456789012345678901-training");
    REFUSES("outside of /pvc", "single-node", "OUTPUT_DIR=/somewhere");
    REFUSES("same place", "single-node", "PVC_PATH=/datasets");
    REFUSES("lockstep computes on CPUs", "multi-node", "GPU=1");
    REFUSES("EXEC is missing", "multi-node", "IMAGE=rgaut/horovod:latest");
    REFUSES("has no lockstep in it", "multi-node", "IMAGE=rgaut/horovod:latest", "EXEC=mpirun x",
            "LAUNCH=agent");
    REFUSES("not in our image", "openmpi", "NFS_SERVER=a", "EXEC=mpiexec sh -c 'x'");
    REFUSES("our image has no Python", "multi-worker", "deploy=True",
            "create_volume_inspector=False", "script=mine.py");
    REFUSES("is not among volumes", "openmpi", "NFS_SERVER=a",
            "volumeMounts=[{\"name\":\"x\",\"mountPath\":\"/x\"}]");
    REFUSES("is a name of ours", "openmpi", "NFS_SERVER=a",
            "volumes=[{\"name\":\"tmp\",\"emptyDir\":{}}]", "volumeMounts=[]");
    REFUSES("something of ours is at /dev/shm", "openmpi", "NFS_SERVER=a",
            "volumes=[{\"name\":\"a\",\"emptyDir\":{}}]",
            "volumeMounts=[{\"name\":\"a\",\"mountPath\":\"/dev/shm\"}]");
    REFUSES("1000 at most", "openmpi", "NFS_SERVER=a", "WORKERS=1001");
    REFUSES("worker_replicas=2147483647: 1000 at most", "multi-worker",
            "worker_replicas=2147483647");
    REFUSES("is for our program", "multi-worker", "deploy=True", "create_volume_inspector=False",
            "image=tf:2", "DATA=digits");
    REFUSES("is not used: SCHEDULER is none", "single-node", "QUEUE=team");
    REFUSES("is not used: STORAGE is pvc", "single-node", "NFS_PATH=/x");
    REFUSES("is not used: workers are reached by agents", "multi-node", "SSH_DIR=/x");
    REFUSES("EXEC replaces ours", "single-node", "EXEC=a", "ARGS=b");
    REFUSES("FILE_SYSTEM_ID is missing", "eks-storage", NULL);
    REFUSES("S3_IMPORT_PATH is for", "eks-storage", "FILE_SYSTEM_ID=fs-1", "S3_IMPORT_PATH=s3://x");
    REFUSES("must be s3://", "eks-training", "SOURCE=s3");
    REFUSES("is no zone of", "eks-cluster", "REGION=eu-west-1");
    REFUSES("more than WORKERS", "elastic", "MIN_RANKS=3");
    REFUSES("less than REPLICAS", "serving", "REPLICAS=20");
    REFUSES("could ever be drained", "serving", "MIN_AVAILABLE=3");
    REFUSES("30000 to 32767", "pipeline", "NODE_PORT=80");
    REFUSES("reads no files", "single-node", "DATA=synthetic", "DATASET_CLAIM=x");
}

TEST(deployment, unknown_parameters_get_the_nearest_name)
{
    struct deployment deployment;
    struct error err;
    REFUSES("did you mean WORKERS?", "multi-node", "WORKER=3");
    REFUSES("single-node has no use for it", "single-node", "WORKERS=3");
    REFUSES("write KEY=VALUE", "single-node", "WORKERS");
}

TEST(deployment, an_nfs_server_alone_means_nfs)
{
    struct deployment deployment;
    struct error err;
    ASSERT_OK(MAKE(&deployment, "single-node", "NFS_SERVER=10.0.0.1"), err);
    ASSERT_TRUE(deployment_is(&deployment, P_STORAGE, "nfs"));
}

TEST(deployment, root_is_rendered_with_a_warning)
{
    struct deployment deployment;
    struct error err;
    ASSERT_OK(MAKE(&deployment, "single-node", "USER_ID=0", "GROUP_ID=5"), err);
    ASSERT_CONTAINS(deployment_warning(&deployment, 0), "runs as root");
    ASSERT_TRUE(deployment_warning(&deployment, 1) == NULL);
    ASSERT_OK(MAKE(&deployment, "single-node", NULL), err);
    ASSERT_TRUE(deployment_warning(&deployment, 0) == NULL);
}

TEST(deployment, volumes_that_a_restricted_namespace_refuses_get_a_warning)
{
    struct deployment deployment;
    struct error err;
    ASSERT_OK(MAKE(&deployment, "openmpi", "CREATE_VOLUME=False",
                   "volumes=[{\"name\":\"a\",\"hostPath\":{\"path\":\"/x\"}}]", "volumeMounts=[]"),
              err);
    ASSERT_CONTAINS(deployment_warning(&deployment, 0), "hostPath and nfs are refused");
    ASSERT_OK(MAKE(&deployment, "openmpi", "CREATE_VOLUME=False"), err);
    ASSERT_TRUE(deployment_warning(&deployment, 0) == NULL);
}

static char *variables(const char *name)
{
    static char workers[] = "7", claim[] = "from-environment";
    if (strcmp(name, "WORKERS") == 0)
        return workers;
    return strcmp(name, "PVC_NAME") == 0 ? claim : NULL;
}

TEST(deployment, flags_beat_the_file_which_beats_the_environment)
{
    static const char file[] =
        "kind: multi-node\nparameters:\n  WORKERS: 3\n  SLOTS: 2\n  PVC_PATH: /pvc\n";
    struct deployment deployment;
    struct error err = {0};
    struct arena *own = arena_create();
    ASSERT_OK(deployment_read(&deployment, file, strlen(file), own, &err), err);
    ASSERT_OK(deployment_set_environment(&deployment, variables, own, &err), err);
    ASSERT_OK(deployment_set(&deployment, "SLOTS=4", FROM_FLAG, own, &err), err);
    ASSERT_INT(deployment_integer(&deployment, P_WORKERS), ==, 3);
    ASSERT_INT(deployment_integer(&deployment, P_SLOTS), ==, 4);
    ASSERT_TEXT(deployment_text(&deployment, P_PVC_NAME), "from-environment");
    ASSERT_FALSE(deployment_gave(&deployment, P_PVC_PATH)); /* it is the default */
    arena_destroy(own);
}

TEST(deployment, a_file_that_was_written_is_read_again_for_every_kind)
{
    for (const struct kind *const *kind = kind_list(); *kind; kind++) {
        struct deployment written, read;
        struct strbuf text;
        struct error err = {0};
        struct arena *own = arena_create();
        strbuf_init(&text);
        deployment_init(&written, *kind);
        ASSERT_OK(deployment_write(&written, &text, &err), err);
        ASSERT_OK(deployment_read(&read, text.text, text.length, own, &err), err);
        ASSERT_TRUE(read.kind == *kind);
        for (int i = 0; i < PARAMETER_COUNT; i++) {
            ASSERT_TEXT(read.values[i], written.values[i]);
            ASSERT_INT(read.sources[i], ==, FROM_TABLE);
        }
        strbuf_release(&text);
        arena_destroy(own);
    }
}

TEST(deployment, bad_files_are_refused)
{
    static const struct {
        const char *text, *part;
    } cases[] = {{"", "is no parameter file"},
                 {"parameters: {}\n", "kind: NAME"},
                 {"kind: multinode\n", "did you mean multi-node"},
                 {"kind: multi-node\nparameter: {}\n", "parameter: is unknown"},
                 {"kind: multi-node\nparameters: []\n", "must be a map"},
                 {"kind: multi-node\nparameters: {WORKERS: [1]}\n", "must be one value"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct deployment deployment;
        struct error err = {0};
        struct arena *own = arena_create();
        ASSERT_FAILS(deployment_read(&deployment, cases[i].text, strlen(cases[i].text), own, &err),
                     err, ERROR_FORMAT, cases[i].part);
        arena_destroy(own);
    }
}
