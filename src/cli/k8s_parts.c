#include "cli/k8s_parts.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "base/strbuf.h"
#include "k8s/kubectl.h"
#include "k8s/manifest.h"
#include "models/registry.h"

enum { FILE_LIMIT = 1 << 20, WORDS_MAX = 48 };

const struct kind *k8s_find_kind(const char *name, struct error *err)
{
    const struct kind *kind = kind_find(name);
    struct nearest nearest;
    if (kind)
        return kind;
    nearest_start(&nearest, name);
    for (const struct kind *const *other = kind_list(); *other; other++)
        nearest_offer(&nearest, (*other)->name);
    if (nearest.best)
        error_set(err, ERROR_USAGE, "unknown kind %s: did you mean %s?", name, nearest.best);
    else
        error_set(err, ERROR_USAGE, "unknown kind %s: `lockstep k8s list` lists them", name);
    return NULL;
}

static int read_file(const char *path, struct k8s_job *job, struct error *err)
{
    char *text;
    size_t bytes;
    if (file_read(path, FILE_LIMIT, &text, &bytes, err) < 0)
        return -1;
    int status = deployment_read(&job->deployment, text, bytes, job->arena, err);
    memory_free(text);
    return status < 0 ? error_wrap(err, "%s", path) : 0;
}

/* A name with a dot or a slash in it is a file. */
static int start(const char *what, struct k8s_job *job, struct error *err)
{
    if (strpbrk(what, "./"))
        return read_file(what, job, err);
    const struct kind *kind = k8s_find_kind(what, err);
    if (!kind)
        return -1;
    deployment_init(&job->deployment, kind);
    return 0;
}

static int set_parameters(const struct k8s_target *target, struct k8s_job *job, struct error *err)
{
    if (deployment_set_environment(&job->deployment, getenv, job->arena, err) < 0)
        return -1;
    for (int i = 0; i < target->parameters.count; i++)
        if (deployment_set(&job->deployment, target->parameters.items[i], FROM_FLAG, job->arena,
                           err) < 0)
            return -1;
    if (!target->name_space)
        return 0;
    const char *line = arena_format(job->arena, "NAMESPACE=%s", target->name_space);
    if (!line)
        return error_set(err, ERROR_MEMORY, "no memory for the parameters");
    return deployment_set(&job->deployment, line, FROM_FLAG, job->arena, err);
}

/* A misspelt network would be found out on the cluster only. Paths are of the image. */
int k8s_check_model(const char *name, struct error *err)
{
    struct nearest nearest;
    if (model_find(name) || strpbrk(name, "./"))
        return 0;
    nearest_start(&nearest, name);
    for (const struct model *const *model = model_list(); *model; model++)
        nearest_offer(&nearest, (*model)->name);
    return error_set(err, ERROR_USAGE, "MODEL=%.60s: is unknown; %s%s%s", name,
                     nearest.best ? "did you mean " : "`lockstep models` lists them",
                     nearest.best ? nearest.best : "", nearest.best ? "?" : "");
}

static int check_model(const struct deployment *deployment, struct error *err)
{
    if (!kind_spelling(deployment->kind, P_MODEL) || !deployment_runs_lockstep(deployment) ||
        *deployment_text(deployment, P_EXEC))
        return 0;
    return k8s_check_model(deployment_text(deployment, P_MODEL), err);
}

/* Variables like NAME may be there for another reason: say which ones counted. */
static void say_environment(const struct deployment *deployment)
{
    for (const struct kind_use *use = deployment->kind->uses; use->parameter != PARAMETER_COUNT;
         use++)
        if (deployment->sources[use->parameter] == FROM_ENVIRONMENT)
            log_line(LOG_INFO, "%s=%.200s comes from the environment",
                     kind_spelling(deployment->kind, use->parameter),
                     deployment_text(deployment, use->parameter));
}

int k8s_job_open(const struct k8s_target *target, struct k8s_job *out, struct error *err)
{
    *out = (struct k8s_job){.arena = arena_create()};
    if (!out->arena)
        return error_set(err, ERROR_MEMORY, "no memory for the parameters");
    if (start(target->what, out, err) < 0 || set_parameters(target, out, err) < 0 ||
        deployment_finish(&out->deployment, out->arena, err) < 0 ||
        check_model(&out->deployment, err) < 0)
        goto failed;
    say_environment(&out->deployment);
    const char *warning;
    for (int i = 0; (warning = deployment_warning(&out->deployment, i)); i++)
        log_line(LOG_WARNING, "%s", warning);
    out->manifest = manifest_create(&out->deployment);
    if (!out->manifest) {
        error_set(err, ERROR_MEMORY, "no memory for the objects");
        goto failed;
    }
    out->deployment.kind->render(&out->deployment, out->manifest);
    return 0;
failed:
    k8s_job_release(out);
    return -1;
}

