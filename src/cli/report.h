/* Remembers what a training said, for the summary and the JSON at its end; an observer. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "train/trainer.h"

struct json;

struct report {
    int64_t warmup_steps;      /* not counted in times */
    int64_t steps, examples;   /* finished by this run */
    double started, seconds;   /* when; of the whole run, evaluations included */
    double first_step_seconds; /* since the process was started */
    double setup_seconds;      /* the same to the beginning of the first step */
    struct train_event last_step, evaluation;
    bool evaluated;
    double *step_seconds;   /* a ring of the last `capacity` */
    double *saving_seconds; /* the same, with what they waited for a checkpoint, of those beside
                             * which one was written; 0 for the others */
    int64_t capacity;
};

/* `total_steps` is what the run will make at most. Release it whether or not this succeeds. */
int report_init(struct report *report, int64_t total_steps, int64_t warmup_steps,
                struct error *err);
void report_release(struct report *report);
/* A train_observer; the context is the struct report. Allocates nothing. */
void report_observe(void *report, const struct train_event *event);

struct report_speed {
    int64_t steps; /* that were measured */
    double median_step_seconds, mean_step_seconds;
    /* As tf_cnn_benchmarks has them, in examples per second: standard deviation over the root of
     * the number of steps; 1.4826 times the median distance from the median. */
    double uncertainty, jitter;
};
/* Of the steps after the warm-up so far; zeros when there is none. */
void report_measure(const struct report *report, int batch, struct report_speed *out);

struct report_saving {
    int64_t steps; /* beside which a checkpoint was written */
    double median_step_seconds, other_median_step_seconds;
};
/* What checkpoints cost; zeros when there are no steps of both sorts. */
void report_measure_saving(const struct report *report, struct report_saving *out);

/* steps, examples, seconds, speed, loss, accuracy. */
void report_describe(const struct report *report, int batch, struct json *out);

/* What a yes-or-no network is judged by beside its accuracy; nothing for others. Says so when the
 * accuracy is none: no better than always giving the commoner answer. */
void report_binary(double accuracy, double majority, double auc, double log_loss, FILE *out);

#endif
