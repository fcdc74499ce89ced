/* What a measured run says about a step: the field "timeline" of `lockstep train --timeline --json`.
 * The text is outside bytes: bounded and checked. */
#ifndef PREDICT_MEASUREMENT_H
#define PREDICT_MEASUREMENT_H

#include "predict/step.h"

struct arena;
struct error;

enum { MEASUREMENT_MAX_BYTES = 16 << 20, MEASUREMENT_MAX_GRADIENTS = 100000 };

struct measurement {
    const char *model;
    int ranks, batch, threads; /* examples of one rank in a step */
    int steps;                 /* that the medians are of */
    double step_seconds;       /* as it took; with several ranks, their reductions included */
    double spread;             /* of one rank's computation from step to step, relative */
    struct step_work work;
};

/* `where` is what messages call it. The result lies in the arena. */
int measurement_parse(const char *where, const char *text, size_t bytes, struct arena *arena,
                      struct measurement *out, struct error *err);
/* As if everything had been computed so many times as fast. */
void measurement_speed_up(struct measurement *run, double speed);
int measurement_read(const char *path, struct arena *arena, struct measurement *out,
                     struct error *err);

#endif
