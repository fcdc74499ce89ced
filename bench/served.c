/* served MODEL BATCH RUNS [--direct] [--explain]: how long a plan for serving takes for one batch, without
 * a server around it; --direct without Winograd's method, --explain with the time of each operation. The
 * weights are drawn. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "exec/params.h"
#include "exec/params_layout.h"
#include "exec/plan.h"
#include "graph/graph.h"
#include "models/registry.h"
#include "inputs.h"

enum { WARMUP = 2, MAX_RUNS = 1000, MAX_TENSORS = 64 };

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(struct plan *plan, const struct tensor *inputs, int runs)
{
    struct tensor outputs[MAX_TENSORS];
    double seconds[MAX_RUNS];
    for (int i = -WARMUP; i < runs; i++) {
        double start = clock_seconds();
        plan_forward(plan, inputs, outputs);
        if (i >= 0)
            seconds[i] = clock_seconds() - start;
    }
    qsort(seconds, (size_t)runs, sizeof *seconds, compare);
    printf("batch %d: median %.2f ms, from %.2f to %.2f\n", plan_batch(plan),
           1e3 * seconds[runs / 2], 1e3 * seconds[0], 1e3 * seconds[runs - 1]);
}

static int run(const struct model *model, struct plan_options options, int runs, struct error *err)
{
    struct graph *graph = graph_create();
    struct params *params = NULL;
    struct plan *plan = NULL;
    struct tensor inputs[MAX_TENSORS];
    if (!graph)
        return error_set(err, ERROR_MEMORY, "no memory for the network");
    model->build(graph, &model->defaults);
    if (graph_finish(graph, err) < 0 || params_create(graph, 0, NULL, &params, err) < 0 ||
        params_fix(params, false, err) < 0 || params_initialize(params, 1, err) < 0 ||
        plan_create(graph, params, &options, &plan, err) < 0 ||
        fill_inputs(graph, plan, inputs, err) < 0)
        return -1; /* the process ends, and with it what was taken */
    measure(plan, inputs, runs);
    if (options.profile) {
        struct strbuf text;
        strbuf_init(&text);
        plan_explain(plan, &text);
        fputs(text.text, stdout);
        strbuf_release(&text);
    }
    for (int i = 0; i < plan_input_count(plan); i++)
        memory_free(inputs[i].data);
    plan_destroy(plan);
    params_destroy(params);
    graph_destroy(graph);
    return 0;
}

int main(int argc, char **argv)
{
    struct error err = {0};
    struct plan_options options = {.mode = PLAN_SERVE};
    const struct model *model = argc > 3 ? model_find(argv[1]) : NULL;
    int runs = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 0;
    options.batch = argc > 3 ? (int)strtol(argv[2], NULL, 10) : 0;
    for (int i = 4; i < argc; i++) {
        options.direct |= !strcmp(argv[i], "--direct");
        options.profile |= !strcmp(argv[i], "--explain");
    }
    if (!model || runs < 1 || runs > MAX_RUNS || options.batch < 1) {
        fprintf(stderr, "usage: served MODEL BATCH RUNS [--direct] [--explain]\n");
        return 2;
    }
    if (run(model, options, runs, &err) < 0) {
        fprintf(stderr, "served: %s\n", err.message);
        return 1;
    }
    return 0;
}
