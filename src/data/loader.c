/* A ring of batches. Reader threads take chunks of rows of the newest batch and open the next one
 * when its rows are all taken, so all threads work on the batch that is needed first. */
#include "data/loader.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/trace.h"
#include "data/order.h"

enum {
    DEFAULT_PREFETCH = 3,
    CHUNKS_PER_THREAD = 4, /* of a batch: more would cost locking, fewer leave threads idle */
    FIELD_ALIGN = 64,
    ROWS_AT_ONCE = 128,
    MAX_BAD_IN_BATCH = 1024, /* of which more are no accident */
};

struct slot {
    struct batch batch;
    struct loader_position position;
    int claimed, done;    /* rows taken by a thread; rows read */
    int failed_row;       /* the first that could not be read; `batch.rows` when none */
    struct error failure; /* its reason */
    int bad_row;          /* the first with a bad example that may be left out, and why */
    struct error bad;
    int bad_count;
    int64_t *bad_indices; /* [bad_limit] */
    bool *left_out;       /* [batch], where rows may be left out: this one holds nothing */
};

/* A piece of work: rows [first, first + count) of a slot. */
struct chunk {
    struct slot *slot;
    int first, count;
};

/* A thread that reads. */
struct reader {
    struct loader *loader;
    int number;
};

/* What came of it; the row is -1 when all were read. */
struct outcome {
    int failed_row;
    struct error failure;
};

struct loader {
    /* Set at creation, then only read. */
    struct dataset *dataset;
    const struct dataset_kind *kind;
    struct loader_options options;
    struct order order;
    int field_count, slot_count, chunk_rows, thread_count;
    int bad_limit;       /* bad examples a slot can note */
    struct arena *arena; /* this structure's arrays */
    struct slab memory;  /* the batches' numbers */
    pthread_t *threads;
    struct reader *readers;

    /* Only touched by the thread that calls loader_next. */
    double stall_seconds;
    int64_t bad_examples;
    int64_t *bad_indices; /* of those, ascending; [skip_bad] */
    struct error first_bad;

    pthread_mutex_t lock;       /* guards all below; no reader thread holds it while it reads */
    pthread_cond_t work;        /* a slot became free, or we are stopping */
    pthread_cond_t ready;       /* a slot is complete, or the last reader paused */
    struct slot *slots;         /* batch number n is in slots[n % slot_count] */
    uint64_t opened, delivered; /* batches begun; batches given out */
    int holding;                /* the caller may still read so many of the last delivered */
    bool failed;                /* the last loader_next did */
    struct loader_position next_opened, next_delivered;
    int active; /* chunks being read */
    double read_seconds;
    struct trace_track *const *tracks; /* by reader; NULL: nobody wants to know */
    bool paused, stopping;
};

/* An evaluation counts each good example once: a bad one leaves a gap, nothing stands in. */
static bool leaves_out(const struct loader *loader)
{
    return loader->options.single_pass && loader->options.skip_bad > 0;
}

static int read_example(const struct loader *loader, struct slot *slot, int64_t index, int row,
                        struct error *err)
{
    uint64_t random = order_random(&loader->order, slot->position.epoch, index);
    if (loader->kind->read(loader->dataset, index, random, slot->batch.fields, row, err) < 0)
        return error_wrap(err, "example %" PRId64, index);
    return 0;
}

/* False when the batch has no room for one more. */
static bool note_bad(struct loader *loader, struct slot *slot, int64_t index, int row,
                     const struct error *reason)
{
    pthread_mutex_lock(&loader->lock);
    bool room = slot->bad_count < loader->bad_limit;
    if (room)
        slot->bad_indices[slot->bad_count++] = index;
    if (room && row < slot->bad_row) {
        slot->bad_row = row;
        slot->bad = *reason;
    }
    pthread_mutex_unlock(&loader->lock);
    return room;
}

/* Whether there were too many is seen when the batch is delivered, in its order. */
static int read_row(struct loader *loader, struct slot *slot, int row, struct error *err)
{
    int64_t index = order_example(&loader->order, slot->position, row);
    while (read_example(loader, slot, index, row, err) < 0) {
        if (err->code != ERROR_FORMAT || !note_bad(loader, slot, index, row, err))
            return -1;
        if (leaves_out(loader)) {
            slot->left_out[row] = true;
            return 0;
        }
        index = (index + 1) % loader->order.examples;
    }
    return 0;
}

