/* The record as Prometheus reads it: the text format, version 0.0.4. Names and units follow its
 * rules: base units, _total for counters. A value that is not known is left out, for a scraper takes
 * NaN for a number. */
#include <inttypes.h>
#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "watch/record_internal.h"

/* A label's value, with what would end it quoted. */
static void add_label(struct strbuf *out, const char *name, const char *value)
{
    strbuf_addf(out, "%s=\"", name);
    for (; value && *value; value++) {
        if (*value == '\n') {
            strbuf_add(out, "\\n");
            continue;
        }
        if (*value == '\\' || *value == '"')
            strbuf_add_char(out, '\\');
        strbuf_add_char(out, *value);
    }
    strbuf_add_char(out, '"');
}

static void add_head(struct strbuf *out, const char *name, const char *type, const char *help)
{
    strbuf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void add_metric(struct strbuf *out, const char *name, const char *type, const char *help,
                       double value)
{
    if (!isfinite(value))
        return;
    add_head(out, name, type, help);
    strbuf_addf(out, "%s %.15g\n", name, value);
}

static void add_info(const struct record *record, struct strbuf *out)
{
    add_head(out, "lockstep_build_info", "gauge", "The program that runs; always 1.");
    strbuf_add(out, "lockstep_build_info{");
    add_label(out, "version", record->facts.version);
    strbuf_add(out, "} 1\n");
    add_head(out, "lockstep_train_info", "gauge", "What is trained on what; always 1.");
    strbuf_add(out, "lockstep_train_info{");
    add_label(out, "model", record->facts.model);
    strbuf_add_char(out, ',');
    add_label(out, "data", record->facts.data);
    strbuf_add(out, "} 1\n");
}

static void add_progress(const struct record *record, struct strbuf *out)
{
    const struct train_event *last = &record->last_step;
    bool stepped = record->totals.steps > 0, over = record->ended != 0;
    add_metric(out, "lockstep_train_running", "gauge", "1 from the first step to the end, else 0.",
               record->state == RECORD_RUNNING);
    add_metric(out, "lockstep_train_step", "gauge",
               "Steps finished, those of earlier runs counted.", (double)last->step);
    add_metric(out, "lockstep_train_target_step", "gauge", "The step at which the run will end.",
               (double)record->facts.total_steps);
    add_metric(out, "lockstep_train_epoch", "gauge", "Whole passes over the data finished.",
               (double)last->epoch);
    add_metric(out, "lockstep_train_steps_total", "counter", "Steps finished by this run.",
               (double)record->totals.steps);
    add_metric(out, "lockstep_train_examples_total", "counter", "Examples trained on by this run.",
               (double)last->examples);
    add_metric(out, "lockstep_train_start_time_seconds", "gauge",
               "When the first step began, in seconds since 1970.",
               record->started ? record->started : NAN);
    add_metric(out, "lockstep_train_remaining_seconds", "gauge",
               "Until the last step, at the present pace.",
               over      ? 0
               : stepped ? pace_seconds_left(&record->pace, last)
                         : NAN);
}

static void add_scores(const struct record *record, struct strbuf *out)
{
    const struct train_event *last = &record->last_step;
    if (!record->totals.steps)
        return;
    add_metric(out, "lockstep_train_loss", "gauge", "Mean loss of the last step.", last->loss);
    add_metric(out, "lockstep_train_accuracy_ratio", "gauge",
               "Part of the last step's examples that were right.", last->accuracy);
    add_metric(out, "lockstep_train_learning_rate", "gauge", "Learning rate of the last step.",
               last->rate);
    add_metric(out, "lockstep_train_examples_per_second", "gauge",
               "Examples per second, smoothed over some twenty steps.",
               pace_examples_per_second(&record->pace));
}

static void add_histogram(const struct record_totals *totals, struct strbuf *out)
{
    static const char name[] = "lockstep_train_step_duration_seconds";
    int64_t sum = 0;
    add_head(out, name, "histogram", "Time of a whole step.");
    for (int i = 0; i < RECORD_BUCKETS; i++) {
        sum += totals->buckets[i];
        strbuf_addf(out, "%s_bucket{le=\"%g\"} %" PRId64 "\n", name, record_bucket_bound(i), sum);
    }
    strbuf_addf(out, "%s_bucket{le=\"+Inf\"} %" PRId64 "\n", name, totals->steps);
    strbuf_addf(out, "%s_sum %.15g\n%s_count %" PRId64 "\n", name, totals->step_seconds, name,
                totals->steps);
}

static void add_parts(const struct record_totals *totals, struct strbuf *out)
{
    static const char name[] = "lockstep_train_step_part_seconds_total";
    const struct {
        const char *part;
        double seconds;
    } parts[] = {
        {"input", totals->input_seconds},       {"forward", totals->forward_seconds},
        {"backward", totals->backward_seconds}, {"reduce", totals->reduce_seconds},
        {"update", totals->update_seconds},
    };
    add_head(out, name, "counter", "Time of all steps, by what it went to.");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        strbuf_addf(out, "%s{part=\"%s\"} %.15g\n", name, parts[i].part, parts[i].seconds);
    add_metric(out, "lockstep_train_input_stall_seconds_total", "counter",
               "Time in which training waited for a batch.", totals->input_seconds);
}

/* --- ranks ----------------------------------------------------------------------------------- */

static void add_rank_seconds(struct strbuf *out, const char *rank, int part, double seconds)
{
    strbuf_addf(out, "lockstep_rank_seconds_total{rank=\"%s\",part=\"%s\"} %.15g\n", rank,
                rank_part_name(part), seconds);
}

/* The least and the most of sums that grow do so, too. */
static void add_extremes(const struct record *record, struct strbuf *out)
{
    for (int part = 0; part < RANK_PARTS; part++) {
        double least = INFINITY, most = 0;
        for (int r = 0; r < record->facts.ranks; r++) {
            least = fmin(least, record->ranks[r].total[part]);
            most = fmax(most, record->ranks[r].total[part]);
        }
        add_rank_seconds(out, "min", part, least);
        add_rank_seconds(out, "max", part, most);
    }
}

static void add_each_rank(const struct record *record, struct strbuf *out)
{
    char rank[16];
    for (int r = 0; r < record->facts.ranks; r++) {
        snprintf(rank, sizeof rank, "%d", r);
        for (int part = 0; part < RANK_PARTS; part++)
            add_rank_seconds(out, rank, part, record->ranks[r].total[part]);
    }
    add_head(out, "lockstep_rank_slowest_steps_total", "counter",
             "Steps in which this rank's own work took longest.");
    for (int r = 0; r < record->facts.ranks; r++)
        strbuf_addf(out, "lockstep_rank_slowest_steps_total{rank=\"%d\"} %" PRId64 "\n", r,
                    record->ranks[r].slowest);
    add_head(out, "lockstep_rank_info", "gauge", "Where the rank runs; always 1.");
    for (int r = 0; record->facts.hosts && r < record->facts.ranks; r++) {
        strbuf_addf(out, "lockstep_rank_info{rank=\"%d\",", r);
        add_label(out, "host", record->facts.hosts[r]);
        strbuf_add(out, "} 1\n");
    }
}

/* A series for each of thousands of ranks would be a burden: then only the extremes are told. */
static void add_ranks(struct record *record, struct strbuf *out)
{
    if (!record->rank_times)
        return;
    rank_times_read(record->rank_times, record->ranks);
    add_metric(out, "lockstep_train_ranks", "gauge", "Ranks that train together.",
               record->facts.ranks);
    add_metric(out, "lockstep_train_reduce_hidden_seconds_total", "counter",
               "Time of reductions of rank 0 that ran beside its computation.",
               record->totals.hidden_seconds);
    if (record->totals.steps)
        add_metric(out, "lockstep_train_bucket_bytes", "gauge",
                   "Gradients that are reduced together; 0: all.",
                   (double)record->last_step.bucket_bytes);
    add_head(out, "lockstep_rank_seconds_total", "counter",
             "Time of each rank by part; hidden is beside the others.");
    if (record->facts.ranks > RECORD_RANKS)
        add_extremes(record, out);
    else
        add_each_rank(record, out);
}

static void add_evaluation(const struct record *record, struct strbuf *out)
{
    const struct train_event *event = &record->evaluation;
    add_metric(out, "lockstep_train_evaluations_total", "counter", "Evaluations finished.",
               (double)record->totals.evaluations);
    add_metric(out, "lockstep_train_evaluation_seconds_total", "counter",
               "Time of all evaluations.", record->totals.evaluation_seconds);
    if (!record->evaluated)
        return;
    add_metric(out, "lockstep_train_evaluation_step", "gauge", "The step evaluated last.",
               (double)event->step);
    add_metric(out, "lockstep_train_evaluation_loss", "gauge", "Loss of the last evaluation.",
               event->loss);
    add_metric(out, "lockstep_train_evaluation_accuracy_ratio", "gauge",
               "Part of the evaluated examples that were right.", event->accuracy);
    add_metric(out, "lockstep_train_evaluation_accuracy_top_5_ratio", "gauge",
               "Part whose right class was among the first five.", event->accuracy_top_5);
    add_metric(out, "lockstep_train_evaluation_log_loss", "gauge",
               "Cross entropy of a yes-or-no network.", event->log_loss);
    add_metric(out, "lockstep_train_evaluation_auc_ratio", "gauge",
               "Area under the ROC curve of a yes-or-no network.", event->auc);
}

static void add_checkpoints(const struct record *record, struct strbuf *out)
{
    add_metric(out, "lockstep_train_checkpoints_total", "counter", "Checkpoints saved.",
               (double)record->totals.checkpoints);
    add_metric(out, "lockstep_train_checkpoint_seconds_total", "counter",
               "Time of saving checkpoints.", record->totals.checkpoint_seconds);
    if (record->totals.checkpoints)
        add_metric(out, "lockstep_train_checkpoint_step", "gauge",
                   "The step of the newest checkpoint.", (double)record->saved.step);
}

int record_exposition(struct record *record, struct strbuf *out, struct error *err)
{
    pthread_mutex_lock(&record->lock);
    record_drain(record);
    add_info(record, out);
    add_progress(record, out);
    add_scores(record, out);
    add_histogram(&record->totals, out);
    add_parts(&record->totals, out);
    add_ranks(record, out);
    add_evaluation(record, out);
    add_checkpoints(record, out);
    pthread_mutex_unlock(&record->lock);
    /* This one's name is every exporter's. */
    add_metric(out, "process_resident_memory_bytes", "gauge", "Resident memory size in bytes.",
               (double)memory_rss_bytes());
    add_metric(out, "lockstep_train_peak_resident_memory_bytes", "gauge",
               "The most that was ever resident.", (double)memory_peak_rss_bytes());
    return out->failed ? error_set(err, ERROR_MEMORY, "no memory for the metrics") : 0;
}
