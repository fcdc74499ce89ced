#include "k8s/manifest.h"

#include <assert.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/yaml.h"
#include "k8s/deployment.h"

enum node_type { NODE_MAP, NODE_LIST, NODE_TEXT, NODE_INTEGER, NODE_BOOL };

struct node {
    enum node_type type;
    struct manifest *manifest;
    const char *key;    /* NULL in a list */
    const char *text;   /* or */
    int64_t integer;    /* also of a bool */
    const char *origin; /* the pattern it was made from; NULL: none */
    struct node *first, *last, *next;
    const char *comment, *kind; /* of a document */
};

struct manifest {
    const struct deployment *deployment;
    struct arena *arena;
    struct node root;  /* a list of documents */
    struct node scrap; /* what callers get when memory is short */
    bool failed;
    bool template;
    struct deployment stand_in; /* of a template: its values are Argo's placeholders */
};

struct manifest *manifest_create(const struct deployment *deployment)
{
    struct arena *arena = arena_create();
    struct manifest *manifest = arena ? ARENA_NEW(arena, struct manifest) : NULL;
    if (!manifest) {
        arena_destroy(arena);
        return NULL;
    }
    manifest->arena = arena;
    manifest->deployment = deployment;
    manifest->root = (struct node){.type = NODE_LIST, .manifest = manifest};
    manifest->scrap = (struct node){.type = NODE_MAP, .manifest = manifest};
    return manifest;
}

struct manifest *manifest_create_template(const struct deployment *deployment)
{
    struct manifest *manifest = manifest_create(deployment);
    if (!manifest)
        return NULL;
    manifest->template = true;
    manifest->stand_in = *deployment;
    manifest->deployment = &manifest->stand_in;
    for (int i = 0; i < PARAMETER_COUNT; i++) {
        const char *value = arena_format(manifest->arena, "{{workflow.parameters.%s}}",
                                         parameter_row((enum parameter)i)->name);
        manifest->stand_in.values[i] = value ? value : "";
        manifest->failed |= !value;
    }
    manifest->stand_in.values[P_NAMESPACE] = ""; /* Argo takes the workflow's own */
    return manifest;
}

void manifest_destroy(struct manifest *manifest)
{
    if (manifest)
        arena_destroy(manifest->arena);
}

static const char *copy(struct manifest *manifest, const char *text)
{
    const char *kept = arena_copy_text(manifest->arena, text);
    if (!kept)
        manifest->failed = true;
    return kept ? kept : "";
}

static struct node *add(struct node *parent, const char *key, enum node_type type)
{
    struct manifest *manifest = parent->manifest;
    struct node *node = ARENA_NEW(manifest->arena, struct node);
    if (!node) {
        manifest->failed = true;
        return &manifest->scrap;
    }
    assert(parent->type == NODE_LIST ? key == NULL : key != NULL);
    *node =
        (struct node){.type = type, .manifest = manifest, .key = key ? copy(manifest, key) : NULL};
    if (parent->last)
        parent->last->next = node;
    else
        parent->first = node;
    parent->last = node;
    return node;
}

struct node *node_map(struct node *parent, const char *key)
{
    return add(parent, key, NODE_MAP);
}

struct node *node_list(struct node *parent, const char *key)
{
    return add(parent, key, NODE_LIST);
}

struct node *node_child(const struct node *map, const char *key)
{
    for (struct node *node = map->first; node; node = node->next)
        if (node->key && strcmp(node->key, key) == 0)
            return node;
    return NULL;
}

struct node *node_first(const struct node *list)
{
    return list->first;
}

void node_text(struct node *parent, const char *key, const char *text)
{
    add(parent, key, NODE_TEXT)->text = copy(parent->manifest, text);
}

void node_integer(struct node *parent, const char *key, int64_t value)
{
    add(parent, key, NODE_INTEGER)->integer = value;
}

