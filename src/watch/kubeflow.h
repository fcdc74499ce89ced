/* Progress of a training for Kubeflow Trainer, which shows it as status.trainerStatus of the
 * TrainJob; an observer of trainer events. The controller tells a pod where, by the environment:
 * KUBEFLOW_TRAINER_SERVER_URL, _CA_CERT and _TOKEN (files; the token changes and is read each
 * time). Nothing here waits for the controller but kubeflow_destroy, for a few seconds. */
#ifndef WATCH_KUBEFLOW_H
#define WATCH_KUBEFLOW_H

#include "watch/outbox.h"
#include "watch/outcome.h"

struct error;
struct kubeflow;
struct train_event;

struct kubeflow_options {
    char *(*environment)(const char *name); /* getenv, or a test's own */
    struct outbox_times times;              /* interval: 5 s unless told, as the controller asks */
    const atomic_int *stop_signal;          /* see outbox.h */
};

/* Without KUBEFLOW_TRAINER_SERVER_URL `*out` is NULL. */
int kubeflow_create(const struct kubeflow_options *options, struct kubeflow **out,
                    struct error *err);
/* A train_observer; the context is the struct kubeflow. Allocates nothing. */
void kubeflow_observe(void *kubeflow, const struct train_event *event);
/* The run is over; does not wait. Only a finished one is at 100 %. */
void kubeflow_end(struct kubeflow *kubeflow, enum run_outcome outcome);
/* Waits for the last report, as outbox_destroy does. Accepts NULL. */
void kubeflow_destroy(struct kubeflow *kubeflow);

#endif
