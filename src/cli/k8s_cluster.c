/* What kubectl does for a deployment: `k8s apply`, `status`, `logs`, `wait` and `delete`. */
#include <time.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "cli/k8s_parts.h"
#include "k8s/manifest.h"
#include "k8s/words.h"

struct cluster_settings {
    struct k8s_target target;
    bool follow, dry_run;
    const char *save;
    double timeout;
};

static int need_cluster(const struct k8s_job *job, struct error *err)
{
    if (!job->deployment.kind->main_object && !job->deployment.kind->shows)
        return error_set(err, ERROR_USAGE,
                         "%s is a file for another program; see `lockstep k8s "
                         "render %s`",
                         job->deployment.kind->name, job->deployment.kind->name);
    return 0;
}

static int open_job(const struct cluster_settings *wanted, struct k8s_job *job, struct error *err)
{
    if (k8s_job_open(&wanted->target, job, err) < 0)
        return -1;
    if (need_cluster(job, err) == 0)
        return 0;
    k8s_job_release(job);
    return -1;
}

/* kubectl with the objects on its standard input. */
static int send(const struct cluster_settings *wanted, const char *const *words, struct error *err)
{
    struct k8s_job job;
    struct strbuf text;
    int code = 0;
    if (open_job(wanted, &job, err) < 0)
        return -1;
    strbuf_init(&text);
    int status = manifest_write(job.manifest, false, &text, err);
    if (status == 0)
        status = k8s_kubectl(&(struct k8s_kubectl){.target = &wanted->target,
                                                   .deployment = &job.deployment,
                                                   .words = words,
                                                   .input = text.text},
                             &code, err);
    strbuf_release(&text);
    k8s_job_release(&job);
    return status < 0 ? -1 : code ? STATUS_FAILED : 0;
}

static int run_apply(struct options *parsed, void *given, struct error *err)
{
    (void)parsed;
    const struct cluster_settings *wanted = given;
    return send(wanted,
                (const char *const[]){"apply", "-f", "-",
                                      wanted->dry_run ? "--dry-run=server" : NULL, NULL},
                err);
}

/* Also what is not there any more, so that it may be said twice. */
static int run_delete(struct options *parsed, void *given, struct error *err)
{
    (void)parsed;
    return send(given, (const char *const[]){"delete", "--ignore-not-found", "-f", "-", NULL}, err);
}

static const char *expand(const struct k8s_job *job, const char *pattern)
{
    struct strbuf text;
    strbuf_init(&text);
    deployment_expand(&job->deployment, pattern, &text);
    const char *kept = arena_copy_text(job->arena, text.text);
    strbuf_release(&text);
    return kept;
}

static int run_status(struct options *parsed, void *given, struct error *err)
{
    (void)parsed;
    const struct cluster_settings *wanted = given;
    struct k8s_job job;
    int code = 0;
    if (open_job(wanted, &job, err) < 0)
        return -1;
    const char *shows = job.deployment.kind->shows;
    const char *types = arena_format(job.arena, "%s%spods", shows ? shows : "", shows ? "," : "");
    const char *selector = expand(&job, "app.kubernetes.io/instance=${SELF}");
    int status =
        types && selector
            ? k8s_kubectl(&(struct k8s_kubectl){.target = &wanted->target,
                                                .deployment = &job.deployment,
                                                .words = (const char *const[]){"get", types, "-l",
                                                                               selector, NULL}},
                          &code, err)
            : error_set(err, ERROR_MEMORY, "no memory for a selector");
    k8s_job_release(&job);
    return status < 0 ? -1 : code ? STATUS_FAILED : 0;
}

enum outcome { STILL_GOING, WENT_WELL, FAILED };

static enum outcome by_phase(const struct json *status)
{
    const char *phase = json_get_text(status, "phase", "");
    if (strcmp(phase, "Succeeded") == 0)
        return WENT_WELL;
    return strcmp(phase, "Failed") == 0 || strcmp(phase, "Error") == 0 ? FAILED : STILL_GOING;
}

static enum outcome by_conditions(const struct json *status)
{
    const struct json *list = json_get(status, "conditions");
    for (int i = 0; list && i < json_count(list); i++) {
        const char *type = json_get_text(json_at(list, i), "type", "");
        if (strcmp(json_get_text(json_at(list, i), "status", ""), "True") != 0)
            continue;
        if (strcmp(type, "Failed") == 0)
            return FAILED;
        if (strcmp(type, "Complete") == 0 || strcmp(type, "Succeeded") == 0)
            return WENT_WELL;
    }
    return STILL_GOING;
}

/* As many of the newest kind are available as are wanted, and no older ones are left: what `kubectl
 * rollout status` waits for. */
