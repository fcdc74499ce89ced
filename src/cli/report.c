#include "cli/report.h"

#include <math.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"

enum { REPORT_MAX_STEPS = 1 << 16 }; /* remembered: enough for a median, half a megabyte */

int report_init(struct report *report, int64_t total_steps, int64_t warmup_steps, struct error *err)
{
    *report = (struct report){.warmup_steps = warmup_steps, .started = clock_seconds()};
    report->capacity = total_steps < REPORT_MAX_STEPS ? total_steps : REPORT_MAX_STEPS;
    report->step_seconds = memory_allocate((size_t)(report->capacity + 1) * 3 * sizeof(double));
    if (!report->step_seconds)
        return error_set(err, ERROR_MEMORY, "no memory for the times of the steps");
    report->saving_seconds = report->step_seconds + 2 * (report->capacity + 1);
    return 0;
}

void report_release(struct report *report)
{
    memory_free(report->step_seconds);
    report->step_seconds = report->saving_seconds = NULL;
}

static void add_step(struct report *report, const struct train_event *event)
{
    if (!report->steps) {
        report->first_step_seconds = clock_since_process_start();
        report->setup_seconds = report->first_step_seconds - event->step_seconds;
    }
    int64_t place = report->capacity ? report->steps % report->capacity : 0;
    report->step_seconds[place] = event->step_seconds;
    report->saving_seconds[place] = event->saving ? event->step_seconds + event->saving_seconds : 0;
    report->steps++;
    report->examples = event->examples;
    report->last_step = *event;
}

void report_observe(void *context, const struct train_event *event)
{
    struct report *report = context;
    switch (event->kind) {
    case TRAIN_STARTED:
        report->started = clock_seconds();
        break;
    case TRAIN_STEP:
        add_step(report, event);
        break;
    case TRAIN_EVALUATED:
        report->evaluation = *event;
        report->evaluated = true;
        break;
    case TRAIN_SAVED:
    case TRAIN_FINISHED:
        break;
    }
    report->seconds = clock_seconds() - report->started;
}

static int by_size(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median(double *values, int64_t count)
{
    qsort(values, (size_t)count, sizeof *values, by_size);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* The first step that counts. */
static int64_t first_measured(const struct report *report)
{
    int64_t first = report->steps - report->capacity;
    return first > report->warmup_steps ? first : report->warmup_steps;
}

/* Copies what counts behind the ring, where there is room for it; returns how many. */
static int64_t measured_steps(const struct report *report, double *out)
{
    int64_t count = 0;
    for (int64_t step = first_measured(report); step < report->steps; step++)
        out[count++] = report->step_seconds[step % report->capacity];
    return count;
}

/* Turns `values` from seconds per step into examples per second on the way. */
static void measure_spread(double *values, int64_t count, int batch, struct report_speed *out)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++) {
        values[i] = values[i] > 0 ? batch / values[i] : 0;
        sum += values[i];
    }
    double mean = sum / (double)count, middle = median(values, count);
    for (int64_t i = 0; i < count; i++) {
        squares += (values[i] - mean) * (values[i] - mean);
        values[i] = fabs(values[i] - middle);
    }
    out->uncertainty = sqrt(squares / (double)count) / sqrt((double)count);
    out->jitter = 1.4826 * median(values, count);
}

void report_measure(const struct report *report, int batch, struct report_speed *out)
{
    double *values = report->step_seconds + report->capacity + 1;
    *out = (struct report_speed){.steps = measured_steps(report, values)};
    if (!out->steps)
        return;
    for (int64_t i = 0; i < out->steps; i++)
        out->mean_step_seconds += values[i] / (double)out->steps;
    out->median_step_seconds = median(values, out->steps);
    measure_spread(values, out->steps, batch, out);
}

/* The steps of one sort are gathered from the front of the room, the others from its end. */
void report_measure_saving(const struct report *report, struct report_saving *out)
{
    double *values = report->step_seconds + report->capacity + 1;
    int64_t saving = 0, others = report->capacity;
    *out = (struct report_saving){0};
    for (int64_t step = first_measured(report); step < report->steps; step++) {
        int64_t place = step % report->capacity;
        if (report->saving_seconds[place] > 0)
            values[saving++] = report->saving_seconds[place];
        else
            values[--others] = report->step_seconds[place];
    }
    if (!saving || others == report->capacity)
        return;
    *out = (struct report_saving){.steps = saving,
                                  .median_step_seconds = median(values, saving),
                                  .other_median_step_seconds =
                                      median(values + others, report->capacity - others)};
}

static void describe_saving(const struct report *report, struct json *out)
{
    struct report_saving saving;
    report_measure_saving(report, &saving);
    if (!saving.steps)
        return;
    json_set_integer(out, "saving_steps", saving.steps);
    json_set_number(out, "saving_step_seconds", saving.median_step_seconds);
    json_set_number(out, "other_step_seconds", saving.other_median_step_seconds);
}

void report_describe(const struct report *report, int batch, struct json *out)
{
    struct report_speed speed;
    const struct train_event *scores = &report->evaluation;
    report_measure(report, batch, &speed);
    double median_seconds = speed.median_step_seconds;
    json_set_integer(out, "steps", report->steps);
    json_set_integer(out, "examples", report->examples);
    json_set_number(out, "seconds", report->seconds);
    json_set_number(out, "examples_per_second", median_seconds > 0 ? batch / median_seconds : NAN);
    json_set_number(out, "median_step_seconds", speed.steps ? median_seconds : NAN);
    describe_saving(report, out);
    json_set_number(out, "first_step_seconds", report->steps ? report->first_step_seconds : NAN);
    json_set_number(out, "setup_seconds", report->steps ? report->setup_seconds : NAN);
    json_set_number(out, "loss", report->evaluated ? scores->loss : NAN);
    json_set_number(out, "accuracy", report->evaluated ? scores->accuracy : NAN);
    json_set_number(out, "accuracy_top_5", report->evaluated ? scores->accuracy_top_5 : NAN);
    json_set_number(out, "auc", report->evaluated ? scores->auc : NAN);
    json_set_number(out, "log_loss", report->evaluated ? scores->log_loss : NAN);
    json_set_number(out, "majority_accuracy", report->evaluated ? scores->majority : NAN);
    json_set_bool(out, "evaluated", report->evaluated);
    json_set_number(out, "train_loss", report->steps ? report->last_step.loss : NAN);
    json_set_number(out, "train_accuracy", report->steps ? report->last_step.accuracy : NAN);
}

void report_binary(double accuracy, double majority, double auc, double log_loss, FILE *out)
{
    if (isnan(majority))
        return;
    if (!(accuracy > majority))
        fprintf(out, "(always giving the commoner answer would be right in %.4f)\n", majority);
    if (!isnan(auc))
        fprintf(out, "AUC: %.4f\n", auc);
    fprintf(out, "Log loss: %.4f\n", log_loss);
}
