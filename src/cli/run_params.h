/* What a run was asked for, as names and values for those who keep a record of it. */
#ifndef CLI_RUN_PARAMS_H
#define CLI_RUN_PARAMS_H

#include "watch/mlflow.h"

struct arena;
struct watchers_run;

/* All options that have a value, wherever it came from, and what became of those that say "the
 * model's" or "all": model, data, steps, batch size, threads. Names as in --json, with _. From
 * `memory`; *out is NULL when that is short. Returns how many. */
int run_params(const struct watchers_run *run, struct arena *memory, struct mlflow_param **out);

#endif
