/* winograd ROUNDS BATCH:IN>OUT@SIZE[/STRIDE]... BATCH:MODEL...: 3x3 convolutions by Winograd's method and by
 * the kernels that they would have without it, pass by pass, in turns and in one process, so that a machine that
 * slows down slows both down. A layer prints the median and the best milliseconds of both, reorders of its weights
 * included; a network, those of all its operations. With --serve: forward only, as it is served. The weights are
 * drawn. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "exec/params.h"
#include "exec/params_layout.h"
#include "exec/plan.h"
#include "graph/graph.h"
#include "inputs.h"
#include "models/registry.h"

enum { MAX_ROUNDS = 1000, MAX_TENSORS = 64, PASSES = 3, KINDS = 2 };

static const char *const passes[PASSES] = {"forward", "backward weights", "backward"};

/* A layer alone, or a whole network. */
struct layer {
    const char *text;
    int batch, in, out, size, stride;
    const struct model *model; /* NULL: a layer */
};

/* One kind's network, and what its convolution took. */
struct subject {
    struct graph *graph;
    struct params *params;
    struct plan *plan;
    struct tensor inputs[MAX_TENSORS];
    const char *kernel;
    double ms[PASSES][MAX_ROUNDS];
};

static void build(struct graph *graph, const struct layer *layer)
{
    if (layer->model) {
        layer->model->build(graph, &layer->model->defaults);
        return;
    }
    value_id x = lockstep_input(graph, "x", DTYPE_F32,
                                SHAPE(SHAPE_BATCH, layer->in, layer->size, layer->size));
    x = batch_norm(graph, x); /* so that the gradient of x is wanted */
    /* With a stride no bias, which the kernel to compare with, own:points, does not take. */
    x = conv2d(graph, x, layer->out, .kernel = 3, .stride = layer->stride,
               .padding = PADDING_EXPLICIT, .pad_before = 1, .pad_after = 1, .name = "layer",
               .no_bias = layer->stride > 1);
    x = dense(graph, flatten(graph, global_avg_pool(graph, x)), 4);
    lockstep_classifier(graph, x, 0);
}

static int open_subject(struct subject *subject, const struct layer *layer,
                        struct plan_options options, struct error *err)
{
    bool serves = options.mode == PLAN_SERVE;
    options.batch = layer->batch;
    subject->graph = graph_create();
    if (!subject->graph)
        return error_set(err, ERROR_MEMORY, "no memory for the network");
    build(subject->graph, layer);
    if (graph_finish(subject->graph, err) < 0 ||
        params_create(subject->graph, 0, NULL, &subject->params, err) < 0)
        return -1;
    if (serves && (params_fix(subject->params, false, err) < 0 ||
                   params_initialize(subject->params, 1, err) < 0))
        return -1;
    if (plan_create(subject->graph, subject->params, &options, &subject->plan, err) < 0 ||
        (!serves && params_initialize(subject->params, 1, err) < 0))
        return -1;
    return fill_inputs(subject->graph, subject->plan, subject->inputs, err);
}

static void close_subject(struct subject *subject)
{
    for (int i = 0; i < plan_input_count(subject->plan); i++)
        memory_free(subject->inputs[i].data);
    plan_destroy(subject->plan);
    params_destroy(subject->params);
    graph_destroy(subject->graph);
}

static void run_once(struct subject *subject, bool whole, bool serves, int round)
{
    struct tensor outputs[MAX_TENSORS];
    plan_forward(subject->plan, subject->inputs, serves ? outputs : NULL);
    if (!serves)
        plan_backward(subject->plan, 1.0F / (float)plan_batch(subject->plan), NULL, NULL);
    for (int p = 0; p < PASSES && round >= 0; p++) {
        double seconds = 0;
        for (int s = 0; s < plan_step_count(subject->plan); s++) {
            struct plan_step_info step = plan_step(subject->plan, s);
            if ((!whole && strcmp(step.node, "layer")) || strcmp(step.pass, passes[p]))
                continue;
            seconds += step.end - step.start;
            if (!step.reorder && !strcmp(step.op, "conv2d"))
                subject->kernel = step.kernel;
        }
        subject->ms[p][round] = 1e3 * seconds;
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print(const struct layer *layer, struct subject subjects[KINDS], int rounds, int count)
{
    printf("%s, %s against %s\n", layer->text, layer->model ? "all" : subjects[0].kernel,
           layer->model ? "the same without Winograd" : subjects[1].kernel);
    for (int p = 0; p < count; p++) {
        double median[KINDS], best[KINDS];
        for (int k = 0; k < KINDS; k++) {
            qsort(subjects[k].ms[p], (size_t)rounds, sizeof(double), compare);
            median[k] = subjects[k].ms[p][rounds / 2];
            best[k] = subjects[k].ms[p][0];
        }
        printf("  %-17s median %8.2f against %8.2f (%.2f), best %8.2f against %8.2f (%.2f)\n",
               passes[p], median[0], median[1], median[0] / median[1], best[0], best[1],
               best[0] / best[1]);
    }
    fflush(stdout);
}

static int measure(const struct layer *layer, bool serves, int rounds, struct error *err)
{
    static struct subject subjects[KINDS];
    struct plan_options options = {.mode = serves ? PLAN_SERVE : PLAN_TRAIN, .profile = true};
    for (int k = 0; k < KINDS; k++) {
        options.direct = k == 1;
        if (open_subject(&subjects[k], layer, options, err) < 0)
            return -1; /* the process ends, and with it what was taken */
    }
    for (int i = -1; i < rounds; i++)
        for (int turn = 0; turn < KINDS; turn++)
            run_once(&subjects[turn ^ (i & 1)], layer->model, serves, i);
    print(layer, subjects, rounds, serves ? 1 : PASSES);
    for (int k = 0; k < KINDS; k++)
        close_subject(&subjects[k]);
    return 0;
}

static int read_layer(const char *text, struct layer *out)
{
    char name[64];
    *out = (struct layer){.text = text, .stride = 1};
    int end = 0;
    if (sscanf(text, "%d:%d>%d@%d%n", &out->batch, &out->in, &out->out, &out->size, &end) == 4 &&
        (!text[end] || (text[end] == '/' && sscanf(text + end + 1, "%d", &out->stride) == 1)))
        return 0;
    if (sscanf(text, "%d:%63s", &out->batch, name) == 2)
        out->model = model_find(name);
    return out->model ? 0 : -1;
}

int main(int argc, char **argv)
{
    struct error err = {0};
    int first = 1;
    bool serves = argc > first && !strcmp(argv[first], "--serve");
    first += serves;
    int rounds = argc > first + 1 ? (int)strtol(argv[first++], NULL, 10) : 0;
    if (rounds < 1 || rounds > MAX_ROUNDS) {
        fprintf(stderr,
                "usage: winograd [--serve] ROUNDS BATCH:IN>OUT@SIZE[/STRIDE]... BATCH:MODEL...\n");
        return 2;
    }
    for (int i = first; i < argc; i++) {
        struct layer layer;
        if (read_layer(argv[i], &layer) < 0) {
            fprintf(stderr, "winograd: %s is not BATCH:IN>OUT@SIZE[/STRIDE], nor BATCH:MODEL\n",
                    argv[i]);
            return 2;
        }
        if (measure(&layer, serves, rounds, &err) < 0) {
            fprintf(stderr, "winograd: %s\n", err.message);
            return 1;
        }
    }
    return 0;
}
