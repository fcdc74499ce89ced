#include "k8s/deployment.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/nearest.h"
#include "base/strbuf.h"
#include "k8s/checks.h"
#include "k8s/recipes.h"

void deployment_init(struct deployment *deployment, const struct kind *kind)
{
    *deployment = (struct deployment){.kind = kind};
    for (int i = 0; i < PARAMETER_COUNT; i++)
        deployment->values[i] = parameter_row((enum parameter)i)->initial;
    for (const struct kind_use *use = kind->uses; use->parameter != PARAMETER_COUNT; use++)
        if (use->initial)
            deployment->values[use->parameter] = use->initial;
}

static int unknown(const struct deployment *deployment, const char *name, int length,
                   struct error *err)
{
    char word[64];
    struct nearest nearest;
    snprintf(word, sizeof word, "%.*s", length, name);
    nearest_start(&nearest, word);
    for (const struct kind_use *use = deployment->kind->uses; use->parameter != PARAMETER_COUNT;
         use++)
        nearest_offer(&nearest, kind_spelling(deployment->kind, use->parameter));
    if (parameter_find(name, length) >= 0)
        return error_set(err, ERROR_USAGE, "%s: %s has no use for it; `lockstep k8s params %s`",
                         word, deployment->kind->name, deployment->kind->name);
    if (nearest.best)
        return error_set(err, ERROR_USAGE, "unknown parameter %s: did you mean %s?", word,
                         nearest.best);
    return error_set(err, ERROR_USAGE, "unknown parameter %s: `lockstep k8s params %s` lists them",
                     word, deployment->kind->name);
}

static int set_value(struct deployment *deployment, enum parameter parameter, const char *value,
                     enum deployment_source source, struct arena *memory, struct error *err)
{
    if (deployment->sources[parameter] > source)
        return 0;
    if (source == FROM_FILE && strcmp(deployment->values[parameter], value) == 0)
        return 0; /* `init` wrote it there, nobody chose it */
    const char *copy = arena_copy_text(memory, value);
    if (!copy)
        return error_set(err, ERROR_MEMORY, "no memory for the parameters");
    deployment->values[parameter] = copy;
    deployment->sources[parameter] = (unsigned char)source;
    return 0;
}

int deployment_set(struct deployment *deployment, const char *assignment,
                   enum deployment_source source, struct arena *memory, struct error *err)
{
    const char *equals = strchr(assignment, '=');
    if (!equals)
        return error_set(err, ERROR_USAGE, "-p %.100s: write KEY=VALUE", assignment);
    int length = (int)(equals - assignment);
    int parameter = kind_parameter(deployment->kind, assignment, length);
    if (parameter < 0)
        return unknown(deployment, assignment, length, err);
    return set_value(deployment, (enum parameter)parameter, equals + 1, source, memory, err);
}

int deployment_set_environment(struct deployment *deployment,
                               char *(*environment)(const char *name), struct arena *memory,
                               struct error *err)
{
    for (const struct kind_use *use = deployment->kind->uses; use->parameter != PARAMETER_COUNT;
         use++) {
        const char *value = environment(kind_spelling(deployment->kind, use->parameter));
        if (value && *value &&
            set_value(deployment, use->parameter, value, FROM_ENVIRONMENT, memory, err) < 0)
            return -1;
    }
    return 0;
}

bool deployment_gave(const struct deployment *deployment, enum parameter parameter)
{
    return deployment->sources[parameter] != FROM_TABLE;
}

const char *deployment_text(const struct deployment *deployment, enum parameter parameter)
{
    return deployment->values[parameter];
}

int64_t deployment_integer(const struct deployment *deployment, enum parameter parameter)
{
    return strtoll(deployment->values[parameter], NULL, 10);
}

bool deployment_flag(const struct deployment *deployment, enum parameter parameter)
{
    return strcasecmp(deployment->values[parameter], "true") == 0;
}

bool deployment_is(const struct deployment *deployment, enum parameter parameter, const char *word)
{
    return strcmp(deployment->values[parameter], word) == 0;
}

const char *deployment_name(const struct deployment *deployment)
{
    return deployment->values[deployment->kind->name_from];
}

bool deployment_runs_lockstep(const struct deployment *deployment)
{
    return deployment_is(deployment, P_PROGRAM, "lockstep");
}

bool deployment_uses_agents(const struct deployment *deployment)
{
    return deployment_is(deployment, P_LAUNCH, "agent");
}

void deployment_expand(const struct deployment *deployment, const char *pattern, struct strbuf *out)
{
    for (const char *at = pattern; *at;) {
        const char *end = at[0] == '$' && at[1] == '{' ? strchr(at, '}') : NULL;
        if (!end) {
            strbuf_add_char(out, *at++);
            continue;
        }
        int length = (int)(end - at - 2);
        int parameter = length == 4 && strncmp(at + 2, "SELF", 4) == 0
                            ? (int)deployment->kind->name_from
                            : parameter_find(at + 2, length);
        if (parameter >= 0)
            strbuf_add(out, deployment->values[parameter]);
        at = end + 1;
    }
}

