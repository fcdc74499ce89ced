/* An Argo Workflow: train until good enough, deploy, expose. */
#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "k8s/deployment.h"
#include "k8s/kind.h"
#include "k8s/serving.h"
#include "k8s/storage.h"
#include "k8s/training.h"

static int check(const struct deployment *deployment, struct error *err)
{
    int64_t node_port = deployment_integer(deployment, P_NODE_PORT);
    if (storage_check(deployment, err) < 0 || training_check_exec(deployment, err) < 0)
        return -1;
    if (node_port && (node_port < 30000 || node_port > 32767))
        return error_set(err, ERROR_USAGE, "NODE_PORT=%lld: must be 30000 to 32767, or 0 for any",
                         (long long)node_port);
    if (deployment_integer(deployment, P_TF_SERVING_PORT) == 8080)
        return error_set(err, ERROR_USAGE, "TF_SERVING_PORT=8080: is REST's already; take another");
    if (deployment_integer(deployment, P_TF_SERVING_PORT) == 0)
        return error_set(err, ERROR_USAGE, "TF_SERVING_PORT=0: is no port: 1 to 65535");
    return 0;
}

static void add_rule(struct node *rules, const char *group, const char *resource,
                     const char *const *verbs)
{
    struct node *rule = node_map(rules, NULL);
    node_text(node_list(rule, "apiGroups"), NULL, group);
    node_text(node_list(rule, "resources"), NULL, resource);
    struct node *list = node_list(rule, "verbs");
    for (; *verbs; verbs++)
        node_text(list, NULL, *verbs);
}

/* What the workflow's own pods may do: tell Argo their results, and make the two objects. */
static void rights(struct manifest *out, const struct deployment *deployment)
{
    static const char *const results[] = {"create", "patch", NULL};
    static const char *const objects[] = {"create", "get",    "list", "watch",
                                          "patch",  "update", NULL};
    manifest_object(out, "v1", "ServiceAccount", "${SELF}");
    struct node *rules =
        node_list(manifest_object(out, "rbac.authorization.k8s.io/v1", "Role", "${SELF}"), "rules");
    add_rule(rules, "argoproj.io", "workflowtaskresults", results);
    add_rule(rules, "apps", "deployments", objects);
    add_rule(rules, "", "services", objects);
    struct node *binding =
        manifest_object(out, "rbac.authorization.k8s.io/v1", "RoleBinding", "${SELF}");
    struct node *role = node_map(binding, "roleRef");
    node_text(role, "apiGroup", "rbac.authorization.k8s.io");
    node_text(role, "kind", "Role");
    node_pattern(role, "name", "${SELF}");
    struct node *subject = node_map(node_list(binding, "subjects"), NULL);
    node_text(subject, "kind", "ServiceAccount");
    node_pattern(subject, "name", "${SELF}");
    if (deployment_gave(deployment, P_NAMESPACE))
        node_pattern(subject, "namespace", "${NAMESPACE}");
}

static struct json *amounts(const char *cpu, const char *memory)
{
    struct json *amounts = json_object_create();
    json_set_text(amounts, "cpu", cpu);
    json_set_text(amounts, "memory", memory);
    return amounts;
}

static void add_restricted(struct json *patch, const char *list, const char *container)
{
    struct json *containers = json_array_create(), *entry = json_object_create();
    struct json *security = json_object_create(), *capabilities = json_object_create();
    struct json *drop = json_array_create(), *resources = json_object_create();
    json_set(resources, "requests", amounts("10m", "64Mi"));
    json_set(resources, "limits", amounts("500m", "512Mi"));
    json_append_text(drop, "ALL");
    json_set(capabilities, "drop", drop);
    json_set_bool(security, "allowPrivilegeEscalation", false);
    json_set(security, "capabilities", capabilities);
    json_set_text(entry, "name", container);
    json_set(entry, "resources", resources);
    json_set(entry, "securityContext", security);
    json_append(containers, entry);
    json_set(patch, list, containers);
}

/* Argo's own containers, as a restricted namespace and a quota want them, whatever its controller was
 * told: `init` everywhere, `wait` beside what trains, and `main` in a step that creates an object. */
