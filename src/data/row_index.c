#include "data/row_index.h"

#include <assert.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/stop.h"

enum {
    PIECE_BYTES = 4 << 20, /* what a thread takes at a time */
    GROUP_ROWS = 8,
    MIN_STEP_SHIFT = 4,
    UNKNOWN = 255,
    CACHE_LINE = 64,
};

/* Eight rows in 12 bytes: the first one's offset in its piece, and for each how many steps of
 * 2^step_shift bytes behind it the row starts, rounded down, so that the row is what follows the
 * first newline from there on. UNKNOWN where that would find another row, or is too far: then the
 * rows before it are passed over one by one. */
struct row_group {
    uint32_t offset;
    uint8_t steps[GROUP_ROWS];
};

/* The rows that start between two offsets of the text. */
struct piece {
    const char *start;
    int64_t first_row, rows;
    struct row_group *groups; /* owned */
    size_t group_count, group_capacity;
};

/* What a thread found in a piece; gone after the pass. */
struct finding {
    int64_t positive_rows, bad_rows;
    float *minimum, *maximum;
    double *sum, *square_sum;
    bool failed;
    struct error failure;
};

struct row_index {
    const struct row_parser *parser;
    const struct row_text *text;
    int64_t rows;
    size_t expected_bytes; /* of a row and the search for it, mostly */
    int step_shift;
    int piece_count;
    struct piece *pieces;
    int64_t *first_rows; /* of the pieces: what a search walks through */
    struct arena *arena;
};

static int add_group(struct piece *piece, const char *at, struct error *err)
{
    if (piece->group_count == piece->group_capacity) {
        size_t capacity = piece->group_capacity * 2 + 512;
        struct row_group *grown = memory_resize(piece->groups, capacity * sizeof *grown);
        if (!grown)
            return error_set(err, ERROR_MEMORY, "no memory for the index of rows");
        piece->groups = grown;
        piece->group_capacity = capacity;
    }
    piece->groups[piece->group_count++] = (struct row_group){(uint32_t)(at - piece->start), {0}};
    return 0;
}

/* Where a row is looked for: no further behind its start than a step. */
static inline const char *near_row(const struct row_index *index, struct row_place place)
{
    return place.start + place.group->offset +
           ((size_t)place.group->steps[place.within] << index->step_shift);
}

const char *row_index_find(const struct row_index *index, struct row_place place)
{
    const char *end = index->text->end;
    const char *first = place.start + place.group->offset;
    if (place.within == 0)
        return first;
    if (place.group->steps[place.within] == UNKNOWN)
        return csv_skip_rows(first, end, place.within);
    /* The newline before the row may be the byte before the nearest step. */
    return csv_row_start(csv_line_end(near_row(index, place) - 1, end), end);
}

/* Notes the next row of a piece, which starts at `at`. */
static int note_row(const struct row_index *index, struct piece *piece, const char *at,
                    struct error *err)
{
    int within = (int)(piece->rows++ % GROUP_ROWS);
    if (within == 0)
        return add_group(piece, at, err);
    struct row_group *group = &piece->groups[piece->group_count - 1];
    size_t steps = (size_t)(at - piece->start - group->offset) >> index->step_shift;
    if (steps > 0 && steps < UNKNOWN) {
        group->steps[within] = (uint8_t)steps;
        if (row_index_find(index, (struct row_place){piece->start, group, within}) == at)
            return 0;
    }
    group->steps[within] = UNKNOWN;
    return 0;
}

static void widen(float *minimum, float *maximum, const float *low, const float *high, int count)
{
    for (int i = 0; i < count; i++) {
        minimum[i] = low[i] < minimum[i] ? low[i] : minimum[i];
        maximum[i] = high[i] > maximum[i] ? high[i] : maximum[i];
    }
}

static void add_row(struct finding *finding, const float *numeric, int count)
{
    widen(finding->minimum, finding->maximum, numeric, numeric, count);
    for (int i = 0; i < count; i++) {
        finding->sum[i] += numeric[i];
        finding->square_sum[i] += (double)numeric[i] * numeric[i];
    }
}

/* The first row that starts at or behind `start`. */
static const char *first_row(const struct row_text *text, const char *start)
{
    if (start > text->rows && start[-1] != '\n')
        start = csv_line_end(start, text->end);
    return csv_row_start(start, text->end);
}

