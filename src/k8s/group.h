/* Members that start by themselves and find each other by name: our agents' groups. */
#ifndef K8S_GROUP_H
#define K8S_GROUP_H

#include "k8s/pods.h"

/* --secret-file FILE where SECRET names one, which is mounted, else --insecure. */
void group_secret(struct pod *pod, struct node *words, const struct deployment *deployment);

#endif
