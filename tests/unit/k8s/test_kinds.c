/* Whatever the parameters: what is rendered can be read by a YAML reader, has the types the API
 * server wants, and passes Pod Security's level restricted. */
#include "support/test.h"

#include "base/arena.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/yaml.h"
#include "k8s/checks.h"
#include "k8s/deployment.h"
#include "k8s/manifest.h"

/* What a kind renders with these settings (separated by semicolons), and `more` behind them. */
static int render_text(const char *kind, const char *settings, const char *more, struct strbuf *out,
                       struct error *err)
{
    struct deployment deployment;
    struct arena *memory = arena_create();
    struct manifest *manifest = NULL;
    char line[512];
    int status = 0;
    deployment_init(&deployment, kind_find(kind));
    for (const char *at = settings; status == 0 && *at; at += strcspn(at, ";"), at += *at == ';') {
        snprintf(line, sizeof line, "%.*s", (int)strcspn(at, ";"), at);
        status = deployment_set(&deployment, line, FROM_FLAG, memory, err);
    }
    if (status == 0 && more)
        status = deployment_set(&deployment, more, FROM_FLAG, memory, err);
    if (status == 0)
        status = deployment_finish(&deployment, memory, err);
    if (status == 0) {
        manifest = manifest_create(&deployment);
        deployment.kind->render(&deployment, manifest);
        status = manifest_write(manifest, false, out, err);
    }
    manifest_destroy(manifest);
    arena_destroy(memory);
    return status;
}

/* The objects as typed JSON. */
static struct json *render(const char *kind, const char *settings)
{
    struct error err = {0};
    struct strbuf text;
    struct json *documents = NULL;
    strbuf_init(&text);
    if (render_text(kind, settings, NULL, &text, &err) < 0)
        FAIL("%s %s: %s", kind, settings, err.message);
    ASSERT_OK(yaml_read(text.text, text.length, YAML_TYPES, &documents, &err), err);
    strbuf_release(&text);
    return documents;
}

static const struct json *find(const struct json *documents, const char *kind, const char *name)
{
    for (int i = 0; i < json_count(documents); i++) {
        const struct json *object = json_at(documents, i);
        if (strcmp(json_get_text(object, "kind", ""), kind) == 0 &&
            (!name || strcmp(json_get_text(json_get(object, "metadata"), "name", ""), name) == 0))
            return object;
    }
    FAIL("there is no %s %s", kind, name ? name : "");
}

/* "spec.template.spec.containers.0.image" */
static const struct json *at(const struct json *json, const char *path)
{
    char part[128];
    for (const char *next = path; *next && json; next += strcspn(next, "."), next += *next == '.') {
        snprintf(part, sizeof part, "%.*s", (int)strcspn(next, "."), next);
        json = json_type_of(json) == JSON_IS_ARRAY ? json_at(json, (int)strtol(part, NULL, 10))
                                                   : json_get(json, part);
    }
    return json;
}

static const char *text_at(const struct json *json, const char *path)
{
    const char *text = json_as_text(at(json, path), NULL);
    if (!text)
        FAIL("%s is no text", path);
    return text;
}

static void expect_true(const struct json *map, const char *path, bool expected)
{
    if (json_type_of(at(map, path)) != JSON_IS_BOOL ||
        json_as_bool(at(map, path), false) != expected)
        FAIL("%s is not %s", path, expected ? "true" : "false");
}

static void all_texts(const struct json *list)
{
    for (int i = 0; list && i < json_count(list); i++)
        ASSERT_TRUE(json_type_of(json_at(list, i)) == JSON_IS_TEXT);
}

static void check_container(const struct json *container)
{
    ASSERT_TRUE(*text_at(container, "image"));
    expect_true(container, "securityContext.allowPrivilegeEscalation", false);
    ASSERT_TEXT(text_at(container, "securityContext.capabilities.drop.0"), "ALL");
    ASSERT_TRUE(check_is_quantity(text_at(container, "resources.requests.cpu")));
    ASSERT_TRUE(check_is_quantity(text_at(container, "resources.limits.memory")));
    all_texts(json_get(container, "command"));
    const struct json *env = json_get(container, "env");
    for (int i = 0; env && i < json_count(env); i++)
        ASSERT_TRUE(json_type_of(json_get(json_at(env, i), "value")) == JSON_IS_TEXT);
}

