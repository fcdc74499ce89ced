/* Is a cluster ready for a deployment? One function for each thing that may be missing. */
#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "cli/k8s_doctor.h"
#include "k8s/checks.h"
#include "k8s/manifest.h"
#include "k8s/needs.h"
#include "k8s/samples.h"

#define FIND(doctor, verdict, remedy, ...)                                                         \
    add_finding(doctor, verdict, remedy, arena_format((doctor)->arena, __VA_ARGS__))

static void add_finding(struct doctor *doctor, enum doctor_verdict verdict, const char *remedy,
                        const char *what)
{
    if (doctor->count < DOCTOR_FINDINGS_MAX)
        doctor->findings[doctor->count++] =
            (struct doctor_finding){verdict, what ? what : "", remedy ? remedy : ""};
}

/* What kubectl get answers; NULL when it refuses, which is no failure of ours. */
static struct json *ask(struct doctor *doctor, const char *const *words)
{
    struct json *json = NULL;
    struct strbuf errors;
    strbuf_init(&errors);
    if (k8s_get(doctor->target, doctor->deployment, words, &json, &errors, doctor->err) < 0)
        json = NULL;
    doctor->denied = !json && strstr(errors.text, "orbidden") != NULL;
    strbuf_release(&errors);
    return json;
}

/* Said instead of a finding that the user has no right to know. */
static bool was_denied(struct doctor *doctor, const char *what)
{
    if (doctor->denied)
        FIND(doctor, DOCTOR_NOTE, "ask whoever runs the cluster, or let them run this",
             "%s: you may not look at it, so it was not checked", what);
    return doctor->denied;
}

static const struct json *items_of(const struct json *list)
{
    return list ? json_get(list, "items") : NULL;
}

static const char *name_of(const struct json *object)
{
    return json_get_text(json_get(object, "metadata"), "name", "");
}

static int check_server(struct doctor *doctor)
{
    struct strbuf text, errors;
    struct json *json = NULL;
    int code = 0;
    strbuf_init(&text);
    strbuf_init(&errors);
    int status = k8s_kubectl(
        &(struct k8s_kubectl){.target = doctor->target,
                              .words = (const char *const[]){"version", "-o", "json", NULL},
                              .output = &text,
                              .errors = &errors},
        &code, doctor->err);
    if (status == 0 && code == 0 && json_parse(text.text, text.length, &json, NULL) == 0)
        FIND(doctor, DOCTOR_FINE, NULL, "Kubernetes %s",
             json_get_text(json_get(json, "serverVersion"), "gitVersion", "of an unknown version"));
    else if (status == 0)
        FIND(doctor, DOCTOR_PROBLEM,
             "kubectl config get-contexts lists what there is; kubectl config "
             "use-context NAME chooses one",
             "the API server does not answer: %.200s", errors.text);
    json_release(json);
    strbuf_release(&text);
    strbuf_release(&errors);
    return status < 0 ? -1 : code;
}

static bool serves_version(const struct json *definition, const char *version)
{
    const struct json *list = json_get(json_get(definition, "spec"), "versions");
    for (int i = 0; list && i < json_count(list); i++)
        if (strcmp(json_get_text(json_at(list, i), "name", ""), version) == 0)
            return json_get_bool(json_at(list, i), "served", false);
    return false;
}

/* The first container's image of a Deployment of this name, in any namespace. */
static const char *image_of(struct doctor *doctor, const char *name)
{
    struct json *list = ask(
        doctor, (const char *const[]){"deployments", "-A", "--field-selector",
                                      arena_format(doctor->arena, "metadata.name=%s", name), NULL});
    const struct json *items = items_of(list);
    const struct json *first = items && json_count(items) ? json_at(items, 0) : NULL;
    const struct json *pod = json_get(json_get(json_get(first, "spec"), "template"), "spec");
    const struct json *containers = pod ? json_get(pod, "containers") : NULL;
    const char *image = containers && json_count(containers)
                            ? json_get_text(json_at(containers, 0), "image", NULL)
                            : NULL;
    image = image ? arena_copy_text(doctor->arena, image) : NULL;
    json_release(list);
    return image;
}

