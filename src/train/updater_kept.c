/* Applies a step so that another process can finish it. The slab is changed unit by unit (a piece of
 * the slab, or some rows of a table). Each is computed beside the old numbers, into a place of the
 * thread's own, then copied over them; one word per place says that its numbers are whole, one word
 * per unit says that it is done. So at any instruction each unit is either
 *   - untouched, and can be computed from weights, slots and gradients as they lie there, or
 *   - whole in a place, and can be copied again, or
 *   - done.
 * A place stays in the cache of its core: what this costs is one more copy within the cache. */
#include <inttypes.h>
#include <omp.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "base/error.h"
#include "store/state.h"
#include "train/updater_internal.h"

/* As many threads can be at it; untouched places take no memory. */
enum { PLACES = 128, PLACE_ALIGN = 4096 };

struct place {
    _Atomic uint64_t sequence; /* of the commit to which the numbers belong; 0: not whole */
    uint64_t unit;
    uint64_t unused[6];
    float numbers[]; /* weights, then each slot, `array_floats` each */
};

/* The gradient of a table, in the state's memory. */
struct kept_table {
    const struct segment *segment; /* NULL: not trained */
    int64_t most, *count;
    struct sparse_rows list;
    int first_unit;
};

struct updater_keeping {
    struct state *state;
    char *places;
    size_t array_floats, place_bytes;
    double *norms;             /* of each segment: of its weights, of its gradients */
    _Atomic uint64_t *applied; /* by unit: the last commit that it was done for */
    int unit_count;
    struct kept_table *tables;
    int table_count;
};

/* Nothing that the program does before it can come after it, nor the other way round. */
static void put(_Atomic uint64_t *word, uint64_t value)
{
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(word, value, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
}

static struct place *place_at(const struct updater_keeping *keeping, int index)
{
    return (void *)(keeping->places + (size_t)index * keeping->place_bytes);
}

static struct updater_memory memory_of(const struct updater_keeping *keeping, struct place *place)
{
    struct updater_memory memory = {.weights = place->numbers};
    for (int slot = 0; slot < PARAMS_MAX_SLOTS; slot++)
        memory.slots[slot] = place->numbers + (size_t)(slot + 1) * keeping->array_floats;
    return memory;
}

/* --- one unit ------------------------------------------------------------------------------- */

/* Some rows of a table. */
struct rows_unit {
    const struct kept_table *table;
    int64_t first, end;
};

static bool find_rows(const struct updater_keeping *keeping, int unit, struct rows_unit *out)
{
    for (int t = keeping->table_count - 1; t >= 0; t--) {
        const struct kept_table *table = &keeping->tables[t];
        if (unit < table->first_unit)
            continue;
        int64_t first = (int64_t)(unit - table->first_unit) * ROWS_AT_A_TIME;
        int64_t end = first + ROWS_AT_A_TIME;
        *out = (struct rows_unit){table, first, end < table->list.count ? end : table->list.count};
        return table->segment && first < out->end;
    }
    return false;
}

static void compute_rows(const struct rows_unit *unit, const struct updater_memory *slabs,
                         const struct updater_memory *place, const struct state_update *update)
{
    const struct segment *segment = unit->table->segment;
    const struct sparse_rows *list = &unit->table->list;
    struct optimizer_range range = {.count = (size_t)((unit->end - unit->first) * list->dim),
                                    .weights = place->weights,
                                    .gradients = list->values + unit->first * list->dim,
                                    .new_weights = place->weights};
    updater_gather(segment, list, unit->first, unit->end, slabs->weights, place->weights);
    for (int slot = 0; slot < segment->group->optimizer->slot_count; slot++) {
        updater_gather(segment, list, unit->first, unit->end, slabs->slots[slot],
                       place->slots[slot]);
        range.slots[slot] = range.new_slots[slot] = place->slots[slot];
    }
    updater_run_rule(segment, update->rate, update->step, &range);
}

static void copy_rows(const struct state *state, const struct rows_unit *unit,
                      const struct updater_memory *place, const struct updater_memory *slabs)
{
    const struct segment *segment = unit->table->segment;
    const struct sparse_rows *list = &unit->table->list;
    updater_scatter(segment, list, unit->first, unit->end, place->weights, slabs->weights);
    state_pass(state, STATE_HALFWAY);
    for (int slot = 0; slot < segment->group->optimizer->slot_count; slot++)
        updater_scatter(segment, list, unit->first, unit->end, place->slots[slot],
                        slabs->slots[slot]);
}

static void copy_piece(const struct state *state, const struct updater *updater,
                       const struct piece *piece, const struct updater_memory *place,
                       const struct updater_memory *slabs)
{
    int slots = updater->segments[piece->segment].group->optimizer->slot_count;
    memcpy(slabs->weights + piece->first, place->weights, piece->count * sizeof(float));
    state_pass(state, STATE_HALFWAY);
    for (int slot = 0; slot < slots; slot++)
        memcpy(slabs->slots[slot] + piece->first, place->slots[slot], piece->count * sizeof(float));
}

/* Numbers that are whole in a place, over the old ones. May be done again. */
static void copy_over(const struct updater *updater, struct place *place, uint64_t sequence)
{
    const struct updater_keeping *keeping = updater->keeping;
    struct updater_memory slabs = updater_own_memory(updater), numbers = memory_of(keeping, place);
    int unit = (int)place->unit;
    struct rows_unit rows;
    if (unit < updater->dense_pieces)
        copy_piece(keeping->state, updater, &updater->pieces[unit], &numbers, &slabs);
    else if (find_rows(keeping, unit, &rows))
        copy_rows(keeping->state, &rows, &numbers, &slabs);
    put(&keeping->applied[unit], sequence);
    put(&place->sequence, 0);
    state_pass(keeping->state, STATE_APPLIED);
}

static void apply_unit(const struct updater *updater, int unit, const struct state_update *update)
{
    const struct updater_keeping *keeping = updater->keeping;
    struct place *place = place_at(keeping, omp_get_thread_num());
    struct updater_memory slabs = updater_own_memory(updater), numbers = memory_of(keeping, place);
    struct rows_unit rows;
    if (atomic_load(&keeping->applied[unit]) == update->sequence)
        return;
    if (unit < updater->dense_pieces)
        updater_run_piece(updater, &updater->pieces[unit], &slabs, &numbers, update->rate,
                          update->step);
    else if (find_rows(keeping, unit, &rows))
        compute_rows(&rows, &slabs, &numbers, update);
    else
        return;
    place->unit = (uint64_t)unit;
    put(&place->sequence, update->sequence);
    state_pass(keeping->state, STATE_READY);
    copy_over(updater, place, update->sequence);
}

/* --- one step ------------------------------------------------------------------------------- */

static int units_of(int64_t rows)
{
    return (int)((rows + ROWS_AT_A_TIME - 1) / ROWS_AT_A_TIME);
}

static void apply_range(const struct updater *updater, int first, int count,
                        const struct state_update *update)
{
    int threads = updater->threads < PLACES ? updater->threads : PLACES;
    if (count == 1) {
        apply_unit(updater, first, update);
        return;
    }
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int i = 0; i < count; i++)
        apply_unit(updater, first + i, update);
}

