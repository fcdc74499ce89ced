/* The learning rate as a pure function of the step, so that a resumed run continues exactly. */
#ifndef TRAIN_SCHEDULE_H
#define TRAIN_SCHEDULE_H

#include <stdint.h>

struct error;

enum schedule_kind { SCHEDULE_CONSTANT, SCHEDULE_PIECEWISE, SCHEDULE_POLYNOMIAL, SCHEDULE_COSINE };
enum { SCHEDULE_MAX_DROPS = 16 };

struct schedule {
    enum schedule_kind kind;
    float base_rate;
    float end_rate;       /* polynomial and cosine end here */
    float power;          /* polynomial */
    int64_t warmup_steps; /* linear from 0 to the base rate */
    int64_t origin;       /* polynomial and cosine begin here, or at the end of the warm-up... */
    int64_t total_steps;  /* ...and end here */
    int drop_count;       /* piecewise: from step drops[i] on, the rate is base * factors[i] */
    int64_t drops[SCHEDULE_MAX_DROPS];
    float factors[SCHEDULE_MAX_DROPS];
};

/* Rate for the step that has `step` finished ones before it. */
float schedule_rate(const struct schedule *schedule, int64_t step);

/* From the words of the command line, for a run of known epoch length:
 *   constant | piecewise:30=0.1,60=0.01 (epochs) | polynomial[:POWER] | cosine. */
int schedule_parse(const char *text, float base_rate, double warmup_epochs, int64_t steps_per_epoch,
                   int64_t total_steps, struct schedule *out, struct error *err);

#endif