static bool takes(const struct deployment *deployment, enum parameter parameter)
{
    return kind_spelling(deployment->kind, parameter) != NULL;
}

/* Is it ours? By the last part of the image's name: REGISTRY/PATH/lockstep-dev:1. */
static bool image_is_ours(const char *image)
{
    const char *name = strrchr(image, '/');
    return strncmp(name ? name + 1 : image, "lockstep", 8) == 0;
}

/* What nobody gave and other values decide. */
static void derive(struct deployment *deployment)
{
    const char **values = deployment->values;
    if (!*values[P_PROGRAM])
        values[P_PROGRAM] = image_is_ours(values[P_IMAGE]) ? "lockstep" : "other";
    if (!*values[P_LAUNCH])
        values[P_LAUNCH] = deployment_runs_lockstep(deployment) ? "agent" : "ssh";
    if (takes(deployment, P_SLOTS) && deployment_is(deployment, P_SLOTS, "0"))
        values[P_SLOTS] = deployment_is(deployment, P_GPU, "0") ? "1" : values[P_GPU];
    if (takes(deployment, P_STORAGE) && !deployment_gave(deployment, P_STORAGE) &&
        deployment_gave(deployment, P_NFS_SERVER) && !deployment_gave(deployment, P_PVC_NAME))
        values[P_STORAGE] = "nfs";
    if (deployment_is(deployment, P_SERVER, "tensorflow") && !*values[P_SERVING_IMAGE])
        values[P_SERVING_IMAGE] = "tensorflow/serving:2.19.1";
    /* As the document's volumes have it; what FSx makes anew is at least this large. */
    if (takes(deployment, P_FILE_SYSTEM) && !*values[P_CAPACITY])
        values[P_CAPACITY] = deployment_is(deployment, P_FILE_SYSTEM, "efs")        ? "60Gi"
                             : deployment_is(deployment, P_PROVISIONING, "dynamic") ? "1200Gi"
                                                                                    : "100Gi";
}

static int check_each(const struct deployment *deployment, struct arena *memory, struct error *err)
{
    for (const struct kind_use *use = deployment->kind->uses; use->parameter != PARAMETER_COUNT;
         use++)
        if (check_value(use->parameter, kind_spelling(deployment->kind, use->parameter),
                        deployment->values[use->parameter], memory, err) < 0)
            return -1;
    return 0;
}

/* Pods are named after it, with -worker-123 or -launcher-abcde behind, and are hosts. */
enum { NAME_LETTERS = 50 };

static int check_name(const struct deployment *deployment, struct error *err)
{
    const char *name = deployment_name(deployment);
    const char *spelling = kind_spelling(deployment->kind, deployment->kind->name_from);
    if (!*name)
        return error_set(err, ERROR_USAGE, "%s is missing", spelling);
    if (strlen(name) > NAME_LETTERS)
        return error_set(err, ERROR_USAGE,
                         "%s=%s: has %zu letters; names of pods are made from it, so at most %d",
                         spelling, name, strlen(name), NAME_LETTERS);
    return 0;
}

/* Each gets an object or a word in a list; a word may have 128 KiB, and a name 100 letters. */
enum { WORKERS_MOST = 1000 };

static int check_workers(const struct deployment *deployment, struct error *err)
{
    if (takes(deployment, P_WORKERS) && deployment_integer(deployment, P_WORKERS) > WORKERS_MOST)
        return error_set(err, ERROR_USAGE, "%s=%s: %d at most",
                         kind_spelling(deployment->kind, P_WORKERS),
                         deployment_text(deployment, P_WORKERS), WORKERS_MOST);
    return 0;
}

static int check_storage(const struct deployment *deployment, struct error *err)
{
    bool nfs = deployment_is(deployment, P_STORAGE, "nfs");
    if (!takes(deployment, P_STORAGE) || deployment->package)
        return 0;
    if (deployment_gave(deployment, P_NFS_SERVER) && !nfs)
        return error_set(err, ERROR_USAGE,
                         "NFS_SERVER and %s are both given: say which with STORAGE=nfs or leave "
                         "NFS_SERVER out",
                         deployment_gave(deployment, P_PVC_NAME) ? "PVC_NAME" : "STORAGE=pvc");
    if (nfs && deployment_gave(deployment, P_PVC_NAME))
        return error_set(err, ERROR_USAGE,
                         "PVC_NAME is given, but STORAGE=nfs makes its own claim");
    if (nfs && deployment_is(deployment, P_NFS_SERVER, "0.0.0.0"))
        return error_set(err, ERROR_USAGE,
                         "NFS_SERVER=0.0.0.0: is a placeholder; give the server's name or address");
    return 0;
}

