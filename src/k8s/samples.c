#include "k8s/samples.h"

#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/yaml.h"
#include "k8s/manifest.h"

static struct node *add_pod(struct manifest *out)
{
    char name[64];
    snprintf(name, sizeof name, "${SELF}-sample-%d", manifest_count(out));
    return node_map(manifest_object(out, "v1", "Pod", name), "spec");
}

static void add_spec(struct manifest *out, const struct json *spec)
{
    struct node *pod = add_pod(out);
    void *state = NULL;
    const char *key;
    const struct json *value;
    while ((value = json_next(spec, &state, &key)))
        if (strcmp(key, "serviceAccountName") != 0)
            node_json(pod, key, value);
}

/* Argo puts the pod together from the template and what the workflow says for all of them. */
static void add_step(struct manifest *out, const struct json *workflow,
                     const struct json *template)
{
    struct node *pod = add_pod(out);
    const struct json *security = json_get(workflow, "securityContext");
    const struct json *volumes = json_get(template, "volumes");
    void *state = NULL;
    const char *key;
    const struct json *value, *container = json_get(template, "container");
    if (security)
        node_json(pod, "securityContext", security);
    if (volumes)
        node_json(pod, "volumes", volumes);
    struct node *main = node_map(node_list(pod, "containers"), NULL);
    node_text(main, "name", "main");
    while ((value = json_next(container, &state, &key)))
        node_json(main, key, value);
}

static void collect(struct manifest *out, const struct json *json, const struct json *workflow)
{
    void *state = NULL;
    const char *key;
    const struct json *value;
    for (int i = 0; json_type_of(json) == JSON_IS_ARRAY && i < json_count(json); i++)
        collect(out, json_at(json, i), workflow);
    if (json_type_of(json) != JSON_IS_OBJECT)
        return;
    if (json_get(json, "containers"))
        add_spec(out, json);
    else if (json_get(json, "container"))
        add_step(out, workflow, json);
    else
        while ((value = json_next(json, &state, &key)))
            collect(out, value, workflow);
}

int samples_create(const struct deployment *deployment, const struct manifest *objects,
                   struct manifest **out, struct error *err)
{
    struct strbuf text;
    struct json *documents = NULL;
    *out = NULL;
    strbuf_init(&text);
    int status = manifest_write(objects, false, &text, err);
    if (status == 0)
        status = yaml_read(text.text, text.length, YAML_TYPES, &documents, err);
    strbuf_release(&text);
    if (status == 0 && !(*out = manifest_create(deployment)))
        status = error_set(err, ERROR_MEMORY, "no memory for samples of pods");
    for (int i = 0; status == 0 && i < json_count(documents); i++)
        collect(*out, json_at(documents, i), json_get(json_at(documents, i), "spec"));
    json_release(documents);
    return status;
}
