/* Objects as text or as files: `k8s render` and `package`. */
#include <limits.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/files.h"
#include "base/strbuf.h"
#include "cli/k8s_parts.h"
#include "cli/output.h"
#include "k8s/manifest.h"
#include "k8s/package.h"

struct render_settings {
    struct k8s_target target;
};

static int run_render(struct options *parsed, void *given, struct error *err)
{
    (void)parsed;
    const struct render_settings *wanted = given;
    struct k8s_job job;
    struct strbuf text;
    if (k8s_job_open(&wanted->target, &job, err) < 0)
        return -1;
    strbuf_init(&text);
    int status = manifest_write(job.manifest, false, &text, err);
    if (status == 0)
        status = output_text(&text, err);
    strbuf_release(&text);
    k8s_job_release(&job);
    return status;
}

struct package_settings {
    const char *directory;
    struct option_list parameters;
};

static int write_file(void *context, const char *path, const char *text, struct error *err)
{
    char whole[PATH_MAX], directory[PATH_MAX];
    int length = snprintf(whole, sizeof whole, "%s/%s", (const char *)context, path);
    if (length < 0 || length >= (int)sizeof whole)
        return error_set(err, ERROR_USAGE, "%s: the path is too long", path);
    snprintf(directory, sizeof directory, "%.*s", (int)(strrchr(whole, '/') - whole), whole);
    if (directory_make(directory, err) < 0)
        return -1;
    return file_write_atomic(whole, text, strlen(text), err);
}

static int run_package(struct options *parsed, void *given, struct error *err)
{
    (void)parsed;
    const struct package_settings *wanted = given;
    const char *assignments[OPTION_LIST_MAX + 1] = {NULL};
    struct arena *memory = arena_create();
    if (!memory)
        return error_set(err, ERROR_MEMORY, "no memory for the package");
    int status = 0;
    for (int i = 0; i < wanted->parameters.count && status == 0; i++) {
        assignments[i] = wanted->parameters.items[i];
        if (strncasecmp(assignments[i], "MODEL=", 6) == 0)
            status = k8s_check_model(assignments[i] + 6, err);
    }
    if (status == 0)
        status = package_write(assignments, write_file, (void *)(uintptr_t)wanted->directory,
                               memory, err);
    arena_destroy(memory);
    if (status == 0)
        printf("%s/quickstart/mlops: single-node, multi-node and pipeline, each with "
               "user-allocated-pvc and user-mounted-nfs\n",
               wanted->directory);
    return status;
}

static const struct option render_options[] = {K8S_TARGET_OPTIONS(render_settings, true),
                                               OPTION_END};

static const struct option package_options[] = {
    OPTION_ARGUMENT(package_settings, directory, "DIR", .required = true, .value = "DIR",
                    .help = "where the tree goes; made if need be"),
    OPTION_LIST(package_settings, parameters, "param", .letter = 'p', .value = "KEY=VALUE",
                .aliases = "set",
                .help = "another default, for the kinds that have the parameter; may be repeated"),
    OPTION_END};

const struct command command_k8s_render = {
    .name = "k8s render",
    .summary = "print the objects as YAML",
    .description =
        "For `kubectl create -f -` or `kubectl apply -f -`, with -n NAMESPACE where none was "
        "given here.",
    .examples =
        "# a training pod on a claim of yours\n"
        "lockstep k8s render single-node -p PVC_NAME=mine | kubectl apply -n team -f -\n"
        "# workers by TF_CONFIG\n"
        "lockstep k8s render multi-worker -p deploy=True -p create_volume_inspector=False\n",
    .options = render_options,
    .settings_size = sizeof(struct render_settings),
    .run = run_render,
};

const struct command command_k8s_package = {
    .name = "k8s package",
    .summary = "write a tree of kustomize packages with setters",
    .description =
        "DIR/quickstart/mlops has single-node, multi-node and pipeline, each with "
        "user-allocated-pvc and user-mounted-nfs: a Krmfile, a kustomization and the objects. "
        "kustomize 3.8.7 changes parameters (`kustomize cfg set . NAME VALUE -R`) and any "
        "kustomize "
        "builds them; the objects are those of `lockstep k8s render`. Existing files of these "
        "names "
        "are replaced.",
    .examples = "# as the documents have it\n"
                "lockstep k8s package resnet50v1-5-fp32-training-k8s\n",
    .options = package_options,
    .settings_size = sizeof(struct package_settings),
    .run = run_package,
};