static void restrict_argo(struct manifest *out, struct node *template, const char *container)
{
    struct json *patch = json_object_create();
    add_restricted(patch, "initContainers", "init");
    add_restricted(patch, "containers", container);
    char *text = json_text(patch, false);
    json_release(patch);
    if (text)
        text[strcspn(text, "\n")] = '\0';
    else
        manifest_fail(out);
    node_text(template, "podSpecPatch", text ? text : "");
    memory_free(text);
}

static void add_step(struct node *steps, const char *name)
{
    struct node *step = node_map(node_list(steps, NULL), NULL);
    node_text(step, "name", name);
    node_text(step, "template", name);
}

static void train_template(struct manifest *out, struct node *templates,
                           const struct deployment *deployment)
{
    struct node *train = node_map(templates, NULL);
    bool foreign = !deployment_runs_lockstep(deployment);
    node_text(train, "name", "train");
    struct node *retry = node_map(train, "retryStrategy");
    node_pattern(retry, "limit", "${RETRY_LIMIT}");
    node_text(retry, "retryPolicy", "OnFailure");
    restrict_argo(out, train, "wait");
    struct node *labels = node_map(node_map(train, "metadata"), "labels");
    pod_selector(labels, "training");
    struct pod pod = {.container = node_map(train, "container")};
    node_pattern(pod.container, "image", "${IMAGE}");
    pod.command = node_list(pod.container, "command");
    training_command(pod.command, deployment);
    if (!*deployment_text(deployment, P_EXEC)) {
        node_text(pod.command, NULL, "--export-dir");
        node_text(pod.command, NULL, "$(OUTPUT_DIR)/model");
    }
    pod.env_from = node_list(pod.container, "envFrom");
    pod_env_from(&pod, "configMapRef", "${SELF}");
    pod_resources(pod.container, "${CPU}", "${MEMORY}");
    pod_container_security(pod.container, foreign);
    pod.mounts = node_list(pod.container, "volumeMounts");
    pod.volumes = node_list(train, "volumes");
    if (!foreign)
        pod_mount_memory(&pod, "tmp", "/tmp");
    storage_mounts(&pod, deployment);
}

static void resource_template(struct manifest *out, struct node *templates, const char *name,
                              const char *condition, const struct manifest *inner)
{
    struct node *step = node_map(templates, NULL);
    node_text(step, "name", name);
    restrict_argo(out, step, "main");
    struct node *resource = node_map(step, "resource");
    node_text(resource, "action", "apply");
    node_bool(resource, "setOwnerReference", true);
    if (condition)
        node_text(resource, "successCondition", condition);
    node_embed(resource, "manifest", inner);
}

/* The workflow while its steps are made, and its arguments: each parameter once that a step needs. */
struct arguments {
    struct node *templates, *list;
    bool there[PARAMETER_COUNT];
};

static void add_argument(void *context, enum parameter parameter)
{
    struct arguments *arguments = context;
    char pattern[64];
    if (arguments->there[parameter])
        return;
    arguments->there[parameter] = true;
    struct node *argument = node_map(arguments->list, NULL);
    snprintf(pattern, sizeof pattern, "${%s}", parameter_row(parameter)->name);
    node_text(argument, "name", parameter_row(parameter)->name);
    node_pattern(argument, "value", pattern);
}

static void ignore(void *context, const char *name, const char *pattern)
{
    (void)context, (void)name, (void)pattern;
}

/* The Deployment, as a text in which Argo puts the workflow's arguments. */
static void deploy_template(struct manifest *out, struct arguments *arguments,
                            const struct deployment *deployment, struct manifest *inner)
{
    char directory[256];
    snprintf(directory, sizeof directory, "%s/model", storage_output(deployment));
    serving_deployment(inner, deployment,
                       &(struct serving){.name = "${SELF}-deployment",
                                         .claim = storage_claim(deployment),
                                         .path = storage_path(deployment),
                                         .directory = directory});
    manifest_origins(inner, add_argument, ignore, arguments);
    resource_template(out, arguments->templates, "deploy",
                      "status.availableReplicas == {{workflow.parameters.REPLICAS}}", inner);
}

