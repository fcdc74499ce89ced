#include "k8s/group.h"

#include "k8s/deployment.h"
#include "k8s/training.h"

void group_secret(struct pod *pod, struct node *words, const struct deployment *deployment)
{
    if (deployment_is(deployment, P_SECRET, "none")) {
        node_text(words, NULL, "--insecure");
        return;
    }
    pod_mount_secret(pod, "secret", "${SECRET}", TRAINING_SECRET);
    node_text(words, NULL, "--secret-file");
    node_pattern(words, NULL, TRAINING_SECRET "/${SECRET_FILE}");
}