/* Each volume is of a kind that the level allows, and each mount has its volume. */
static void check_volumes(const struct json *spec, const struct json *container)
{
    static const char *const allowed[] = {"persistentVolumeClaim", "emptyDir", "secret",
                                          "configMap"};
    const struct json *volumes = json_get(spec, "volumes");
    const struct json *mounts = json_get(container, "volumeMounts");
    for (int i = 0; volumes && i < json_count(volumes); i++) {
        int kinds = 0;
        for (size_t j = 0; j < sizeof allowed / sizeof *allowed; j++)
            kinds += json_get(json_at(volumes, i), allowed[j]) != NULL;
        ASSERT_INT(kinds, ==, 1);
    }
    for (int i = 0; mounts && i < json_count(mounts); i++) {
        bool found = false;
        for (int j = 0; j < json_count(volumes); j++)
            found |= strcmp(text_at(json_at(mounts, i), "name"),
                            text_at(json_at(volumes, j), "name")) == 0;
        ASSERT_TRUE(found);
    }
}

static void check_pod_security(const struct json *security)
{
    bool root = json_get_integer(security, "runAsUser", -1) == 0;
    expect_true(security, "runAsNonRoot", !root);
    ASSERT_INT(json_type_of(json_get(security, "runAsUser")), ==, JSON_IS_INTEGER);
    ASSERT_INT(json_type_of(json_get(security, "fsGroup")), ==, JSON_IS_INTEGER);
    ASSERT_TEXT(text_at(security, "seccompProfile.type"), "RuntimeDefault");
}

static void check_pod(const struct json *spec)
{
    if (strcmp(json_get_text(spec, "priorityClassName", ""), "system-node-critical") == 0)
        return; /* the device plugin, the one exception */
    check_pod_security(json_get(spec, "securityContext"));
    ASSERT_INT(json_get_integer(spec, "terminationGracePeriodSeconds", 0), >=, 30);
    ASSERT_TRUE(json_get(spec, "hostNetwork") == NULL && json_get(spec, "hostPID") == NULL);
    const struct json *containers = json_get(spec, "containers");
    for (int i = 0; i < json_count(containers); i++) {
        check_container(json_at(containers, i));
        check_volumes(spec, json_at(containers, i));
    }
}

/* Everything that has containers is a pod; a workflow's templates have one container each. */
static void walk(const struct json *json)
{
    void *state = NULL;
    const char *key;
    const struct json *value;
    if (json_type_of(json) == JSON_IS_ARRAY)
        for (int i = 0; i < json_count(json); i++)
            walk(json_at(json, i));
    if (json_type_of(json) != JSON_IS_OBJECT)
        return;
    if (json_get(json, "containers"))
        check_pod(json);
    if (json_get(json, "container")) {
        check_container(json_get(json, "container"));
        check_volumes(json, json_get(json, "container"));
    }
    while ((value = json_next(json, &state, &key)))
        walk(value);
}

static void check_labels(const struct json *labels)
{
    void *state = NULL;
    const char *key;
    const struct json *value;
    while (labels && (value = json_next(labels, &state, &key))) {
        const char *text = json_as_text(value, NULL);
        ASSERT_TRUE(text && strlen(text) <= 63);
    }
}

static void check_objects(const struct json *documents)
{
    for (int i = 0; i < json_count(documents); i++) {
        const struct json *object = json_at(documents, i);
        ASSERT_TRUE(*text_at(object, "apiVersion") && *text_at(object, "kind"));
        ASSERT_TRUE(check_is_subdomain(text_at(object, "metadata.name")));
        check_labels(at(object, "metadata.labels"));
        const struct json *data = json_get(object, "data");
        void *state = NULL;
        const char *key;
        const struct json *value;
        while (data && (value = json_next(data, &state, &key)))
            ASSERT_TRUE(json_type_of(value) == JSON_IS_TEXT);
    }
}

struct combination {
    const char *kind, *settings;
};