static enum outcome by_readiness(const struct json *object)
{
    const struct json *status = json_get(object, "status");
    bool on_nodes = strcmp(json_get_text(object, "kind", ""), "DaemonSet") == 0;
    int64_t wanted = on_nodes ? json_get_integer(status, "desiredNumberScheduled", 0)
                              : json_get_integer(json_get(object, "spec"), "replicas", 1);
    int64_t available =
        json_get_integer(status, on_nodes ? "numberAvailable" : "availableReplicas", 0);
    int64_t updated =
        json_get_integer(status, on_nodes ? "updatedNumberScheduled" : "updatedReplicas", 0);
    int64_t all = on_nodes ? updated : json_get_integer(status, "replicas", 0);
    bool current = json_get_integer(status, "observedGeneration", 0) >=
                   json_get_integer(json_get(object, "metadata"), "generation", 0);
    return current && updated >= wanted && available >= wanted && all <= updated ? WENT_WELL
                                                                                 : STILL_GOING;
}

static enum outcome outcome_of(const struct kind *kind, const struct json *object)
{
    const struct json *status = json_get(object, "status");
    if (kind->end == KIND_NEVER_ENDS)
        return by_readiness(object);
    if (!status)
        return STILL_GOING;
    return kind->end == KIND_HAS_PHASE ? by_phase(status) : by_conditions(status);
}

/* Asks every second; an object that is not there yet is waited for, too. */
static int wait_for(const struct cluster_settings *wanted, const struct k8s_job *job,
                    const char *object, struct error *err)
{
    double end = clock_seconds() + wanted->timeout;
    for (;;) {
        struct json *json;
        struct strbuf errors;
        strbuf_init(&errors);
        int status = k8s_get(&wanted->target, &job->deployment, (const char *const[]){object, NULL},
                             &json, &errors, err);
        enum outcome outcome = json ? outcome_of(job->deployment.kind, json) : STILL_GOING;
        bool missing = strstr(errors.text, "NotFound") != NULL;
        if (status == 0 && !json && !missing)
            status = error_set(err, ERROR_IO, "%.400s", errors.text);
        strbuf_release(&errors);
        json_release(json);
        if (status < 0)
            return -1;
        if (outcome == FAILED)
            return error_set(err, ERROR_IO, "%s failed; `lockstep k8s logs` tells why", object);
        if (outcome == WENT_WELL) {
            printf("%s %s\n", object,
                   job->deployment.kind->end == KIND_NEVER_ENDS ? "is ready" : "succeeded");
            return 0;
        }
        if (clock_seconds() >= end)
            return error_set(err, ERROR_IO, "%s %s after %g s", object,
                             missing ? "is not there" : "has not finished", wanted->timeout);
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    }
}

enum { LOG_WORDS = 20 };

/* Has a pod, or one of a list of pods, got as far as having a log? */
static bool has_log(const struct json *answer)
{
    const struct json *items = json_get(answer, "items");
    for (int i = 0; items && i < json_count(items); i++)
        if (has_log(json_at(items, i)))
            return true;
    const char *phase = json_get_text(json_get(answer, "status"), "phase", "Pending");
    return !items && strcmp(phase, "Pending") != 0;
}

/* The pods that `target` names ("-l SELECTOR ..." or "pod/NAME") have a log, or have one before the
 * time is over: with a selector kubectl would find nothing, say so, and call that a success. */
static int wait_for_log(const struct cluster_settings *wanted, const struct k8s_job *job,
                        const char *const *target, struct error *err)
{
    bool selected = strcmp(target[0], "-l") == 0;
    const char *words[] = {selected ? "pods" : target[0], selected ? "-l" : NULL, target[1], NULL};
    double end = clock_seconds() + (wanted->follow ? wanted->timeout : 0);
    for (;;) {
        struct json *answer;
        struct strbuf errors;
        strbuf_init(&errors);
        int status = k8s_get(&wanted->target, &job->deployment, words, &answer, &errors, err);
        bool found = answer && has_log(answer);
        if (status == 0 && !answer && !strstr(errors.text, "NotFound"))
            status = error_set(err, ERROR_IO, "%.400s", errors.text);
        strbuf_release(&errors);
        json_release(answer);
        if (status < 0 || found)
            return status;
        if (clock_seconds() >= end)
            return error_set(err, ERROR_IO,
                             "no pod has started yet (%s %s); `lockstep k8s status %s` shows them",
                             target[0], selected ? target[1] : "", wanted->target.what);
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    }
}

/* kubectl shows the last ten lines of pods that a selector finds, and follows five of them at most,
 * unless told otherwise. */
static int print_logs(const struct cluster_settings *wanted, const struct k8s_job *job,
                      const char *const *target, struct error *err)
{
    const char *words[LOG_WORDS] = {"logs"};
    int code = 0, count = 1;
    bool owner = !strstr(target[0], "pod/") && target[0][0] != '-'; /* kubectl waits by itself */
    if (!owner && wait_for_log(wanted, job, target, err) < 0)
        return -1;
    for (; *target && count < LOG_WORDS - 4; target++)
        words[count++] = *target;
    words[count++] = "--tail=-1";
    if (wanted->follow) {
        words[count++] = "-f";
        words[count++] = "--max-log-requests=100";
    }
    int status = k8s_kubectl(&(struct k8s_kubectl){.target = &wanted->target,
                                                   .deployment = &job->deployment,
                                                   .words = words,
                                                   .copy_to = wanted->save},
                             &code, err);
    return status < 0 ? -1 : code ? STATUS_FAILED : 0;
}