static void zero_rows_from(const struct loader *loader, struct slot *slot, int row)
{
    for (int i = 0; i < loader->field_count; i++) {
        struct tensor *field = &slot->batch.fields[i];
        size_t row_bytes = tensor_bytes(field) / (size_t)loader->options.batch;
        memset((char *)field->data + row_bytes * (size_t)row, 0,
               row_bytes * (size_t)(loader->options.batch - row));
    }
}

/* Rows from `row` on that the dataset reads at once, where it can; returns how many came. The one
 * that did not is for read_row, which knows what to do about it. */
static int read_several(const struct loader *loader, struct slot *slot, int row, int count)
{
    int64_t indices[ROWS_AT_ONCE];
    struct error ignored;
    if (!loader->kind->read_rows)
        return 0;
    count = count < ROWS_AT_ONCE ? count : ROWS_AT_ONCE;
    for (int i = 0; i < count; i++)
        indices[i] = order_example(&loader->order, slot->position, row + i);
    return loader->kind->read_rows(loader->dataset, indices, count, slot->batch.fields, row,
                                   &ignored);
}

/* The rows that will be read when this chunk and those of the other threads are done; the batch may
 * be the next one. */
static void expect_ahead(const struct loader *loader, struct chunk chunk)
{
    int distance = loader->chunk_rows * (loader->options.threads + 1);
    for (int i = 0; i < chunk.count; i++) {
        struct loader_position position = chunk.slot->position;
        int row = chunk.first + i + distance;
        for (; row >= loader->options.batch; row -= loader->options.batch)
            position = order_following(&loader->order, position);
        if (row < order_rows(&loader->order, position))
            loader->kind->expect(loader->dataset, order_example(&loader->order, position, row));
    }
}

/* Up to the first row that fails. */
static void read_chunk(struct loader *loader, struct chunk chunk, struct outcome *out)
{
    int end = chunk.first + chunk.count;
    if (loader->kind->expect)
        expect_ahead(loader, chunk);
    *out = (struct outcome){.failed_row = -1};
    for (int row = chunk.first; row < end;) {
        int came = read_several(loader, chunk.slot, row, end - row);
        if (came == 0 && read_row(loader, chunk.slot, row, &out->failure) < 0) {
            out->failed_row = row;
            return;
        }
        row += came > 0 ? came : 1;
    }
    if (end == chunk.slot->batch.rows)
        zero_rows_from(loader, chunk.slot, chunk.slot->batch.rows);
}

static struct slot *slot_at(struct loader *loader, uint64_t number)
{
    return &loader->slots[number % (uint64_t)loader->slot_count];
}

static struct slot *open_slot(struct loader *loader)
{
    struct slot *slot = slot_at(loader, loader->opened++);
    slot->position = loader->next_opened;
    slot->batch.rows = order_rows(&loader->order, slot->position);
    slot->claimed = slot->done = 0;
    slot->failed_row = slot->bad_row = slot->batch.rows;
    slot->bad_count = 0;
    if (leaves_out(loader))
        memset(slot->left_out, 0, (size_t)loader->options.batch * sizeof *slot->left_out);
    loader->next_opened = order_following(&loader->order, loader->next_opened);
    return slot;
}

/* Finds rows that nobody has taken yet; false when there are none now. */
static bool claim_chunk(struct loader *loader, struct chunk *out)
{
    if (loader->paused)
        return false;
    struct slot *slot =
        loader->opened > loader->delivered ? slot_at(loader, loader->opened - 1) : NULL;
    if (!slot || slot->claimed == slot->batch.rows) {
        uint64_t oldest_in_use = loader->delivered - (uint64_t)loader->holding;
        if (loader->opened - oldest_in_use >= (uint64_t)loader->slot_count ||
            order_ended(&loader->order, loader->next_opened))
            return false;
        slot = open_slot(loader);
    }
    int left = slot->batch.rows - slot->claimed;
    *out =
        (struct chunk){slot, slot->claimed, left < loader->chunk_rows ? left : loader->chunk_rows};
    slot->claimed += out->count;
    loader->active++;
    return true;
}