static const struct combination combinations[] = {
    {"single-node", ""},
    {"single-node", "EXEC=x"},
    {"single-node", "NFS_SERVER=10.0.0.1;NFS_PATH=/export/home"},
    {"single-node", "MODEL=wide_deep;USER_ID=0;GROUP_ID=0;FS_ID=0;USER_NAME=root"},
    {"single-node", "MODEL_NAME=on;PVC_NAME=1.10;USER_NAME=1e3;NAMESPACE=null;DATASET_DIR=/yes"},
    {"single-node", "DATA=synthetic;SCHEDULER=kueue;QUEUE=2026-11-16;DASHBOARD_PORT=8080"},
    {"single-node", "DATA=imagenet:s3://b/p;SCHEDULER=volcano;CPU=1e3;MEMORY=1e9"},
    {"single-node", "IMAGE=python:3;EXEC=python -c 'print(\"a: b # c\")' yes 1.10;GPU=2"},
    {"single-node", "PVC_PATH=/a b#c;OUTPUT_DIR=it's - a #test;DATASET_CLAIM=0"},
    {"multi-node", ""},
    {"multi-node", "EXEC=mpirun x"},
    {"multi-node", "STORAGE=nfs;NFS_SERVER=fe80::1;WORKERS=16;SLOTS=4"},
    {"multi-node", "SCHEDULER=volcano;DASHBOARD_PORT=8080;SECRET=shared;SECRET_FILE=key"},
    {"multi-node", "IMAGE=mpioperator/x;EXEC=mpirun -np 2 true;GPU=1"},
    {"multi-node", "MODEL=/models/My_Net.so;ARGS=--lr 1e-3 --group 'wide/=ftrl,lr=0.005'"},
    {"pipeline", ""},
    {"pipeline", "EXEC=x;SCHEDULER=volcano"},
    {"pipeline", "STORAGE=nfs;NFS_SERVER=a.b;SERVER=tensorflow;TARGET_ACCURACY="},
    {"pipeline", "NODE_PORT=30001;REPLICAS=1;RETRY_LIMIT=0;USER_ID=0;PVC_PATH=/a b"},
    {"mpi-benchmark", "NFS_SERVER=10.0.0.1"},
    {"mpi-benchmark", "NFS_SERVER=a;EXEC=mpiexec x;SCHEDULER=kueue"},
    {"mpi-benchmark", "NFS_SERVER=a;EXEC=mpiexec x;PROGRAM=other"},
    {"mpi-benchmark", "CREATE_VOLUME=False;SECRET=openmpi-secret;WORKERS=4;GPU=8"},
    {"openmpi", "NFS_SERVER=10.0.0.1"},
    {"openmpi", "NFS_SERVER=a;EXEC=mpiexec x;SCHEDULER=volcano"},
    {"openmpi", "NFS_SERVER=a;SECRET=none;WORKERS=3;SLOTS=2;volumes=[];volumeMounts=[]"},
    {"openmpi", "NFS_SERVER=a;IMAGE=rgaut/horovod:latest;EXEC=mpiexec sh -c 'a=1 python3.6 x'"},
    {"eks-training", ""},
    {"eks-training", "SOURCE=efs;EXEC=mpirun x;SCHEDULER=kueue"},
    {"eks-training",
     "SOURCE=s3;S3_PATH=s3://b/imagenet;S3_SECRET=aws;S3_ENDPOINT=http://minio:9000"},
    {"eks-training", "SOURCE=synthetic;IMAGE=a/b;EXEC=mpirun x;GPU=8"},
    {"multi-worker", ""},
    {"multi-worker", "deploy=True;create_volume_inspector=False;worker_replicas=4"},
    {"multi-worker", "deploy=True;create_volume_inspector=False;image=tf:2;script=my.py;name=off"},
    {"multi-worker", "deploy=True;create_volume_inspector=False;SECRET=s;DATA=digits;"
                     "SCHEDULER=kueue"},
    {"elastic", ""},
    {"elastic", "NFS_SERVER=10.0.0.1"},
    {"elastic", "WORKERS=5;MIN_RANKS=3;SECRET=s;SCHEDULER=kueue;DASHBOARD_PORT=9000"},
    {"eks-cluster", ""},
    {"eks-cluster", "REGION=eu-west-1;ZONE=eu-west-1a;OTHER_ZONE=eu-west-1b;PLACEMENT_GROUP=yes"},
    {"eks-storage", "FILE_SYSTEM_ID=fs-1"},
    {"eks-storage", "FILE_SYSTEM_ID=fs-1;FILE_SYSTEM=efs;PROVISIONING=dynamic"},
    {"eks-storage", "PROVISIONING=dynamic;SUBNET_ID=subnet-1;SECURITY_GROUP_IDS=sg-1;"
                    "S3_IMPORT_PATH=s3://bucket"},
    {"device-plugin", ""},
    {"serving", ""},
    {"serving", "SERVER=tensorflow;SERVICE_TYPE=NodePort;REPLICAS=1;MAX_REPLICAS=1"},
};

