/* Gathering rows of a table, and the way back: the gradients of equal rows are summed in the order
 * of the examples.
 *
 * The columns' rows lie behind each other, so each column is sorted by itself, on its own thread,
 * and the lists put behind each other are ascending. No sum is split between threads: the bits
 * do not depend on their number. */
#include <string.h>

#include "base/clones.h"
#include "exec/sparse.h"
#include "ops/embedding.h"

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, ROWS_AT_A_TIME = 32 };

/* --- Forward --- */

/* The quotient by the reciprocal is right or one too small. */
static int64_t find_row(const struct embedding_column *column, uint64_t fingerprint)
{
    if (fingerprint == EMBEDDING_MISSING)
        return -1;
    uint64_t quotient = (uint64_t)((unsigned __int128)fingerprint * column->reciprocal >> 64);
    uint64_t rest = fingerprint - quotient * column->buckets;
    return column->first + (int64_t)(rest >= column->buckets ? rest - column->buckets : rest);
}

/* A large table is far from the caches: all rows of the example are on their way before the first
 * is copied. */
static void find_rows(const struct embedding_state *state, const int64_t *fingerprints,
                      const float *table, int64_t *rows)
{
    for (int64_t c = 0; c < state->columns; c++) {
        rows[c] = find_row(&state->column[c], (uint64_t)fingerprints[c]);
        const char *row = (const char *)(table + (rows[c] < 0 ? 0 : rows[c]) * state->dim);
        for (size_t at = 0; at < (size_t)state->dim * sizeof(float); at += 64)
            __builtin_prefetch(row + at);
    }
}

KERNEL_CLONES static void copy_rows(const float *table, const int64_t *rows, int64_t count,
                                    int64_t dim, float *restrict out)
{
    for (int64_t c = 0; c < count; c++, out += dim) {
        const float *row = table + rows[c] * dim;
        if (rows[c] < 0)
#pragma omp simd
            for (int64_t i = 0; i < dim; i++)
                out[i] = 0;
        else
#pragma omp simd
            for (int64_t i = 0; i < dim; i++)
                out[i] = row[i];
    }
}

KERNEL_CLONES static void sum_rows(const float *table, const int64_t *rows, int64_t count,
                                   int64_t dim, const float *bias, float *restrict out)
{
#pragma omp simd
    for (int64_t i = 0; i < dim; i++)
        out[i] = bias ? bias[i] : 0;
    for (int64_t c = 0; c < count; c++) {
        const float *row = table + rows[c] * dim;
        if (rows[c] < 0)
            continue;
#pragma omp simd
        for (int64_t i = 0; i < dim; i++)
            out[i] += row[i];
    }
}

static void forward_example(const struct op_run *run, int64_t n)
{
    const struct embedding_state *state = run->state;
    const int64_t *fingerprints = (const int64_t *)(const void *)run->inputs[EMBEDDING_X];
    const float *table = run->inputs[EMBEDDING_TABLE];
    bool has_extra = run->node->input_count > EMBEDDING_EXTRA;
    const float *extra = has_extra ? run->inputs[EMBEDDING_EXTRA] : NULL;
    int64_t *rows = (int64_t *)run->workspace + n * state->columns;
    float *out = run->output + n * state->width;
    find_rows(state, fingerprints + n * state->columns, table, rows);
    if (state->sum) {
        sum_rows(table, rows, state->columns, state->dim, extra, out);
        return;
    }
    copy_rows(table, rows, state->columns, state->dim, out);
    if (extra)
        memcpy(out + state->columns * state->dim, extra + n * state->extra,
               (size_t)state->extra * sizeof(float));
}

void embedding_forward(const struct op_run *run)
{
    const struct embedding_state *state = run->state;
#pragma omp parallel for schedule(static) num_threads(run->threads)
    for (int64_t n = 0; n < state->batch; n++)
        forward_example(run, n);
}

/* --- Backward --- */

/* An example that read row `key` of the column. */
struct reader {
    uint32_t key, example;
};

/* One run of equal rows among the sorted readers. */
struct run_of_readers {
    uint32_t first, count;
};

struct scratch {
    struct reader *sorted, *other; /* [columns, batch] each */
    struct run_of_readers *runs;   /* [columns * batch], those of all columns joined */
    int64_t *present;              /* [columns]: readers of the column */
    int64_t *distinct;             /* [columns + 1]: rows, then places of the first */
};

static struct scratch lay_out(const struct embedding_state *state, void *memory)
{
    int64_t count = state->batch * state->columns;
    struct scratch scratch = {.present = memory};
    scratch.distinct = scratch.present + state->columns;
    scratch.sorted = (void *)(scratch.distinct + state->columns + 1);
    scratch.other = scratch.sorted + count;
    scratch.runs = (void *)(scratch.other + count);
    return scratch;
}

size_t embedding_scratch_bytes(int64_t batch, int64_t columns)
{
    size_t count = (size_t)(batch * columns);
    return (size_t)(2 * columns + 1) * sizeof(int64_t) + 2 * count * sizeof(struct reader) +
           count * sizeof(struct run_of_readers);
}

static uint32_t digit(struct reader reader, int shift)
{
    return reader.key >> shift & (DIGITS - 1);
}

/* One pass of a radix sort: equal digits keep their order, so examples stay ascending. */
static void sort_by_digit(const struct reader *from, struct reader *to, int64_t count, int shift,
                          int digits)
{
    uint32_t places[DIGITS] = {0};
    for (int64_t i = 0; i < count; i++)
        places[digit(from[i], shift)]++;
    uint32_t before = 0;
    for (int d = 0; d < digits; d++) {
        uint32_t here = places[d];
        places[d] = before;
        before += here;
    }
    for (int64_t i = 0; i < count; i++)
        to[places[digit(from[i], shift)]++] = from[i];
}

