/* Click logs as Criteo's: clicked, 13 integers, 26 categories, comma between them, no header. A
 * hidden logistic model over the fields decides on clicks, so there is something to learn and a
 * limit to what can be learnt. */
#include <inttypes.h>
#include <math.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "data/destination.h"
#include "data/make.h"
#include "data/work.h"
#include "tensor/random.h"

enum {
    INTEGERS = 13,
    CATEGORIES = 26,
    DEFAULT_TRAIN = 1000000,
    DEFAULT_EVALUATE = 100000,
    BLOCK = 8192,         /* rows of one job */
    BLOCKS_PER_THREAD = 4 /* formatted before they are written, in order */
};

/* What is the same for all rows of a set. */
struct world {
    uint64_t key;
    double integer_weight[INTEGERS], integer_scale[INTEGERS], integer_missing[INTEGERS];
    double vocabulary[CATEGORIES], category_weight[CATEGORIES], category_missing[CATEGORIES];
    double bias;
};

/* Vocabularies from a handful to a million, as in the real logs; some columns miss often. */
static void create_world(uint64_t seed, struct world *world)
{
    struct random random = {.key = random_key_text(seed, "criteo/world")};
    world->key = random_key_text(seed, "criteo");
    for (int i = 0; i < INTEGERS; i++) {
        world->integer_weight[i] = 0.35 * (double)random_normal(&random);
        world->integer_scale[i] = (double)random_between(&random, 0.8f, 2.2f);
        world->integer_missing[i] =
            i % 3 == 0 ? (double)random_between(&random, 0.1f, 0.45f) : 0.02;
    }
    for (int i = 0; i < CATEGORIES; i++) {
        world->vocabulary[i] = exp((double)random_between(&random, 1.5f, 13.8f));
        world->category_weight[i] = (double)random_between(&random, 0.1f, 0.5f);
        world->category_missing[i] = i % 5 == 4 ? (double)random_between(&random, 0.1f, 0.5f) : 0;
    }
    world->bias = -1.5; /* about a quarter of clicks */
}

static double add_integer(const struct world *world, int column, struct random *random,
                          struct strbuf *out)
{
    bool missing = (double)random_uniform(random) < world->integer_missing[column];
    double logarithm = world->integer_scale[column] * (double)random_normal(random);
    double value = floor(3 * exp(logarithm)) - (column == 1 ? 2 : 0); /* I2 goes below zero */
    strbuf_add_char(out, ',');
    if (missing)
        return 0;
    strbuf_addf(out, "%.0f", value);
    return world->integer_weight[column] * logarithm / world->integer_scale[column];
}

/* Rank r of a vocabulary of V words has a probability of about 1 / (r ln V): Zipf's law. */
static double add_category(const struct world *world, int column, struct random *random,
                           struct strbuf *out)
{
    bool missing = (double)random_uniform(random) < world->category_missing[column];
    double rank = floor(pow(world->vocabulary[column], (double)random_uniform(random)));
    strbuf_add_char(out, ',');
    if (missing)
        return 0;
    uint64_t word = random_key(random_key(world->key, 1000u + (unsigned)column), (uint64_t)rank);
    strbuf_addf(out, "%08" PRIx32, (uint32_t)word);
    struct random weight = {.key = word};
    return world->category_weight[column] * (double)random_normal(&weight);
}

static void add_row(const struct world *world, uint64_t key, struct strbuf *fields,
                    struct strbuf *out)
{
    struct random random = {.key = key};
    double score = world->bias;
    strbuf_clear(fields);
    for (int i = 0; i < INTEGERS; i++)
        score += add_integer(world, i, &random, fields);
    for (int i = 0; i < CATEGORIES; i++)
        score += add_category(world, i, &random, fields);
    bool clicked = (double)random_uniform(&random) < 1 / (1 + exp(-score));
    strbuf_add_char(out, clicked ? '1' : '0');
    strbuf_add_bytes(out, fields->text, fields->length);
    strbuf_add_char(out, '\n');
}

/* Blocks first_block .. of one file, formatted side by side. */
struct wave {
    const struct world *world;
    uint64_t key; /* of the split */
    int64_t rows, first_block;
    struct strbuf *texts;
};

static int format_block(void *context, int64_t job, struct work_counts *counts, struct error *err)
{
    struct wave *wave = context;
    struct strbuf *text = &wave->texts[job], fields;
    int64_t first = (wave->first_block + job) * BLOCK;
    int64_t last = first + BLOCK < wave->rows ? first + BLOCK : wave->rows;
    strbuf_init(&fields);
    strbuf_clear(text);
    for (int64_t row = first; row < last; row++)
        add_row(wave->world, random_key(wave->key, (uint64_t)row), &fields, text);
    strbuf_release(&fields);
    work_count(counts, last - first, text->length);
    return text->failed ? error_set(err, ERROR_MEMORY, "no memory for rows") : 0;
}