void node_bool(struct node *parent, const char *key, bool value)
{
    add(parent, key, NODE_BOOL)->integer = value;
}

/* ${SELF} stands for the parameter that names the objects, which setters must know by its name. */
static const char *resolve_self(struct manifest *manifest, const char *pattern)
{
    static const char self[] = "${SELF}";
    struct strbuf out;
    strbuf_init(&out);
    for (const char *at; (at = strstr(pattern, self)); pattern = at + strlen(self)) {
        strbuf_add_bytes(&out, pattern, (size_t)(at - pattern));
        strbuf_addf(&out, "${%s}", parameter_row(manifest->deployment->kind->name_from)->name);
    }
    strbuf_add(&out, pattern);
    const char *kept = copy(manifest, out.text);
    strbuf_release(&out);
    return kept;
}

void node_pattern(struct node *parent, const char *key, const char *pattern)
{
    struct strbuf text;
    struct node *node = add(parent, key, NODE_TEXT);
    strbuf_init(&text);
    deployment_expand(parent->manifest->deployment, pattern, &text);
    node->text = copy(parent->manifest, text.text);
    if (strstr(pattern, "${"))
        node->origin = resolve_self(parent->manifest, pattern);
    strbuf_release(&text);
}

static const char *origin_of(struct manifest *manifest, enum parameter parameter)
{
    char pattern[64];
    if (parameter == PARAMETER_COUNT)
        return NULL;
    snprintf(pattern, sizeof pattern, "${%s}", parameter_row(parameter)->name);
    return copy(manifest, pattern);
}

/* What stands for a number in a template until the text is whole: a placeholder of Argo's would be
 * quoted, and so become a text. */
#define NUMBER_MARK "NUMBER_FROM_WORKFLOW_"

void node_number(struct node *parent, const char *key, enum parameter parameter)
{
    struct node *node = add(parent, key, parent->manifest->template ? NODE_TEXT : NODE_INTEGER);
    if (parent->manifest->template) {
        node->text = arena_format(parent->manifest->arena, NUMBER_MARK "%s.",
                                  parameter_row(parameter)->name);
        parent->manifest->failed |= !node->text;
    }
    node->integer = deployment_integer(parent->manifest->deployment, parameter);
    node->origin = origin_of(parent->manifest, parameter);
}

void node_word_number(struct node *list, int64_t value, enum parameter parameter)
{
    char text[24];
    struct node *node = add(list, NULL, NODE_TEXT);
    snprintf(text, sizeof text, "%lld", (long long)value);
    node->text = copy(list->manifest, text);
    node->origin = origin_of(list->manifest, parameter);
}

void node_json(struct node *parent, const char *key, const struct json *value)
{
    struct node *node;
    void *state = NULL;
    const char *name;
    const struct json *member;
    switch (json_type_of(value)) {
    case JSON_IS_OBJECT:
        node = node_map(parent, key);
        while ((member = json_next(value, &state, &name)))
            node_json(node, name, member);
        break;
    case JSON_IS_ARRAY:
        node = node_list(parent, key);
        for (int i = 0; i < json_count(value); i++)
            node_json(node, NULL, json_at(value, i));
        break;
    case JSON_IS_INTEGER:
        node_integer(parent, key, json_as_integer(value, 0));
        break;
    case JSON_IS_BOOL:
        node_bool(parent, key, json_as_bool(value, false));
        break;
    case JSON_IS_TEXT:
        node_text(parent, key, json_as_text(value, ""));
        break;
    case JSON_IS_NULL:
    case JSON_IS_NUMBER: /* no field of a volume is one */
        parent->manifest->failed = true;
        break;
    }
}

