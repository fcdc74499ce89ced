/* One run on a tracking server: finds its experiment, creates or continues it, logs parameters and
 * metrics, and closes it. Everything but creation happens on the outbox's thread. */
#ifndef WATCH_MLFLOW_RUN_H
#define WATCH_MLFLOW_RUN_H

#include <stdint.h>

#include "watch/mlflow.h"
#include "watch/mlflow_settings.h"

struct mlflow_run;

enum mlflow_kind { MLFLOW_START, MLFLOW_STEP, MLFLOW_EVALUATION, MLFLOW_END };

/* What the training's thread leaves in the outbox; numbers that are NaN are not told. */
struct mlflow_sample {
    enum mlflow_kind kind;
    enum run_outcome outcome; /* of MLFLOW_END */
    int64_t step, milliseconds /* since 1970 */;
    double loss, accuracy;
    double rate, examples_per_second;     /* of a step */
    double accuracy_top_5, log_loss, auc; /* of an evaluation */
};

int mlflow_run_create(const struct mlflow_options *options, struct mlflow_run **out,
                      struct error *err);
void mlflow_run_destroy(struct mlflow_run *run); /* accepts NULL */
const struct mlflow_settings *mlflow_run_settings(const struct mlflow_run *run);

/* An outbox_send of mlflow_samples. */
enum outbox_result mlflow_run_send(void *run, struct outbox *outbox, const void *samples, int count,
                                   struct error *why);

#endif
