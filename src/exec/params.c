#include "exec/params.h"

#include <math.h>

#include "base/error.h"
#include "base/file_map.h"
#include "base/memory.h"
#include "exec/params_layout.h"
#include "tensor/random.h"

struct param {
    value_id value;
    size_t first, count;
    struct layout layout;
    bool proposed;
};

struct params {
    const struct graph *graph;
    struct params_memory memory;
    struct param *list;
    int *of_value; /* parameter index of each value, or -1 */
    int count, slots;
    bool fixed, initialized;
    size_t elements, dense_elements, statistic_elements;
    float *weights, *gradients, *statistics, *slot[PARAMS_MAX_SLOTS];
};

static void *own_take(void *context, const char *what, size_t bytes, struct error *err)
{
    (void)context;
    struct slab slab;
    return slab_create(bytes, what, &slab, err) < 0 ? NULL : slab.data;
}

static void own_give_back(void *context, void *memory, size_t bytes)
{
    (void)context;
    slab_release(&(struct slab){memory, bytes});
}

static const struct value *value_of(const struct params *params, int index)
{
    return graph_value(params->graph, params->list[index].value);
}

static bool is_statistic(const struct params *params, int index)
{
    return value_of(params, index)->flags & PARAM_STATISTIC;
}

static bool is_sparse(const struct params *params, int index)
{
    return value_of(params, index)->flags & PARAM_SPARSE;
}

static void add_param(struct params *params, value_id value)
{
    const struct value *v = graph_value(params->graph, value);
    if (v->kind != VALUE_PARAM || params->of_value[value] >= 0)
        return;
    params->of_value[value] = params->count;
    params->list[params->count++] =
        (struct param){.value = value, .layout = layout_plain(&v->shape)};
}

/* Backward runs through the nodes from the last to the first: so do we. */
static void list_params(struct params *params)
{
    for (int n = graph_node_count(params->graph) - 1; n >= 0; n--) {
        const struct node *node = graph_node_at(params->graph, n);
        for (int i = 0; i < node->input_count; i++)
            add_param(params, node->inputs[i]);
    }
    for (value_id v = 0; v < graph_value_count(params->graph); v++)
        add_param(params, v);
}

int params_create(const struct graph *graph, int slots, const struct params_memory *memory,
                  struct params **out, struct error *err)
{
    static const struct params_memory own = {own_take, own_give_back, NULL};
    if (slots > PARAMS_MAX_SLOTS)
        return error_set(err, ERROR_USAGE, "%d optimizer slots; at most %d", slots,
                         PARAMS_MAX_SLOTS);
    size_t values = (size_t)graph_value_count(graph);
    struct params *params = memory_allocate(sizeof *params);
    if (params) {
        params->graph = graph;
        params->slots = slots;
        params->memory = memory ? *memory : own;
        params->list = memory_allocate(sizeof *params->list * values);
        params->of_value = memory_allocate(sizeof *params->of_value * values);
    }
    if (!params || !params->list || !params->of_value) {
        params_destroy(params);
        return error_set(err, ERROR_MEMORY, "no memory for the list of parameters");
    }
    for (size_t i = 0; i < values; i++)
        params->of_value[i] = -1;
    list_params(params);
    *out = params;
    return 0;
}

/* A graph without parameters still gets an address, so that NULL means failure. */
static size_t slab_bytes(size_t elements)
{
    return (elements ? elements : PARAMS_ALIGN_FLOATS) * sizeof(float);
}

static void give_back(struct params *params, float *memory, size_t elements)
{
    if (memory && params->memory.give_back)
        params->memory.give_back(params->memory.context, memory, slab_bytes(elements));
}

void params_destroy(struct params *params)
{
    if (!params)
        return;
    give_back(params, params->weights, params->elements);
    give_back(params, params->gradients, params->dense_elements);
    give_back(params, params->statistics, params->statistic_elements);
    for (int i = 0; i < params->slots; i++)
        give_back(params, params->slot[i], params->elements);
    memory_free(params->list);
    memory_free(params->of_value);
    memory_free(params);
}

/* --- Layouts and places --- */

int params_index(const struct params *params, value_id value)
{
    return params->of_value[value];
}

const struct layout *params_layout(const struct params *params, int index)
{
    return &params->list[index].layout;
}

