#include "k8s/package.h"

#include <ctype.h>
#include <limits.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "base/yaml.h"
#include "k8s/deployment.h"
#include "k8s/manifest.h"

struct use_case {
    const char *name, *storage;
};
static const struct use_case cases[] = {
    {"user-allocated-pvc", "STORAGE=pvc"},
    {"user-mounted-nfs", "STORAGE=nfs"},
};

/* One directory while it is written. */
struct writing {
    const struct deployment *deployment;
    package_file *file;
    void *context;
    struct yaml_writer *yaml; /* the Krmfile's */
    char directory[PATH_MAX];
};

static void open_definition(struct yaml_writer *yaml, const char *prefix, const char *name)
{
    char key[256];
    snprintf(key, sizeof key, "io.k8s.cli.%s.%s", prefix, name);
    yaml_open_map(yaml, key);
}

/* No type is given: kustomize then keeps each field's own, and USER_ID is a number in a pod and a
 * text in a ConfigMap. */
static void write_setter(void *context, enum parameter parameter)
{
    struct writing *writing = context;
    const struct parameter_row *row = parameter_row(parameter);
    open_definition(writing->yaml, "setters", row->name);
    yaml_text(writing->yaml, "description", row->help, NULL);
    yaml_open_map(writing->yaml, "x-k8s-cli");
    yaml_open_map(writing->yaml, "setter");
    yaml_text(writing->yaml, "name", row->name, NULL);
    yaml_text(writing->yaml, "value", deployment_text(writing->deployment, parameter), NULL);
    yaml_close_map(writing->yaml);
    yaml_close_map(writing->yaml);
    yaml_close_map(writing->yaml);
}

static void write_substitution(void *context, const char *name, const char *pattern)
{
    struct yaml_writer *yaml = ((struct writing *)context)->yaml;
    open_definition(yaml, "substitutions", name);
    yaml_open_map(yaml, "x-k8s-cli");
    yaml_open_map(yaml, "substitution");
    yaml_text(yaml, "name", name, NULL);
    yaml_text(yaml, "pattern", pattern, NULL);
    yaml_open_list(yaml, "values");
    for (const char *at = pattern; (at = strstr(at, "${")); at += 2) {
        char marker[80], reference[120];
        int length = (int)strcspn(at, "}") + 1;
        snprintf(marker, sizeof marker, "%.*s", length, at);
        snprintf(reference, sizeof reference, "#/definitions/io.k8s.cli.setters.%.*s", length - 3,
                 at + 2);
        yaml_open_map(yaml, NULL);
        yaml_text(yaml, "marker", marker, NULL);
        yaml_text(yaml, "ref", reference, NULL);
        yaml_close_map(yaml);
    }
    yaml_close_list(yaml);
    yaml_close_map(yaml);
    yaml_close_map(yaml);
    yaml_close_map(yaml);
}

static int put(struct writing *writing, const char *name, const struct strbuf *text,
               struct error *err)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", writing->directory, name);
    if (text->failed)
        return error_set(err, ERROR_MEMORY, "no memory for %s", path);
    return writing->file(writing->context, path, text->text, err);
}

static int write_krmfile(struct writing *writing, const struct manifest *manifest,
                         struct error *err)
{
    struct strbuf text;
    strbuf_init(&text);
    int status = yaml_writer_open(&text, &writing->yaml, err);
    if (status == 0) {
        yaml_document_open(writing->yaml, "kustomize cfg set . NAME VALUE (kustomize 3.8.7)");
        yaml_text(writing->yaml, "apiVersion", "config.k8s.io/v1alpha1", NULL);
        yaml_text(writing->yaml, "kind", "Krmfile", NULL);
        yaml_open_map(writing->yaml, "openAPI");
        yaml_open_map(writing->yaml, "definitions");
        manifest_origins(manifest, write_setter, write_substitution, writing);
        yaml_close_map(writing->yaml);
        yaml_close_map(writing->yaml);
        yaml_document_close(writing->yaml);
        status = yaml_writer_close(writing->yaml, err);
    }
    status = status < 0 ? -1 : put(writing, "Krmfile", &text, err);
    strbuf_release(&text);
    return status;
}

/* ConfigMap: config-map.yaml, PersistentVolume: persistent-volume.yaml; MPIJob as the documents
 * have it. */
static void file_name(const char *kind, char *name, size_t capacity)
{
    size_t used = 0;
    if (strcmp(kind, "MPIJob") == 0) {
        snprintf(name, capacity, "mpi-job.yaml");
        return;
    }
    for (; *kind && used + 8 < capacity; kind++) {
        if (isupper((unsigned char)*kind) && used)
            name[used++] = '-';
        name[used++] = (char)tolower((unsigned char)*kind);
    }
    snprintf(name + used, capacity - used, ".yaml");
}

static bool kind_seen(const struct manifest *manifest, int index)
{
    for (int i = 0; i < index; i++)
        if (strcmp(manifest_kind(manifest, i), manifest_kind(manifest, index)) == 0)
            return true;
    return false;
}

