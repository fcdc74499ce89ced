#include "cli/results.h"

#include <inttypes.h>
#include <math.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/training.h"
#include "store/weights.h"

static int check_finite(const struct training *training, struct error *err)
{
    if (updater_weights_finite(training->updater))
        return 0;
    return error_set(err, ERROR_NUMERIC,
                     "the weights are not finite after step %" PRId64 " and were not saved; a "
                     "lower --lr may help",
                     training->step);
}

int results_export(struct training *training, struct error *err)
{
    struct export_result result;
    const struct exporting_settings *settings = &training->settings->exporting;
    if (!settings->directory)
        return 0;
    if (check_finite(training, err) < 0 ||
        exporting_write(settings, &training->session, training->train.spec, training->params,
                        &result, err) < 0)
        return -1;
    snprintf(training->exported, sizeof training->exported, "%s", result.path);
    return 0;
}

int results_save_weights(const struct training *training, struct error *err)
{
    if (!*training->weights_path)
        return 0;
    if (check_finite(training, err) < 0)
        return -1;
    return weights_save(training->weights_path, training->session.model->name, training->params,
                        err);
}

static void print_steps(const struct training *training, FILE *out)
{
    const struct report *report = &training->report;
    int batch = (int)training->ranks.global_batch;
    int64_t steps = training->goal - training->first_step;
    struct report_speed speed;
    report_measure(report, batch, &speed);
    if (report->steps < steps)
        fprintf(out, "Stopped after %" PRId64 " of ", report->steps);
    fprintf(out, "%" PRId64 " steps, %" PRId64 " examples in %.1f s", steps, report->examples,
            report->seconds);
    if (speed.steps)
        fprintf(out, ", %.1f examples/s", batch / speed.median_step_seconds);
    fprintf(out, "\n");
}

void results_print_scores(const struct training *training, FILE *out)
{
    const struct report *report = &training->report;
    const struct train_event *scores = report->evaluated ? &report->evaluation : &report->last_step;
    print_steps(training, out);
    if (!report->steps && !report->evaluated)
        return;
    fprintf(out, "%s: %.4f\n", report->evaluated ? "Loss" : "Loss of the last step", scores->loss);
    if (report->evaluated && !isnan(scores->accuracy))
        fprintf(out, "Accuracy: %.4f\n", scores->accuracy);
    if (report->evaluated)
        report_binary(scores->accuracy, scores->majority, scores->auc, scores->log_loss, out);
    fprintf(out, "Total time: %.1f s\n", report->seconds);
}

void results_print_places(const struct training *training, FILE *out)
{
    if (*training->weights_path)
        fprintf(out, "Weights: %s\n", training->weights_path);
    if (*training->checkpoint)
        fprintf(out, "Checkpoint: %s\n", training->checkpoint);
    if (*training->exported)
        fprintf(out, "Model exported to %s\n", training->exported);
}

void results_describe(const struct training *training, struct json *out)
{
    session_describe(&training->session, training->train.spec, training->plan, out);
    report_describe(&training->report, (int)training->ranks.global_batch, out);
    ranks_describe(&training->ranks, out);
    reductions_describe(training->reductions, out);
    json_set_text(out, "optimizer", rule_rest(&training->rule)->optimizer->name);
    json_set_number(out, "learning_rate", training->schedule.base_rate);
    json_set_integer(out, "seed", training->settings->common.seed);
    session_describe_input(&training->train, out);
    json_set_number(out, "watching_seconds", training->watchers.seconds);
    json_set_bool(out, "interrupted", training_interrupted(training) != 0);
    json_set_integer(out, "first_step", training->first_step);
    json_set_integer(out, "last_step", training->step);
    json_set_integer(out, "goal", training->goal);
    json_set_text(out, "checkpoint", *training->checkpoint ? training->checkpoint : NULL);
    timeline_describe(training->timeline, out);
    json_set_text(out, "export", *training->exported ? training->exported : NULL);
    if (*training->weights_path)
        json_set_text(out, "weights", training->weights_path);
}