void params_propose_layout(struct params *params, int index, const struct layout *layout)
{
    struct param *param = &params->list[index];
    if (params->fixed || param->proposed)
        return;
    param->layout = *layout;
    param->proposed = true;
}

static void place_one(struct param *param, size_t *end)
{
    param->first = *end;
    param->count = layout_bytes(&param->layout) / sizeof(float);
    *end += (param->count + PARAMS_ALIGN_FLOATS - 1) / PARAMS_ALIGN_FLOATS * PARAMS_ALIGN_FLOATS;
}

static void place(struct params *params)
{
    for (int i = 0; i < params->count; i++)
        if (!is_sparse(params, i))
            place_one(&params->list[i],
                      is_statistic(params, i) ? &params->statistic_elements : &params->elements);
    params->dense_elements = params->elements;
    for (int i = 0; i < params->count; i++)
        if (is_sparse(params, i))
            place_one(&params->list[i], &params->elements);
}

static float *take(struct params *params, const char *what, size_t elements, struct error *err)
{
    return params->memory.take(params->memory.context, what, slab_bytes(elements), err);
}

static int take_training_memory(struct params *params, struct error *err)
{
    if (!params->gradients) {
        params->gradients = take(params, "gradients", params->dense_elements, err);
        if (!params->gradients)
            return -1;
        if (params->memory.take == own_take) /* another's may hold those of a step that was begun */
            slab_touch(&(struct slab){params->gradients, params->dense_elements * sizeof(float)});
    }
    for (int i = 0; i < params->slots; i++) {
        if (!params->slot[i])
            params->slot[i] = take(params, "optimizer state", params->elements, err);
        if (!params->slot[i])
            return -1;
    }
    return 0;
}

int params_fix(struct params *params, bool training, struct error *err)
{
    if (!params->fixed) {
        place(params);
        params->fixed = true;
    }
    if (!params->weights)
        params->weights = take(params, "weights", params->elements, err);
    if (!params->statistics)
        params->statistics = take(params, "statistics", params->statistic_elements, err);
    if (!params->weights || !params->statistics)
        return -1;
    return training ? take_training_memory(params, err) : 0;
}

/* --- Starting values --- */

static void fan(const struct shape *shape, double *in, double *out)
{
    double field = 1;
    for (int i = 2; i < shape->ndim; i++)
        field *= (double)shape->dim[i];
    *in = shape->ndim > 1 ? (double)shape->dim[1] * field : (double)shape->dim[0];
    *out = (double)shape->dim[0] * field;
}

static void fill_constant(float *out, size_t count, float value)
{
#pragma omp parallel for schedule(static) if (count > 1 << 16)
    for (size_t i = 0; i < count; i++)
        out[i] = value;
}

static void fill_initial(const struct value *value, uint64_t seed, float *out)
{
    uint64_t key = random_key_text(seed, value->name);
    size_t count = (size_t)shape_count(&value->shape);
    double in, outward;
    fan(&value->shape, &in, &outward);
    switch (value->init.kind) {
    case INIT_DEFAULT:
    case INIT_ZEROS:
        fill_constant(out, count, 0);
        break;
    case INIT_ONES:
        fill_constant(out, count, 1);
        break;
    case INIT_CONSTANT:
        fill_constant(out, count, value->init.value);
        break;
    case INIT_NORMAL:
        random_fill_normal(key, value->init.value, out, count);
        break;
    case INIT_TRUNCATED_NORMAL:
        random_fill_truncated_normal(key, value->init.value, out, count);
        break;
    case INIT_VARIANCE_SCALING:
        /* 0.8796...: the standard deviation that is left when a unit normal is cut at two; with
         * it the drawn numbers have the variance asked for, as in TensorFlow. */
        random_fill_truncated_normal(
            key, (float)(sqrt((double)value->init.value / in) / 0.87962566103423978), out, count);
        break;
    case INIT_HE_NORMAL:
        random_fill_normal(key, (float)sqrt(2 / in), out, count);
        break;
    case INIT_GLOROT_UNIFORM: {
        float limit = (float)sqrt(6 / (in + outward));
        random_fill_uniform(key, -limit, limit, out, count);
        break;
    }
    case INIT_VALUES:
        memcpy(out, value->init.values, count * sizeof(float));
        break;
    }
}

static float *place_of(const struct params *params, int index)
{
    float *base = is_statistic(params, index) ? params->statistics : params->weights;
    return base + params->list[index].first;
}

