#include <math.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "watch/lines.h"
#include "watch/record_internal.h"

/* A reader comes five times a second; a network whose steps take 200 us is as fast as it gets. */
enum { RING_CAPACITY = 1024 };
static const double LAYERS_EVERY_SECONDS = 1, RESIDENT_EVERY_SECONDS = 0.5, LINES_EVERY_SECONDS = 5;

static int open_lines(struct record *record, struct error *err)
{
    record->lines_out = tail_stream(&record->tail);
    if (!record->lines_out)
        return error_set(err, ERROR_MEMORY, "no memory for the record of the training");
    struct lines_options options = {.out = record->lines_out,
                                    .interval_seconds = LINES_EVERY_SECONDS};
    return lines_create(&options, &record->lines, err);
}

static int make_ranks(struct record *record, struct error *err)
{
    int ranks = record->facts.ranks;
    if (ranks < 2)
        return 0;
    record->ranks = memory_allocate((size_t)ranks * sizeof *record->ranks);
    if (!record->ranks)
        return error_set(err, ERROR_MEMORY, "no memory for the times of %d ranks", ranks);
    return rank_times_create(ranks, &record->rank_times, err);
}

int record_create(const struct record_facts *facts, const struct record_options *options,
                  struct record **out, struct error *err)
{
    struct record *record = memory_allocate(sizeof *record);
    if (!record)
        return error_set(err, ERROR_MEMORY, "no memory for the record of the training");
    record->facts = *facts;
    record->options = *options;
    if (!record->options.wall)
        record->options.wall = clock_wall_seconds;
    tail_init(&record->tail);
    pthread_mutex_init(&record->lock, NULL);
    pthread_mutex_init(&record->layer_lock, NULL);
    record->layer_seconds = memory_allocate(sizeof(double) * (size_t)(facts->layer_count + 1));
    if (!record->layer_seconds)
        error_set(err, ERROR_MEMORY, "no memory for the record of the training");
    if (!record->layer_seconds || ring_create(RING_CAPACITY, &record->ring, err) < 0 ||
        make_ranks(record, err) < 0 || open_lines(record, err) < 0) {
        record_destroy(record);
        return -1;
    }
    *out = record;
    return 0;
}

void record_destroy(struct record *record)
{
    if (!record)
        return;
    lines_destroy(record->lines);
    if (record->lines_out)
        fclose(record->lines_out);
    ring_destroy(record->ring);
    rank_times_destroy(record->rank_times);
    memory_free(record->ranks);
    memory_free(record->layer_seconds);
    pthread_mutex_destroy(&record->layer_lock);
    pthread_mutex_destroy(&record->lock);
    tail_release(&record->tail);
    memory_free(record);
}

/* --- the training thread --------------------------------------------------------------------- */

/* The lock is held. */
static void read_layers(struct record *record)
{
    const struct record_facts *facts = &record->facts;
    for (int i = 0; i < facts->layer_count; i++)
        record->layer_seconds[i] = facts->layer_seconds(facts->layer_context, i);
    record->layer_readings++;
}

static void offer_layers(struct record *record, const struct train_event *event, double now)
{
    bool last = event->kind == TRAIN_FINISHED;
    if (!record->facts.layer_seconds || (event->kind != TRAIN_STEP && !last) ||
        (!last && now - record->layers_read < LAYERS_EVERY_SECONDS))
        return;
    if (pthread_mutex_trylock(&record->layer_lock) != 0)
        return; /* somebody copies the last ones: next time */
    record->layers_read = now;
    read_layers(record);
    pthread_mutex_unlock(&record->layer_lock);
}

void record_observe(void *context, const struct train_event *event)
{
    struct record *record = context;
    double now = record->options.wall();
    ring_put(record->ring, event, now);
    offer_layers(record, event, now);
    if (record->rank_times && event->kind == TRAIN_STEP)
        rank_times_add(record->rank_times, event, now);
    if (record->options.readers)
        return;
    pthread_mutex_lock(&record->lock); /* nobody else takes it */
    record_drain(record);
    pthread_mutex_unlock(&record->lock);
}