/* Each wave counts its own rows; the caller sees those of the file. */
struct forwarded {
    const struct work *work;
    int64_t done, total;
    uint64_t bytes;
};

static void forward(void *context, const struct work_state *state)
{
    struct forwarded *forwarded = context;
    struct work_state whole = {forwarded->done + state->done, forwarded->total,
                               forwarded->bytes + state->bytes};
    if (forwarded->work->observe)
        forwarded->work->observe(forwarded->work->context, &whole);
}

static int write_waves(struct file_draft *file, struct wave *wave, int wave_blocks,
                       const struct work *work, uint64_t *bytes, struct error *err)
{
    int64_t blocks = (wave->rows + BLOCK - 1) / BLOCK;
    struct forwarded forwarded = {.work = work, .total = wave->rows};
    struct work inner = {work->threads, work->stop, forward, &forwarded};
    for (; wave->first_block < blocks; wave->first_block += wave_blocks) {
        int64_t left = blocks - wave->first_block;
        int64_t now = left < wave_blocks ? left : wave_blocks;
        if (work_run(&inner, now, wave->rows, format_block, wave, err) < 0)
            return -1;
        for (int64_t i = 0; i < now; i++) {
            forwarded.bytes += wave->texts[i].length;
            if (file_draft_write(file, wave->texts[i].text, wave->texts[i].length, err) < 0)
                return -1;
        }
        forwarded.done += now * BLOCK;
    }
    *bytes += forwarded.bytes;
    return 0;
}

static int write_rows(struct file_draft *file, struct wave *wave, const struct work *work,
                      uint64_t *bytes, struct error *err)
{
    int blocks = (work->threads > 0 ? work->threads : 1) * BLOCKS_PER_THREAD;
    wave->texts = memory_allocate((size_t)blocks * sizeof *wave->texts);
    if (!wave->texts)
        return error_set(err, ERROR_MEMORY, "no memory for rows");
    for (int i = 0; i < blocks; i++)
        strbuf_init(&wave->texts[i]);
    int status = write_waves(file, wave, blocks, work, bytes, err);
    for (int i = 0; i < blocks; i++)
        strbuf_release(&wave->texts[i]);
    memory_free(wave->texts);
    return status;
}

static int write_file(struct destination *destination, const char *name, struct wave *wave,
                      const struct work *work, uint64_t *bytes, struct error *err)
{
    char path[PATH_MAX];
    struct file_draft file;
    destination_place(destination, name, path);
    if (file_draft_begin(path, &file, err) < 0)
        return -1;
    if (write_rows(&file, wave, work, bytes, err) < 0) {
        file_draft_drop(&file);
        return -1;
    }
    return file_draft_finish(&file, err) < 0 ? -1 : destination_deliver(destination, name, err);
}

static int make_files(struct destination *destination, const struct make_settings *settings,
                      const struct work *work, struct make_report *report, struct error *err)
{
    static const char *const names[] = {"train.csv", "eval.csv"};
    const int64_t rows[] = {report->examples, report->eval_examples};
    struct world world;
    create_world(settings->seed, &world);
    for (int i = 0; i < 2; i++)
        if (make_check_absent(destination, names[i], settings, err) < 0)
            return -1;
    for (int i = 0; i < 2; i++) {
        struct wave wave = {
            .world = &world, .key = random_key_text(world.key, names[i]), .rows = rows[i]};
        if (write_file(destination, names[i], &wave, work, &report->bytes, err) < 0)
            return -1;
        report->files++;
    }
    return 0;
}

static int make_criteo(const struct make_settings *settings, const struct work *work,
                       struct make_report *out, struct error *err)
{
    struct make_report report = {
        .examples = settings->examples ? settings->examples : DEFAULT_TRAIN,
        .eval_examples = settings->eval_examples ? settings->eval_examples : DEFAULT_EVALUATE,
        .classes = 2,
    };
    if ((settings->classes && settings->classes != 2) || settings->image_size)
        return error_set(err, ERROR_USAGE,
                         "click logs have two classes and no pictures: leave --%s out",
                         settings->image_size ? "image-size" : "classes");
    if (settings->shards[0] || settings->shards[1])
        return error_set(err, ERROR_USAGE,
                         "click logs are one file for each split: leave --%s-shards out",
                         settings->shards[0] ? "train" : "validation");
    struct destination *destination;
    if (destination_open(settings->directory, work->stop, &destination, err) < 0)
        return -1;
    int status = make_files(destination, settings, work, &report, err);
    destination_close(destination);
    *out = report;
    return status;
}

const struct maker maker_criteo = {
    .name = "criteo",
    .summary = "click logs, train.csv and eval.csv, where a hidden model decides on clicks",
    .make = make_criteo,
};
