#include "cli/remote.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/run_params.h"
#include "cli/signals.h"
#include "cli/watchers.h"
#include "watch/kubeflow.h"
#include "watch/mlflow.h"

static void start_mlflow(const struct watchers_run *run, char *(*environment)(const char *name),
                         struct remote *out)
{
    struct error err = {0};
    struct arena *memory = arena_create();
    struct mlflow_param *params = NULL;
    int count = memory ? run_params(run, memory, &params) : 0;
    char *source = memory ? arena_format(memory, "lockstep %s %s", run->command, run->model) : NULL;
    struct mlflow_options options = {.environment = environment,
                                     .source = source,
                                     .params = params,
                                     .param_count = count,
                                     .stop_signal = signals_number()};
    if (mlflow_create(&options, &out->mlflow, &err) < 0)
        log_line(LOG_WARNING, "MLflow is not told about this run: %s", err.message);
    arena_destroy(memory);
}

static void start_kubeflow(char *(*environment)(const char *name), struct remote *out)
{
    struct error err = {0};
    struct kubeflow_options options = {.environment = environment, .stop_signal = signals_number()};
    if (kubeflow_create(&options, &out->kubeflow, &err) < 0)
        log_line(LOG_WARNING, "Kubeflow Trainer is not told about this run: %s", err.message);
}

void remote_create(const struct watchers_run *run, char *(*environment)(const char *name),
                   struct remote *out)
{
    *out = (struct remote){0};
    start_mlflow(run, environment, out);
    start_kubeflow(environment, out);
}

void remote_observe(struct remote *remote, const struct train_event *event)
{
    if (remote->mlflow)
        mlflow_observe(remote->mlflow, event);
    if (remote->kubeflow)
        kubeflow_observe(remote->kubeflow, event);
}

/* Both begin to hurry before one is waited for. */
void remote_end(struct remote *remote, enum run_outcome outcome)
{
    if (remote->mlflow)
        mlflow_end(remote->mlflow, outcome);
    if (remote->kubeflow)
        kubeflow_end(remote->kubeflow, outcome);
}

void remote_release(struct remote *remote)
{
    mlflow_destroy(remote->mlflow);
    kubeflow_destroy(remote->kubeflow);
    *remote = (struct remote){0};
}
