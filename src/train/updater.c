/* Takes the slab apart once, into segments with one rule and pieces of fixed size, and then only
 * walks the pieces. The pieces, not the threads, decide in which order sums are taken. */
#include <math.h>

#include "base/arena.h"
#include "base/clones.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "exec/elementwise.h"
#include "exec/sparse.h"
#include "train/updater_internal.h"

/* Short rows are gathered first, since a call for each would cost more than the update. */
enum { GATHERED_FLOATS = 512, LONG_ROW = 8 };

KERNEL_CLONES static double sum_squares(const float *values, size_t count)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < count; i++)
        sum += (double)values[i] * values[i];
    return sum;
}

/* --- taking the slab apart ------------------------------------------------------------------ */

static const struct param_group *group_of(const struct updater *updater, const char *name)
{
    const struct param_group *rest = NULL;
    for (int i = 0; i < updater->group_count; i++) {
        const struct param_group *group = &updater->groups[i];
        if (!*group->prefix)
            rest = rest ? rest : group;
        else if (!strncmp(name, group->prefix, strlen(group->prefix)))
            return group;
    }
    return rest;
}

static int by_place(const void *a, const void *b)
{
    const struct param_range *left = a, *right = b;
    return (left->first > right->first) - (left->first < right->first);
}

/* The trainable parameters in the order of the slab. */
static struct param_range *trainable_ranges(const struct updater *updater, int *count)
{
    int all = params_count(updater->params);
    struct param_range *ranges = ARENA_ARRAY(updater->arena, struct param_range, all + 1);
    *count = 0;
    for (int i = 0; ranges && i < all; i++) {
        struct param_range range = params_range(updater->params, i);
        if (range.flags & PARAM_TRAINABLE)
            ranges[(*count)++] = range;
    }
    if (ranges)
        qsort(ranges, (size_t)*count, sizeof *ranges, by_place);
    return ranges;
}

static int refuse_norms_of_tables(const struct param_group *group, const struct param_range *range,
                                  struct error *err)
{
    if (!(range->flags & PARAM_SPARSE) || !group->optimizer->needs_norms)
        return 0;
    return error_set(err, ERROR_USAGE,
                     "the optimizer %s needs the norm of all of %s at every step; give tables "
                     "another rule, such as adagrad",
                     group->optimizer->name, range->name);
}

/* Only alignment may lie between joined parameters; it is 0 and stays 0. */
static bool can_join(const struct segment *last, const struct param_group *group, float decay,
                     size_t first)
{
    return last->group == group && !group->optimizer->needs_norms && !last->table &&
           last->settings.weight_decay == decay &&
           first - (last->first + last->count) < PARAMS_ALIGN_FLOATS;
}

static int add_range(struct updater *updater, const struct param_range *range, struct error *err)
{
    const struct param_group *group = group_of(updater, range->name);
    if (!group)
        return error_set(err, ERROR_USAGE, "no optimizer is given for the parameter %s",
                         range->name);
    if (refuse_norms_of_tables(group, range, err) < 0)
        return -1;
    bool decays = range->flags & PARAM_DECAY, table = range->flags & PARAM_SPARSE;
    float decay = decays ? group->settings.weight_decay : 0;
    if (updater->segment_count && !table) {
        struct segment *last = &updater->segments[updater->segment_count - 1];
        if (can_join(last, group, decay, range->first)) {
            last->count = range->first + range->count - last->first;
            return 0;
        }
    }
    struct segment *segment = &updater->segments[updater->segment_count++];
    *segment = (struct segment){.first = range->first,
                                .count = range->count,
                                .group = group,
                                .settings = group->settings,
                                .table = table,
                                .param = params_find(updater->params, range->name),
                                .measured = group->optimizer->needs_norms && decays &&
                                            range->shape.ndim > 1};
    segment->settings.weight_decay = decay;
    updater->any_measured |= segment->measured;
    return 0;
}

/* A misspelt prefix would train everything by another rule without a word. */
static int check_groups_used(const struct updater *updater, const struct param_range *ranges,
                             int count, struct error *err)
{
    for (int g = 0; g < updater->group_count; g++) {
        const struct param_group *group = &updater->groups[g];
        bool used = !*group->prefix;
        for (int i = 0; i < count && !used; i++)
            used = group_of(updater, ranges[i].name) == group;
        if (!used)
            return error_set(err, ERROR_USAGE,
                             "the group %s takes no parameter: no name that is left by earlier groups "
                             "begins so; there is %s, for example",
                             group->prefix, count ? ranges[0].name : "nothing");
    }
    return 0;
}