static struct layout plain_form(const struct param *param)
{
    struct shape shape = layout_shape(&param->layout);
    return layout_plain(&shape);
}

/* Drawn plain, then moved to the kernel's layout, so that the layout does not matter. `drawn` has
 * room for the largest parameter. */
static int initialize_one(struct params *params, int index, uint64_t seed, void *drawn,
                          struct error *err)
{
    const struct param *param = &params->list[index];
    const struct value *value = value_of(params, index);
    bool is_plain = layout_is_plain(&param->layout);
    fill_initial(value, seed, is_plain ? place_of(params, index) : drawn);
    if (value->init.kind == INIT_VALUES && file_map_is_torn(value->init.values))
        return error_set(err, ERROR_IO, "the file of its numbers shrank while it was read");
    if (is_plain)
        return 0;
    struct layout plain = plain_form(param);
    return dnn_reorder_now(&plain, drawn, &param->layout, place_of(params, index), err);
}

static size_t largest_plain_bytes(const struct params *params)
{
    size_t largest = 0;
    for (int i = 0; i < params->count; i++) {
        struct layout plain = plain_form(&params->list[i]);
        if (!layout_is_plain(&params->list[i].layout) && layout_bytes(&plain) > largest)
            largest = layout_bytes(&plain);
    }
    return largest;
}

int params_initialize(struct params *params, uint64_t seed, struct error *err)
{
    struct slab drawn = {0};
    int status = slab_create(largest_plain_bytes(params), "initial weights", &drawn, err);
    for (int i = 0; status == 0 && i < params->count; i++)
        if (initialize_one(params, i, seed, drawn.data, err) < 0)
            status = error_wrap(err, "initialise %s", params_name(params, i));
    slab_release(&drawn);
    /* Memory that was never used is zero already. */
    for (int i = 0; status == 0 && params->initialized && i < params->slots; i++)
        if (params->slot[i])
            memset(params->slot[i], 0, params->elements * sizeof(float));
    params->initialized = true;
    return status;
}

/* --- Plain copies --- */

int params_count(const struct params *params)
{
    return params->count;
}

const char *params_name(const struct params *params, int index)
{
    return value_of(params, index)->name;
}

int params_find(const struct params *params, const char *name)
{
    for (int i = 0; i < params->count; i++)
        if (strcmp(params_name(params, i), name) == 0)
            return i;
    return -1;
}

struct param_range params_range(const struct params *params, int index)
{
    const struct value *value = value_of(params, index);
    const struct param *param = &params->list[index];
    return (struct param_range){.name = value->name,
                                .shape = value->shape,
                                .flags = value->flags,
                                .first = param->first,
                                .count = param->count};
}

static int check_tensor(const struct params *params, int index, const struct tensor *tensor,
                        struct error *err)
{
    const struct value *value = value_of(params, index);
    if (tensor->dtype == DTYPE_F32 && shape_equal(&tensor->shape, &value->shape))
        return 0;
    char have[96], want[96];
    return error_set(err, ERROR_FORMAT, "%s is %s %s, not %s %s", value->name,
                     dtype_name(DTYPE_F32), shape_text(&value->shape, want, sizeof want),
                     dtype_name(tensor->dtype), shape_text(&tensor->shape, have, sizeof have));
}

static int copy_out(const struct params *params, int index, const float *stored, struct tensor *out,
                    struct error *err)
{
    if (check_tensor(params, index, out, err) < 0)
        return -1;
    struct layout plain = plain_form(&params->list[index]);
    return dnn_reorder_now(&params->list[index].layout, stored, &plain, out->data, err);
}

static int copy_in(struct params *params, int index, float *stored, const struct tensor *in,
                   struct error *err)
{
    if (check_tensor(params, index, in, err) < 0)
        return -1;
    struct layout plain = plain_form(&params->list[index]);
    return dnn_reorder_now(&plain, in->data, &params->list[index].layout, stored, err);
}

int params_read(const struct params *params, int index, struct tensor *out, struct error *err)
{
    return copy_out(params, index, place_of(params, index), out, err);
}

const float *params_plain(const struct params *params, int index)
{
    return layout_is_plain(&params->list[index].layout) ? place_of(params, index) : NULL;
}

