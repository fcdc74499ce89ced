/* What can be deployed, and with what parameters: `k8s list`, `params` and `init`. */
#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "cli/k8s_parts.h"
#include "cli/output.h"

struct list_settings {
    const char *kind, *json;
};

static int write_json(struct json *json, const char *target, struct error *err)
{
    int status = json ? output_json(json, target, err)
                      : error_set(err, ERROR_MEMORY, "no memory for the JSON output");
    json_release(json);
    return status;
}

static struct json *list_json(void)
{
    struct json *json = json_object_create(), *kinds = json_array_create();
    for (const struct kind *const *kind = kind_list(); *kind; kind++) {
        struct json *entry = json_object_create();
        json_set_text(entry, "name", (*kind)->name);
        json_set_text(entry, "summary", (*kind)->summary);
        json_set_text(entry, "origin", (*kind)->origin);
        json_append(kinds, entry);
    }
    json_set(json, "kinds", kinds);
    return json;
}

static int run_list(struct options *parsed, void *given, struct error *err)
{
    (void)parsed;
    const struct list_settings *wanted = given;
    if (wanted->json)
        return write_json(list_json(), wanted->json, err);
    for (const struct kind *const *kind = kind_list(); *kind; kind++)
        printf("%-14s  %s\n", (*kind)->name, (*kind)->summary);
    return 0;
}

static struct json *params_json(const struct deployment *deployment)
{
    struct json *json = json_object_create(), *list = json_array_create();
    json_set_text(json, "kind", deployment->kind->name);
    for (const struct kind_use *use = deployment->kind->uses; use->parameter != PARAMETER_COUNT;
         use++) {
        struct json *entry = json_object_create();
        json_set_text(entry, "name", kind_spelling(deployment->kind, use->parameter));
        json_set_text(entry, "value", deployment_text(deployment, use->parameter));
        json_set_text(entry, "description", kind_help(use));
        json_append(list, entry);
    }
    json_set(json, "parameters", list);
    return json;
}

static int run_params(struct options *parsed, void *given, struct error *err)
{
    (void)parsed;
    const struct list_settings *wanted = given;
    const struct kind *kind = k8s_find_kind(wanted->kind, err);
    struct deployment deployment;
    if (!kind)
        return -1;
    deployment_init(&deployment, kind);
    if (wanted->json)
        return write_json(params_json(&deployment), wanted->json, err);
    printf("%s: %s (%s)\n\n%-24s %-24s %s\n", kind->name, kind->summary, kind->origin, "NAME",
           "VALUE", "DESCRIPTION");
    for (const struct kind_use *use = kind->uses; use->parameter != PARAMETER_COUNT; use++)
        printf("%-24s %-24s %s\n", kind_spelling(kind, use->parameter),
               deployment_text(&deployment, use->parameter), kind_help(use));
    return 0;
}

struct init_settings {
    struct k8s_target target;
};

static int run_init(struct options *parsed, void *given, struct error *err)
{
    (void)parsed;
    const struct init_settings *wanted = given;
    const struct kind *kind = k8s_find_kind(wanted->target.what, err);
    struct deployment deployment;
    struct strbuf text;
    if (!kind)
        return -1;
    struct arena *memory = arena_create();
    strbuf_init(&text);
    deployment_init(&deployment, kind);
    int status = memory ? 0 : error_set(err, ERROR_MEMORY, "no memory for the parameters");
    for (int i = 0; status == 0 && i < wanted->target.parameters.count; i++)
        status =
            deployment_set(&deployment, wanted->target.parameters.items[i], FROM_FLAG, memory, err);
    if (status == 0)
        status = deployment_write(&deployment, &text, err);
    if (status == 0)
        status = output_text(&text, err);
    strbuf_release(&text);
    arena_destroy(memory);
    return status;
}

static const struct option list_options[] = {
    OPTION_TEXT(list_settings, json, "json", .value = "FILE|-",
                .help = "write the kinds as JSON to FILE, or to standard output"),
    OPTION_END};

static const struct option params_options[] = {
    OPTION_ARGUMENT(list_settings, kind, "KIND", .required = true,
                    .help = "a kind of `lockstep k8s list`"),
    OPTION_TEXT(list_settings, json, "json", .value = "FILE|-",
                .help = "write the parameters as JSON to FILE, or to standard output"),
    OPTION_END};

static const struct option init_options[] = {
    OPTION_ARGUMENT(init_settings, target.what, "KIND", .required = true,
                    .help = "a kind of `lockstep k8s list`"),
    OPTION_LIST(init_settings, target.parameters, "param", .letter = 'p', .value = "KEY=VALUE",
                .aliases = "set", .help = "a value to put there; may be repeated"),
    OPTION_END};

const struct command command_k8s_list = {
    .name = "k8s list",
    .summary = "list the kinds of deployments",
    .description = "Each kind is a set of objects for the API server, made from parameters.",
    .examples = "# for a script\nlockstep k8s list --json - | jq -r '.kinds[].name'\n",
    .options = list_options,
    .settings_size = sizeof(struct list_settings),
    .run = run_list,
};

const struct command command_k8s_params = {
    .name = "k8s params",
    .summary = "show a kind's parameters, their defaults and what they mean",
    .description =
        "Names and defaults are those of the documents that the kinds come from. Who runs "
        "it is not: unless told, user 1000 instead of root.",
    .examples = "# what can be set?\nlockstep k8s params pipeline\n",
    .options = params_options,
    .settings_size = sizeof(struct list_settings),
    .run = run_params,
};

const struct command command_k8s_init = {
    .name = "k8s init",
    .summary = "print a parameter file to edit and keep",
    .description =
        "The file names the kind and has every parameter with its default; render, apply "
        "and the others take it in place of the kind. Lines that are left as they are may "
        "be deleted.",
    .examples = "# a job in a file\nlockstep k8s init multi-node > job.yaml\n"
                "lockstep k8s apply job.yaml\n",
    .options = init_options,
    .settings_size = sizeof(struct init_settings),
    .run = run_init,
};