TEST(kinds, everything_rendered_is_restricted_and_typed)
{
    for (size_t i = 0; i < sizeof combinations / sizeof *combinations; i++) {
        struct json *documents = render(combinations[i].kind, combinations[i].settings);
        walk(documents);
        check_objects(documents);
        json_release(documents);
    }
}

/* Another value than any default's, of the parameter's type. */
static const char *another(enum parameter parameter)
{
    switch (parameter_row(parameter)->type) {
    case PARAMETER_IS_PATH:
        return "/elsewhere";
    case PARAMETER_IS_HOST:
        return "elsewhere.example";
    case PARAMETER_IS_JSON:
        return parameter == P_VOLUMES
                   ? "[{\"name\":\"x\",\"emptyDir\":{}},{\"name\":\"efs-pvc\",\"emptyDir\":{}}]"
                   : "[{\"name\":\"efs-pvc\",\"mountPath\":\"/x\"}]";
    case PARAMETER_IS_INTEGER:
    case PARAMETER_IS_COUNT:
    case PARAMETER_IS_PORT:
    case PARAMETER_IS_ID:
        if (parameter == P_NODE_PORT)
            return "30123";
        return parameter == P_MIN_AVAILABLE ? "2" : parameter == P_MIN_RANKS ? "1" : "7";
    case PARAMETER_IS_FRACTION:
        return "0.123";
    case PARAMETER_IS_QUANTITY:
        return "123M";
    case PARAMETER_IS_WORDS:
        return "elsewhere -x";
    case PARAMETER_IS_IMAGE:
        return "elsewhere/lockstep:2";
    default:
        if (parameter == P_NFS_EXPORT)
            return "/elsewhere";
        return parameter == P_S3_PATH || parameter == P_S3_IMPORT_PATH ? "s3://elsewhere"
                                                                       : "elsewhere";
    }
}

/* Does the parameter change what is rendered from at least one of the combinations? */
static bool changes(const struct kind *kind, enum parameter parameter, const char *value)
{
    bool changed = false;
    char line[256];
    snprintf(line, sizeof line, "%s=%s", parameter_row(parameter)->name, value);
    for (size_t i = 0; i < sizeof combinations / sizeof *combinations && !changed; i++) {
        struct strbuf before, after;
        struct error err = {0};
        if (strcmp(combinations[i].kind, kind->name) != 0)
            continue;
        strbuf_init(&before);
        strbuf_init(&after);
        ASSERT_OK(render_text(kind->name, combinations[i].settings, NULL, &before, &err), err);
        if (render_text(kind->name, combinations[i].settings, line, &after, &err) == 0)
            changed = strcmp(before.text, after.text) != 0;
        else /* contradicting another one is an effect, too */
            changed = strstr(err.message, "is no zone of") || strstr(err.message, "does not start");
        strbuf_release(&before);
        strbuf_release(&after);
    }
    return changed;
}