struct operator
{
    const char *title, *definition, *version, *deployment, *remedy;
};

static const struct operator mpi_operator = {
    "MPI Operator", "mpijobs.kubeflow.org", "v2beta1", "mpi-operator",
    "kubectl apply --server-side -f "
    "https://raw.githubusercontent.com/kubeflow/mpi-operator/v0.8.2/deploy/v2beta1/"
    "mpi-operator.yaml"};
static const struct operator argo = {
    "Argo Workflows", "workflows.argoproj.io", "v1alpha1", "workflow-controller",
    "kubectl create namespace argo && kubectl apply --server-side -n argo -f "
    "https://github.com/argoproj/argo-workflows/releases/download/v3.7.9/install.yaml"};

static void check_operator(struct doctor *doctor, const struct operator* wanted, bool needed)
{
    struct json *definition =
        ask(doctor, (const char *const[]){"customresourcedefinitions", wanted->definition, NULL});
    enum doctor_verdict bad = needed ? DOCTOR_PROBLEM : DOCTOR_NOTE;
    if (!definition && was_denied(doctor, wanted->title))
        return;
    if (!definition)
        FIND(doctor, bad, wanted->remedy, "%s is not installed", wanted->title);
    else if (!serves_version(definition, wanted->version))
        FIND(doctor, bad, wanted->remedy, "%s is there, but has no %s of %s", wanted->title,
             wanted->version, wanted->definition);
    else {
        const char *image = image_of(doctor, wanted->deployment);
        if (image || doctor->denied)
            FIND(doctor, DOCTOR_FINE, NULL, "%s with %s (%s)", wanted->title, wanted->version,
                 image ? image : "whose image you may not see");
        else
            FIND(doctor, bad, wanted->remedy,
                 "%s's definition is there, but no deployment %s was found: nobody works on it",
                 wanted->title, wanted->deployment);
    }
    json_release(definition);
}

static const char *space_of(const struct doctor *doctor)
{
    const char *name = doctor->deployment ? deployment_text(doctor->deployment, P_NAMESPACE)
                                          : doctor->target->name_space;
    return name && *name ? name : NULL;
}

static void check_namespace(struct doctor *doctor)
{
    const char *name = space_of(doctor);
    if (!name) {
        FIND(doctor, DOCTOR_NOTE,
             "say -n NAME to have quotas, claims and its Pod Security level checked",
             "no namespace was named; kubectl's current one is used");
        return;
    }
    struct json *space = ask(doctor, (const char *const[]){"namespaces", name, NULL});
    if (!space && was_denied(doctor, "the namespace and its Pod Security level"))
        return;
    if (!space) {
        FIND(doctor, DOCTOR_PROBLEM,
             arena_format(doctor->arena, "kubectl create namespace %s", name),
             "namespace %s is not there", name);
        return;
    }
    const struct json *labels = json_get(json_get(space, "metadata"), "labels");
    const char *level =
        labels ? json_get_text(labels, "pod-security.kubernetes.io/enforce", "") : "";
    FIND(doctor, DOCTOR_FINE, NULL, "namespace %s, Pod Security level %s", name,
         *level ? level : "not enforced");
    json_release(space);
}

static void check_storage_classes(struct doctor *doctor)
{
    struct json *list = ask(doctor, (const char *const[]){"storageclasses", NULL});
    const struct json *items = items_of(list);
    const char *chosen = NULL;
    int count = items ? json_count(items) : 0;
    if (!list && was_denied(doctor, "storage classes"))
        return;
    for (int i = 0; i < count; i++) {
        const struct json *notes = json_get(json_get(json_at(items, i), "metadata"), "annotations");
        if (notes && strcmp(json_get_text(notes, "storageclass.kubernetes.io/is-default-class", ""),
                            "true") == 0)
            chosen = name_of(json_at(items, i));
    }
    if (chosen)
        FIND(doctor, DOCTOR_FINE, NULL, "%d storage classes, %s unless told", count, chosen);
    else
        FIND(doctor, DOCTOR_NOTE,
             "kubectl annotate storageclass NAME "
             "storageclass.kubernetes.io/is-default-class=true, or bind claims to volumes by hand",
             "%d storage classes, none of them the default: claims without a class stay pending",
             count);
    json_release(list);
}

