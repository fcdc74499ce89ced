#include "k8s/component.h"

#include "base/error.h"
#include "base/json.h"
#include "k8s/deployment.h"
#include "k8s/storage.h"
#include "k8s/training.h"

static struct json *list_of(const struct deployment *deployment, enum parameter parameter)
{
    struct json *list = NULL;
    const char *text = deployment_text(deployment, parameter);
    if (json_parse(text, strlen(text), &list, NULL) < 0)
        return NULL; /* it was checked; only memory can be short */
    return list;
}

static bool has_name(const struct json *list, const char *name)
{
    for (int i = 0; i < json_count(list); i++)
        if (strcmp(json_get_text(json_at(list, i), "name", ""), name) == 0)
            return true;
    return false;
}

/* Names that our own volumes have. */
static bool is_reserved(const char *name)
{
    static const char *const names[] = {"tmp",    "shm",      "secret",
                                        "assets", "ssh-auth", "mpi-job-config"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Places where our own volumes are mounted. */
static bool is_taken(const struct deployment *deployment, const char *path)
{
    return strcmp(path, COMPONENT_ASSETS) == 0 || strcmp(path, "/dev/shm") == 0 ||
           (strcmp(path, "/tmp") == 0 && deployment_runs_lockstep(deployment));
}

static int check_names(const struct json *volumes, struct error *err)
{
    for (int i = 0; volumes && i < json_count(volumes); i++)
        if (is_reserved(json_get_text(json_at(volumes, i), "name", "")))
            return error_set(err, ERROR_USAGE, "volumes: %s is a name of ours; take another",
                             json_get_text(json_at(volumes, i), "name", ""));
    return 0;
}

static int check_mounts(const struct deployment *deployment, struct error *err)
{
    struct json *volumes = list_of(deployment, P_VOLUMES);
    struct json *mounts = list_of(deployment, P_VOLUME_MOUNTS);
    int status = check_names(volumes, err);
    for (int i = 0; mounts && volumes && status == 0 && i < json_count(mounts); i++) {
        const char *name = json_get_text(json_at(mounts, i), "name", "");
        const char *path = json_get_text(json_at(mounts, i), "mountPath", "");
        if (!has_name(volumes, name))
            status = error_set(err, ERROR_USAGE, "volumeMounts: %.60s is not among volumes", name);
        else if (path[0] != '/')
            status = error_set(err, ERROR_USAGE, "volumeMounts: %.60s has no mountPath", name);
        else if (is_taken(deployment, path))
            status = error_set(err, ERROR_USAGE,
                               "volumeMounts: something of ours is at %s already; take another "
                               "mountPath",
                               path);
    }
    json_release(mounts);
    json_release(volumes);
    return status;
}

int component_check(const struct deployment *deployment, struct error *err)
{
    bool volume = deployment_flag(deployment, P_CREATE_VOLUME);
    if (volume && deployment_is(deployment, P_NFS_SERVER, "0.0.0.0"))
        return error_set(err, ERROR_USAGE,
                         "NFS_SERVER=0.0.0.0: is a placeholder; give the server's name or address, "
                         "or CREATE_VOLUME=False if the claim is there");
    if (volume && deployment_text(deployment, P_NFS_EXPORT)[0] != '/')
        return error_set(err, ERROR_USAGE, "NFS_EXPORT=%s: must start with /",
                         deployment_text(deployment, P_NFS_EXPORT));
    return check_mounts(deployment, err) < 0 ? -1 : training_check_exec(deployment, err);
}

void component_volume(struct manifest *manifest, const struct deployment *deployment)
{
    if (!deployment_flag(deployment, P_CREATE_VOLUME))
        return;
    storage_pair(manifest, &(struct storage_volume){.volume = "nfs-data",
                                                    .claim = "nfs-external",
                                                    .capacity = "${CAPACITY}",
                                                    .access = "ReadWriteMany",
                                                    .storage_class = "nfs-external",
                                                    .nfs_server = "${NFS_SERVER}",
                                                    .nfs_path = "${NFS_EXPORT}"});
}

static void append(struct node *list, const struct deployment *deployment, enum parameter parameter)
{
    struct json *given = list_of(deployment, parameter);
    for (int i = 0; given && i < json_count(given); i++)
        node_json(list, NULL, json_at(given, i));
    json_release(given);
}

void component_mounts(struct pod *pod, const struct deployment *deployment)
{
    append(pod->volumes, deployment, P_VOLUMES);
    append(pod->mounts, deployment, P_VOLUME_MOUNTS);
}

void component_words(struct node *words, const struct deployment *deployment)
{
    static const char *const shown[] = {"--display-map",
                                        "--tag-output",
                                        "--timestamp-output",
                                        "--mca",
                                        "plm_rsh_no_tree_spawn",
                                        "1",
                                        NULL};
    static const char *const program[] = {"lockstep",      "bench",    "${MODEL}",
                                          "--num-batches", "${STEPS}", "--batch-size",
                                          "${BATCH_SIZE}", "--data",   "imagenet:/mnt/data",
                                          "--use-fp16",    NULL};
    if (training_exec(words, deployment))
        return;
    training_mpirun(words, deployment, "mpiexec", COMPONENT_ASSETS "/hostfile");
    for (int i = 0; shown[i]; i++)
        node_text(words, NULL, shown[i]);
    for (int i = 0; program[i]; i++)
        node_pattern(words, NULL, program[i]);
    training_add_words(words, deployment, P_ARGS);
}

void component_hostfile(struct pod *pod, const char *config_map)
{
    struct node *volume = node_map(pod->volumes, NULL);
    node_text(volume, "name", "assets");
    struct node *source = node_map(volume, "configMap");
    node_pattern(source, "name", config_map);
    struct node *item = node_map(node_list(source, "items"), NULL);
    node_text(item, "key", "hostfile");
    node_text(item, "path", "hostfile");
    struct node *mount = node_map(pod->mounts, NULL);
    node_text(mount, "name", "assets");
    node_text(mount, "mountPath", COMPONENT_ASSETS);
    node_bool(mount, "readOnly", true);
}
