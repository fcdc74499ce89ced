#include "watch/mlflow.h"

#include <math.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "train/trainer.h"
#include "watch/mlflow_run.h"
#include "watch/pace.h"

/* Steps are told four times a second at most: what an absence of four minutes leaves behind fits,
 * and a longer one makes it coarser. A batch keeps below the 1000 metrics of one request. */
enum { CAPACITY = 1024, BATCH = 150 };
static const double USUAL_INTERVAL = 0.25;

struct mlflow {
    struct mlflow_run *run; /* belongs to the outbox's thread once that has begun */
    struct outbox *outbox;
    struct pace pace;
    double interval, told_at;
};

static int start(struct mlflow *mlflow, const struct mlflow_options *options, struct error *err)
{
    if (mlflow_run_create(options, &mlflow->run, err) < 0)
        return -1;
    const struct mlflow_settings *settings = mlflow_run_settings(mlflow->run);
    if (!settings->url[0])
        return 0;
    struct outbox_options outbox = {.name = "MLflow",
                                    .where = settings->shown,
                                    .item_bytes = sizeof(struct mlflow_sample),
                                    .capacity = CAPACITY,
                                    .batch = BATCH,
                                    .send = mlflow_run_send,
                                    .context = mlflow->run,
                                    .times = options->times,
                                    .ca_bundle = settings->ca_bundle,
                                    .client_certificate = settings->client_certificate,
                                    .trust_anyone = settings->trust_anyone,
                                    .stop_signal = options->stop_signal};
    return outbox_create(&outbox, &mlflow->outbox, err);
}

int mlflow_create(const struct mlflow_options *options, struct mlflow **out, struct error *err)
{
    *out = NULL;
    struct mlflow *mlflow = memory_allocate(sizeof *mlflow);
    if (!mlflow)
        return error_set(err, ERROR_MEMORY, "no memory to report to MLflow");
    mlflow->interval = options->sample_interval > 0 ? options->sample_interval : USUAL_INTERVAL;
    int status = start(mlflow, options, err);
    if (mlflow->outbox)
        *out = mlflow;
    else
        mlflow_destroy(mlflow);
    return status;
}

void mlflow_destroy(struct mlflow *mlflow)
{
    if (!mlflow)
        return;
    outbox_destroy(mlflow->outbox);
    mlflow_run_destroy(mlflow->run);
    memory_free(mlflow);
}

static void put(struct mlflow *mlflow, struct mlflow_sample sample, bool keep)
{
    sample.milliseconds = (int64_t)(clock_wall_seconds() * 1000);
    outbox_put(mlflow->outbox, &sample, keep);
}

static void on_step(struct mlflow *mlflow, const struct train_event *event)
{
    double now = clock_seconds();
    bool first = mlflow->pace.steps == 0, last = event->step == event->total;
    pace_add(&mlflow->pace, event);
    if (!first && !last && now - mlflow->told_at < mlflow->interval)
        return;
    mlflow->told_at = now;
    double speed = pace_examples_per_second(&mlflow->pace);
    put(mlflow,
        (struct mlflow_sample){.kind = MLFLOW_STEP,
                               .step = event->step,
                               .loss = event->loss,
                               .accuracy = event->accuracy,
                               .rate = event->rate,
                               .examples_per_second = speed > 0 ? speed : NAN},
        first || last);
}

static void on_evaluated(struct mlflow *mlflow, const struct train_event *event)
{
    put(mlflow,
        (struct mlflow_sample){.kind = MLFLOW_EVALUATION,
                               .step = event->step,
                               .loss = event->loss,
                               .accuracy = event->accuracy,
                               .accuracy_top_5 = event->accuracy_top_5,
                               .log_loss = event->log_loss,
                               .auc = event->auc},
        true);
}

void mlflow_observe(void *context, const struct train_event *event)
{
    struct mlflow *mlflow = context;
    switch (event->kind) {
    case TRAIN_STARTED:
        put(mlflow, (struct mlflow_sample){.kind = MLFLOW_START, .step = event->step}, true);
        break;
    case TRAIN_STEP:
        on_step(mlflow, event);
        break;
    case TRAIN_EVALUATED:
        on_evaluated(mlflow, event);
        break;
    case TRAIN_SAVED:
    case TRAIN_FINISHED: /* how it ended, mlflow_end says */
        break;
    }
}

void mlflow_end(struct mlflow *mlflow, enum run_outcome outcome)
{
    put(mlflow, (struct mlflow_sample){.kind = MLFLOW_END, .outcome = outcome}, true);
    outbox_end(mlflow->outbox);
}