static void expose_template(struct manifest *out, struct arguments *arguments,
                            const struct deployment *deployment, struct manifest *inner)
{
    struct node *spec = serving_service(inner, "${SELF}-service", "NodePort", P_TF_SERVING_PORT);
    if (deployment_integer(deployment, P_NODE_PORT))
        node_number(node_first(node_child(spec, "ports")), "nodePort", P_NODE_PORT);
    manifest_origins(inner, add_argument, ignore, arguments);
    resource_template(out, arguments->templates, "expose", NULL, inner);
}

static struct node *workflow_spec(struct manifest *out, const struct deployment *deployment)
{
    struct node *object = manifest_object(out, "argoproj.io/v1alpha1", "Workflow", "${SELF}-wf");
    pod_queue(object, deployment);
    pod_identity_comment(out, deployment);
    struct node *spec = node_map(object, "spec");
    node_text(spec, "entrypoint", "train-and-serve");
    node_pattern(spec, "serviceAccountName", "${SELF}");
    if (deployment_is(deployment, P_SCHEDULER, "volcano")) {
        node_text(spec, "schedulerName", "volcano");
        node_pattern(node_map(node_map(spec, "podMetadata"), "annotations"),
                     "scheduling.volcano.sh/queue-name", "${QUEUE}");
    }
    if (*deployment_text(deployment, P_IMAGE_PULL_SECRET))
        node_text(node_map(node_list(spec, "imagePullSecrets"), NULL), "name",
                  deployment_text(deployment, P_IMAGE_PULL_SECRET));
    pod_security(spec, deployment);
    /* Argo's templates have no field for it. */
    node_pattern(
        spec, "podSpecPatch",
        "{\"terminationGracePeriodSeconds\":${GRACE_SECONDS},\"enableServiceLinks\":false}");
    return spec;
}

static void render(const struct deployment *deployment, struct manifest *out)
{
    struct manifest *server = manifest_create_template(deployment);
    struct manifest *service = manifest_create_template(deployment);
    storage_config_map(out, deployment);
    rights(out, deployment);
    storage_objects(out, deployment);
    struct node *spec = workflow_spec(out, deployment);
    struct arguments arguments = {.list = node_list(node_map(spec, "arguments"), "parameters")};
    struct node *templates = arguments.templates = node_list(spec, "templates");
    struct node *whole = node_map(templates, NULL);
    node_text(whole, "name", "train-and-serve");
    struct node *steps = node_list(whole, "steps");
    add_step(steps, "train");
    add_step(steps, "deploy");
    add_step(steps, "expose");
    train_template(out, templates, deployment);
    if (server && service) {
        deploy_template(out, &arguments, deployment, server);
        expose_template(out, &arguments, deployment, service);
    } else {
        manifest_fail(out);
    }
    manifest_destroy(server);
    manifest_destroy(service);
}

static const struct kind_use uses[] = {
    KIND_USE(NAMESPACE),
    KIND_USE(MODEL, .initial = "wide_deep"),
    KIND_USE(MODEL_NAME),
    KIND_USES_STORAGE,
    KIND_USE(EXEC),
    KIND_USE(ARGS),
    KIND_USE(BATCH_SIZE),
    KIND_USE(STEPS, .initial = "500"),
    KIND_USE(TARGET_ACCURACY),
    KIND_USE(RETRY_LIMIT),
    KIND_USE(REPLICAS),
    KIND_USE(TF_SERVING_PORT),
    KIND_USE(NODE_PORT),
    KIND_USE(SERVER),
    KIND_USE(SERVING_IMAGE),
    KIND_USES_SIZE,
    KIND_USE(GRACE_SECONDS),
    KIND_USES_QUEUE,
    {.parameter = PARAMETER_COUNT},
};

const struct kind kind_pipeline = {
    .name = "pipeline",
    .summary = "an Argo Workflow: train, gate on accuracy, deploy servers, expose them",
    .origin = "Wide and Deep: pipeline",
    .name_from = P_MODEL_NAME,
    .uses = uses,
    .package = "pipeline",
    .check = check,
    .render = render,
    .log_target = "-l "
                  "workflows.argoproj.io/workflow=${SELF}-wf,app.kubernetes.io/component=training "
                  "-c main",
    .main_object = "workflows.argoproj.io/${SELF}-wf",
    .end = KIND_HAS_PHASE,
    .shows = "workflows.argoproj.io,deployments.apps,services",
    .needs_argo = true,
};
