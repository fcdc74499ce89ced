/* A deployment as a file that people edit. */
#include "base/error.h"
#include "base/json.h"
#include "base/nearest.h"
#include "base/strbuf.h"
#include "base/yaml.h"
#include "k8s/deployment.h"

static int start(struct deployment *deployment, const char *name, struct error *err)
{
    const struct kind *kind = name ? kind_find(name) : NULL;
    if (!name)
        return error_set(err, ERROR_FORMAT, "a line `kind: NAME` is missing; `lockstep k8s list`");
    if (!kind) {
        struct nearest nearest;
        nearest_start(&nearest, name);
        for (const struct kind *const *other = kind_list(); *other; other++)
            nearest_offer(&nearest, (*other)->name);
        return error_set(err, ERROR_FORMAT, "kind: %.60s: is unknown; %s%s", name,
                         nearest.best ? "did you mean " : "`lockstep k8s list` lists them",
                         nearest.best ? nearest.best : "");
    }
    deployment_init(deployment, kind);
    return 0;
}

static int set_all(struct deployment *deployment, const struct json *parameters,
                   struct arena *memory, struct error *err)
{
    void *state = NULL;
    const char *key;
    const struct json *value;
    while (parameters && (value = json_next(parameters, &state, &key))) {
        struct strbuf line;
        if (json_type_of(value) != JSON_IS_TEXT)
            return error_set(err, ERROR_FORMAT, "%.60s: must be one value; put lists in quotes",
                             key);
        strbuf_init(&line);
        strbuf_addf(&line, "%s=%s", key, json_as_text(value, ""));
        int status = deployment_set(deployment, line.text, FROM_FILE, memory, err);
        strbuf_release(&line);
        if (status < 0)
            return -1;
    }
    return 0;
}

static int read_document(struct deployment *deployment, const struct json *document,
                         struct arena *memory, struct error *err)
{
    const struct json *parameters = json_get(document, "parameters");
    void *state = NULL;
    const char *key;
    if (start(deployment, json_get_text(document, "kind", NULL), err) < 0)
        return -1;
    if (parameters && json_type_of(parameters) != JSON_IS_OBJECT)
        return error_set(err, ERROR_FORMAT, "parameters: must be a map, KEY: VALUE on each line");
    while (json_next(document, &state, &key))
        if (strcmp(key, "kind") != 0 && strcmp(key, "parameters") != 0)
            return error_set(err, ERROR_FORMAT, "%.60s: is unknown; there are kind and parameters",
                             key);
    return set_all(deployment, parameters, memory, err);
}

int deployment_read(struct deployment *deployment, const char *text, size_t bytes,
                    struct arena *memory, struct error *err)
{
    struct json *documents;
    if (yaml_read(text, bytes, YAML_TEXTS, &documents, err) < 0)
        return -1;
    int status;
    if (json_count(documents) != 1 || json_type_of(json_at(documents, 0)) != JSON_IS_OBJECT)
        status = error_set(err, ERROR_FORMAT,
                           "is no parameter file; `lockstep k8s init KIND` makes one");
    else
        status = read_document(deployment, json_at(documents, 0), memory, err);
    json_release(documents);
    return status;
}

int deployment_write(const struct deployment *deployment, struct strbuf *out, struct error *err)
{
    const struct kind *kind = deployment->kind;
    struct yaml_writer *yaml;
    if (yaml_writer_open(out, &yaml, err) < 0)
        return -1;
    struct strbuf head;
    strbuf_init(&head);
    strbuf_addf(&head, "%s\nRender it with: lockstep k8s render FILE", kind->summary);
    yaml_document_open(yaml, head.text);
    strbuf_release(&head);
    yaml_text(yaml, "kind", kind->name, NULL);
    yaml_open_map(yaml, "parameters");
    for (const struct kind_use *use = kind->uses; use->parameter != PARAMETER_COUNT; use++)
        yaml_text(yaml, kind_spelling(kind, use->parameter), deployment->values[use->parameter],
                  kind_help(use));
    yaml_close_map(yaml);
    yaml_document_close(yaml);
    return yaml_writer_close(yaml, err);
}
