/* Volumes: where the data is, and where results go. Pods may mount claims only (Pod Security
 * refuses inline NFS and hostPath), so volumes and claims are rendered for both. */
#ifndef K8S_STORAGE_H
#define K8S_STORAGE_H

#include "k8s/pods.h"

/* Where a claim's volume comes from. Names are patterns. */
struct storage_volume {
    const char *volume, *claim;
    const char *capacity, *access;     /* "85Gi", "ReadWriteMany" */
    const char *storage_class;         /* "": none */
    const char *nfs_server, *nfs_path; /* patterns; or */
    const char *host_path;
};
/* A PersistentVolume and the PersistentVolumeClaim that is bound to it. */
void storage_pair(struct manifest *manifest, const struct storage_volume *volume);

/* For results (STORAGE) and data (DATASET_DIR, DATASET_CLAIM, DATA): what must be there beside the
 * pods, and the mounts in each of them. */
void storage_objects(struct manifest *manifest, const struct deployment *deployment);
void storage_mounts(struct pod *pod, const struct deployment *deployment);
/* The volume's path: a pattern, "${PVC_PATH}" or "${NFS_PATH}". */
const char *storage_path(const struct deployment *deployment);
/* The claim for results, a pattern, too. */
const char *storage_claim(const struct deployment *deployment);
/* Does the training read DATASET_DIR? Not where DATA says synthetic or s3://. */
bool storage_has_dataset(const struct deployment *deployment);
/* The directories for results and checkpoints; they must lie on the volume. */
int storage_check(const struct deployment *deployment, struct error *err);
/* Patterns of the whole paths. */
const char *storage_output(const struct deployment *deployment);
const char *storage_checkpoints(const struct deployment *deployment);

/* A ConfigMap named after the deployment, with everything that training reads from its
 * environment. */
void storage_config_map(struct manifest *manifest, const struct deployment *deployment);

#endif