static void apply(const struct updater *updater, const struct state_update *update)
{
    const struct updater_keeping *keeping = updater->keeping;
    apply_range(updater, 0, updater->dense_pieces, update);
    for (int t = 0; t < keeping->table_count; t++)
        apply_range(updater, keeping->tables[t].first_unit, units_of(keeping->tables[t].list.count),
                    update);
    state_end(keeping->state);
}

/* A table that got no list rests. */
static void keep_lists(struct updater *updater)
{
    const struct updater_keeping *keeping = updater->keeping;
    for (int t = 0; t < keeping->table_count; t++) {
        struct kept_table *table = &keeping->tables[t];
        *table->count = table->list.count = 0;
        for (int i = 0; i < updater->list_count; i++) {
            const struct sparse_rows *from = &updater->lists[i];
            if (from->param != table->list.param)
                continue;
            memcpy(table->list.rows, from->rows, (size_t)from->count * sizeof *from->rows);
            memcpy(table->list.values, from->values,
                   (size_t)(from->count * from->dim) * sizeof *from->values);
            *table->count = table->list.count = from->count;
        }
    }
}

static void keep_norms(struct updater *updater)
{
    struct updater_memory slabs = updater_own_memory(updater);
    if (!updater->any_measured)
        return;
    updater_measure(updater, &slabs);
    for (int s = 0; s < updater->segment_count; s++) {
        updater->keeping->norms[2 * s] = updater->segments[s].weight_norm;
        updater->keeping->norms[2 * s + 1] = updater->segments[s].gradient_norm;
    }
}

void updater_step_kept(struct updater *updater, const struct saver_moment *moment, float rate,
                       const float *statistics)
{
    struct state_update update = {.step = moment->step, .rate = rate};
    keep_lists(updater);
    keep_norms(updater);
    update.sequence = state_begin(updater->keeping->state, moment, rate, statistics);
    apply(updater, &update);
    updater_give_rows(updater, NULL, 0);
}

/* --- going on with what another process began ------------------------------------------------ */

static int find_lists(struct updater *updater, struct error *err)
{
    struct updater_keeping *keeping = updater->keeping;
    for (int t = 0; t < keeping->table_count; t++) {
        struct kept_table *table = &keeping->tables[t];
        if (*table->count < 0 || *table->count > table->most)
            return error_set(err, ERROR_FORMAT,
                             "the memory that keeps the training: %" PRId64 " rows of %s",
                             *table->count, params_name(updater->params, table->list.param));
        table->list.count = *table->count;
    }
    return 0;
}

