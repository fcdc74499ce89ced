/* EFS and FSx for Lustre: StorageClass, volume and claim, of a file system that is there or of one
 * that the claim brings into being. */
#include "base/error.h"
#include "k8s/deployment.h"
#include "k8s/kind.h"
#include "k8s/manifest.h"

static bool is_efs(const struct deployment *deployment)
{
    return deployment_is(deployment, P_FILE_SYSTEM, "efs");
}

static bool is_dynamic(const struct deployment *deployment)
{
    return deployment_is(deployment, P_PROVISIONING, "dynamic");
}

static int need(const struct deployment *deployment, enum parameter parameter, const char *start,
                struct error *err)
{
    const char *value = deployment_text(deployment, parameter);
    if (!*value)
        return error_set(err, ERROR_USAGE, "%s is missing: %s...", parameter_row(parameter)->name,
                         start);
    if (strncmp(value, start, strlen(start)) != 0)
        return error_set(err, ERROR_USAGE, "%s=%s: does not start with %s",
                         parameter_row(parameter)->name, value, start);
    return 0;
}

static int check(const struct deployment *deployment, struct error *err)
{
    bool efs = is_efs(deployment), dynamic = is_dynamic(deployment);
    if ((efs || !dynamic) && need(deployment, P_FILE_SYSTEM_ID, "fs-", err) < 0)
        return -1;
    if (!efs && dynamic &&
        (need(deployment, P_SUBNET_ID, "subnet-", err) < 0 ||
         need(deployment, P_SECURITY_GROUP_IDS, "sg-", err) < 0))
        return -1;
    if (*deployment_text(deployment, P_S3_IMPORT_PATH) && (efs || !dynamic))
        return error_set(err, ERROR_USAGE,
                         "S3_IMPORT_PATH is for FILE_SYSTEM=fsx with "
                         "PROVISIONING=dynamic");
    if (*deployment_text(deployment, P_S3_IMPORT_PATH))
        return need(deployment, P_S3_IMPORT_PATH, "s3://", err);
    if (*deployment_text(deployment, P_S3_EXPORT_PATH))
        return error_set(err, ERROR_USAGE, "S3_EXPORT_PATH needs S3_IMPORT_PATH");
    return 0;
}

static void class_parameters(struct node *object, const struct deployment *deployment)
{
    struct node *parameters = node_map(object, "parameters");
    if (is_efs(deployment)) {
        node_text(parameters, "provisioningMode", "efs-ap");
        node_pattern(parameters, "fileSystemId", "${FILE_SYSTEM_ID}");
        node_text(parameters, "directoryPerms", "700");
        node_pattern(parameters, "uid", "${USER_ID}");
        node_pattern(parameters, "gid", "${GROUP_ID}");
        return;
    }
    node_pattern(parameters, "subnetId", "${SUBNET_ID}");
    node_pattern(parameters, "securityGroupIds", "${SECURITY_GROUP_IDS}");
    node_text(parameters, "deploymentType", "SCRATCH_2");
    if (*deployment_text(deployment, P_S3_IMPORT_PATH))
        node_pattern(parameters, "s3ImportPath", "${S3_IMPORT_PATH}");
    if (*deployment_text(deployment, P_S3_EXPORT_PATH))
        node_pattern(parameters, "s3ExportPath", "${S3_EXPORT_PATH}");
}

static void storage_class(struct manifest *out, const struct deployment *deployment,
                          const char *name, const char *driver)
{
    struct node *object = manifest_cluster_object(out, "storage.k8s.io/v1", "StorageClass", name);
    node_text(object, "provisioner", driver);
    if (!is_dynamic(deployment))
        return;
    class_parameters(object, deployment);
    if (!is_efs(deployment))
        node_text(node_list(object, "mountOptions"), NULL, "flock");
}

static void volume(struct manifest *out, const struct deployment *deployment, const char *name,
                   const char *class, const char *driver)
{
    struct node *spec =
        node_map(manifest_cluster_object(out, "v1", "PersistentVolume", name), "spec");
    node_pattern(node_map(spec, "capacity"), "storage", "${CAPACITY}");
    node_text(spec, "volumeMode", "Filesystem");
    node_text(node_list(spec, "accessModes"), NULL, "ReadWriteMany");
    node_text(spec, "persistentVolumeReclaimPolicy", "Retain");
    node_text(spec, "storageClassName", class);
    if (!is_efs(deployment))
        node_text(node_list(spec, "mountOptions"), NULL, "flock");
    struct node *csi = node_map(spec, "csi");
    node_text(csi, "driver", driver);
    node_pattern(csi, "volumeHandle", "${FILE_SYSTEM_ID}");
    if (is_efs(deployment))
        return;
    struct node *attributes = node_map(csi, "volumeAttributes");
    node_pattern(attributes, "dnsname",
                 *deployment_text(deployment, P_DNS_NAME)
                     ? "${DNS_NAME}"
                     : "${FILE_SYSTEM_ID}.fsx.${REGION}.amazonaws.com");
    node_pattern(attributes, "mountname", "${MOUNT_NAME}");
}

static void render(const struct deployment *deployment, struct manifest *out)
{
    bool efs = is_efs(deployment);
    const char *class = efs ? "efs-sc" : "fsx-sc", *name = efs ? "efs-pv" : "fsx-pv";
    const char *driver = efs ? "efs.csi.aws.com" : "fsx.csi.aws.com";
    storage_class(out, deployment, class, driver);
    if (!is_dynamic(deployment))
        volume(out, deployment, name, class, driver);
    struct node *spec = node_map(
        manifest_object(out, "v1", "PersistentVolumeClaim", efs ? "efs-claim" : "fsx-claim"),
        "spec");
    node_text(node_list(spec, "accessModes"), NULL, "ReadWriteMany");
    node_text(spec, "storageClassName", class);
    if (!is_dynamic(deployment))
        node_text(spec, "volumeName", name);
    node_pattern(node_map(node_map(spec, "resources"), "requests"), "storage", "${CAPACITY}");
}

static const struct kind_use uses[] = {
    KIND_USE(NAMESPACE),
    KIND_USE(NAME, .initial = "eks-storage"),
    KIND_USE(FILE_SYSTEM),
    KIND_USE(PROVISIONING),
    KIND_USE(FILE_SYSTEM_ID),
    KIND_USE(REGION),
    KIND_USE(DNS_NAME),
    KIND_USE(MOUNT_NAME),
    KIND_USE(CAPACITY, .initial = ""),
    KIND_USE(SUBNET_ID),
    KIND_USE(SECURITY_GROUP_IDS),
    KIND_USE(S3_IMPORT_PATH),
    KIND_USE(S3_EXPORT_PATH),
    KIND_USE(USER_ID),
    KIND_USE(GROUP_ID),
    {.parameter = PARAMETER_COUNT},
};

const struct kind kind_eks_storage = {
    .name = "eks-storage",
    .summary = "StorageClass, volume and claim for EFS or FSx, with S3 behind it",
    .origin = "Deep learning on EKS",
    .name_from = P_NAME,
    .uses = uses,
    .check = check,
    .render = render,
    .shows = "persistentvolumeclaims",
};