/* The first row that failed is the one reported, whichever thread came to it first. */
static void finish_chunk(struct loader *loader, struct chunk chunk, const struct outcome *outcome)
{
    struct slot *slot = chunk.slot;
    if (outcome->failed_row >= 0 && outcome->failed_row < slot->failed_row) {
        slot->failed_row = outcome->failed_row;
        slot->failure = outcome->failure;
    }
    slot->done += chunk.count;
    loader->active--;
    if (slot->done == slot->batch.rows || (loader->paused && loader->active == 0))
        pthread_cond_signal(&loader->ready);
}

/* The lock is held, so a track is never added to after loader_trace took it away. */
static void note_span(const struct loader *loader, int reader, struct chunk chunk, double start,
                      double end)
{
    struct trace_span span = {.name = "read",
                              .category = "input",
                              .start = start,
                              .end = end,
                              .arguments = {{"kind", .text = loader->kind->name},
                                            {"epoch", .number = chunk.slot->position.epoch},
                                            {"batch", .number = chunk.slot->position.step},
                                            {"first_row", .number = chunk.first},
                                            {"rows", .number = chunk.count}}};
    trace_add(loader->tracks[reader], &span);
}

/* Called, and left, with the lock held. */
static void read_unlocked(struct loader *loader, int reader, struct chunk chunk)
{
    struct outcome outcome;
    pthread_mutex_unlock(&loader->lock);
    double start = clock_seconds();
    read_chunk(loader, chunk, &outcome);
    double end = clock_seconds();
    pthread_mutex_lock(&loader->lock);
    loader->read_seconds += end - start;
    if (loader->tracks)
        note_span(loader, reader, chunk, start, end);
    finish_chunk(loader, chunk, &outcome);
}

static void *reader_main(void *context)
{
    const struct reader *reader = context;
    struct loader *loader = reader->loader;
    pthread_mutex_lock(&loader->lock);
    while (!loader->stopping) {
        struct chunk chunk;
        if (!claim_chunk(loader, &chunk)) {
            pthread_cond_wait(&loader->work, &loader->lock);
            continue;
        }
        read_unlocked(loader, reader->number, chunk);
    }
    pthread_mutex_unlock(&loader->lock);
    return NULL;
}

static int check_options(const struct loader_options *options, int64_t examples, struct error *err)
{
    if (options->batch < 1)
        return error_set(err, ERROR_USAGE, "a batch of %d rows; it must be at least 1",
                         options->batch);
    assert(options->shards > 0 && options->shard >= 0 && options->shard < options->shards);
    assert(options->shard + options->shard_count <= options->shards);
    assert(options->shard_count <= 1 || !options->single_pass);
    assert(options->threads >= 0 && options->prefetch >= 0);
    if (examples < 1)
        return error_set(err, ERROR_USAGE, "the dataset is empty");
    if (!options->single_pass && examples < order_global_batch(options))
        return error_set(err, ERROR_USAGE,
                         "the dataset has %" PRId64 " examples, fewer than one batch of %" PRId64
                         "; use a smaller batch",
                         examples, order_global_batch(options));
    return 0;
}

static size_t aligned(size_t bytes)
{
    return (bytes + FIELD_ALIGN - 1) & ~(size_t)(FIELD_ALIGN - 1);
}

/* Gives each field of each slot its place; with `base` NULL only counts the bytes. */
static size_t place_fields(struct loader *loader, const struct dataset_field *fields, char *base)
{
    size_t used = 0;
    for (int i = 0; i < loader->slot_count; i++) {
        for (int j = 0; j < loader->field_count; j++) {
            struct tensor field = {
                .dtype = fields[j].dtype,
                .shape = shape_with_batch(fields[j].shape, loader->options.batch),
            };
            size_t bytes = aligned(tensor_bytes(&field));
            if (base) {
                field.data = base + used;
                loader->slots[i].batch.fields[j] = field;
            }
            used += bytes;
        }
    }
    return used;
}