void record_fail(struct record *record, const char *message)
{
    record_close(record);
    pthread_mutex_lock(&record->lock);
    record->state = RECORD_FAILED;
    record->ended = record->options.wall();
    snprintf(record->message, sizeof record->message, "%s", message);
    record->entries++;
    pthread_mutex_unlock(&record->lock);
    tail_add(&record->tail, message);
}

void record_close(struct record *record)
{
    if (record->rank_times)
        rank_times_flush(record->rank_times);
    pthread_mutex_lock(&record->lock);
    do
        record_drain(record);
    while (!ring_flush(record->ring));
    record_drain(record);
    pthread_mutex_unlock(&record->lock);
}

/* --- readers --------------------------------------------------------------------------------- */

void record_log(struct record *record, const char *line)
{
    tail_add(&record->tail, line);
}

double record_bucket_bound(int bucket)
{
    /* 1 ms to 100 s, three in each power of ten. */
    static const double bounds[RECORD_BUCKETS] = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2,
                                                  0.5,   1,     2,     5,    10,   20,   50,  100};
    return bounds[bucket];
}

double record_elapsed(const struct record *record)
{
    if (!record->started)
        return 0;
    return (record->ended ? record->ended : record->options.wall()) - record->started;
}

static void on_steps(struct record *record, const struct ring_entry *entry)
{
    const struct train_event *event = &entry->event;
    struct record_totals *totals = &record->totals;
    double each = event->step_seconds / (double)entry->steps;
    int bucket = 0;
    while (bucket < RECORD_BUCKETS && each > record_bucket_bound(bucket))
        bucket++;
    totals->buckets[bucket] += entry->steps;
    totals->steps += entry->steps;
    totals->step_seconds += event->step_seconds;
    totals->input_seconds += event->input_seconds;
    totals->forward_seconds += event->forward_seconds;
    totals->backward_seconds += event->backward_seconds;
    totals->reduce_seconds += event->reduce_seconds;
    totals->hidden_seconds += event->hidden_seconds;
    totals->update_seconds += event->update_seconds;
    history_add(&record->history, entry, entry->at - record->started, record->resident);
    /* The pace of several steps that came as one is that of any of them. */
    struct train_event one = *event;
    int64_t before = record->pace.last_examples;
    one.step_seconds = each;
    pace_add(&record->pace, &one);
    record->pace.step_examples = (double)(event->examples - before) / (double)entry->steps;
    record->last_step = one;
}

static void on_evaluated(struct record *record, const struct ring_entry *entry)
{
    record->evaluation = entry->event;
    record->evaluated = true;
    record->totals.evaluations++;
    record->totals.evaluation_seconds += entry->event.step_seconds;
    history_add_evaluation(&record->history, &entry->event, entry->at - record->started);
}

static void on_saved(struct record *record, const struct ring_entry *entry)
{
    record->saved = entry->event;
    memcpy(record->saved_path, entry->path, sizeof record->saved_path);
    record->totals.checkpoints++;
    record->totals.checkpoint_seconds += entry->event.step_seconds;
}

static void on_started(struct record *record, const struct ring_entry *entry)
{
    record->state = RECORD_RUNNING;
    record->started = entry->at;
    record->first_step = entry->event.step;
    record->steps_per_epoch = entry->event.steps_per_epoch;
    record->last_step = entry->event;
}

static void take_in(struct record *record, struct ring_entry *entry)
{
    switch (entry->event.kind) {
    case TRAIN_STARTED:
        on_started(record, entry);
        break;
    case TRAIN_STEP:
        on_steps(record, entry);
        break;
    case TRAIN_EVALUATED:
        on_evaluated(record, entry);
        break;
    case TRAIN_SAVED:
        on_saved(record, entry);
        entry->event.path = entry->path;
        break;
    case TRAIN_FINISHED:
        record->state = entry->event.step < entry->event.total ? RECORD_STOPPED : RECORD_FINISHED;
        record->ended = entry->at;
        break;
    }
    lines_observe(record->lines, &entry->event);
    record->entries++;
}

void record_drain(struct record *record)
{
    struct ring_entry entry;
    double now = record->options.wall();
    if (now - record->resident_read >= RESIDENT_EVERY_SECONDS) {
        record->resident = (double)memory_rss_bytes();
        record->resident_read = now;
    }
    while (ring_take(record->ring, &entry))
        take_in(record, &entry);
}
