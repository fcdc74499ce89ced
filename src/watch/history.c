#include "watch/history.h"

#include <math.h>

#include "train/trainer.h"
#include "watch/mean.h"
#include "watch/ring.h"

/* `more` comes after `into`. */
static void merge(struct history_point *into, const struct history_point *more)
{
    into->loss = mean_of(into->loss, into->steps, more->loss, more->steps);
    into->accuracy = mean_of(into->accuracy, into->steps, more->accuracy, more->steps);
    into->low = fmin(into->low, more->low);
    into->high = fmax(into->high, more->high);
    into->step = more->step;
    into->steps += more->steps;
    into->examples += more->examples;
    into->at = more->at;
    into->rate = more->rate;
    into->step_seconds += more->step_seconds;
    into->input_seconds += more->input_seconds;
    into->forward_seconds += more->forward_seconds;
    into->backward_seconds += more->backward_seconds;
    into->reduce_seconds += more->reduce_seconds;
    into->hidden_seconds += more->hidden_seconds;
    into->update_seconds += more->update_seconds;
    into->resident = fmax(into->resident, more->resident);
}

static void halve(struct history *history)
{
    const struct history_point *pair = history->points;
    for (int i = 0; i < HISTORY_POINTS / 2; i++, pair += 2) {
        struct history_point point = pair[0];
        merge(&point, &pair[1]);
        history->points[i] = point;
    }
    history->count = HISTORY_POINTS / 2;
    history->stride *= 2;
    history->generation++;
}

static struct history_point make_point(const struct ring_entry *entry, int64_t examples,
                                       double seconds, double resident)
{
    const struct train_event *event = &entry->event;
    return (struct history_point){
        .step = event->step,
        .steps = entry->steps,
        .examples = examples,
        .at = seconds,
        .loss = event->loss,
        .low = entry->low,
        .high = entry->high,
        .accuracy = event->accuracy,
        .rate = event->rate,
        .step_seconds = event->step_seconds,
        .input_seconds = event->input_seconds,
        .forward_seconds = event->forward_seconds,
        .backward_seconds = event->backward_seconds,
        .reduce_seconds = event->reduce_seconds,
        .hidden_seconds = event->hidden_seconds,
        .update_seconds = event->update_seconds,
        .resident = resident,
    };
}

void history_add(struct history *history, const struct ring_entry *entry, double seconds,
                 double resident)
{
    int64_t examples = entry->event.examples - history->last_examples;
    struct history_point point = make_point(entry, examples, seconds, resident);
    struct history_point *last = history->count ? &history->points[history->count - 1] : NULL;
    history->last_examples = entry->event.examples;
    if (!history->stride)
        history->stride = 1;
    if (last && last->steps + point.steps <= history->stride) {
        merge(last, &point);
        return;
    }
    if (history->count == HISTORY_POINTS)
        halve(history);
    history->points[history->count++] = point;
}

/* Every second one goes, but never the newest. */
static void halve_evaluations(struct history *history)
{
    const struct history_evaluation *pair = history->evaluations;
    for (int i = 0; i < HISTORY_EVALUATIONS / 2; i++, pair += 2)
        history->evaluations[i] = pair[1];
    history->evaluation_count = HISTORY_EVALUATIONS / 2;
    history->generation++;
}

void history_add_evaluation(struct history *history, const struct train_event *event,
                            double seconds)
{
    if (history->evaluation_count == HISTORY_EVALUATIONS)
        halve_evaluations(history);
    history->evaluations[history->evaluation_count++] =
        (struct history_evaluation){.step = event->step,
                                    .examples = event->examples,
                                    .at = seconds,
                                    .seconds = event->step_seconds,
                                    .loss = event->loss,
                                    .accuracy = event->accuracy,
                                    .accuracy_top_5 = event->accuracy_top_5,
                                    .log_loss = event->log_loss,
                                    .auc = event->auc,
                                    .majority = event->majority};
}