static int make_segments(struct updater *updater, struct error *err)
{
    int count;
    struct param_range *ranges = trainable_ranges(updater, &count);
    updater->segments = ARENA_ARRAY(updater->arena, struct segment, count + 1);
    if (!ranges || !updater->segments)
        return error_set(err, ERROR_MEMORY, "no memory to sort %d parameters", count);
    for (int i = 0; i < count; i++)
        if (add_range(updater, &ranges[i], err) < 0)
            return -1;
    return check_groups_used(updater, ranges, count, err);
}

static int pieces_of(size_t count)
{
    return (int)((count + PIECE_FLOATS - 1) / PIECE_FLOATS);
}

static int make_pieces(struct updater *updater, struct error *err)
{
    int total = 0;
    for (int s = 0; s < updater->segment_count; s++)
        total += pieces_of(updater->segments[s].count);
    updater->pieces = ARENA_ARRAY(updater->arena, struct piece, total + 1);
    if (!updater->pieces)
        return error_set(err, ERROR_MEMORY, "no memory for %d pieces of the update", total);
    for (int s = 0; s < updater->segment_count; s++) {
        struct segment *segment = &updater->segments[s];
        segment->first_piece = updater->piece_count;
        segment->piece_count = pieces_of(segment->count);
        if (!segment->table)
            updater->dense_pieces += segment->piece_count;
        for (size_t done = 0; done < segment->count; done += PIECE_FLOATS) {
            size_t left = segment->count - done;
            updater->pieces[updater->piece_count++] =
                (struct piece){.first = segment->first + done,
                               .count = left < PIECE_FLOATS ? left : PIECE_FLOATS,
                               .segment = s};
        }
    }
    return 0;
}

static int check_groups(const struct params *params, const struct param_group *groups, int count,
                        struct error *err)
{
    for (int i = 0; i < count; i++)
        if (optimizer_check(groups[i].optimizer, &groups[i].settings, err) < 0)
            return -1;
    int needed = updater_slots_needed(groups, count);
    if (params_slots(params) < needed)
        return error_set(err, ERROR_USAGE, "the optimizer needs %d slots per weight, not %d",
                         needed, params_slots(params));
    return 0;
}

int updater_slots_needed(const struct param_group *groups, int group_count)
{
    int needed = 0;
    for (int i = 0; i < group_count; i++)
        if (groups[i].optimizer->slot_count > needed)
            needed = groups[i].optimizer->slot_count;
    return needed;
}

static struct updater *allocate(struct params *params, const struct param_group *groups,
                                int group_count, int threads)
{
    struct arena *arena = arena_create();
    struct updater *updater = arena ? ARENA_NEW(arena, struct updater) : NULL;
    struct param_group *copy = updater ? ARENA_ARRAY(arena, struct param_group, group_count) : NULL;
    if (!copy) {
        arena_destroy(arena);
        return NULL;
    }
    memcpy(copy, groups, (size_t)group_count * sizeof *copy);
    updater->arena = arena;
    updater->params = params;
    updater->groups = copy;
    updater->group_count = group_count;
    updater->threads = threads > 0 ? threads : threads_available();
    return updater;
}

int updater_create(struct params *params, const struct param_group *groups, int group_count,
                   int threads, struct updater **out, struct error *err)
{
    if (check_groups(params, groups, group_count, err) < 0)
        return -1;
    struct updater *updater = allocate(params, groups, group_count, threads);
    if (!updater)
        return error_set(err, ERROR_MEMORY, "no memory for the optimizer");
    if (make_segments(updater, err) < 0 || make_pieces(updater, err) < 0) {
        updater_destroy(updater);
        return -1;
    }
    *out = updater;
    return 0;
}

void updater_destroy(struct updater *updater)
{
    if (updater)
        arena_destroy(updater->arena);
}

/* --- each step ------------------------------------------------------------------------------ */

/* Runs `work` on every piece; a single one is not worth waking the other threads. */
typedef void piece_fn(struct updater *updater, struct piece *piece, const void *context);

static void for_each_piece(struct updater *updater, int count, piece_fn *work, const void *context)
{
    if (count == 1) {
        work(updater, &updater->pieces[0], context);
        return;
    }
#pragma omp parallel for schedule(static) num_threads(updater->threads)
    for (int i = 0; i < count; i++)
        work(updater, &updater->pieces[i], context);
}

struct updater_memory updater_own_memory(const struct updater *updater)
{
    struct updater_memory memory = {.weights = params_weights(updater->params)};
    for (int slot = 0; slot < params_slots(updater->params); slot++)
        memory.slots[slot] = params_slot(updater->params, slot);
    return memory;
}

