/* The record as JSON: all of it, or what is new. */
#include <math.h>

#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "watch/record_internal.h"

static const double HEARTBEAT_SECONDS = 5;

static const char *const state_names[] = {
    [RECORD_STARTING] = "starting", [RECORD_RUNNING] = "running", [RECORD_FINISHED] = "finished",
    [RECORD_STOPPED] = "stopped",   [RECORD_FAILED] = "failed",
};

/* More than six digits are not seen in a curve, but would be sent and stored. */
static double short_number(double value)
{
    if (value == 0 || !isfinite(value))
        return value;
    double scale = pow(10, 5 - floor(log10(fabs(value))));
    return isfinite(scale) ? round(value * scale) / scale : value;
}

static void set_short(struct json *object, const char *key, double value)
{
    json_set_number(object, key, short_number(value));
}

static struct json *describe_hosts(const struct record_facts *facts)
{
    struct json *hosts = json_array_create();
    for (int r = 0; facts->hosts && r < facts->ranks; r++)
        json_append_text(hosts, facts->hosts[r]);
    return hosts;
}

static struct json *describe_run(const struct record *record)
{
    const struct record_facts *facts = &record->facts;
    struct json *run = json_object_create();
    json_set_text(run, "version", facts->version);
    json_set_text(run, "command", facts->command);
    json_set_text(run, "model", facts->model);
    json_set_text(run, "data", facts->data);
    json_set_integer(run, "batch", facts->batch);
    json_set_integer(run, "threads", facts->threads);
    json_set_integer(run, "ranks", facts->ranks > 1 ? facts->ranks : 1);
    json_set(run, "hosts", describe_hosts(facts));
    json_set_number(run, "started", record->started ? record->started : NAN);
    return run;
}

static struct json *describe_status(const struct record *record)
{
    const struct train_event *last = &record->last_step;
    struct json *status = json_object_create();
    bool over = record->ended != 0, stepped = record->totals.steps > 0;
    json_set_text(status, "state", state_names[record->state]);
    json_set_text(status, "message", record->message[0] ? record->message : NULL);
    json_set_integer(status, "step", last->step);
    json_set_integer(status, "total", record->facts.total_steps);
    json_set_integer(status, "epoch", last->epoch);
    json_set_integer(status, "steps_per_epoch", record->steps_per_epoch);
    json_set_integer(status, "examples", last->examples);
    set_short(status, "elapsed", record_elapsed(record));
    set_short(status, "left", over ? 0 : stepped ? pace_seconds_left(&record->pace, last) : NAN);
    json_set_number(status, "loss", stepped ? record->pace.loss : NAN);
    json_set_number(status, "accuracy", stepped ? record->pace.accuracy : NAN);
    json_set_number(status, "rate", stepped ? last->rate : NAN);
    set_short(status, "examples_per_second",
              stepped ? pace_examples_per_second(&record->pace) : NAN);
    set_short(status, "step_seconds", stepped ? record->pace.step_seconds : NAN);
    json_set_number(status, "bucket", stepped ? (double)last->bucket_bytes : NAN);
    json_set_number(status, "resident", record->resident);
    json_set_number(status, "peak", (double)memory_peak_rss_bytes());
    json_set_integer(status, "saved_step", record->totals.checkpoints ? record->saved.step : -1);
    set_short(status, "saved_seconds",
              record->totals.checkpoints ? record->saved.step_seconds : NAN);
    return status;
}

/* --- points, column by column: half the bytes of objects, and charts want columns ------------ */

static const struct {
    const char *name;
    size_t place; /* of a double in struct history_point */
    bool sum;     /* over the point's steps: the mean is wanted */
} columns[] = {
    {"loss", offsetof(struct history_point, loss), false},
    {"low", offsetof(struct history_point, low), false},
    {"high", offsetof(struct history_point, high), false},
    {"accuracy", offsetof(struct history_point, accuracy), false},
    {"rate", offsetof(struct history_point, rate), false},
    {"resident", offsetof(struct history_point, resident), false},
    {"input", offsetof(struct history_point, input_seconds), true},
    {"forward", offsetof(struct history_point, forward_seconds), true},
    {"backward", offsetof(struct history_point, backward_seconds), true},
    {"reduce", offsetof(struct history_point, reduce_seconds), true},
    {"hidden", offsetof(struct history_point, hidden_seconds), true},
    {"update", offsetof(struct history_point, update_seconds), true},
};

static struct json *describe_column(const struct history *history, int from, int column)
{
    struct json *values = json_array_create();
    for (int i = from; i < history->count; i++) {
        const struct history_point *point = &history->points[i];
        double value;
        memcpy(&value, (const char *)point + columns[column].place, sizeof value);
        json_append_number(
            values, short_number(columns[column].sum ? value / (double)point->steps : value));
    }
    return values;
}

