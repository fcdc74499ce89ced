/* bench --tune FILE: trains MODEL for a few steps with each kernel that its convolutions could have, and
 * writes which was the fastest for which shape, as exec/kernel_rules.h reads it. A clock is looked at
 * here and never in a run that follows the file. */
#ifndef CLI_TUNING_H
#define CLI_TUNING_H

#include <stdio.h>

#include "cli/session.h"

struct tuning_run {
    const struct session *session; /* built */
    const struct session_data *data;
    const char *path; /* of the file */
    int batch, threads;
    int64_t steps; /* measured with each kernel, in each of three rounds */
    uint64_t seed;
    FILE *out; /* gets what was found; NULL: nobody */
};

int tuning_run(const struct tuning_run *run, struct error *err);

#endif