/* All objects of the kind at `index` in one file. */
static int write_kind(struct writing *writing, const struct manifest *manifest, int index,
                      struct error *err)
{
    struct strbuf text;
    char name[64];
    int status = 0;
    strbuf_init(&text);
    for (int i = index; status == 0 && i < manifest_count(manifest); i++) {
        if (strcmp(manifest_kind(manifest, i), manifest_kind(manifest, index)) != 0)
            continue;
        if (text.length)
            strbuf_add(&text, "---\n");
        status = manifest_write_some(manifest, i, i + 1, true, &text, err);
    }
    file_name(manifest_kind(manifest, index), name, sizeof name);
    status = status < 0 ? -1 : put(writing, name, &text, err);
    strbuf_release(&text);
    return status;
}

static int write_kustomization(struct writing *writing, const struct manifest *manifest,
                               struct error *err)
{
    struct strbuf text;
    struct yaml_writer *yaml;
    strbuf_init(&text);
    int status = yaml_writer_open(&text, &yaml, err);
    if (status == 0) {
        yaml_document_open(yaml, NULL);
        yaml_text(yaml, "apiVersion", "kustomize.config.k8s.io/v1beta1", NULL);
        yaml_text(yaml, "kind", "Kustomization", NULL);
        yaml_open_list(yaml, "resources");
        for (int i = 0; i < manifest_count(manifest); i++) {
            char name[64];
            file_name(manifest_kind(manifest, i), name, sizeof name);
            if (!kind_seen(manifest, i))
                yaml_text(yaml, NULL, name, NULL);
        }
        yaml_close_list(yaml);
        yaml_document_close(yaml);
        status = yaml_writer_close(yaml, err);
    }
    status = status < 0 ? -1 : put(writing, "kustomization.yaml", &text, err);
    strbuf_release(&text);
    return status;
}

static int write_directory(struct writing *writing, struct error *err)
{
    struct manifest *manifest = manifest_create(writing->deployment);
    if (!manifest)
        return error_set(err, ERROR_MEMORY, "no memory for the objects");
    writing->deployment->kind->render(writing->deployment, manifest);
    int status = write_krmfile(writing, manifest, err);
    for (int i = 0; status == 0 && i < manifest_count(manifest); i++)
        if (!kind_seen(manifest, i))
            status = write_kind(writing, manifest, i, err);
    if (status == 0)
        status = write_kustomization(writing, manifest, err);
    manifest_destroy(manifest);
    return status;
}

static int set_those_it_has(struct deployment *deployment, const char *const *assignments,
                            struct arena *memory, struct error *err)
{
    for (; *assignments; assignments++)
        if (kind_parameter(deployment->kind, *assignments, (int)strcspn(*assignments, "=")) >= 0 &&
            deployment_set(deployment, *assignments, FROM_FILE, memory, err) < 0)
            return -1;
    return 0;
}

static int write_case(const struct kind *kind, const struct use_case *use_case,
                      const char *const *assignments, struct writing *writing, struct arena *memory,
                      struct error *err)
{
    struct deployment deployment;
    deployment_init(&deployment, kind);
    deployment.package = true;
    if (set_those_it_has(&deployment, assignments, memory, err) < 0 ||
        deployment_set(&deployment, use_case->storage, FROM_FLAG, memory, err) < 0 ||
        deployment_finish(&deployment, memory, err) < 0)
        return -1;
    if (!writing->file)
        return 0;
    writing->deployment = &deployment;
    snprintf(writing->directory, sizeof writing->directory, "quickstart/mlops/%s/%s", kind->package,
             use_case->name);
    return write_directory(writing, err);
}

static int check_assignments(const char *const *assignments, struct error *err)
{
    for (; *assignments; assignments++) {
        bool known = false;
        int length = (int)strcspn(*assignments, "=");
        for (const struct kind *const *kind = kind_list(); *kind; kind++)
            known |= (*kind)->package && kind_parameter(*kind, *assignments, length) >= 0;
        if (!(*assignments)[length] || !known)
            return error_set(err, ERROR_USAGE,
                             "-p %.100s: no kind of the package has such a "
                             "parameter, or = is missing",
                             *assignments);
        if (strncasecmp(*assignments, "STORAGE=", 8) == 0 ||
            strncasecmp(*assignments, "NAMESPACE=", 10) == 0)
            return error_set(err, ERROR_USAGE, "-p %.100s: a package has %s", *assignments,
                             length == 7 ? "both" : "none; kustomize edit set namespace");
    }
    return 0;
}

/* `file` NULL: only checks. */
static int write_all(const char *const *assignments, package_file *file, void *context,
                     struct arena *memory, struct error *err)
{
    for (const struct kind *const *kind = kind_list(); *kind; kind++)
        for (size_t i = 0; (*kind)->package && i < sizeof cases / sizeof *cases; i++) {
            struct writing writing = {.file = file, .context = context};
            if (write_case(*kind, &cases[i], assignments, &writing, memory, err) < 0)
                return error_wrap(err, "%s/%s", (*kind)->package, cases[i].name);
        }
    return 0;
}

int package_write(const char *const *assignments, package_file *file, void *context,
                  struct arena *memory, struct error *err)
{
    if (check_assignments(assignments, err) < 0 ||
        write_all(assignments, NULL, NULL, memory, err) < 0)
        return -1;
    return write_all(assignments, file, context, memory, err);
}