static struct json *describe_points(const struct history *history, int from)
{
    struct json *points = json_object_create();
    struct json *steps = json_array_create(), *at = json_array_create();
    struct json *speed = json_array_create();
    for (int i = from; i < history->count; i++) {
        const struct history_point *point = &history->points[i];
        json_append_integer(steps, point->step);
        json_append_number(at, round(point->at * 1000) / 1000);
        json_append_number(speed, short_number((double)point->examples / point->step_seconds));
    }
    json_set_integer(points, "from", from);
    json_set_integer(points, "stride", history->stride);
    json_set(points, "step", steps);
    json_set(points, "at", at);
    json_set(points, "speed", speed);
    for (int column = 0; column < (int)(sizeof columns / sizeof *columns); column++)
        json_set(points, columns[column].name, describe_column(history, from, column));
    return points;
}

/* Not shortened: these are results, and the same as in --json. */
static struct json *describe_evaluation(const struct history_evaluation *evaluation)
{
    struct json *item = json_object_create();
    json_set_integer(item, "step", evaluation->step);
    json_set_integer(item, "examples", evaluation->examples);
    set_short(item, "at", evaluation->at);
    set_short(item, "seconds", evaluation->seconds);
    json_set_number(item, "loss", evaluation->loss);
    json_set_number(item, "accuracy", evaluation->accuracy);
    json_set_number(item, "accuracy_top_5", evaluation->accuracy_top_5);
    json_set_number(item, "log_loss", evaluation->log_loss);
    json_set_number(item, "auc", evaluation->auc);
    json_set_number(item, "majority", evaluation->majority);
    return item;
}

static struct json *describe_evaluations(const struct history *history, int from)
{
    struct json *evaluations = json_object_create(), *items = json_array_create();
    json_set_integer(evaluations, "from", from);
    for (int i = from; i < history->evaluation_count; i++)
        json_append(items, describe_evaluation(&history->evaluations[i]));
    json_set(evaluations, "items", items);
    return evaluations;
}

static struct json *describe_log(struct record *record, int64_t from, int64_t *next)
{
    struct json *log = json_object_create(), *lines = json_array_create();
    json_set_integer(log, "from", tail_read(&record->tail, from, lines, next));
    json_set(log, "lines", lines);
    return log;
}

/* --- facts ----------------------------------------------------------------------------------- */

static struct json *describe_settings(const struct record_facts *facts)
{
    struct json *settings = json_array_create();
    for (int i = 0; i < facts->setting_count; i++) {
        struct json *item = json_object_create();
        json_set_text(item, "section", facts->settings[i].section);
        json_set_text(item, "name", facts->settings[i].name);
        json_set_text(item, "value", facts->settings[i].value);
        json_set_text(item, "source", facts->settings[i].source);
        json_append(settings, item);
    }
    return settings;
}

static struct json *describe_memory(const struct record_facts *facts)
{
    struct json *memory = json_array_create();
    for (int i = 0; i < facts->memory_count; i++) {
        struct json *item = json_object_create();
        json_set_text(item, "name", facts->memory[i].name);
        json_set_number(item, "bytes", facts->memory[i].bytes);
        json_append(memory, item);
    }
    return memory;
}

static struct json *describe_layers(const struct record_facts *facts)
{
    struct json *layers = json_array_create();
    for (int i = 0; i < facts->layer_count; i++) {
        const struct record_layer *layer = &facts->layers[i];
        struct json *item = json_object_create();
        json_set_text(item, "node", layer->node);
        json_set_text(item, "op", layer->op);
        json_set_text(item, "pass", layer->pass);
        json_set_text(item, "kernel", layer->kernel);
        json_set_bool(item, "reorder", layer->reorder);
        json_set_number(item, "bytes", layer->bytes);
        json_set_number(item, "flops", layer->flops);
        json_append(layers, item);
    }
    return layers;
}

/* Of one step, on average. The plan leaves its first run out, which pays for warming up. */
static struct json *describe_layer_times(struct record *record, int64_t *readings)
{
    struct json *seconds = json_array_create();
    pthread_mutex_lock(&record->layer_lock);
    for (int i = 0; record->layer_readings && i < record->facts.layer_count; i++)
        json_append_number(seconds, short_number(record->layer_seconds[i]));
    *readings = record->layer_readings;
    pthread_mutex_unlock(&record->layer_lock);
    return seconds;
}

/* --- ranks ----------------------------------------------------------------------------------- */

static int compare_own(const void *a, const void *b)
{
    double first = rank_time_own(a), second = rank_time_own(b);
    return (first < second) - (first > second);
}

