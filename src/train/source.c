#include "train/source.h"

#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "exec/known_ops.h"
#include "exec/params.h"
#include "graph/graph.h"
#include "train/feed.h"

static void describe_inputs(const struct graph *graph, struct dataset_request *request)
{
    int count = graph_input_count(graph);
    request->field_count = count < DATASET_MAX_FIELDS ? count : DATASET_MAX_FIELDS;
    for (int i = 0; i < request->field_count; i++)
        request->fields[i] = feed_field(graph_value(graph, graph_input_value(graph, i)));
}

/* Reading waits for its turn while the network computes, so it may have all cores. */
static int threads_wanted(const struct dataset_kind *kind)
{
    return kind->cheap ? 0 : threads_available();
}

static int open_loader(struct source *source, const struct source_options *options,
                       struct error *err)
{
    struct loader_options loader = {
        .batch = options->batch,
        .shard = options->shards ? options->shard : 0,
        .shards = options->shards ? options->shards : 1,
        .shard_count = options->shard_count,
        .held = options->held,
        .whole_batches = options->split == SPLIT_EVALUATE,
        .threads = options->threads >= 0 ? options->threads : threads_wanted(source->kind),
        .prefetch_bytes = options->prefetch_bytes,
        .skip_bad = options->skip_bad,
        .seed = options->seed,
        .shuffle = options->split == SPLIT_TRAIN,
        .single_pass = options->split == SPLIT_EVALUATE,
    };
    source->trainer.field_count = source->kind->fields(source->dataset, &source->trainer.fields);
    return loader_create(source->dataset, source->kind, &loader, &source->trainer.loader, err);
}

int source_open(struct source *source, const struct graph *graph, const char *spec,
                const struct source_options *options, struct error *err)
{
    struct dataset_request request = {.split = options->split,
                                      .examples = options->examples,
                                      .seed = options->seed,
                                      .classes = options->classes,
                                      .pixels = options->pixels,
                                      .cache = options->cache,
                                      .stop = options->stop};
    struct source opened = {0};
    if (dataset_find(spec, &opened.kind, &request.path, err) < 0)
        return -1;
    describe_inputs(graph, &request);
    if (options->cache && !opened.kind->caches)
        return error_set(err, ERROR_USAGE,
                         "--data-cache would change nothing: %s is not parsed from text",
                         opened.kind->name);
    if (opened.kind->open(&request, &opened.dataset, err) < 0)
        return error_wrap(err, "data %s", spec);
    if (open_loader(&opened, options, err) < 0) {
        source_close(&opened);
        return error_wrap(err, "data %s", spec);
    }
    *source = opened;
    return 0;
}

/* --- statistics ----------------------------------------------------------------------------- */

static int write_columns(struct params *params, const char *name, float *values, int64_t count,
                         struct error *err)
{
    struct tensor tensor = {DTYPE_F32, SHAPE(count), values};
    return params_write(params, params_find(params, name), &tensor, err);
}

/* A column without a single value has no least one: it is taken as 0 and of no range. */
static int fill_columns(struct params *params, const struct graph *graph, const struct node *node,
                        const struct column_statistics *statistics, enum source_scaling scaling,
                        struct error *err)
{
    bool by_range = scaling == SOURCE_SCALE_BY_RANGE;
    const struct value *minimum = graph_value(graph, node->inputs[NORMALIZE_MINIMUM]);
    const struct value *range = graph_value(graph, node->inputs[NORMALIZE_RANGE]);
    int64_t count = shape_count(&minimum->shape);
    float *values = memory_allocate((size_t)count * 2 * sizeof *values);
    if (!values)
        return error_set(err, ERROR_MEMORY, "no memory for the statistics");
    for (int64_t i = 0; i < count; i++) {
        float low = statistics->minimum[i], high = statistics->maximum[i];
        bool known = isfinite(low) && isfinite(high);
        values[i] = !known ? 0 : by_range ? low : statistics->mean[i];
        values[count + i] = !known ? 0 : by_range ? high - low : statistics->deviation[i];
    }
    int status = write_columns(params, minimum->name, values, count, err);
    if (status == 0)
        status = write_columns(params, range->name, values + count, count, err);
    memory_free(values);
    return status;
}

static int fill_node(const struct source *source, const struct graph *graph,
                     const struct node *node, enum source_scaling scaling, struct params *params,
                     struct error *err)
{
    const struct value *x = graph_value(graph, node->inputs[NORMALIZE_X]);
    int field = x->kind == VALUE_INPUT ? feed_find_field(&source->trainer, x->name) : -1;
    struct column_statistics statistics;
    if (field < 0)
        return 0;
    /* Data of another width is refused when training starts, with both shapes. */
    if (!shape_equal(&source->trainer.fields[field].shape, &x->shape))
        return 0;
    if (source->kind->statistics(source->dataset, field, &statistics, err) < 0)
        return error_wrap(err, "statistics of %s", x->name);
    return fill_columns(params, graph, node, &statistics, scaling, err);
}

bool source_scales(const struct source *source, const struct graph *graph)
{
    for (int i = 0; i < graph_node_count(graph); i++)
        if (graph_node_at(graph, i)->op == &op_normalize)
            return source->kind->statistics != NULL;
    return false;
}

int source_fill_statistics(const struct source *source, const struct graph *graph,
                           enum source_scaling scaling, struct params *params, struct error *err)
{
    if (!source->kind->statistics)
        return 0;
    for (int i = 0; i < graph_node_count(graph); i++) {
        const struct node *node = graph_node_at(graph, i);
        if (node->op == &op_normalize && fill_node(source, graph, node, scaling, params, err) < 0)
            return -1;
    }
    return 0;
}

/* --- what it is ----------------------------------------------------------------------------- */

static uint64_t key_of_bytes(uint64_t key, const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        key = (key ^ bytes[i]) * UINT64_C(0x100000001b3);
    return key;
}

static uint64_t key_of_example(const struct source *source, int64_t index, uint64_t key)
{
    struct tensor fields[DATASET_MAX_FIELDS] = {0};
    struct error ignored = {0};
    bool whole = true;
    for (int i = 0; i < source->trainer.field_count; i++) {
        const struct dataset_field *field = &source->trainer.fields[i];
        fields[i] = (struct tensor){field->dtype, shape_with_batch(field->shape, 1), NULL};
        fields[i].data = memory_allocate(tensor_bytes(&fields[i]) + 1);
        whole = whole && fields[i].data;
    }
    if (whole && source->kind->read(source->dataset, index, 0, fields, 0, &ignored) == 0)
        for (int i = 0; i < source->trainer.field_count; i++)
            key = key_of_bytes(key, fields[i].data, tensor_bytes(&fields[i]));
    for (int i = 0; i < source->trainer.field_count; i++)
        memory_free(fields[i].data);
    return key;
}

uint64_t source_fingerprint(const struct source *source)
{
    int64_t count = source->kind->count(source->dataset);
    uint64_t key = key_of_bytes(UINT64_C(0xcbf29ce484222325), (const void *)source->kind->name,
                                strlen(source->kind->name));
    key = key_of_bytes(key, (const void *)&count, sizeof count);
    key = key_of_example(source, 0, key);
    return count > 1 ? key_of_example(source, count - 1, key) : key;
}

void source_close(struct source *source)
{
    loader_destroy(source->trainer.loader);
    if (source->kind && source->dataset)
        source->kind->close(source->dataset);
    *source = (struct source){0};
}