static int walk_piece(const struct row_index *index, struct piece *piece, const char *stop,
                      float *numeric, int64_t *category, struct finding *finding, struct error *err)
{
    int numerics = index->parser->description->numeric_count;
    const char *at = first_row(index->text, piece->start);
    while (at < stop) {
        float label;
        if (note_row(index, piece, at, err) < 0)
            return -1;
        bool keep_bad = index->text->keep_bad;
        if (row_parse(index->parser, index->text, at, numeric, category, &label, &at,
                      keep_bad ? NULL : err) == 0) {
            add_row(finding, numeric, numerics);
            finding->positive_rows += label == 1;
        } else if (keep_bad) {
            finding->bad_rows++;
        } else {
            return -1;
        }
        at = csv_row_start(at, index->text->end);
    }
    return 0;
}

static void prepare_finding(struct arena *arena, int numerics, struct finding *finding)
{
    *finding = (struct finding){.minimum = ARENA_ARRAY(arena, float, numerics + 1),
                                .maximum = ARENA_ARRAY(arena, float, numerics + 1),
                                .sum = ARENA_ARRAY(arena, double, numerics + 1),
                                .square_sum = ARENA_ARRAY(arena, double, numerics + 1)};
    if (!finding->minimum || !finding->maximum || !finding->sum || !finding->square_sum) {
        finding->failed = true;
        error_set(&finding->failure, ERROR_MEMORY, "no memory for the statistics");
        return;
    }
    for (int i = 0; i < numerics; i++) {
        finding->minimum[i] = __builtin_inff();
        finding->maximum[i] = -__builtin_inff();
    }
}

/* Walks through all pieces in parallel; each leaves its own finding, so nothing depends on which
 * thread came first. */
static void walk(struct row_index *index, struct finding *findings, struct arena *arena)
{
    const struct table_description *description = index->parser->description;
    const char *end = index->text->end;
    for (int i = 0; i < index->piece_count; i++)
        prepare_finding(arena, description->numeric_count, &findings[i]);
#pragma omp parallel
    {
        float *numeric = memory_allocate(sizeof(float) * (size_t)(description->numeric_count + 1));
        int64_t *category =
            memory_allocate(sizeof(int64_t) * (size_t)(description->categorical_count + 1));
#pragma omp for schedule(dynamic)
        for (int i = 0; i < index->piece_count; i++) {
            const char *stop = i + 1 < index->piece_count ? index->pieces[i + 1].start : end;
            if (!numeric || !category)
                error_set(&findings[i].failure, ERROR_MEMORY, "no memory to read rows");
            if (findings[i].failed || !numeric || !category ||
                stop_check(index->text->stop, &findings[i].failure) < 0 ||
                walk_piece(index, &index->pieces[i], stop, numeric, category, &findings[i],
                           &findings[i].failure) < 0)
                findings[i].failed = true;
        }
        memory_free(numeric);
        memory_free(category);
    }
}

static int collect(struct row_index *index, const struct finding *findings,
                   struct row_statistics *statistics, struct error *err)
{
    int numerics = index->parser->description->numeric_count;
    statistics->positive_rows = statistics->bad_rows = 0;
    if (stop_check(index->text->stop, err) < 0)
        return -1;
    for (int i = 0; i < index->piece_count; i++) {
        if (findings[i].failed) {
            if (err)
                *err = findings[i].failure;
            return -1;
        }
        index->pieces[i].first_row = index->first_rows[i] = index->rows;
        index->rows += index->pieces[i].rows;
        statistics->positive_rows += findings[i].positive_rows;
        statistics->bad_rows += findings[i].bad_rows;
        if (i == 0) {
            memcpy(statistics->minimum, findings[0].minimum, sizeof(float) * (size_t)numerics);
            memcpy(statistics->maximum, findings[0].maximum, sizeof(float) * (size_t)numerics);
            memset(statistics->sum, 0, sizeof(double) * (size_t)numerics);
            memset(statistics->square_sum, 0, sizeof(double) * (size_t)numerics);
        }
        for (int n = 0; n < numerics; n++) {
            statistics->sum[n] += findings[i].sum[n];
            statistics->square_sum[n] += findings[i].square_sum[n];
        }
        widen(statistics->minimum, statistics->maximum, findings[i].minimum, findings[i].maximum,
              numerics);
    }
    statistics->rows = index->rows;
    size_t row_bytes = (size_t)(index->text->end - index->text->rows) / (size_t)index->rows + 1;
    index->expected_bytes = row_bytes + row_bytes / 4 + ((size_t)1 << index->step_shift);
    return 0;
}