/* [rank, steps in which it was the slowest, seconds of each part], seconds of a step now. */
static struct json *describe_rank(const struct rank_time *time)
{
    struct json *row = json_array_create();
    json_append_integer(row, time->rank);
    json_append_integer(row, time->slowest);
    for (int part = 0; part < RANK_PARTS; part++)
        json_append_number(row, short_number(time->recent[part]));
    return row;
}

/* Of very many, those that take longest: they are the ones that the others wait for. */
static struct json *describe_ranks(struct record *record, int64_t *readings)
{
    struct json *rows = json_array_create();
    int count = record->rank_times ? record->facts.ranks : 0;
    *readings = count ? rank_times_read(record->rank_times, record->ranks) : 0;
    if (count > RECORD_RANKS) {
        qsort(record->ranks, (size_t)count, sizeof *record->ranks, compare_own);
        count = RECORD_RANKS;
    }
    for (int r = 0; *readings && r < count; r++)
        json_append(rows, describe_rank(&record->ranks[r]));
    return rows;
}

/* --- documents ------------------------------------------------------------------------------- */

/* Takes over `json`; the text has no newline. */
static int write_out(struct json *json, struct strbuf *out, struct error *err)
{
    char *text = json ? json_text(json, false) : NULL;
    json_release(json);
    if (text)
        strbuf_add_bytes(out, text, strcspn(text, "\n"));
    if (!text || out->failed) {
        memory_free(text);
        return error_set(err, ERROR_MEMORY, "no memory for the state of the training");
    }
    memory_free(text);
    return 0;
}

int record_snapshot(struct record *record, struct strbuf *out, struct error *err)
{
    int64_t unused;
    struct json *json = json_object_create();
    pthread_mutex_lock(&record->lock);
    record_drain(record);
    json_set_integer(json, "version", record->version);
    json_set_integer(json, "generation", record->history.generation);
    json_set(json, "run", describe_run(record));
    json_set(json, "status", describe_status(record));
    json_set(json, "points", describe_points(&record->history, 0));
    json_set(json, "evaluations", describe_evaluations(&record->history, 0));
    json_set(json, "layer_seconds", describe_layer_times(record, &unused));
    json_set(json, "ranks", describe_ranks(record, &unused));
    pthread_mutex_unlock(&record->lock);
    json_set(json, "log", describe_log(record, 0, &unused));
    json_set(json, "layers", describe_layers(&record->facts));
    json_set(json, "memory", describe_memory(&record->facts));
    json_set(json, "settings", describe_settings(&record->facts));
    return write_out(json, out, err);
}

static void move_cursor(const struct record *record, struct record_cursor *cursor)
{
    cursor->generation = record->history.generation;
    cursor->points = record->history.count;
    cursor->evaluations = record->history.evaluation_count;
    cursor->entries = record->entries;
}

/* The newest point may still have grown, so it is sent again. When points were merged, no delta can
 * say it: the page takes a new snapshot. */
static void describe_changes(struct record *record, struct record_cursor *cursor, struct json *json)
{
    json_set_integer(json, "version", ++record->version);
    json_set_integer(json, "generation", record->history.generation);
    json_set(json, "status", describe_status(record));
    if (cursor->generation == record->history.generation) {
        int first = cursor->points > 0 ? cursor->points - 1 : 0;
        json_set(json, "points", describe_points(&record->history, first));
        json_set(json, "evaluations", describe_evaluations(&record->history, cursor->evaluations));
    }
    int64_t readings;
    struct json *seconds = describe_layer_times(record, &readings);
    if (readings != cursor->layer_readings)
        json_set(json, "layer_seconds", seconds);
    else
        json_release(seconds);
    cursor->layer_readings = readings;
    struct json *ranks = describe_ranks(record, &readings);
    if (readings != cursor->rank_readings)
        json_set(json, "ranks", ranks);
    else
        json_release(ranks);
    cursor->rank_readings = readings;
    move_cursor(record, cursor);
}

int record_delta(struct record *record, struct record_cursor *cursor, struct strbuf *out,
                 struct error *err)
{
    struct json *json = NULL;
    pthread_mutex_lock(&record->lock);
    record_drain(record);
    double now = record->options.wall();
    if (record->entries != cursor->entries || now - cursor->told >= HEARTBEAT_SECONDS) {
        json = json_object_create();
        describe_changes(record, cursor, json);
        cursor->told = now;
    }
    pthread_mutex_unlock(&record->lock);
    if (!json)
        return 0;
    json_set(json, "log", describe_log(record, cursor->log, &cursor->log));
    return write_out(json, out, err);
}

void record_skip(struct record *record, struct record_cursor *cursor)
{
    pthread_mutex_lock(&record->lock);
    record_drain(record);
    if (cursor)
        move_cursor(record, cursor);
    pthread_mutex_unlock(&record->lock);
}
