#include "data/table.h"

#include <math.h>

#include <inttypes.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/memory.h"
#include "data/row_cache.h"
#include "data/row_index.h"
#include "data/row_parser.h"

enum {
    FIELD_KINDS = 3,
    ROWS_AT_ONCE = 128,
    PAGES_AHEAD = 24, /* rows whose page is looked up ahead of time */
    ROWS_AHEAD = 12,  /* whose memory is asked for while a row is parsed */
    SPLITS = 2,
};

struct dataset {
    struct table_description description;
    struct arena *arena;
    struct row_parser parser;
    enum dataset_split split;
    bool cached, keep_bad;
    const atomic_int *stop;
    /* The rows come from one of these. */
    struct row_text text;
    struct row_index *index;
    struct row_cache *cache;
    int64_t count; /* all, or as many as were asked for */
    struct row_statistics statistics[SPLITS];
    bool known[SPLITS];               /* the statistics of a split */
    struct column_statistics columns; /* NULLs until asked for */
    struct dataset_field fields[FIELD_KINDS];
    int field_kind[FIELD_KINDS];  /* an enum table_field of each field */
    int field_place[FIELD_KINDS]; /* the other way round; -1: the table has no such field */
    int field_count;
};

static void add_field(struct dataset *table, enum table_field kind, const char *name,
                      enum dtype dtype, struct shape shape, bool wanted)
{
    table->field_place[kind] = -1;
    if (!wanted)
        return;
    table->field_place[kind] = table->field_count;
    table->field_kind[table->field_count] = (int)kind;
    table->fields[table->field_count++] =
        (struct dataset_field){.name = name, .dtype = dtype, .shape = shape};
}

static void name_fields(struct dataset *table)
{
    int numerics = table->description.numeric_count;
    int categories = table->description.categorical_count;
    add_field(table, TABLE_FIELD_NUMERIC, "numeric", DTYPE_F32, SHAPE(SHAPE_BATCH, numerics),
              numerics > 0);
    add_field(table, TABLE_FIELD_CATEGORY, "category", DTYPE_I64, SHAPE(SHAPE_BATCH, categories),
              categories > 0);
    add_field(table, TABLE_FIELD_LABEL, "label", DTYPE_F32, SHAPE(SHAPE_BATCH), true);
}

static int allocate_statistics(struct dataset *table, struct error *err)
{
    for (int i = 0; i < SPLITS; i++) {
        struct row_statistics *statistics = &table->statistics[i];
        int count = table->description.numeric_count + 1;
        statistics->minimum = ARENA_ARRAY(table->arena, float, count);
        statistics->maximum = ARENA_ARRAY(table->arena, float, count);
        statistics->sum = ARENA_ARRAY(table->arena, double, count);
        statistics->square_sum = ARENA_ARRAY(table->arena, double, count);
        if (!statistics->minimum || !statistics->maximum || !statistics->sum ||
            !statistics->square_sum)
            return error_set(err, ERROR_MEMORY, "no memory for the statistics");
    }
    return 0;
}

/* A misspelt label value would make every row a 0. */
static int check_labels(const struct dataset *table, const struct row_text *text,
                        const struct row_statistics *statistics, struct error *err)
{
    if (table->description.label_value_count == 0 || statistics->positive_rows > 0 ||
        statistics->bad_rows > 0)
        return 0;
    return error_set(err, ERROR_FORMAT,
                     "%s: none of its %" PRId64 " rows has the label '%.60s'; every example would "
                     "be a 0",
                     text->name, statistics->rows, table->description.label_values[0]);
}

/* Opens one split: the rows it wrote down earlier, or else the text, which is walked through. */
static int open_split(struct dataset *table, enum dataset_split split, struct row_text *text,
                      struct row_index **index, struct row_cache **cache, struct error *err)
{
    struct row_statistics *statistics = &table->statistics[split];
    if (row_text_find(&table->description, split, table->stop, text, err) < 0)
        return -1;
    text->keep_bad = table->keep_bad;
    if (table->cached && row_cache_open(&table->parser, split, text, statistics, cache, err) < 0)
        return -1;
    if (!*cache && (row_text_open(&table->parser, split, text, err) < 0 ||
                    row_index_create(&table->parser, text, statistics, index, err) < 0))
        return -1;
    if (check_labels(table, text, statistics, err) < 0)
        return -1;
    table->known[split] = true;
    return 0;
}