static void fill_slots(struct updater *updater, struct piece *piece, const void *context)
{
    (void)context;
    const struct optimizer *optimizer = updater->segments[piece->segment].group->optimizer;
    for (int slot = 0; slot < optimizer->slot_count; slot++) {
        float *values = params_slot(updater->params, slot) + piece->first;
        for (size_t i = 0; i < piece->count; i++)
            values[i] = optimizer->slot_initial[slot];
    }
}

const char *updater_describe_slot(void *context, int param, int slot, float *initial)
{
    const struct updater *updater = context;
    struct param_range range = params_range(updater->params, param);
    if (!(range.flags & PARAM_TRAINABLE))
        return NULL;
    const struct optimizer *optimizer = group_of(updater, range.name)->optimizer;
    if (slot >= optimizer->slot_count)
        return NULL;
    *initial = optimizer->slot_initial[slot];
    return optimizer->slot_names[slot];
}

void updater_initialize_slots(struct updater *updater)
{
    for_each_piece(updater, updater->piece_count, fill_slots, NULL);
}

static void measure_piece(struct updater *updater, struct piece *piece, const void *context)
{
    const struct updater_memory *from = context;
    if (!updater->segments[piece->segment].measured)
        return;
    piece->weight_squares = sum_squares(from->weights + piece->first, piece->count);
    piece->gradient_squares =
        sum_squares(params_gradients(updater->params) + piece->first, piece->count);
}

void updater_measure(struct updater *updater, const struct updater_memory *from)
{
    for_each_piece(updater, updater->dense_pieces, measure_piece, from);
    for (int s = 0; s < updater->segment_count; s++) {
        struct segment *segment = &updater->segments[s];
        double weights = 0, gradients = 0;
        for (int i = 0; segment->measured && i < segment->piece_count; i++) {
            weights += updater->pieces[segment->first_piece + i].weight_squares;
            gradients += updater->pieces[segment->first_piece + i].gradient_squares;
        }
        segment->weight_norm = sqrt(weights);
        segment->gradient_norm = sqrt(gradients);
    }
}

struct step_context {
    const struct updater_memory *from, *to;
    float rate;
    int64_t step;
};

void updater_run_rule(const struct segment *segment, float rate, int64_t step,
                      const struct optimizer_range *range)
{
    segment->group->optimizer->step(&segment->settings, rate * segment->group->rate_factor, step,
                                    range);
}

void updater_run_piece(const struct updater *updater, const struct piece *piece,
                       const struct updater_memory *from, const struct updater_memory *to,
                       float rate, int64_t step)
{
    const struct segment *segment = &updater->segments[piece->segment];
    struct optimizer_range range = {
        .count = piece->count,
        .weights = from->weights + piece->first,
        .gradients = params_gradients(updater->params) + piece->first,
        .new_weights = to->weights,
        .weight_norm = segment->weight_norm,
        .gradient_norm = segment->gradient_norm,
    };
    for (int slot = 0; slot < segment->group->optimizer->slot_count; slot++) {
        range.slots[slot] = from->slots[slot] + piece->first;
        range.new_slots[slot] = to->slots[slot];
    }
    updater_run_rule(segment, rate, step, &range);
}

static void step_piece(struct updater *updater, struct piece *piece, const void *context)
{
    const struct step_context *step = context;
    struct updater_memory to = {.weights = step->to->weights + piece->first};
    int slots = updater->segments[piece->segment].group->optimizer->slot_count;
    for (int slot = 0; slot < slots; slot++)
        to.slots[slot] = step->to->slots[slot] + piece->first;
    updater_run_piece(updater, piece, step->from, &to, step->rate, step->step);
}

/* --- rows of tables ------------------------------------------------------------------------- */

const struct segment *updater_table_segment(const struct updater *updater, int param)
{
    for (int s = 0; s < updater->segment_count; s++)
        if (updater->segments[s].table && updater->segments[s].param == param)
            return &updater->segments[s];
    return NULL; /* not trained */
}

/* Rows that are neighbours in the table go together. */
static void step_long_rows(const struct segment *segment, const struct sparse_rows *list,
                           int64_t first, int64_t end, const struct step_context *step)
{
    int slots = segment->group->optimizer->slot_count;
    for (int64_t at = first, next; at < end; at = next) {
        for (next = at + 1; next < end && list->rows[next] == list->rows[next - 1] + 1; next++)
            ;
        size_t place = segment->first + (size_t)(list->rows[at] * list->dim);
        struct optimizer_range range = {.count = (size_t)((next - at) * list->dim),
                                        .weights = step->from->weights + place,
                                        .gradients = list->values + at * list->dim,
                                        .new_weights = step->to->weights + place};
        for (int slot = 0; slot < slots; slot++) {
            range.slots[slot] = step->from->slots[slot] + place;
            range.new_slots[slot] = step->to->slots[slot] + place;
        }
        updater_run_rule(segment, step->rate, step->step, &range);
    }
}