static void add_with_numbers(struct node *parent, const char *key, const char *text)
{
    struct strbuf out;
    strbuf_init(&out);
    for (const char *at; (at = strstr(text, NUMBER_MARK));) {
        const char *name = at + strlen(NUMBER_MARK);
        int length = (int)strcspn(name, ".");
        strbuf_add_bytes(&out, text, (size_t)(at - text));
        strbuf_addf(&out, "{{workflow.parameters.%.*s}}", length, name);
        text = name + length + 1;
    }
    strbuf_add(&out, text);
    node_text(parent, key, out.text);
    strbuf_release(&out);
}

void node_embed(struct node *parent, const char *key, const struct manifest *inner)
{
    struct strbuf text;
    strbuf_init(&text);
    if (manifest_write(inner, false, &text, NULL) < 0)
        parent->manifest->failed = true;
    add_with_numbers(parent, key, text.text);
    strbuf_release(&text);
}

struct node *manifest_document(struct manifest *manifest, const char *api_version, const char *kind)
{
    struct node *node = add(&manifest->root, NULL, NODE_MAP);
    node->kind = copy(manifest, kind);
    node_text(node, "apiVersion", api_version);
    node_text(node, "kind", kind);
    return node;
}

static struct node *add_object(struct manifest *manifest, const char *api_version, const char *kind,
                               const char *name, const char *name_space)
{
    struct node *object = manifest_document(manifest, api_version, kind);
    struct node *metadata = node_map(object, "metadata");
    node_pattern(metadata, "name", name);
    if (*name_space)
        node_text(metadata, "namespace", name_space);
    struct node *labels = node_map(metadata, "labels");
    node_text(labels, "app.kubernetes.io/name", "lockstep");
    node_pattern(labels, "app.kubernetes.io/instance", "${SELF}");
    return object;
}

struct node *manifest_cluster_object(struct manifest *manifest, const char *api_version,
                                     const char *kind, const char *name)
{
    return add_object(manifest, api_version, kind, name, "");
}

struct node *manifest_object(struct manifest *manifest, const char *api_version, const char *kind,
                             const char *name)
{
    /* A default is for our own kubectl calls: in the object it would contradict a user's -n. */
    return add_object(manifest, api_version, kind, name,
                      deployment_gave(manifest->deployment, P_NAMESPACE)
                          ? deployment_text(manifest->deployment, P_NAMESPACE)
                          : "");
}

void manifest_comment(struct manifest *manifest, const char *line)
{
    struct node *document = manifest->root.last;
    const char *before = document ? document->comment : NULL;
    if (document)
        document->comment =
            arena_format(manifest->arena, "%s%s%s", before ? before : "", before ? "\n" : "", line);
}

void manifest_fail(struct manifest *manifest)
{
    manifest->failed = true;
}

int manifest_count(const struct manifest *manifest)
{
    int count = 0;
    for (const struct node *node = manifest->root.first; node; node = node->next)
        count++;
    return count;
}

static const struct node *document_at(const struct manifest *manifest, int index)
{
    const struct node *node = manifest->root.first;
    while (node && index-- > 0)
        node = node->next;
    return node;
}

const char *manifest_kind(const struct manifest *manifest, int index)
{
    return document_at(manifest, index)->kind;
}

/* Is the pattern one parameter and nothing else? */
static bool is_setter(const char *pattern)
{
    const char *end = strchr(pattern, '}');
    return strncmp(pattern, "${", 2) == 0 && end && !end[1];
}

/* "${PVC_PATH}/${MODEL_NAME}" is called PVC_PATH-MODEL_NAME. */
static void name_of(const char *pattern, char *name, size_t capacity)
{
    size_t used = 0;
    for (; *pattern && used + 1 < capacity; pattern++) {
        bool letter = strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_",
                             *pattern) != NULL;
        if (letter)
            name[used++] = *pattern;
        else if (used && name[used - 1] != '-' && pattern[1])
            name[used++] = '-';
    }
    name[used] = '\0';
}

enum { SETTER_LETTERS = 160 };