TEST(kinds, no_parameter_is_taken_and_ignored)
{
    struct strbuf ignored;
    strbuf_init(&ignored);
    for (const struct kind *const *kind = kind_list(); *kind; kind++)
        for (const struct kind_use *use = (*kind)->uses; use->parameter != PARAMETER_COUNT; use++) {
            bool changed = false;
            int length;
            const char *word;
            /* STORAGE comes with a server or a claim; elastic groups are always ours. */
            if (use->parameter == P_STORAGE ||
                (use->parameter == P_PROGRAM && strcmp((*kind)->name, "elastic") == 0))
                continue;
            if (parameter_row(use->parameter)->type == PARAMETER_IS_CHOICE ||
                parameter_row(use->parameter)->type == PARAMETER_IS_BOOL) {
                static const char *const truths[] = {"True", "False"};
                for (int i = 0; i < 2; i++)
                    changed |= changes(*kind, use->parameter, truths[i]);
                for (int i = 0; (word = parameter_choice(use->parameter, i, &length)); i++) {
                    char value[32];
                    snprintf(value, sizeof value, "%.*s", length, word);
                    changed |= changes(*kind, use->parameter, value);
                }
            } else {
                changed = changes(*kind, use->parameter, another(use->parameter));
            }
            if (!changed)
                strbuf_addf(&ignored, " %s:%s", (*kind)->name,
                            kind_spelling(*kind, use->parameter));
        }
    ASSERT_TEXT(ignored.text, "");
    strbuf_release(&ignored);
}

TEST(kinds, every_kind_is_tried_above)
{
    for (const struct kind *const *kind = kind_list(); *kind; kind++) {
        bool tried = false;
        for (size_t i = 0; i < sizeof combinations / sizeof *combinations; i++)
            tried |= strcmp(combinations[i].kind, (*kind)->name) == 0;
        if (!tried)
            FAIL("%s is not among the combinations", (*kind)->name);
    }
}

TEST(kinds, hostile_values_come_back_as_they_were)
{
    struct json *documents = render("single-node", "MODEL_NAME=on;PVC_NAME=1.10;USER_NAME=1e3;"
                                                   "NAMESPACE=null;DATASET_DIR=/yes");
    const struct json *pod = find(documents, "Pod", "on");
    ASSERT_TEXT(text_at(pod, "metadata.namespace"), "null");
    ASSERT_TEXT(text_at(pod, "spec.volumes.1.persistentVolumeClaim.claimName"), "1.10");
    const struct json *map = find(documents, "ConfigMap", "on");
    ASSERT_TEXT(text_at(map, "data.USER_NAME"), "1e3");
    ASSERT_TEXT(text_at(map, "data.OUTPUT_DIR"), "/pvc/1e3/on/output");
    ASSERT_TEXT(text_at(map, "data.USER_ID"), "1000");
    json_release(documents);
    documents =
        render("single-node", "IMAGE=python:3;EXEC=python -c 'print(\"a: b # c\")' yes 1.10");
    const struct json *words = at(find(documents, "Pod", NULL), "spec.containers.0.command");
    ASSERT_TEXT(json_as_text(json_at(words, 2), ""), "print(\"a: b # c\")");
    ASSERT_TEXT(json_as_text(json_at(words, 3), ""), "yes");
    ASSERT_TEXT(json_as_text(json_at(words, 4), ""), "1.10");
    json_release(documents);
}

TEST(kinds, an_mpijob_has_what_the_operator_reads)
{
    struct json *documents = render("multi-node", "WORKERS=3;SLOTS=2");
    const struct json *spec = json_get(find(documents, "MPIJob", NULL), "spec");
    ASSERT_INT(json_get_integer(spec, "slotsPerWorker", 0), ==, 2);
    ASSERT_TEXT(text_at(spec, "runPolicy.cleanPodPolicy"), "Running");
    ASSERT_INT(json_as_integer(at(spec, "mpiReplicaSpecs.Worker.replicas"), 0), ==, 3);
    const struct json *launcher = at(spec, "mpiReplicaSpecs.Launcher.template.spec.containers.0");
    ASSERT_TEXT(text_at(launcher, "command.0"), "mpirun");
    ASSERT_TEXT(text_at(launcher, "command.2"), "6");
    ASSERT_TEXT(text_at(launcher, "env.0.name"), "OMPI_MCA_plm_rsh_agent");
    ASSERT_TEXT(text_at(launcher, "env.0.value"),
                "lockstep agent --port 7077 --secret-file /etc/lockstep/ssh/id_rsa --exec");
    ASSERT_TEXT(text_at(at(spec, "mpiReplicaSpecs.Worker.template.spec.containers.0"), "command.1"),
                "agent");
    json_release(documents);
}