static void find_norms(struct updater *updater)
{
    for (int s = 0; updater->any_measured && s < updater->segment_count; s++) {
        updater->segments[s].weight_norm = updater->keeping->norms[2 * s];
        updater->segments[s].gradient_norm = updater->keeping->norms[2 * s + 1];
    }
}

int updater_recover(struct updater *updater, struct error *err)
{
    struct updater_keeping *keeping = updater->keeping;
    struct state_update update;
    if (!state_unfinished(keeping->state, &update))
        return 0;
    if (find_lists(updater, err) < 0)
        return -1;
    find_norms(updater);
    for (int i = 0; i < PLACES; i++) {
        struct place *place = place_at(keeping, i);
        if (atomic_load(&place->sequence) == update.sequence &&
            place->unit < (uint64_t)keeping->unit_count)
            copy_over(updater, place, update.sequence);
    }
    apply(updater, &update);
    return 0;
}

/* --- making it ------------------------------------------------------------------------------ */

static size_t round_up(size_t bytes, size_t align)
{
    return (bytes + align - 1) & ~(align - 1);
}

static size_t table_bytes(const struct kept_table *table)
{
    return 64 + round_up((size_t)table->most * sizeof(int64_t), 64) +
           round_up((size_t)(table->most * table->list.dim) * sizeof(float), 64);
}

/* Room for every row, whatever batch comes: what is not touched takes no memory. */
static void measure_table(const struct updater *updater, const struct sparse_rows *list,
                          struct kept_table *out)
{
    struct param_range range = params_range(updater->params, list->param);
    *out = (struct kept_table){.segment = updater_table_segment(updater, list->param),
                               .most = shape_count(&range.shape) / (list->dim ? list->dim : 1),
                               .list = {.param = list->param, .dim = list->dim}};
}

static int make_tables(struct updater *updater, const struct sparse_rows *lists, int count,
                       struct error *err)
{
    struct updater_keeping *keeping = updater->keeping;
    size_t bytes = 0;
    keeping->tables = ARENA_ARRAY(updater->arena, struct kept_table, count + 1);
    if (!keeping->tables)
        return error_set(err, ERROR_MEMORY, "no memory for the optimizer");
    keeping->table_count = count;
    keeping->unit_count = updater->dense_pieces;
    for (int t = 0; t < count; t++) {
        struct kept_table *table = &keeping->tables[t];
        measure_table(updater, &lists[t], table);
        table->first_unit = keeping->unit_count;
        keeping->unit_count += units_of(table->most);
        bytes += table_bytes(table);
    }
    char *at = count ? state_area(keeping->state, "rows", bytes, err) : NULL;
    for (int t = 0; at && t < count; t++) {
        struct kept_table *table = &keeping->tables[t];
        table->count = (void *)at;
        table->list.rows = (void *)(at + 64);
        table->list.values =
            (void *)(at + 64 + round_up((size_t)table->most * sizeof(int64_t), 64));
        at += table_bytes(table);
    }
    return count && !at ? -1 : 0;
}

static int make_places(struct updater *updater, struct error *err)
{
    struct updater_keeping *keeping = updater->keeping;
    keeping->array_floats = PIECE_FLOATS;
    for (int t = 0; t < keeping->table_count; t++) {
        size_t floats = (size_t)keeping->tables[t].list.dim * ROWS_AT_A_TIME;
        if (floats > keeping->array_floats)
            keeping->array_floats = round_up(floats, PARAMS_ALIGN_FLOATS);
    }
    size_t arrays = (size_t)params_slots(updater->params) + 1;
    keeping->place_bytes = round_up(
        sizeof(struct place) + arrays * keeping->array_floats * sizeof(float), PLACE_ALIGN);
    keeping->places = state_area(keeping->state, "places", PLACES * keeping->place_bytes, err);
    keeping->applied = state_area(keeping->state, "applied",
                                  (size_t)(keeping->unit_count + 1) * sizeof(uint64_t), err);
    keeping->norms = state_area(keeping->state, "norms",
                                (size_t)(updater->segment_count + 1) * 2 * sizeof(double), err);
    return keeping->places && keeping->applied && keeping->norms ? 0 : -1;
}

int updater_keep(struct updater *updater, struct state *state, const struct sparse_rows *lists,
                 int list_count, struct error *err)
{
    updater->keeping = ARENA_NEW(updater->arena, struct updater_keeping);
    if (!updater->keeping)
        return error_set(err, ERROR_MEMORY, "no memory for the optimizer");
    updater->keeping->state = state;
    if (make_tables(updater, lists, list_count, err) < 0 || make_places(updater, err) < 0)
        return -1;
    return 0;
}
