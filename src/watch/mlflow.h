/* A training as a run of an MLflow tracking server, by its REST API; an observer of trainer
 * events. Configured as MLflow's own client is, by the environment: MLFLOW_TRACKING_URI,
 * MLFLOW_EXPERIMENT_NAME or _ID, MLFLOW_RUN_NAME, MLFLOW_RUN_ID (continues that run), and the
 * credentials. Nothing here waits for the server but mlflow_destroy, for a few seconds. */
#ifndef WATCH_MLFLOW_H
#define WATCH_MLFLOW_H

#include "watch/outbox.h"
#include "watch/outcome.h"

struct error;
struct mlflow;
struct train_event;

struct mlflow_param {
    const char *name, *value;
};

struct mlflow_options {
    char *(*environment)(const char *name); /* getenv, or a test's own */
    const char *source;                     /* what runs: "lockstep train resnet50" */
    const struct mlflow_param *params;      /* copied */
    int param_count;
    struct outbox_times times;
    double sample_interval;        /* seconds between two steps that are told; 0: a quarter */
    const atomic_int *stop_signal; /* see outbox.h */
};

/* Without MLFLOW_TRACKING_URI `*out` is NULL. Fails when the variables ask for what cannot be
 * done. */
int mlflow_create(const struct mlflow_options *options, struct mlflow **out, struct error *err);
/* A train_observer; the context is the struct mlflow. Allocates nothing. The run appears with
 * TRAIN_STARTED; the first and the last step and all evaluations are told, others a few times a
 * second. */
void mlflow_observe(void *mlflow, const struct train_event *event);
/* The run is over; does not wait. */
void mlflow_end(struct mlflow *mlflow, enum run_outcome outcome);
/* Waits for the last report, as outbox_destroy does. Accepts NULL. */
void mlflow_destroy(struct mlflow *mlflow);

#endif