void updater_gather(const struct segment *segment, const struct sparse_rows *list, int64_t first,
                    int64_t end, const float *slab, float *gathered)
{
    for (int64_t at = first; at < end; at++)
        for (int64_t i = 0; i < list->dim; i++)
            *gathered++ = slab[segment->first + (size_t)(list->rows[at] * list->dim + i)];
}

void updater_scatter(const struct segment *segment, const struct sparse_rows *list, int64_t first,
                     int64_t end, const float *gathered, float *slab)
{
    for (int64_t at = first; at < end; at++)
        for (int64_t i = 0; i < list->dim; i++)
            slab[segment->first + (size_t)(list->rows[at] * list->dim + i)] = *gathered++;
}

static void step_short_rows(const struct segment *segment, const struct sparse_rows *list,
                            int64_t first, int64_t end, const struct step_context *step)
{
    float weights[GATHERED_FLOATS], slots[PARAMS_MAX_SLOTS][GATHERED_FLOATS];
    int slot_count = segment->group->optimizer->slot_count;
    struct optimizer_range range = {.count = (size_t)((end - first) * list->dim),
                                    .weights = weights,
                                    .gradients = list->values + first * list->dim,
                                    .new_weights = weights};
    updater_gather(segment, list, first, end, step->from->weights, weights);
    for (int slot = 0; slot < slot_count; slot++) {
        updater_gather(segment, list, first, end, step->from->slots[slot], slots[slot]);
        range.slots[slot] = range.new_slots[slot] = slots[slot];
    }
    updater_run_rule(segment, step->rate, step->step, &range);
    updater_scatter(segment, list, first, end, weights, step->to->weights);
    for (int slot = 0; slot < slot_count; slot++)
        updater_scatter(segment, list, first, end, slots[slot], step->to->slots[slot]);
}

static void step_rows(struct updater *updater, const struct sparse_rows *list,
                      const struct step_context *step)
{
    const struct segment *segment = updater_table_segment(updater, list->param);
    if (!segment)
        return;
#pragma omp parallel for schedule(static) num_threads(updater->threads)
    for (int64_t first = 0; first < list->count; first += ROWS_AT_A_TIME) {
        int64_t left = list->count - first;
        int64_t end = first + (left < ROWS_AT_A_TIME ? left : ROWS_AT_A_TIME);
        if (list->dim < LONG_ROW)
            step_short_rows(segment, list, first, end, step);
        else
            step_long_rows(segment, list, first, end, step);
    }
}

void updater_give_rows(struct updater *updater, const struct sparse_rows *lists, int count)
{
    updater->lists = lists;
    updater->list_count = count;
}

void updater_step_between(struct updater *updater, const struct updater_memory *from,
                          const struct updater_memory *to, float rate, int64_t step)
{
    if (updater->any_measured)
        updater_measure(updater, from);
    struct step_context context = {.from = from, .to = to, .rate = rate, .step = step};
    for_each_piece(updater, updater->dense_pieces, step_piece, &context);
    for (int i = 0; i < updater->list_count; i++)
        step_rows(updater, &updater->lists[i], &context);
    updater_give_rows(updater, NULL, 0);
}

void updater_step(struct updater *updater, float rate, int64_t step)
{
    struct updater_memory memory = updater_own_memory(updater);
    updater_step_between(updater, &memory, &memory, rate, step);
}

/* --- questions about the whole slab --------------------------------------------------------- */

static void square_piece(struct updater *updater, struct piece *piece, const void *context)
{
    (void)context;
    float decay = updater->segments[piece->segment].settings.weight_decay;
    piece->weight_squares =
        decay
            ? decay / 2 * sum_squares(params_weights(updater->params) + piece->first, piece->count)
            : 0;
}

double updater_decay_loss(struct updater *updater)
{
    double loss = 0;
    for_each_piece(updater, updater->dense_pieces, square_piece, NULL);
    for (int i = 0; i < updater->dense_pieces; i++)
        loss += updater->pieces[i].weight_squares;
    return loss;
}

bool updater_gradients_finite(struct updater *updater)
{
    for (int i = 0; i < updater->list_count; i++) {
        const struct sparse_rows *list = &updater->lists[i];
        if (!elementwise_is_finite(list->values, (size_t)(list->count * list->dim)))
            return false;
    }
    return elementwise_is_finite(params_gradients(updater->params),
                                 params_dense_elements(updater->params));
}

bool updater_weights_finite(struct updater *updater)
{
    return elementwise_is_finite(params_weights(updater->params), params_elements(updater->params));
}

bool updater_has_param(const struct updater *updater, const char *name)
{
    return params_find(updater->params, name) >= 0;
}