/* Some batches are with the caller, the others read ahead; however large, one of those. */
static int slots_under_limit(struct loader *loader, const struct dataset_field *fields)
{
    int wanted = loader->slot_count, held = loader->options.held;
    loader->slot_count = 1;
    size_t batch_bytes = place_fields(loader, fields, NULL);
    size_t limit = loader->options.prefetch_bytes;
    if (wanted <= held + 1 || !limit || batch_bytes * (size_t)(wanted - held) <= limit)
        return wanted;
    size_t ahead = limit / batch_bytes;
    return held + (ahead > 1 ? (int)ahead : 1);
}

/* What is needed to leave bad examples out. */
static int create_notes(struct loader *loader, struct error *err)
{
    int64_t limit = loader->options.skip_bad;
    if (!limit)
        return 0;
    loader->bad_limit = limit < MAX_BAD_IN_BATCH ? (int)limit + 1 : MAX_BAD_IN_BATCH;
    loader->bad_indices = ARENA_ARRAY(loader->arena, int64_t, limit);
    bool failed = !loader->bad_indices;
    for (int i = 0; i < loader->slot_count && !failed; i++) {
        struct slot *slot = &loader->slots[i];
        slot->bad_indices = ARENA_ARRAY(loader->arena, int64_t, loader->bad_limit);
        slot->left_out = ARENA_ARRAY(loader->arena, bool, loader->options.batch);
        failed = !slot->bad_indices || !slot->left_out;
    }
    return failed ? error_set(err, ERROR_MEMORY, "no memory for the loader") : 0;
}

static int create_slots(struct loader *loader, struct error *err)
{
    const struct dataset_field *fields;
    loader->field_count = loader->kind->fields(loader->dataset, &fields);
    loader->slot_count = slots_under_limit(loader, fields);
    loader->slots = ARENA_ARRAY(loader->arena, struct slot, loader->slot_count);
    if (!loader->slots)
        return error_set(err, ERROR_MEMORY, "no memory for the loader");
    for (int i = 0; i < loader->slot_count; i++) {
        struct batch *batch = &loader->slots[i].batch;
        batch->field_count = loader->field_count;
        batch->fields = ARENA_ARRAY(loader->arena, struct tensor, loader->field_count);
        if (!batch->fields)
            return error_set(err, ERROR_MEMORY, "no memory for the loader");
    }
    size_t bytes = place_fields(loader, fields, NULL);
    if (slab_create(bytes, "batches that are read ahead", &loader->memory, err) < 0)
        return -1;
    place_fields(loader, fields, loader->memory.data);
    return create_notes(loader, err);
}

/* Readers take no signals: those are for the thread that knows how to stop. */
static int start_threads(struct loader *loader, struct error *err)
{
    if (loader->options.threads == 0)
        return 0;
    loader->threads = ARENA_ARRAY(loader->arena, pthread_t, loader->options.threads);
    loader->readers = ARENA_ARRAY(loader->arena, struct reader, loader->options.threads);
    if (!loader->threads || !loader->readers)
        return error_set(err, ERROR_MEMORY, "no memory for the loader");
    int code = 0;
    for (int i = 0; i < loader->options.threads && code == 0; i++) {
        loader->readers[i] = (struct reader){loader, i};
        code = thread_start(&loader->threads[i], reader_main, &loader->readers[i]);
        if (code == 0)
            loader->thread_count++;
    }
    if (code != 0)
        return error_set(err, ERROR_MEMORY, "cannot start reader thread %d of %d: %s",
                         loader->thread_count + 1, loader->options.threads, strerror(code));
    return 0;
}

static int chunk_rows(const struct loader_options *options)
{
    int rows = options->threads > 0 ? options->batch / (options->threads * CHUNKS_PER_THREAD)
                                    : options->batch;
    return rows > 0 ? rows : 1;
}

static struct loader *loader_allocate(struct dataset *dataset, const struct dataset_kind *kind,
                                      const struct loader_options *options)
{
    struct loader *loader = memory_allocate(sizeof *loader);
    if (!loader)
        return NULL;
    pthread_mutex_init(&loader->lock, NULL);
    pthread_cond_init(&loader->work, NULL);
    pthread_cond_init(&loader->ready, NULL);
    loader->dataset = dataset;
    loader->kind = kind;
    loader->options = *options;
    if (loader->options.shard_count < 1)
        loader->options.shard_count = 1;
    if (loader->options.held < 1)
        loader->options.held = 1;
    loader->order = order_of(&loader->options, kind->count(dataset));
    int prefetch = options->prefetch > 0 ? options->prefetch : DEFAULT_PREFETCH;
    loader->slot_count = (options->threads > 0 ? prefetch : 0) + loader->options.held;
    loader->chunk_rows = chunk_rows(options);
    loader->arena = arena_create();
    return loader;
}

