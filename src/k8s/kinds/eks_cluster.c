/* A file for `eksctl create cluster -f`: nodes close to each other, in one zone. */
#include "base/error.h"
#include "k8s/deployment.h"
#include "k8s/kind.h"
#include "k8s/manifest.h"

static int check(const struct deployment *deployment, struct error *err)
{
    const char *region = deployment_text(deployment, P_REGION);
    static const enum parameter zones[] = {P_ZONE, P_OTHER_ZONE};
    for (int i = 0; i < 2; i++)
        if (strncmp(deployment_text(deployment, zones[i]), region, strlen(region)) != 0)
            return error_set(err, ERROR_USAGE, "%s=%s: is no zone of REGION=%s",
                             parameter_row(zones[i])->name, deployment_text(deployment, zones[i]),
                             region);
    if (deployment_is(deployment, P_OTHER_ZONE, deployment_text(deployment, P_ZONE)))
        return error_set(err, ERROR_USAGE,
                         "OTHER_ZONE=%s: is the nodes' own; EKS wants a second one for itself",
                         deployment_text(deployment, P_ZONE));
    return 0;
}

static void render(const struct deployment *deployment, struct manifest *out)
{
    struct node *file = manifest_document(out, "eksctl.io/v1alpha5", "ClusterConfig");
    manifest_comment(out, "eksctl create cluster -f FILE");
    if (*deployment_text(deployment, P_PLACEMENT_GROUP))
        manifest_comment(out, "The placement group must be there: aws ec2 create-placement-group "
                              "--strategy cluster --group-name NAME");
    struct node *metadata = node_map(file, "metadata");
    node_pattern(metadata, "name", "${CLUSTER_NAME}");
    node_pattern(metadata, "region", "${REGION}");
    struct node *zones = node_list(file, "availabilityZones");
    node_pattern(zones, NULL, "${ZONE}");
    node_pattern(zones, NULL, "${OTHER_ZONE}");
    struct node *group = node_map(node_list(file, "nodeGroups"), NULL);
    node_text(group, "name", "training");
    node_pattern(group, "instanceType", "${NODE_TYPE}");
    node_number(group, "desiredCapacity", P_NODES);
    node_pattern(node_list(group, "availabilityZones"), NULL, "${ZONE}");
    if (*deployment_text(deployment, P_PLACEMENT_GROUP))
        node_pattern(node_map(group, "placement"), "groupName", "${PLACEMENT_GROUP}");
    if (*deployment_text(deployment, P_SSH_PUBLIC_KEY)) {
        struct node *ssh = node_map(group, "ssh");
        node_bool(ssh, "allow", true);
        node_pattern(ssh, "publicKeyPath", "${SSH_PUBLIC_KEY}");
    }
}

static const struct kind_use uses[] = {
    KIND_USE(CLUSTER_NAME),    KIND_USE(REGION),         KIND_USE(ZONE),
    KIND_USE(OTHER_ZONE),      KIND_USE(NODE_TYPE),      KIND_USE(NODES),
    KIND_USE(PLACEMENT_GROUP), KIND_USE(SSH_PUBLIC_KEY), {.parameter = PARAMETER_COUNT},
};

const struct kind kind_eks_cluster = {
    .name = "eks-cluster",
    .summary = "a file for eksctl: one zone, placement group, nodes",
    .origin = "Deep learning on EKS",
    .name_from = P_CLUSTER_NAME,
    .uses = uses,
    .check = check,
    .render = render,
};