TEST(kinds, tf_config_names_every_worker)
{
    struct json *documents =
        render("multi-worker", "deploy=True;create_volume_inspector=False;worker_replicas=3");
    const struct json *job = find(documents, "Job", "tf-learning-worker-2");
    const struct json *variable = at(job, "spec.template.spec.containers.0.env.0");
    ASSERT_TEXT(
        text_at(variable, "value"),
        "{\"cluster\":{\"worker\":[\"tf-learning-worker-0:5000\",\"tf-learning-worker-1:5000"
        "\",\"tf-learning-worker-2:5000\"]},\"task\":{\"type\":\"worker\",\"index\":2}}");
    ASSERT_TEXT(text_at(job, "spec.template.metadata.labels.task"), "2");
    ASSERT_TEXT(text_at(find(documents, "Service", "tf-learning-worker-2"), "spec.selector.task"),
                "2");
    const struct json *chief = find(documents, "Job", "tf-learning-worker-0");
    ASSERT_TEXT(text_at(chief, "spec.template.spec.volumes.1.persistentVolumeClaim.claimName"),
                "pvc-demo");
    json_release(documents);
}

TEST(kinds, a_workflow_gives_its_steps_what_they_need)
{
    struct json *documents = render("pipeline", "REPLICAS=5");
    const struct json *spec =
        json_get(find(documents, "Workflow", "wide-deep-large-ds-fp32-training-wf"), "spec");
    ASSERT_TEXT(text_at(spec, "templates.1.retryStrategy.limit"), "10");
    const char *manifest = text_at(spec, "templates.2.resource.manifest");
    ASSERT_CONTAINS(manifest, "replicas: {{workflow.parameters.REPLICAS}}\n");
    ASSERT_CONTAINS(manifest, "runAsUser: {{workflow.parameters.USER_ID}}\n");
    ASSERT_CONTAINS(manifest, "claimName: \"{{workflow.parameters.PVC_NAME}}\"\n");
    const struct json *list = at(spec, "arguments.parameters");
    bool replicas = false;
    for (int i = 0; i < json_count(list); i++) {
        ASSERT_TRUE(json_type_of(json_get(json_at(list, i), "value")) == JSON_IS_TEXT);
        for (int j = 0; j < i; j++)
            ASSERT_TRUE(
                strcmp(text_at(json_at(list, i), "name"), text_at(json_at(list, j), "name")));
        if (strcmp(text_at(json_at(list, i), "name"), "REPLICAS") == 0)
            replicas = strcmp(text_at(json_at(list, i), "value"), "5") == 0;
    }
    ASSERT_TRUE(replicas);
    json_release(documents);
}

/* A patch for Argo's own containers: which of them, and that they are restricted. */
static void check_patch(const struct json *template, const char *container)
{
    struct json *patch;
    struct error err;
    const char *text = text_at(template, "podSpecPatch");
    ASSERT_OK(json_parse(text, strlen(text), &patch, &err), err);
    ASSERT_TEXT(text_at(patch, "initContainers.0.name"), "init");
    ASSERT_TEXT(text_at(patch, "containers.0.name"), container);
    expect_true(patch, "initContainers.0.securityContext.allowPrivilegeEscalation", false);
    expect_true(patch, "containers.0.securityContext.allowPrivilegeEscalation", false);
    ASSERT_TEXT(text_at(patch, "containers.0.securityContext.capabilities.drop.0"), "ALL");
    ASSERT_TRUE(check_is_quantity(text_at(patch, "containers.0.resources.limits.memory")));
    json_release(patch);
}

TEST(kinds, argos_own_containers_are_restricted_too)
{
    struct json *documents = render("pipeline", "");
    const struct json *templates = at(find(documents, "Workflow", NULL), "spec.templates");
    check_patch(json_at(templates, 1), "wait");
    check_patch(json_at(templates, 2), "main"); /* it creates an object: no wait there */
    check_patch(json_at(templates, 3), "main");
    json_release(documents);
}

/* kustomize may set USER_ID to 0 later, which cannot change the command. */
TEST(kinds, mpirun_may_be_roots)
{
    static const char *const settings[] = {"", "USER_ID=0"};
    for (int i = 0; i < 2; i++) {
        struct json *documents = render("multi-node", settings[i]);
        ASSERT_TEXT(text_at(find(documents, "MPIJob", NULL),
                            "spec.mpiReplicaSpecs.Launcher.template.spec.containers.0.command.3"),
                    "--allow-run-as-root");
        json_release(documents);
    }
}

