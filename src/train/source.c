#include "train/source.h"

#include "base/error.h"
#include "base/threads.h"
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
        .shards = 1,
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
                                      .cache = options->cache};
    struct source opened = {0};
    if (dataset_find(spec, &opened.kind, &request.path, err) < 0)
        return -1;
    describe_inputs(graph, &request);
    if (opened.kind->open(&request, &opened.dataset, err) < 0)
        return error_wrap(err, "data %s", spec);
    if (open_loader(&opened, options, err) < 0) {
        source_close(&opened);
        return error_wrap(err, "data %s", spec);
    }
    *source = opened;
    return 0;
}

void source_close(struct source *source)
{
    loader_destroy(source->trainer.loader);
    if (source->kind && source->dataset)
        source->kind->close(source->dataset);
    *source = (struct source){0};
}
