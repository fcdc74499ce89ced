#include "k8s/storage.h"

#include "base/error.h"
#include "k8s/deployment.h"

static bool on_nfs(const struct deployment *deployment)
{
    return deployment_is(deployment, P_STORAGE, "nfs");
}

void storage_pair(struct manifest *manifest, const struct storage_volume *volume)
{
    struct node *object =
        manifest_cluster_object(manifest, "v1", "PersistentVolume", volume->volume);
    struct node *spec = node_map(object, "spec");
    node_pattern(node_map(spec, "capacity"), "storage", volume->capacity);
    node_text(node_list(spec, "accessModes"), NULL, volume->access);
    node_text(spec, "persistentVolumeReclaimPolicy", "Retain");
    node_text(spec, "storageClassName", volume->storage_class);
    if (volume->nfs_server) {
        struct node *options = node_list(spec, "mountOptions");
        node_text(options, NULL, "hard");
        node_text(options, NULL, "nfsvers=4.1");
        struct node *nfs = node_map(spec, "nfs");
        node_pattern(nfs, "server", volume->nfs_server);
        node_pattern(nfs, "path", volume->nfs_path);
    } else {
        node_pattern(node_map(spec, "hostPath"), "path", volume->host_path);
    }
    object = manifest_object(manifest, "v1", "PersistentVolumeClaim", volume->claim);
    spec = node_map(object, "spec");
    node_text(node_list(spec, "accessModes"), NULL, volume->access);
    node_text(spec, "storageClassName", volume->storage_class);
    node_pattern(spec, "volumeName", volume->volume);
    node_pattern(node_map(node_map(spec, "resources"), "requests"), "storage", volume->capacity);
}

bool storage_has_dataset(const struct deployment *deployment)
{
    const char *data = deployment_text(deployment, P_DATA);
    if (!*data)
        return true;
    const char *path = strchr(data, ':');
    return path && path[1] == '/'; /* imagenet:/datasets/small, but neither synthetic nor s3:// */
}

void storage_objects(struct manifest *manifest, const struct deployment *deployment)
{
    if (on_nfs(deployment))
        storage_pair(manifest, &(struct storage_volume){.volume = "${SELF}-nfs",
                                                        .claim = "${SELF}-nfs",
                                                        .capacity = "85Gi",
                                                        .access = "ReadWriteMany",
                                                        .storage_class = "",
                                                        .nfs_server = "${NFS_SERVER}",
                                                        .nfs_path = "${NFS_PATH}"});
    if (storage_has_dataset(deployment) && !*deployment_text(deployment, P_DATASET_CLAIM))
        storage_pair(manifest, &(struct storage_volume){.volume = "${SELF}-datasets",
                                                        .claim = "${SELF}-datasets",
                                                        .capacity = "1Ti",
                                                        .access = "ReadOnlyMany",
                                                        .storage_class = "",
                                                        .host_path = "${DATASET_DIR}"});
}

const char *storage_path(const struct deployment *deployment)
{
    return on_nfs(deployment) ? "${NFS_PATH}" : "${PVC_PATH}";
}

const char *storage_claim(const struct deployment *deployment)
{
    return on_nfs(deployment) ? "${SELF}-nfs" : "${PVC_NAME}";
}

void storage_mounts(struct pod *pod, const struct deployment *deployment)
{
    pod_mount_claim(pod, "workdisk", storage_claim(deployment), storage_path(deployment), false);
    const char *dataset = deployment_text(deployment, P_DATASET_CLAIM);
    if (!storage_has_dataset(deployment))
        return;
    /* The kubelet waits forever for the second of two volumes of one claim. */
    if (!on_nfs(deployment) && strcmp(dataset, deployment_text(deployment, P_PVC_NAME)) == 0)
        pod_mount_again(pod, "workdisk", "${DATASET_DIR}", true);
    else
        pod_mount_claim(pod, "datasets",
                        *dataset ? "${DATASET_CLAIM}" : "${SELF}-datasets", "${DATASET_DIR}", true);
}

static bool is_absolute(const struct deployment *deployment, enum parameter parameter)
{
    return deployment_text(deployment, parameter)[0] == '/';
}

const char *storage_output(const struct deployment *deployment)
{
    if (is_absolute(deployment, P_OUTPUT_DIR))
        return "${OUTPUT_DIR}";
    return on_nfs(deployment) ? "${NFS_PATH}/${USER_NAME}/${SELF}/${OUTPUT_DIR}"
                              : "${PVC_PATH}/${USER_NAME}/${SELF}/${OUTPUT_DIR}";
}

const char *storage_checkpoints(const struct deployment *deployment)
{
    if (is_absolute(deployment, P_CHECKPOINT_DIR))
        return "${CHECKPOINT_DIR}";
    return on_nfs(deployment) ? "${NFS_PATH}/${USER_NAME}/${SELF}/${CHECKPOINT_DIR}"
                              : "${PVC_PATH}/${USER_NAME}/${SELF}/${CHECKPOINT_DIR}";
}

static bool lies_below(const char *path, const char *top)
{
    size_t length = strlen(top);
    return strncmp(path, top, length) == 0 && path[length] == '/';
}

int storage_check(const struct deployment *deployment, struct error *err)
{
    static const enum parameter places[] = {P_OUTPUT_DIR, P_CHECKPOINT_DIR};
    const char *volume = deployment_text(deployment, on_nfs(deployment) ? P_NFS_PATH : P_PVC_PATH);
    for (int i = 0; i < 2; i++)
        if (is_absolute(deployment, places[i]) &&
            !lies_below(deployment_text(deployment, places[i]), volume))
            return error_set(err, ERROR_USAGE,
                             "%s=%s: lies outside of %s, the only volume that can be written to",
                             parameter_row(places[i])->name, deployment_text(deployment, places[i]),
                             volume);
    const char *data = deployment_text(deployment, P_DATASET_DIR);
    if (!storage_has_dataset(deployment))
        return deployment_gave(deployment, P_DATASET_CLAIM)
                   ? error_set(err, ERROR_USAGE,
                               "DATASET_CLAIM is given, but DATA=%s reads no files",
                               deployment_text(deployment, P_DATA))
                   : 0;
    if (strcmp(data, volume) == 0 || strcmp(data, "/tmp") == 0 || strcmp(volume, "/tmp") == 0)
        return error_set(err, ERROR_USAGE, "%s: two volumes cannot be mounted at the same place",
                         strcmp(volume, "/tmp") == 0 ? volume : data);
    return 0;
}

void storage_config_map(struct manifest *manifest, const struct deployment *deployment)
{
    struct node *data = node_map(manifest_object(manifest, "v1", "ConfigMap", "${SELF}"), "data");
    if (storage_has_dataset(deployment))
        node_pattern(data, "DATASET_DIR", "${DATASET_DIR}");
    node_pattern(data, "OUTPUT_DIR", storage_output(deployment));
    node_pattern(data, "CHECKPOINT_DIR", storage_checkpoints(deployment));
    if (kind_spelling(deployment->kind, P_TARGET_ACCURACY) &&
        *deployment_text(deployment, P_TARGET_ACCURACY))
        node_pattern(data, "TARGET_ACCURACY", "${TARGET_ACCURACY}");
    node_pattern(data, "USER_ID", "${USER_ID}");
    node_pattern(data, "USER_NAME", "${USER_NAME}");
    node_pattern(data, "GROUP_ID", "${GROUP_ID}");
    node_pattern(data, "GROUP_NAME", "${GROUP_NAME}");
    if (deployment_runs_lockstep(deployment))
        node_text(data, "HOME", "/tmp"); /* the only place of its own that it may write to */
}