static const char *setter_comment(const struct node *node, bool setters,
                                  char comment[SETTER_LETTERS + 32])
{
    char name[SETTER_LETTERS];
    if (!setters || !node->origin)
        return NULL;
    name_of(node->origin, name, sizeof name);
    snprintf(comment, SETTER_LETTERS + 32, "{\"$openapi\":\"%s\"}", name);
    return comment;
}

static void write_node(struct yaml_writer *yaml, const struct node *node, bool setters);

static void write_children(struct yaml_writer *yaml, const struct node *node, bool setters)
{
    for (const struct node *child = node->first; child; child = child->next)
        write_node(yaml, child, setters);
}

static void write_node(struct yaml_writer *yaml, const struct node *node, bool setters)
{
    char comment[SETTER_LETTERS + 32];
    switch (node->type) {
    case NODE_MAP:
        yaml_open_map(yaml, node->key);
        write_children(yaml, node, setters);
        yaml_close_map(yaml);
        break;
    case NODE_LIST:
        if (!node->first)
            break; /* nobody had anything for it */
        yaml_open_list(yaml, node->key);
        write_children(yaml, node, setters);
        yaml_close_list(yaml);
        break;
    case NODE_TEXT:
        yaml_text(yaml, node->key, node->text, setter_comment(node, setters, comment));
        break;
    case NODE_INTEGER:
        yaml_integer(yaml, node->key, node->integer, setter_comment(node, setters, comment));
        break;
    case NODE_BOOL:
        yaml_bool(yaml, node->key, node->integer != 0, NULL);
        break;
    }
}

int manifest_write_some(const struct manifest *manifest, int first, int end, bool setters,
                        struct strbuf *out, struct error *err)
{
    struct yaml_writer *yaml;
    if (manifest->failed)
        return error_set(err, ERROR_MEMORY, "no memory for the objects");
    if (yaml_writer_open(out, &yaml, err) < 0)
        return -1;
    for (int i = first; i < end; i++) {
        const struct node *document = document_at(manifest, i);
        yaml_document_open(yaml, document->comment);
        write_children(yaml, document, setters);
        yaml_document_close(yaml);
    }
    return yaml_writer_close(yaml, err);
}

int manifest_write(const struct manifest *manifest, bool setters, struct strbuf *out,
                   struct error *err)
{
    return manifest_write_some(manifest, 0, manifest_count(manifest), setters, out, err);
}

/* Walks everything below `node` that was made from parameters. */
static void walk(const struct node *node, void (*visit)(void *context, const char *origin),
                 void *context)
{
    if (node->origin)
        visit(context, node->origin);
    for (const struct node *child = node->first; child; child = child->next)
        walk(child, visit, context);
}

struct origins {
    bool parameters[PARAMETER_COUNT];
    const char *patterns[64];
    int count;
};

static void note(void *context, const char *origin)
{
    struct origins *origins = context;
    for (const char *at = origin; (at = strstr(at, "${")); at += 2) {
        int parameter = parameter_find(at + 2, (int)strcspn(at + 2, "}"));
        if (parameter >= 0)
            origins->parameters[parameter] = true;
    }
    for (int i = 0; i < origins->count; i++)
        if (strcmp(origins->patterns[i], origin) == 0)
            return;
    if (!is_setter(origin) && origins->count < (int)(sizeof origins->patterns / sizeof(char *)))
        origins->patterns[origins->count++] = origin;
}

void manifest_origins(const struct manifest *manifest, manifest_setter *setter,
                      manifest_substitution *substitution, void *context)
{
    struct origins origins = {0};
    char name[SETTER_LETTERS];
    walk(&manifest->root, note, &origins);
    for (int i = 0; i < PARAMETER_COUNT; i++)
        if (origins.parameters[i])
            setter(context, (enum parameter)i);
    for (int i = 0; i < origins.count; i++) {
        name_of(origins.patterns[i], name, sizeof name);
        substitution(context, name, origins.patterns[i]);
    }
}
