#include "support/test.h"

#include "base/arena.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/yaml.h"
#include "k8s/package.h"

/* Files of a package, in memory: every one is read as YAML, some are kept. */
struct files {
    int count;
    struct strbuf krmfile, pod; /* of single-node/user-mounted-nfs */
};

static int take(void *context, const char *path, const char *text, struct error *err)
{
    struct files *files = context;
    struct json *documents;
    files->count++;
    if (yaml_read(text, strlen(text), YAML_TYPES, &documents, err) < 0)
        return error_wrap(err, "%s", path);
    json_release(documents);
    if (strcmp(path, "quickstart/mlops/single-node/user-mounted-nfs/Krmfile") == 0)
        strbuf_add(&files->krmfile, text);
    if (strcmp(path, "quickstart/mlops/single-node/user-mounted-nfs/pod.yaml") == 0)
        strbuf_add(&files->pod, text);
    return 0;
}

static int package(const char *const *assignments, struct files *files, struct error *err)
{
    struct arena *memory = arena_create();
    *files = (struct files){0};
    *err = (struct error){0};
    strbuf_init(&files->krmfile);
    strbuf_init(&files->pod);
    int status = package_write(assignments, take, files, memory, err);
    arena_destroy(memory);
    return status;
}

static void release(struct files *files)
{
    strbuf_release(&files->krmfile);
    strbuf_release(&files->pod);
}

TEST(package, has_setters_for_what_the_documents_set)
{
    static const char *const names[] = {"DATASET_DIR", "FS_ID",   "GROUP_ID",   "GROUP_NAME",
                                        "NFS_PATH",    "USER_ID", "NFS_SERVER", "USER_NAME",
                                        "OUTPUT_DIR",  "IMAGE",   "MODEL_NAME"};
    struct files files;
    struct error err;
    ASSERT_OK(package((const char *const[]){NULL}, &files, &err), err);
    struct json *documents;
    ASSERT_OK(yaml_read(files.krmfile.text, files.krmfile.length, YAML_TYPES, &documents, &err),
              err);
    const struct json *definitions =
        json_get(json_get(json_at(documents, 0), "openAPI"), "definitions");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char key[80];
        snprintf(key, sizeof key, "io.k8s.cli.setters.%s", names[i]);
        if (!json_get(definitions, key))
            FAIL("the Krmfile has no %s", key);
    }
    json_release(documents);
    ASSERT_CONTAINS(files.pod.text, "mountPath: /nfs # {\"$openapi\":\"NFS_PATH\"}\n");
    ASSERT_CONTAINS(files.pod.text, "runAsUser: 1000 # {\"$openapi\":\"USER_ID\"}\n");
    ASSERT_CONTAINS(
        files.pod.text,
        "claimName: resnet50v1-5-fp32-training-nfs # {\"$openapi\":\"MODEL_NAME-nfs\"}\n");
    release(&files);
}

TEST(package, takes_other_defaults_where_a_kind_has_the_parameter)
{
    struct files files;
    struct error err;
    ASSERT_OK(package((const char *const[]){"WORKERS=9", "USER_ID=77", "NFS_SERVER=a.b", NULL},
                      &files, &err),
              err);
    ASSERT_CONTAINS(files.pod.text, "runAsUser: 77 # {\"$openapi\":\"USER_ID\"}\n");
    release(&files);
}

TEST(package, refuses_what_no_kind_has_and_what_it_decides_itself)
{
    struct files files;
    struct error err;
    ASSERT_FAILS(package((const char *const[]){"NONSENSE=1", NULL}, &files, &err), err, ERROR_USAGE,
                 "NONSENSE");
    ASSERT_FAILS(package((const char *const[]){"STORAGE=nfs", NULL}, &files, &err), err,
                 ERROR_USAGE, "both");
    ASSERT_FAILS(package((const char *const[]){"NAMESPACE=x", NULL}, &files, &err), err,
                 ERROR_USAGE, "edit set namespace");
    ASSERT_FAILS(package((const char *const[]){"WORKERS=0", NULL}, &files, &err), err, ERROR_USAGE,
                 "multi-node/user-allocated-pvc: WORKERS=0");
    ASSERT_FAILS(package((const char *const[]){"REPLICAS=0", NULL}, &files, &err), err, ERROR_USAGE,
                 "pipeline/user-allocated-pvc: REPLICAS=0");
    ASSERT_INT(files.count, ==, 0);
    release(&files);
}