/* Replaces the text by the rows parsed from it. */
static int write_cache(struct dataset *table, struct error *err)
{
    const struct row_statistics *statistics = &table->statistics[table->split];
    if (row_cache_write(&table->parser, table->split, &table->text, table->index, statistics, err) <
            0 ||
        row_cache_open(&table->parser, table->split, &table->text, &table->statistics[table->split],
                       &table->cache, err) < 0)
        return -1;
    if (!table->cache)
        return error_set(err, ERROR_IO, "%s: changed while its rows were written down",
                         table->text.name);
    return 0;
}

static int open_rows(struct dataset *table, const struct dataset_request *request,
                     struct error *err)
{
    table->arena = arena_create();
    if (!table->arena)
        return error_set(err, ERROR_MEMORY, "no memory for the table");
    table->split = request->split;
    table->cached = request->cache;
    table->keep_bad = request->keep_bad;
    table->stop = request->stop;
    if (row_parser_init(&table->description, table->arena, &table->parser, err) < 0 ||
        allocate_statistics(table, err) < 0 ||
        open_split(table, table->split, &table->text, &table->index, &table->cache, err) < 0)
        return -1;
    if (table->cached && !table->cache && write_cache(table, err) < 0)
        return -1;
    table->count = table->statistics[table->split].rows;
    if (request->examples > 0 && request->examples < table->count)
        table->count = request->examples;
    name_fields(table);
    return 0;
}

int table_open(const struct dataset_request *request, struct table_description *description,
               struct dataset **out, struct error *err)
{
    struct dataset *table = memory_allocate(sizeof *table);
    if (!table) {
        table_description_release(description);
        return error_set(err, ERROR_MEMORY, "no memory for the table");
    }
    table->description = *description;
    *description = (struct table_description){0};
    if (open_rows(table, request, err) < 0) {
        table_close(table);
        return -1;
    }
    *out = table;
    return 0;
}

void table_close(struct dataset *table)
{
    if (!table)
        return;
    row_cache_close(table->cache);
    row_index_destroy(table->index);
    row_text_release(&table->text);
    arena_destroy(table->arena);
    table_description_release(&table->description);
    memory_free(table);
}

int64_t table_count(const struct dataset *table)
{
    return table->count;
}

int table_fields(const struct dataset *table, const struct dataset_field **out)
{
    *out = table->fields;
    return table->field_count;
}

struct dataset_place table_locate(const struct dataset *table, int64_t index)
{
    struct dataset_place place = {.file = table->text.name, .offset = -1};
    if (table->cache) /* of rows that were good */
        return place;
    const char *at = row_index_find(table->index, row_index_locate(table->index, index));
    place.line = row_text_line(&table->text, at);
    place.offset = at - table->text.start;
    return place;
}

/* Where a row of the batch goes; NULL for a field the table does not have. */
struct target {
    float *numeric; /* [rows, numeric_count] */
    int64_t *category;
    float *label;
};

static void *field_data(const struct dataset *table, struct tensor *batch, enum table_field kind)
{
    int place = table->field_place[kind];
    return place < 0 ? NULL : batch[place].data;
}

static struct target target_of(const struct dataset *table, struct tensor *batch, int row)
{
    struct target target = {.numeric = field_data(table, batch, TABLE_FIELD_NUMERIC),
                            .category = field_data(table, batch, TABLE_FIELD_CATEGORY),
                            .label = field_data(table, batch, TABLE_FIELD_LABEL)};
    if (target.numeric)
        target.numeric += (size_t)row * (size_t)table->description.numeric_count;
    if (target.category)
        target.category += (size_t)row * (size_t)table->description.categorical_count;
    target.label += row;
    return target;
}

static int parse_one(const struct dataset *table, struct row_place place, struct target target,
                     struct error *err)
{
    const char *next;
    return row_parse(&table->parser, &table->text, row_index_find(table->index, place),
                     target.numeric, target.category, target.label, &next, err);
}

int table_read(struct dataset *table, int64_t index, uint64_t random, struct tensor *batch, int row,
               struct error *err)
{
    (void)random;
    struct target target = target_of(table, batch, row);
    if (!table->cache)
        return parse_one(table, row_index_locate(table->index, index), target, err);
    row_cache_read(table->cache, index, target.numeric, target.category, target.label);
    return 0;
}