static void check_one_quota(struct doctor *doctor, const struct json *quota, const char *key,
                            double need)
{
    const struct json *status = json_get(quota, "status");
    const char *hard = status ? json_get_text(json_get(status, "hard"), key, NULL) : NULL;
    const char *used = status ? json_get_text(json_get(status, "used"), key, "0") : "0";
    if (!hard || need == 0)
        return;
    bool memory = strstr(key, "memory");
    double left = check_quantity(hard) - (strcmp(used, "0") == 0 ? 0 : check_quantity(used));
    if (strcmp(hard, "0") == 0)
        left = 0;
    if (need > left)
        FIND(doctor, DOCTOR_PROBLEM,
             "ask for a larger quota, or give smaller CPU, MEMORY, WORKERS or REPLICAS",
             "quota %s allows %s of %s, %s are taken, and this needs %.4g%s", name_of(quota), hard,
             key, used, memory ? need / 0x1p30 : need, memory ? "Gi" : "");
}

static void check_quotas(struct doctor *doctor)
{
    struct needs needs = needs_of(doctor->deployment);
    struct json *list = ask(doctor, (const char *const[]){"resourcequotas", NULL});
    const struct json *items = items_of(list);
    int before = doctor->count, count = items ? json_count(items) : 0;
    if (!list && was_denied(doctor, "quotas"))
        return;
    for (int i = 0; i < count; i++) {
        const struct json *quota = json_at(items, i);
        check_one_quota(doctor, quota, "requests.cpu", needs.cpu);
        check_one_quota(doctor, quota, "cpu", needs.cpu);
        check_one_quota(doctor, quota, "limits.cpu", needs.cpu);
        check_one_quota(doctor, quota, "requests.memory", needs.memory_bytes);
        check_one_quota(doctor, quota, "memory", needs.memory_bytes);
        check_one_quota(doctor, quota, "limits.memory", needs.memory_bytes);
        check_one_quota(doctor, quota, "pods", needs.pods);
    }
    if (doctor->count == before)
        FIND(doctor, DOCTOR_FINE, NULL, "%d quotas; %d pods with %.4g CPUs and %.4g GiB fit", count,
             needs.pods, needs.cpu, needs.memory_bytes / 0x1p30);
    json_release(list);
}

static bool allows_many(const struct json *claim)
{
    const struct json *modes = json_get(json_get(claim, "spec"), "accessModes");
    for (int i = 0; modes && i < json_count(modes); i++)
        if (strcmp(json_as_text(json_at(modes, i), ""), "ReadWriteMany") == 0)
            return true;
    return false;
}

static void check_claim(struct doctor *doctor, enum parameter parameter, bool many)
{
    const char *name = deployment_text(doctor->deployment, parameter);
    if (!*name || !kind_spelling(doctor->deployment->kind, parameter))
        return;
    struct json *claim = ask(doctor, (const char *const[]){"persistentvolumeclaims", name, NULL});
    if (!claim && was_denied(doctor, arena_format(doctor->arena, "claim %s", name)))
        return;
    if (!claim)
        FIND(doctor, DOCTOR_PROBLEM,
             arena_format(doctor->arena, "create it, or name another with -p %s=NAME",
                          kind_spelling(doctor->deployment->kind, parameter)),
             "claim %s is not there", name);
    else if (many && !allows_many(claim))
        FIND(doctor, DOCTOR_PROBLEM,
             "use a claim with ReadWriteMany: pods of several nodes write to it",
             "claim %s can be mounted by one node only", name);
    else
        FIND(doctor, DOCTOR_FINE, NULL, "claim %s is %s", name,
             json_get_text(json_get(claim, "status"), "phase", "there"));
    json_release(claim);
}

