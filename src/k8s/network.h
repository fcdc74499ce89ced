/* Services and policies: who finds whom, and who may talk to whom. */
#ifndef K8S_NETWORK_H
#define K8S_NETWORK_H

#include "k8s/pods.h"

/* A Service without an address of its own: names for its pods, also before they are ready. */
struct node *network_headless(struct manifest *manifest, const char *name);
/* Adds a port to a Service's spec. */
struct node *network_port(struct node *spec, const char *name, enum parameter port,
                          int64_t target_port);
/* Pods of this deployment talk to each other on any port (MPI chooses its own), strangers only to
 * the `count` ports of `open`. */
void network_policy(struct manifest *manifest, const enum parameter *open, int count);
/* The live page's Service, where DASHBOARD_PORT asks for one; it leads to pods of `role`, and, of
 * an MPIJob, to the one with rank 0. */
void network_dashboard(struct manifest *manifest, const struct deployment *deployment,
                       const char *role, const char *index_label);

#endif