static int run_logs(struct options *parsed, void *given, struct error *err)
{
    (void)parsed;
    const struct cluster_settings *wanted = given;
    struct k8s_job job;
    const char *const *target;
    int status = -1;
    if (open_job(wanted, &job, err) < 0)
        return -1;
    const char *pattern = job.deployment.kind->log_target;
    const char *line = pattern ? expand(&job, pattern) : NULL;
    if (!pattern)
        error_set(err, ERROR_USAGE, "%s has no pods", job.deployment.kind->name);
    else if (!line)
        error_set(err, ERROR_MEMORY, "no memory for a name");
    else if (words_split(line, job.arena, &target, err) == 0)
        status = print_logs(wanted, &job, target, err);
    k8s_job_release(&job);
    return status;
}

static int run_wait(struct options *parsed, void *given, struct error *err)
{
    (void)parsed;
    const struct cluster_settings *wanted = given;
    struct k8s_job job;
    int status = -1;
    if (open_job(wanted, &job, err) < 0)
        return -1;
    const char *main_object = job.deployment.kind->main_object;
    if (!main_object)
        error_set(err, ERROR_USAGE, "%s has nothing to wait for", job.deployment.kind->name);
    else {
        const char *object = expand(&job, main_object);
        status = object ? wait_for(wanted, &job, object, err)
                        : error_set(err, ERROR_MEMORY, "no memory for a name");
    }
    k8s_job_release(&job);
    return status;
}

#define COMMON K8S_TARGET_OPTIONS(cluster_settings, true), K8S_CONTEXT_OPTION(cluster_settings)

static const struct option plain_options[] = {COMMON, OPTION_END};
static const struct option apply_options[] = {
    COMMON, OPTION_SECTION("Running"),
    OPTION_FLAG(cluster_settings, dry_run, "dry-run",
                .help = "let the API server check everything, and change nothing"),
    OPTION_END};
static const struct option logs_options[] = {
    COMMON,
    OPTION_SECTION("Running"),
    OPTION_FLAG(cluster_settings, follow, "follow", .letter = 'f', .help = "go on until it ends"),
    OPTION_TEXT(cluster_settings, save, "save", .value = "FILE",
                .help = "write the lines to FILE, too; its directory is made"),
    OPTION_SECONDS(cluster_settings, timeout, "timeout", .initial = "10m", OPTION_AT_LEAST(0),
                   .help = "with -f: wait this long for the pod to start"),
    OPTION_END};
static const struct option wait_options[] = {COMMON, OPTION_SECTION("Running"),
                                             OPTION_SECONDS(cluster_settings, timeout, "timeout",
                                                            .initial = "1h", OPTION_AT_LEAST(0),
                                                            .help = "give up after this time"),
                                             OPTION_END};

#define PART(word)                                                                                 \
    .name = "k8s " #word, .settings_size = sizeof(struct cluster_settings), .run = run_##word

const struct command command_k8s_apply = {
    PART(apply),
    .summary = "send the objects to the cluster",
    .description = "`kubectl apply` of what `lockstep k8s render` prints, with your own context.",
    .examples = "# two workers in a namespace of yours\n"
                "lockstep k8s apply multi-node -n team -p PVC_NAME=mine\n",
    .options = apply_options,
};
const struct command command_k8s_status = {
    PART(status),
    .summary = "show the deployment's objects and pods",
    .description = "What the cluster has of it: the job, the workflow or the servers, and pods.",
    .examples = "# how far is it?\nlockstep k8s status pipeline -n team\n",
    .options = plain_options,
};
const struct command command_k8s_logs = {
    PART(logs),
    .summary = "print the training's output",
    .description =
        "Of the pod that tells how training goes: the launcher of an MPIJob, the training "
        "pod, the master, the first worker.",
    .examples = "# follow it, and keep it\n"
                "lockstep k8s logs openmpi -f --save results/benchmark_1.out\n",
    .options = logs_options,
};
const struct command command_k8s_wait = {
    PART(wait),
    .summary = "wait until the training has ended, or the servers are ready",
    .description = "Status 0 when it went well, 1 when it failed or time is over.",
    .examples = "# in a script\nlockstep k8s wait multi-node -n team --timeout 2h\n",
    .options = wait_options,
};
const struct command command_k8s_delete = {
    PART(delete),
    .summary = "remove the objects from the cluster",
    .description = "What `apply` with the same parameters sent, and what the cluster made from it. "
                   "Data on claims and volumes of yours stays; claims that the kind renders go.",
    .examples = "# clean up\nlockstep k8s delete multi-node -n team\n",
    .options = plain_options,
};