static void check_claims(struct doctor *doctor)
{
    const struct kind *kind = doctor->deployment->kind;
    bool many = kind_spelling(kind, P_WORKERS) || kind_spelling(kind, P_REPLICAS);
    if (!deployment_is(doctor->deployment, P_STORAGE, "nfs"))
        check_claim(doctor, P_PVC_NAME, many);
    check_claim(doctor, P_DATASET_CLAIM, false);
    if (kind_spelling(kind, P_CHECKPOINT_PVC_NAME) &&
        !deployment_flag(doctor->deployment, P_CREATE_PVC_CHECKPOINT))
        check_claim(doctor, P_CHECKPOINT_PVC_NAME, false);
}

static void check_dns(struct doctor *doctor)
{
    struct json *list =
        ask(doctor, (const char *const[]){"pods", "-A", "-l", "k8s-app=kube-dns", NULL});
    const struct json *items = items_of(list);
    int running = 0;
    if (!list && was_denied(doctor, "DNS"))
        return;
    for (int i = 0; items && i < json_count(items); i++)
        running += strcmp(json_get_text(json_get(json_at(items, i), "status"), "phase", ""),
                          "Running") == 0;
    if (running)
        FIND(doctor, DOCTOR_FINE, NULL, "DNS: %d pods run", running);
    else
        FIND(doctor, DOCTOR_PROBLEM,
             "kubectl -n kube-system get pods -l k8s-app=kube-dns tells why; workers "
             "find each other by name",
             "no DNS pod runs");
    json_release(list);
}

static bool node_has_image(const struct json *node, const char *image)
{
    const struct json *images = json_get(json_get(node, "status"), "images");
    for (int i = 0; images && i < json_count(images); i++) {
        const struct json *names = json_get(json_at(images, i), "names");
        for (int j = 0; names && j < json_count(names); j++) {
            const char *name = json_as_text(json_at(names, j), "");
            size_t length = strlen(name), wanted = strlen(image);
            if (length >= wanted && strcmp(name + length - wanted, image) == 0 &&
                (length == wanted || name[length - wanted - 1] == '/'))
                return true;
        }
    }
    return false;
}

static void check_image(struct doctor *doctor)
{
    const char *image = deployment_text(doctor->deployment, P_IMAGE);
    struct json *list = ask(doctor, (const char *const[]){"nodes", NULL});
    const struct json *items = items_of(list);
    int count = items ? json_count(items) : 0, have = 0;
    if (!list && was_denied(doctor, arena_format(doctor->arena, "image %s on the nodes", image)))
        return;
    for (int i = 0; i < count; i++)
        have += node_has_image(json_at(items, i), image);
    if (have == count && count)
        FIND(doctor, DOCTOR_FINE, NULL, "image %s is on all %d nodes", image, count);
    else if (!strchr(image, '/'))
        FIND(doctor, count ? DOCTOR_PROBLEM : DOCTOR_NOTE,
             "push it to a registry of yours and say -p IMAGE=REGISTRY/NAME:TAG, or import it on "
             "every node",
             "image %s is on %d of %d nodes and names no registry to pull it from", image, have,
             count);
    else
        FIND(doctor, DOCTOR_NOTE,
             "if it stays at ErrImagePull: IMAGE_PULL_SECRET, and mind rate limits",
             "image %s is on %d of %d nodes; the others pull it", image, have, count);
    json_release(list);
}

/* Scaling by load needs someone who measures it. */
static void check_metrics(struct doctor *doctor)
{
    struct json *service =
        ask(doctor, (const char *const[]){"apiservices", "v1beta1.metrics.k8s.io", NULL});
    if (!service && was_denied(doctor, "metrics server"))
        return;
    if (service)
        FIND(doctor, DOCTOR_FINE, NULL, "metrics server: replicas can follow the load");
    else
        FIND(doctor, DOCTOR_NOTE,
             "kubectl apply -f "
             "https://github.com/kubernetes-sigs/metrics-server/releases/latest/download/"
             "components.yaml",
             "no metrics server: the number of replicas stays at REPLICAS");
    json_release(service);
}