int loader_create(struct dataset *dataset, const struct dataset_kind *kind,
                  const struct loader_options *options, struct loader **out, struct error *err)
{
    if (check_options(options, kind->count(dataset), err) < 0)
        return -1;
    int status = -1;
    struct loader *loader = loader_allocate(dataset, kind, options);
    if (!loader || !loader->arena) {
        error_set(err, ERROR_MEMORY, "no memory for the loader");
        goto out;
    }
    if (create_slots(loader, err) < 0 || start_threads(loader, err) < 0)
        goto out;
    *out = loader;
    loader = NULL;
    status = 0;
out:
    loader_destroy(loader);
    return status;
}

void loader_destroy(struct loader *loader)
{
    if (!loader)
        return;
    pthread_mutex_lock(&loader->lock);
    loader->stopping = true;
    pthread_cond_broadcast(&loader->work);
    pthread_mutex_unlock(&loader->lock);
    for (int i = 0; i < loader->thread_count; i++)
        pthread_join(loader->threads[i], NULL);
    pthread_cond_destroy(&loader->ready);
    pthread_cond_destroy(&loader->work);
    pthread_mutex_destroy(&loader->lock);
    slab_release(&loader->memory);
    arena_destroy(loader->arena);
    memory_free(loader);
}

int64_t loader_steps_per_epoch(const struct loader *loader)
{
    return loader->order.steps_per_epoch;
}

double loader_stall_seconds(const struct loader *loader)
{
    return loader->stall_seconds;
}

double loader_read_seconds(struct loader *loader)
{
    pthread_mutex_lock(&loader->lock);
    double seconds = loader->read_seconds;
    pthread_mutex_unlock(&loader->lock);
    return seconds;
}

void loader_trace(struct loader *loader, struct trace_track *const *tracks)
{
    pthread_mutex_lock(&loader->lock);
    loader->tracks = tracks;
    pthread_mutex_unlock(&loader->lock);
}

int loader_threads(const struct loader *loader)
{
    return loader->thread_count;
}

int64_t loader_bad_examples(const struct loader *loader)
{
    return loader->bad_examples;
}

const char *loader_first_bad(const struct loader *loader)
{
    return loader->first_bad.message;
}

struct loader_position loader_tell(const struct loader *loader)
{
    return loader->next_delivered; /* written only by the thread that may call this */
}

void loader_seek(struct loader *loader, struct loader_position position)
{
    position = order_normalized(&loader->order, position);
    pthread_mutex_lock(&loader->lock);
    bool there = loader->next_delivered.epoch == position.epoch &&
                 loader->next_delivered.step == position.step &&
                 loader->next_delivered.part == position.part && !loader->holding;
    /* A failure is forgotten by reading again, even from where it stands. */
    if (!there || loader->failed) {
        loader->paused = true;
        while (loader->active > 0)
            pthread_cond_wait(&loader->ready, &loader->lock);
        loader->opened = loader->delivered = 0;
        loader->holding = 0;
        loader->failed = false;
        loader->next_opened = loader->next_delivered = position;
        loader->paused = false;
        pthread_cond_broadcast(&loader->work);
    }
    pthread_mutex_unlock(&loader->lock);
}

/* Without threads the caller reads the batch itself. */
static void read_inline(struct loader *loader)
{
    struct chunk chunk;
    while (claim_chunk(loader, &chunk)) {
        read_unlocked(loader, 0, chunk);
    }
}

/* Waits for the batch that is due. */
static struct slot *due_slot(struct loader *loader)
{
    struct slot *slot = slot_at(loader, loader->delivered);
    if (loader->thread_count == 0) {
        read_inline(loader);
        return slot;
    }
    while (loader->opened <= loader->delivered || slot->done < slot->batch.rows)
        pthread_cond_wait(&loader->ready, &loader->lock);
    return slot;
}