static float *gradient_place(const struct params *params, int index, struct error *err)
{
    if (is_statistic(params, index) || !params->gradients)
        error_set(err, ERROR_USAGE, "%s has no gradient", params_name(params, index));
    else if (is_sparse(params, index))
        error_set(err, ERROR_USAGE, "%s is a table: its gradient is a list of rows",
                  params_name(params, index));
    else
        return params->gradients + params->list[index].first;
    return NULL;
}

int params_read_gradient(const struct params *params, int index, struct tensor *out,
                         struct error *err)
{
    const float *stored = gradient_place(params, index, err);
    return stored ? copy_out(params, index, stored, out, err) : -1;
}

int params_write_gradient(struct params *params, int index, const struct tensor *in,
                          struct error *err)
{
    float *stored = gradient_place(params, index, err);
    return stored ? copy_in(params, index, stored, in, err) : -1;
}

static float *slot_place(const struct params *params, int index, int slot, struct error *err)
{
    if (is_statistic(params, index) || slot >= params->slots || !params->slot[slot]) {
        error_set(err, ERROR_USAGE, "%s has no optimizer slot %d", params_name(params, index),
                  slot);
        return NULL;
    }
    return params->slot[slot] + params->list[index].first;
}

int params_read_slot(const struct params *params, int index, int slot, struct tensor *out,
                     struct error *err)
{
    const float *stored = slot_place(params, index, slot, err);
    return stored ? copy_out(params, index, stored, out, err) : -1;
}

int params_write(struct params *params, int index, const struct tensor *in, struct error *err)
{
    return copy_in(params, index, place_of(params, index), in, err);
}

/* What a reorder leaves as 0 of a tensor of ones is padding. */
static int pad(struct params *params, int index, float *stored, float padding, struct error *err)
{
    size_t stored_count = params->list[index].count;
    int64_t count = shape_count(&value_of(params, index)->shape);
    float *ones = memory_allocate(((size_t)count + stored_count) * sizeof *ones);
    if (!ones)
        return error_set(err, ERROR_MEMORY, "no memory to pad %s", params_name(params, index));
    float *mask = ones + count;
    struct tensor plain = {
        .dtype = DTYPE_F32, .shape = value_of(params, index)->shape, .data = ones};
    for (int64_t i = 0; i < count; i++)
        ones[i] = 1;
    int status = copy_in(params, index, mask, &plain, err);
    for (size_t i = 0; status == 0 && i < stored_count; i++)
        if (mask[i] == 0)
            stored[i] = padding;
    memory_free(ones);
    return status;
}

int params_write_slot(struct params *params, int index, int slot, const struct tensor *in,
                      float padding, struct error *err)
{
    float *stored = slot_place(params, index, slot, err);
    if (!stored || copy_in(params, index, stored, in, err) < 0)
        return -1;
    bool padded = params->list[index].count > (size_t)shape_count(&in->shape);
    return padded && padding != 0 ? pad(params, index, stored, padding, err) : 0;
}

/* --- The slabs --- */

uint64_t params_fingerprint(const struct params *params)
{
    uint64_t hash = random_key(0, (uint64_t)params->slots);
    char text[64];
    for (int i = 0; i < params->count; i++) {
        struct param_range range = params_range(params, i);
        hash = random_key_text(hash, range.name);
        hash = random_key(hash, range.first);
        hash = random_key(hash, range.flags);
        for (int d = 0; d < range.shape.ndim; d++)
            hash = random_key(hash, (uint64_t)range.shape.dim[d]);
        hash = random_key_text(hash, layout_text(&params->list[i].layout, text, sizeof text));
    }
    return hash;
}

/* Memory that somebody else gave is not ours to empty. */
void params_drop_dense(struct params *params)
{
    if (params->weights && params->memory.take == own_take)
        slab_discard(params->weights, params->dense_elements * sizeof(float));
}

int params_slots(const struct params *params)
{
    return params->slots;
}

size_t params_elements(const struct params *params)
{
    return params->elements;
}

size_t params_dense_elements(const struct params *params)
{
    return params->dense_elements;
}

size_t params_statistic_elements(const struct params *params)
{
    return params->statistic_elements;
}

float *params_weights(struct params *params)
{
    return params->weights;
}

float *params_gradients(struct params *params)
{
    return params->gradients;
}

float *params_slot(struct params *params, int slot)
{
    return params->slot[slot];
}

float *params_statistics(struct params *params)
{
    return params->statistics;
}