/* What the API server says to objects that are not made: nothing changes. -1: it was not asked. */
static int try_objects(struct doctor *doctor, const char *objects, struct strbuf *errors)
{
    struct strbuf output;
    int code = 0;
    if (!*objects)
        return 0;
    strbuf_init(&output);
    int status = k8s_kubectl(
        &(struct k8s_kubectl){
            .target = doctor->target,
            .deployment = doctor->deployment,
            .words = (const char *const[]){"apply", "--dry-run=server", "-f", "-", NULL},
            .input = objects,
            .output = &output,
            .errors = errors},
        &code, doctor->err);
    strbuf_release(&output);
    return status < 0 ? -1 : code;
}

/* All but pods: these name a service account, which a dry run does not make. */
static int write_objects(const struct manifest *manifest, struct strbuf *out, struct error *err)
{
    int status = 0;
    for (int i = 0; status == 0 && i < manifest_count(manifest); i++)
        if (strcmp(manifest_kind(manifest, i), "Pod") != 0) {
            strbuf_add(out, out->length ? "---\n" : "");
            status = manifest_write_some(manifest, i, i + 1, false, out, err);
        }
    return status;
}

static int write_pods(const struct doctor *doctor, struct strbuf *out)
{
    struct manifest *samples;
    int status = samples_create(doctor->deployment, doctor->manifest, &samples, doctor->err);
    if (status == 0)
        status = manifest_write(samples, false, out, doctor->err);
    manifest_destroy(samples);
    return status;
}

static int first_line(const char *text)
{
    return (int)strcspn(text, "\n");
}

static void judge_admission(struct doctor *doctor, int objects, int pods, const char *errors,
                            const char *pod_errors)
{
    /* A controller's template is warned about ("would violate"), a pod refused ("violates"). */
    const char *violation = strstr(pod_errors, "violates PodSecurity");
    if (violation)
        FIND(doctor, DOCTOR_PROBLEM,
             "take another namespace, or leave out what needs it (USER_ID=0?)",
             "Pod Security refuses the pods: %.*s", first_line(violation), violation);
    if (objects > 0)
        FIND(doctor, DOCTOR_PROBLEM, "see the message", "the API server refuses the objects: %.*s",
             first_line(errors), errors);
    /* What exceeds a quota was found by itself, with the numbers of all pods together. */
    bool refused = pods > 0 && !violation && !strstr(pod_errors, "exceeded quota");
    if (refused)
        FIND(doctor, DOCTOR_PROBLEM, "see the message", "the API server refuses the pods: %.*s",
             first_line(pod_errors), pod_errors);
    if (objects == 0 && !violation && !refused)
        FIND(doctor, DOCTOR_FINE, NULL, "the API server accepts the objects (dry run)");
}

/* The API server's own word: schemas, rights, admission. */
static void check_admission(struct doctor *doctor)
{
    struct strbuf text, errors, pod_text, pod_errors;
    strbuf_init(&text);
    strbuf_init(&errors);
    strbuf_init(&pod_text);
    strbuf_init(&pod_errors);
    if (write_objects(doctor->manifest, &text, doctor->err) == 0 &&
        write_pods(doctor, &pod_text) == 0) {
        int objects = try_objects(doctor, text.text, &errors);
        int pods = try_objects(doctor, pod_text.text, &pod_errors);
        judge_admission(doctor, objects, pods, errors.text, pod_errors.text);
    }
    strbuf_release(&text);
    strbuf_release(&errors);
    strbuf_release(&pod_text);
    strbuf_release(&pod_errors);
}

int doctor_examine(struct doctor *doctor)
{
    const struct kind *kind = doctor->deployment ? doctor->deployment->kind : NULL;
    int server = check_server(doctor);
    if (server)
        return server < 0 ? -1 : 0;
    check_operator(doctor, &mpi_operator, kind && kind->needs_mpi_operator);
    check_operator(doctor, &argo, kind && kind->needs_argo);
    check_storage_classes(doctor);
    check_dns(doctor);
    check_namespace(doctor);
    if (!kind)
        return 0;
    check_quotas(doctor);
    check_claims(doctor);
    if (kind_spelling(kind, P_IMAGE))
        check_image(doctor);
    if (kind_spelling(kind, P_MAX_REPLICAS))
        check_metrics(doctor);
    check_admission(doctor);
    return 0;
}