static int check_program(const struct deployment *deployment, struct error *err)
{
    if (!takes(deployment, P_IMAGE))
        return 0;
    bool ours = deployment_runs_lockstep(deployment);
    /* In a COMPONENT it also says how many processes a worker has. */
    if (ours && takes(deployment, P_GPU) && !deployment_is(deployment, P_GPU, "0") &&
        deployment->kind->name_from != P_COMPONENT)
        return error_set(err, ERROR_USAGE,
                         "GPU=%s: lockstep computes on CPUs; GPUs are for other images (IMAGE, or "
                         "PROGRAM=other)",
                         deployment_text(deployment, P_GPU));
    if (!ours && takes(deployment, P_LAUNCH) && deployment_uses_agents(deployment))
        return error_set(err, ERROR_USAGE,
                         "LAUNCH=agent: %s has no lockstep in it; PROGRAM=lockstep if it has",
                         deployment_text(deployment, P_IMAGE));
    if (!ours && takes(deployment, P_EXEC) && !takes(deployment, P_SCRIPT) &&
        !*deployment_text(deployment, P_EXEC))
        return error_set(err, ERROR_USAGE, "EXEC is missing: what should %s run?",
                         deployment_text(deployment, P_IMAGE));
    if (*deployment_text(deployment, P_EXEC) && *deployment_text(deployment, P_ARGS))
        return error_set(err, ERROR_USAGE, "ARGS are options behind ours, but EXEC replaces ours");
    return 0;
}

/* Values that would change nothing were meant to. */
static int check_unused(const struct deployment *deployment, struct error *err)
{
    bool agents = deployment_uses_agents(deployment), launches = takes(deployment, P_LAUNCH);
    const struct {
        enum parameter parameter;
        bool unused;
        const char *because;
    } rows[] = {
        {P_QUEUE, deployment_is(deployment, P_SCHEDULER, "none"), "SCHEDULER is none"},
        {P_SECRET_FILE, deployment_is(deployment, P_SECRET, "none"), "SECRET is none"},
        {P_SSH_DIR, agents, "workers are reached by agents (LAUNCH=ssh?)"},
        {P_AGENT_PORT, launches && !agents, "workers are reached by ssh"},
        {P_SECRET, launches && !agents && deployment->kind->needs_mpi_operator,
         "with ssh the operator's own keys are used"},
        {P_NFS_PATH, deployment_is(deployment, P_STORAGE, "pvc"), "STORAGE is pvc"},
        {P_PVC_PATH, deployment_is(deployment, P_STORAGE, "nfs"), "STORAGE is nfs"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!deployment->package && rows[i].unused && takes(deployment, rows[i].parameter) &&
            deployment_gave(deployment, rows[i].parameter))
            return error_set(err, ERROR_USAGE, "%s=%s: is not used: %s",
                             kind_spelling(deployment->kind, rows[i].parameter),
                             deployment_text(deployment, rows[i].parameter), rows[i].because);
    return 0;
}

int deployment_finish(struct deployment *deployment, struct arena *memory, struct error *err)
{
    derive(deployment);
    if (recipes_apply(deployment, memory, err) < 0)
        return -1;
    if (check_each(deployment, memory, err) < 0 || check_workers(deployment, err) < 0 ||
        check_name(deployment, err) < 0 || check_storage(deployment, err) < 0 ||
        check_program(deployment, err) < 0 || check_unused(deployment, err) < 0)
        return -1;
    return deployment->kind->check ? deployment->kind->check(deployment, err) : 0;
}

/* Of volumes that the user gave: kinds that only a privileged namespace lets in. */
static bool has_open_volume(const struct deployment *deployment)
{
    struct json *list = NULL;
    const char *text = deployment_text(deployment, P_VOLUMES);
    bool found = false;
    if (!takes(deployment, P_VOLUMES) || json_parse(text, strlen(text), &list, NULL) < 0)
        return false;
    for (int i = 0; i < json_count(list); i++)
        found |= json_get(json_at(list, i), "hostPath") || json_get(json_at(list, i), "nfs");
    json_release(list);
    return found;
}

static bool is_root(const struct deployment *deployment, enum parameter parameter)
{
    return takes(deployment, parameter) && deployment_integer(deployment, parameter) == 0;
}

const char *deployment_warning(const struct deployment *deployment, int index)
{
    if (is_root(deployment, P_USER_ID) && index-- == 0)
        return "USER_ID=0 runs as root: a namespace at Pod Security level restricted refuses it";
    if (is_root(deployment, P_GROUP_ID) && index-- == 0)
        return "GROUP_ID=0: files that the job writes belong to root's group";
    if (has_open_volume(deployment) && index-- == 0)
        return "volumes: hostPath and nfs are refused at Pod Security level restricted; a claim is "
               "not";
    return NULL;
}
