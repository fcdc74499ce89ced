/* The pods that will come of a deployment's objects, before anyone makes them. */
#ifndef K8S_SAMPLES_H
#define K8S_SAMPLES_H

struct deployment;
struct error;
struct manifest;

/* One Pod for each pod, pod template and workflow's container among `objects`: the API server judges
 * the templates of its own kinds, but of an MPIJob or a Workflow it learns only from the pods that
 * an operator makes later. Without the service account, which may not be there yet. The caller
 * destroys it. */
int samples_create(const struct deployment *deployment, const struct manifest *objects,
                   struct manifest **out, struct error *err);

#endif