TEST(kinds, openmpi_has_the_components_names_and_hostfile)
{
    struct json *documents =
        render("openmpi", "NFS_SERVER=10.0.0.1;WORKERS=2;GPU=4;NAMESPACE=team");
    ASSERT_TEXT(text_at(find(documents, "ConfigMap", "openmpi-assets"), "data.hostfile"),
                "openmpi-worker-0.openmpi slots=4\nopenmpi-worker-1.openmpi slots=4\n");
    find(documents, "Pod", "openmpi-worker-1");
    const struct json *master = find(documents, "Pod", "openmpi-master");
    ASSERT_TEXT(text_at(master, "spec.containers.0.command.2"), "8");
    ASSERT_TEXT(text_at(master, "spec.containers.0.command.4"),
                "/kubeflow/openmpi/assets/hostfile");
    const struct json *volume = json_get(find(documents, "PersistentVolume", "nfs-data"), "spec");
    ASSERT_TEXT(text_at(volume, "capacity.storage"), "85Gi");
    ASSERT_TEXT(text_at(volume, "accessModes.0"), "ReadWriteMany");
    ASSERT_TEXT(text_at(volume, "persistentVolumeReclaimPolicy"), "Retain");
    ASSERT_TEXT(
        text_at(find(documents, "PersistentVolumeClaim", "nfs-external"), "metadata.namespace"),
        "team");
    json_release(documents);
}

TEST(kinds, a_claim_with_results_and_dataset_is_one_volume)
{
    struct json *documents = render("single-node", "DATASET_CLAIM=both;PVC_NAME=both");
    const struct json *pod = find(documents, "Pod", NULL);
    ASSERT_INT(json_count(at(pod, "spec.volumes")), ==, 2); /* with /tmp */
    ASSERT_TEXT(text_at(pod, "spec.containers.0.volumeMounts.2.name"), "workdisk");
    ASSERT_TEXT(text_at(pod, "spec.containers.0.volumeMounts.2.mountPath"), "/datasets");
    expect_true(at(pod, "spec.containers.0.volumeMounts.2"), "readOnly", true);
    json_release(documents);
}

TEST(kinds, gpus_are_only_for_images_that_are_not_ours)
{
    struct json *ours = render("openmpi", "NFS_SERVER=a");
    struct json *others = render("openmpi", "NFS_SERVER=a;IMAGE=rgaut/horovod;EXEC=mpiexec x");
    static const char path[] = "spec.containers.0.resources.limits";
    ASSERT_TRUE(json_get(at(find(ours, "Pod", "openmpi-worker-0"), path), "nvidia.com/gpu") ==
                NULL);
    ASSERT_TEXT(
        json_get_text(at(find(others, "Pod", "openmpi-worker-0"), path), "nvidia.com/gpu", ""),
        "4");
    json_release(ours);
    json_release(others);
}

TEST(kinds, file_systems_of_aws_have_their_drivers_parameters)
{
    struct json *documents = render("eks-storage", "FILE_SYSTEM_ID=fs-1;REGION=eu-west-1");
    ASSERT_TEXT(
        text_at(find(documents, "PersistentVolume", "fsx-pv"), "spec.csi.volumeAttributes.dnsname"),
        "fs-1.fsx.eu-west-1.amazonaws.com");
    check_objects(documents);
    json_release(documents);
    documents = render("eks-storage", "PROVISIONING=dynamic;SUBNET_ID=subnet-1;"
                                      "SECURITY_GROUP_IDS=sg-1;S3_IMPORT_PATH=s3://bucket");
    ASSERT_TEXT(text_at(find(documents, "StorageClass", "fsx-sc"), "parameters.s3ImportPath"),
                "s3://bucket");
    json_release(documents);
    documents = render("eks-storage", "FILE_SYSTEM=efs;FILE_SYSTEM_ID=fs-1;PROVISIONING=dynamic");
    ASSERT_TEXT(text_at(find(documents, "StorageClass", "efs-sc"), "parameters.provisioningMode"),
                "efs-ap");
    json_release(documents);
}
