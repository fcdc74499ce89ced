/* The parts of `lockstep k8s`, and what they share. */
#ifndef CLI_K8S_PARTS_H
#define CLI_K8S_PARTS_H

#include "cli/command.h"
#include "k8s/deployment.h"

struct arena;
struct error;
struct json;
struct manifest;
struct strbuf;

extern const struct command command_k8s_list, command_k8s_params, command_k8s_init,
    command_k8s_render, command_k8s_package, command_k8s_apply, command_k8s_status,
    command_k8s_logs, command_k8s_wait, command_k8s_delete, command_k8s_doctor;

/* What nearly every part is told. */
struct k8s_target {
    const char *what; /* a kind or a parameter file */
    struct option_list parameters;
    const char *name_space, *context;
};

#define K8S_TARGET_OPTIONS(settings, needed)                                                       \
    OPTION_ARGUMENT(settings, target.what, "KIND", .required = needed,                             \
                    .help = "a kind of `lockstep k8s list`, or a file that `lockstep k8s init` "   \
                            "made"),                                                               \
        OPTION_SECTION("Parameters"),                                                              \
        OPTION_LIST(settings, target.parameters, "param", .letter = 'p', .value = "KEY=VALUE",     \
                    .aliases = "set",                                                              \
                    .help =                                                                        \
                        "a parameter of `lockstep k8s params KIND`; may be repeated. It beats "    \
                        "the file, which beats a variable of this name in the environment"),       \
        OPTION_TEXT(settings, target.name_space, "namespace", .letter = 'n', .value = "NAME",      \
                    .help = "the same as -p NAMESPACE=NAME")
#define K8S_CONTEXT_OPTION(settings)                                                               \
    OPTION_TEXT(settings, target.context, "context", .value = "NAME",                              \
                .help = "kubectl's context, if not the current one")

/* One deployment, ready to be rendered. Init, use, release. */
struct k8s_job {
    struct arena *arena;
    struct deployment deployment;
    struct manifest *manifest;
};
/* Reads and checks everything, prints warnings, and renders; releases itself when it fails. */
int k8s_job_open(const struct k8s_target *target, struct k8s_job *out, struct error *err);
void k8s_job_release(struct k8s_job *job);
/* Is there a network of this name, or is it a file's? */
int k8s_check_model(const char *name, struct error *err);
/* The kind of this name; the error has the nearest. */
const struct kind *k8s_find_kind(const char *name, struct error *err);

/* kubectl with the target's namespace and context in front of `words`. What it prints goes into
 * `output` and `errors`, or, where they are NULL, to where ours goes. */
struct k8s_kubectl {
    const struct k8s_target *target;
    const struct deployment *deployment; /* may be NULL */
    const char *const *words;
    const char *input;
    struct strbuf *output, *errors;
    const char *copy_to; /* a file that gets the output, too; NULL: none */
};
int k8s_kubectl(const struct k8s_kubectl *call, int *status, struct error *err);
/* `kubectl get WORDS -o json`; *out is NULL when it answers with an error, which goes to
 * `errors`. */
int k8s_get(const struct k8s_target *target, const struct deployment *deployment,
            const char *const *words, struct json **out, struct strbuf *errors, struct error *err);

#endif
