/* The watchers that tell other services, chosen by the environment: MLflow and Kubeflow Trainer.
 * What keeps them from it is a warning, never a reason not to train. */
#ifndef CLI_REMOTE_H
#define CLI_REMOTE_H

#include "watch/outcome.h"

struct kubeflow;
struct mlflow;
struct train_event;
struct watchers_run;

/* All zero is none. */
struct remote {
    struct mlflow *mlflow;
    struct kubeflow *kubeflow;
};

void remote_create(const struct watchers_run *run, char *(*environment)(const char *name),
                   struct remote *out);
void remote_observe(struct remote *remote, const struct train_event *event);
void remote_end(struct remote *remote, enum run_outcome outcome);
/* Gives what is left to tell a few seconds. */
void remote_release(struct remote *remote);

#endif