/* Rows that were parsed earlier cannot fail. */
static void copy_rows(const struct dataset *table, const int64_t *indices, int count,
                      struct tensor *batch, int first_row)
{
    for (int i = 0; i < count; i++)
        row_cache_expect(table->cache, indices[i]);
    for (int i = 0; i < count; i++) {
        struct target target = target_of(table, batch, first_row + i);
        row_cache_read(table->cache, indices[i], target.numeric, target.category, target.label);
    }
}

/* Returns how many came before one that cannot be parsed. */
static int parse_rows(const struct dataset *table, const int64_t *indices, int count,
                      struct tensor *batch, int first_row, struct error *err)
{
    struct row_place places[ROWS_AT_ONCE];
    for (int i = 0; i < count; i++)
        places[i] = row_index_locate(table->index, indices[i]);
    for (int i = 0; i < count && i < PAGES_AHEAD; i++)
        row_index_expect_page(table->index, places[i]);
    for (int i = 0; i < count && i < ROWS_AHEAD; i++)
        row_index_expect(table->index, places[i]);
    for (int i = 0; i < count; i++) {
        if (i + PAGES_AHEAD < count)
            row_index_expect_page(table->index, places[i + PAGES_AHEAD]);
        if (i + ROWS_AHEAD < count)
            row_index_expect(table->index, places[i + ROWS_AHEAD]);
        if (parse_one(table, places[i], target_of(table, batch, first_row + i), err) < 0)
            return i;
    }
    return count;
}

int table_read_rows(struct dataset *table, const int64_t *indices, int count, struct tensor *batch,
                    int first_row, struct error *err)
{
    int done = 0;
    while (done < count) {
        int wanted = count - done;
        if (table->cache) {
            wanted = wanted < ROWS_AHEAD ? wanted : ROWS_AHEAD;
            copy_rows(table, indices + done, wanted, batch, first_row + done);
            done += wanted;
            continue;
        }
        wanted = wanted < ROWS_AT_ONCE ? wanted : ROWS_AT_ONCE;
        int came = parse_rows(table, indices + done, wanted, batch, first_row + done, err);
        done += came;
        if (came < wanted)
            break;
    }
    return done;
}

/* The other split is only looked through. */
static int know_split(struct dataset *table, enum dataset_split split, struct error *err)
{
    if (table->known[split])
        return 0;
    if (!table->description.files[split]) {
        table->statistics[split] = table->statistics[table->split];
        return 0;
    }
    struct row_text text = {0};
    struct row_index *index = NULL;
    struct row_cache *cache = NULL;
    int status = open_split(table, split, &text, &index, &cache, err);
    row_cache_close(cache);
    row_index_destroy(index);
    row_text_release(&text);
    return status;
}

static int combine_statistics(struct dataset *table, struct error *err)
{
    int numerics = table->description.numeric_count;
    const struct row_statistics *train = &table->statistics[SPLIT_TRAIN];
    const struct row_statistics *evaluate = &table->statistics[SPLIT_EVALUATE];
    float *values = ARENA_ARRAY(table->arena, float, 4 * numerics);
    if (!values)
        return error_set(err, ERROR_MEMORY, "no memory for the statistics");
    if (know_split(table, SPLIT_TRAIN, err) < 0 || know_split(table, SPLIT_EVALUATE, err) < 0)
        return error_wrap(err, "statistics");
    float *minimum = values, *maximum = values + numerics;
    float *mean = values + 2 * numerics, *deviation = values + 3 * numerics;
    for (int i = 0; i < numerics; i++) {
        double rows = (double)train->rows, middle = train->sum[i] / rows;
        double variance = train->square_sum[i] / rows - middle * middle;
        minimum[i] = fminf(train->minimum[i], evaluate->minimum[i]);
        maximum[i] = fmaxf(train->maximum[i], evaluate->maximum[i]);
        mean[i] = (float)middle;
        deviation[i] = variance > 0 ? (float)sqrt(variance) : 0;
    }
    table->columns = (struct column_statistics){minimum, maximum, mean, deviation};
    return 0;
}

int table_statistics(struct dataset *table, int field, struct column_statistics *out,
                     struct error *err)
{
    if (field < 0 || field >= table->field_count || table->field_kind[field] != TABLE_FIELD_NUMERIC)
        return error_set(err, ERROR_USAGE, "field %d of the table holds no numbers to scale",
                         field);
    if (!table->columns.minimum && combine_statistics(table, err) < 0)
        return -1;
    *out = table->columns;
    return 0;
}
