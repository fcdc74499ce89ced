/* What seed 002's `openmpi` component was told, in both ways we run it. */
#ifndef K8S_COMPONENT_H
#define K8S_COMPONENT_H

#include "k8s/pods.h"

#define COMPONENT_ASSETS "/kubeflow/openmpi/assets"

int component_check(const struct deployment *deployment, struct error *err);
/* The volume nfs-data and the claim nfs-external. */
void component_volume(struct manifest *manifest, const struct deployment *deployment);
/* VOLUMES and VOLUME_MOUNTS, as they were given. */
void component_mounts(struct pod *pod, const struct deployment *deployment);
/* EXEC, or else the document's mpiexec with our program behind it. */
void component_words(struct node *words, const struct deployment *deployment);
/* A ConfigMap's hostfile, at the path where the document's command looks for it. */
void component_hostfile(struct pod *pod, const char *config_map);

#endif