/* Steps that reach over a group of rows half as long again as the first. */
static int choose_step(const struct row_text *text)
{
    size_t reach = (size_t)(csv_line_end(text->rows, text->end) - text->rows) * GROUP_ROWS * 3 / 2;
    int shift = MIN_STEP_SHIFT;
    while ((size_t)UNKNOWN << shift < reach)
        shift++;
    return shift;
}

static int cut_pieces(struct row_index *index, struct error *err)
{
    size_t bytes = (size_t)(index->text->end - index->text->rows);
    index->piece_count = (int)((bytes + PIECE_BYTES - 1) / PIECE_BYTES);
    index->pieces = ARENA_ARRAY(index->arena, struct piece, index->piece_count);
    index->first_rows = ARENA_ARRAY(index->arena, int64_t, index->piece_count);
    if (!index->pieces || !index->first_rows)
        return error_set(err, ERROR_MEMORY, "no memory for the index of rows");
    for (int i = 0; i < index->piece_count; i++)
        index->pieces[i].start = index->text->rows + (size_t)i * PIECE_BYTES;
    return 0;
}

int row_index_create(const struct row_parser *parser, const struct row_text *text,
                     struct row_statistics *statistics, struct row_index **out, struct error *err)
{
    int status = -1;
    struct arena *scratch = arena_create();
    struct row_index *index = memory_allocate(sizeof *index);
    struct finding *findings = NULL;
    if (!index || !scratch || !(index->arena = arena_create())) {
        error_set(err, ERROR_MEMORY, "no memory for the index of rows");
        goto out;
    }
    index->parser = parser;
    index->text = text;
    index->step_shift = choose_step(text);
    if (cut_pieces(index, err) < 0)
        goto out;
    findings = ARENA_ARRAY(scratch, struct finding, index->piece_count);
    if (!findings) {
        error_set(err, ERROR_MEMORY, "no memory for the index of rows");
        goto out;
    }
    walk(index, findings, scratch);
    if (collect(index, findings, statistics, err) < 0)
        goto out;
    *out = index;
    index = NULL;
    status = 0;
out:
    row_index_destroy(index);
    arena_destroy(scratch);
    return status;
}

void row_index_destroy(struct row_index *index)
{
    if (!index)
        return;
    for (int i = 0; i < index->piece_count && index->pieces; i++)
        memory_free(index->pieces[i].groups);
    arena_destroy(index->arena);
    memory_free(index);
}

/* The last piece whose first row is not behind `row`. */
static const struct piece *piece_of(const struct row_index *index, int64_t row)
{
    const int64_t *first = index->first_rows;
    for (int left = index->piece_count; left > 1;) {
        int half = left / 2;
        first = first[half] <= row ? first + half : first;
        left -= half;
    }
    return &index->pieces[first - index->first_rows];
}

struct row_place row_index_locate(const struct row_index *index, int64_t row)
{
    assert(row >= 0 && row < index->rows);
    const struct piece *piece = piece_of(index, row);
    int64_t within = row - piece->first_row;
    struct row_place place = {piece->start, piece->groups + within / GROUP_ROWS,
                              (int)(within % GROUP_ROWS)};
    __builtin_prefetch(place.group);
    return place;
}

void row_index_expect(const struct row_index *index, struct row_place place)
{
    if (place.group->steps[place.within] == UNKNOWN)
        place.within = 0;
    const char *at = near_row(index, place) - 1, *end = at + index->expected_bytes;
    for (; at < end; at += CACHE_LINE)
        __builtin_prefetch(at);
}

void row_index_expect_page(const struct row_index *index, struct row_place place)
{
    __builtin_prefetch(near_row(index, place));
}

int row_index_pieces(const struct row_index *index)
{
    return index->piece_count;
}

void row_index_piece(const struct row_index *index, int piece, int64_t *first, int64_t *count,
                     const char **at)
{
    const struct piece *found = &index->pieces[piece];
    *first = found->first_row;
    *count = found->rows;
    *at = found->rows > 0 ? found->start + found->groups[0].offset : found->start;
}