void k8s_job_release(struct k8s_job *job)
{
    manifest_destroy(job->manifest);
    arena_destroy(job->arena);
    *job = (struct k8s_job){0};
}

struct copy {
    struct strbuf *text;
    FILE *file;
    bool failed;
};

static void take(void *context, const char *bytes, size_t count)
{
    struct copy *copy = context;
    if (copy->text)
        strbuf_add_bytes(copy->text, bytes, count);
    if (copy->file) {
        fwrite(bytes, 1, count, stdout);
        copy->failed |= fwrite(bytes, 1, count, copy->file) != count;
        fflush(stdout);
    }
}

static void take_errors(void *context, const char *bytes, size_t count)
{
    strbuf_add_bytes(context, bytes, count);
}

static int open_copy(const char *path, struct copy *copy, struct error *err)
{
    char directory[PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(directory, sizeof directory, "%.*s", slash ? (int)(slash - path) : 0, path);
    if (*directory && directory_make(directory, err) < 0)
        return -1;
    copy->file = fopen(path, "we");
    return copy->file ? 0 : error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
}

static int close_copy(const char *path, struct copy *copy, struct error *err)
{
    if (!copy->file)
        return 0;
    bool failed = fclose(copy->file) != 0 || copy->failed;
    return failed ? error_set(err, ERROR_IO, "%s: cannot be written: %s", path, strerror(errno))
                  : 0;
}

/* The words with namespace and context in front; false when there are too many. */
static bool collect(const struct k8s_kubectl *call, const char *words[WORDS_MAX])
{
    int count = 0;
    const char *space = call->deployment ? deployment_text(call->deployment, P_NAMESPACE)
                                         : call->target->name_space;
    if (call->target->context) {
        words[count++] = "--context";
        words[count++] = call->target->context;
    }
    if (space && *space) {
        words[count++] = "-n";
        words[count++] = space;
    }
    for (int i = 0; call->words[i]; i++) {
        if (count == WORDS_MAX - 1)
            return false;
        words[count++] = call->words[i];
    }
    words[count] = NULL;
    return true;
}

int k8s_kubectl(const struct k8s_kubectl *call, int *status, struct error *err)
{
    const char *words[WORDS_MAX];
    struct copy copy = {.text = call->output};
    if (!collect(call, words))
        return error_set(err, ERROR_USAGE, "kubectl would be given too many words");
    if (call->copy_to && open_copy(call->copy_to, &copy, err) < 0)
        return -1;
    const char *program = getenv("KUBECTL");
    fflush(stdout);
    int result = kubectl_run(&(struct kubectl_call){.program = program && *program ? program : NULL,
                                                    .words = words,
                                                    .input = call->input,
                                                    .output = copy.text || copy.file ? take : NULL,
                                                    .output_context = &copy,
                                                    .errors = call->errors ? take_errors : NULL,
                                                    .errors_context = call->errors},
                             status, err);
    if (close_copy(call->copy_to, &copy, err) < 0)
        return -1;
    return result;
}

int k8s_get(const struct k8s_target *target, const struct deployment *deployment,
            const char *const *words, struct json **out, struct strbuf *errors, struct error *err)
{
    const char *all[WORDS_MAX] = {"get", "-o", "json"};
    struct strbuf text;
    int code = 0, count = 3;
    for (int i = 0; words[i] && count < WORDS_MAX - 8; i++)
        all[count++] = words[i];
    all[count] = NULL;
    *out = NULL;
    strbuf_init(&text);
    int status = k8s_kubectl(&(struct k8s_kubectl){.target = target,
                                                   .deployment = deployment,
                                                   .words = all,
                                                   .output = &text,
                                                   .errors = errors},
                             &code, err);
    if (status == 0 && code == 0 && json_parse(text.text, text.length, out, err) < 0)
        status = error_wrap(err, "kubectl get %s", words[0]);
    strbuf_release(&text);
    return status;
}