static int64_t collect_readers(const struct embedding_state *state, const int64_t *rows, int64_t c,
                               struct reader *out)
{
    int64_t count = 0;
    for (int64_t n = 0; n < state->batch; n++) {
        int64_t row = rows[n * state->columns + c];
        out[count] = (struct reader){(uint32_t)(row - state->column[c].first), (uint32_t)n};
        count += row >= 0;
    }
    return count;
}

/* Leaves the column's readers sorted in scratch->sorted, and counts them. */
static void sort_column(const struct embedding_state *state, const int64_t *rows, int64_t c,
                        const struct scratch *scratch)
{
    struct reader *sorted = scratch->sorted + c * state->batch;
    struct reader *other = scratch->other + c * state->batch;
    uint64_t largest = state->column[c].buckets - 1;
    int passes = 0;
    for (uint64_t rest = largest; rest; rest >>= DIGIT_BITS)
        passes++;
    int64_t count = collect_readers(state, rows, c, passes % 2 ? other : sorted);
    for (int pass = 0; pass < passes; pass++) {
        bool back = (passes - pass) % 2;
        uint64_t top = largest >> pass * DIGIT_BITS;
        sort_by_digit(back ? other : sorted, back ? sorted : other, count, pass * DIGIT_BITS,
                      top < DIGITS ? (int)top + 1 : DIGITS);
    }
    int64_t distinct = 0;
    for (int64_t i = 0; i < count; i++)
        distinct += i == 0 || sorted[i].key != sorted[i - 1].key;
    scratch->present[c] = count;
    scratch->distinct[c] = distinct;
}

/* Counts become places. Returns the sum. */
static int64_t add_up(int64_t *counts, int64_t columns)
{
    int64_t before = 0;
    for (int64_t c = 0; c < columns; c++) {
        int64_t here = counts[c];
        counts[c] = before;
        before += here;
    }
    counts[columns] = before;
    return before;
}

static void list_column(const struct embedding_state *state, int64_t c,
                        const struct scratch *scratch, int64_t *rows)
{
    const struct reader *sorted = scratch->sorted + c * state->batch;
    int64_t at = scratch->distinct[c] - 1;
    for (int64_t i = 0; i < scratch->present[c]; i++) {
        if (i == 0 || sorted[i].key != sorted[i - 1].key) {
            rows[++at] = state->column[c].first + sorted[i].key;
            scratch->runs[at] = (struct run_of_readers){(uint32_t)(c * state->batch + i), 0};
        }
        scratch->runs[at].count++;
    }
}

/* `gradient` is that of example 0, `stride` floats before that of the next. */
KERNEL_CLONES static void sum_readers(const struct reader *readers, uint32_t count,
                                      const float *gradient, int64_t stride, int64_t dim,
                                      float *restrict out)
{
    const float *first = gradient + readers[0].example * stride;
#pragma omp simd
    for (int64_t i = 0; i < dim; i++)
        out[i] = first[i];
    for (uint32_t r = 1; r < count; r++) {
        const float *next = gradient + readers[r].example * stride;
#pragma omp simd
        for (int64_t i = 0; i < dim; i++)
            out[i] += next[i];
    }
}

static void sum_row(const struct embedding_state *state, const struct scratch *scratch,
                    const float *gradient, int64_t at, float *values)
{
    struct run_of_readers readers = scratch->runs[at];
    int64_t column = readers.first / state->batch;
    sum_readers(scratch->sorted + readers.first, readers.count,
                gradient + (state->sum ? 0 : column * state->dim), state->width, state->dim,
                values + at * state->dim);
}

static void bias_gradient(const struct embedding_state *state, const float *gradient, float *out)
{
    for (int64_t i = 0; i < state->dim; i++) {
        double sum = 0;
        for (int64_t n = 0; n < state->batch; n++)
            sum += gradient[n * state->dim + i];
        out[i] = (float)sum;
    }
}

void embedding_backward_weights(const struct op_run *run)
{
    const struct embedding_state *state = run->state;
    struct scratch scratch = lay_out(state, run->scratch);
    void *list = run->input_gradients[EMBEDDING_TABLE];
    int64_t *rows = sparse_row_ids(list);
    float *values = sparse_values(list, state->batch * state->columns);
    int64_t count = 0;
#pragma omp parallel num_threads(run->threads)
    {
#pragma omp for schedule(dynamic)
        for (int64_t c = 0; c < state->columns; c++)
            sort_column(state, run->workspace, c, &scratch);
#pragma omp single
        count = add_up(scratch.distinct, state->columns);
#pragma omp for schedule(static)
        for (int64_t c = 0; c < state->columns; c++)
            list_column(state, c, &scratch, rows);
#pragma omp for schedule(dynamic, ROWS_AT_A_TIME)
        for (int64_t at = 0; at < count; at++)
            sum_row(state, &scratch, run->gradients[0], at, values);
    }
    ((struct sparse_header *)list)->count = count;
    if (state->sum && run->node->input_count > EMBEDDING_EXTRA)
        bias_gradient(state, run->gradients[0], run->input_gradients[EMBEDDING_EXTRA]);
}

void embedding_backward(const struct op_run *run)
{
    const struct embedding_state *state = run->state;
    float *out = run->input_gradients[EMBEDDING_EXTRA];
    for (int64_t n = 0; n < state->batch; n++)
        memcpy(out + n * state->extra, run->gradients[0] + (n + 1) * state->width - state->extra,
               (size_t)state->extra * sizeof(float));
}