/* No reader is at work any more, so any slot may stand for the empty batch. */
static const struct batch *empty_batch(struct loader *loader)
{
    struct slot *slot = &loader->slots[0];
    if (slot->batch.rows > 0)
        zero_rows_from(loader, slot, 0);
    slot->batch.rows = 0;
    return &slot->batch;
}

static void move_row(struct loader *loader, struct slot *slot, int from, int to)
{
    for (int i = 0; i < loader->field_count; i++) {
        struct tensor *field = &slot->batch.fields[i];
        size_t row_bytes = tensor_bytes(field) / (size_t)loader->options.batch;
        memcpy((char *)field->data + row_bytes * (size_t)to,
               (char *)field->data + row_bytes * (size_t)from, row_bytes);
    }
}

static void close_gaps(struct loader *loader, struct slot *slot)
{
    int kept = 0;
    for (int row = 0; row < slot->batch.rows; row++)
        if (!slot->left_out[row]) {
            if (kept < row)
                move_row(loader, slot, row, kept);
            kept++;
        }
    slot->batch.rows = kept;
    zero_rows_from(loader, slot, kept);
}

/* False when that would be one more than may be left out. */
static bool count_bad(struct loader *loader, int64_t index)
{
    int64_t place = loader->bad_examples;
    while (place > 0 && loader->bad_indices[place - 1] > index)
        place--;
    if (place > 0 && loader->bad_indices[place - 1] == index)
        return true;
    if (loader->bad_examples == loader->options.skip_bad)
        return false;
    memmove(loader->bad_indices + place + 1, loader->bad_indices + place,
            (size_t)(loader->bad_examples - place) * sizeof *loader->bad_indices);
    loader->bad_indices[place] = index;
    loader->bad_examples++;
    return true;
}

static int refuse_batch(struct loader *loader, const struct error *failure, struct error *err)
{
    if (err)
        *err = *failure;
    loader->failed = true;
    if (loader->options.skip_bad && failure->code == ERROR_FORMAT)
        error_wrap(err, "more than %" PRId64 " bad examples", loader->options.skip_bad);
    return -1;
}

/* Failures and bad examples are judged here, batch by batch, so that the outcome does not depend
 * on which thread was first. */
static int judge(struct loader *loader, struct slot *slot, struct error *err)
{
    if (slot->failed_row < slot->batch.rows)
        return refuse_batch(loader, &slot->failure, err);
    for (int i = 0; i < slot->bad_count; i++)
        if (!count_bad(loader, slot->bad_indices[i]))
            return refuse_batch(loader, &slot->bad, err);
    if (!slot->bad_count)
        return 0;
    if (!loader->first_bad.code)
        loader->first_bad = slot->bad;
    if (leaves_out(loader))
        close_gaps(loader, slot);
    return 0;
}

/* The oldest batch the caller has becomes free for another. */
static void loosen_hold(struct loader *loader)
{
    if (loader->holding == loader->options.held)
        loader->holding--;
    pthread_cond_broadcast(&loader->work);
}

/* The next batch that has rows; NULL at the end of a pass. */
static int take_batch(struct loader *loader, const struct batch **out, struct error *err)
{
    *out = NULL;
    while (!*out && !order_ended(&loader->order, loader->next_delivered)) {
        loosen_hold(loader);
        struct slot *slot = due_slot(loader);
        if (judge(loader, slot, err) < 0)
            return -1;
        loader->delivered++;
        loader->holding++;
        loader->next_delivered = order_following(&loader->order, slot->position);
        if (slot->batch.rows > 0)
            *out = &slot->batch;
    }
    return 0;
}

int loader_next(struct loader *loader, const struct batch **batch, struct error *err)
{
    const struct batch *taken;
    double start = clock_seconds();
    pthread_mutex_lock(&loader->lock);
    loosen_hold(loader);
    int status = take_batch(loader, &taken, err);
    if (status == 0)
        *batch = taken ? taken : empty_batch(loader);
    pthread_mutex_unlock(&loader->lock);
    loader->stall_seconds += clock_seconds() - start;
    return status;
}
