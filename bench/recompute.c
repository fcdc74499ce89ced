/* recompute MODEL BATCH PAIRS: forward and backward of one network with and without recomputing, in turns
 * and in one process, so that a machine that slows down slows both down. Prints the seconds of every
 * turn as JSON, {"kept": [...], "recomputed": [...]}. The weights are drawn. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "exec/params.h"
#include "exec/plan.h"
#include "graph/graph.h"
#include "models/registry.h"
#include "inputs.h"

enum { MAX_PAIRS = 200, MAX_TENSORS = 64 };

static double seconds[2][MAX_PAIRS];

static double run_once(struct plan *plan, const struct tensor *inputs)
{
    double start = clock_seconds();
    plan_forward(plan, inputs, NULL);
    plan_backward(plan, 1.0f / (float)plan_batch(plan), NULL, NULL);
    return clock_seconds() - start;
}

static int measure(const struct model *model, int batch, int pairs, struct error *err)
{
    struct graph *graph = graph_create();
    struct params *params = NULL;
    struct plan *plans[2];
    struct tensor inputs[MAX_TENSORS];
    struct plan_options options = {.mode = PLAN_TRAIN, .batch = batch};
    if (!graph)
        return error_set(err, ERROR_MEMORY, "no memory for the network");
    model->build(graph, &model->defaults);
    if (graph_finish(graph, err) < 0 || params_create(graph, 0, NULL, &params, err) < 0 ||
        plan_create(graph, params, &options, &plans[0], err) < 0)
        return -1; /* the process ends, and with it what was taken */
    options.recompute = true;
    if (plan_create(graph, params, &options, &plans[1], err) < 0 ||
        params_initialize(params, 1, err) < 0 || fill_inputs(graph, plans[0], inputs, err) < 0)
        return -1;
    for (int i = -1; i < pairs; i++)
        for (int turn = 0; turn < 2; turn++) {
            int which = turn ^ (i & 1); /* who goes first changes */
            double taken = run_once(plans[which], inputs);
            if (i >= 0)
                seconds[which][i] = taken;
        }
    return 0;
}

static void print(const char *name, const double *values, int count, const char *end)
{
    printf("\"%s\": [", name);
    for (int i = 0; i < count; i++)
        printf("%s%.6f", i ? ", " : "", values[i]);
    printf("]%s", end);
}

int main(int argc, char **argv)
{
    struct error err = {0};
    const struct model *model;
    int batch = argc == 4 ? (int)strtol(argv[2], NULL, 10) : 0;
    int pairs = argc == 4 ? (int)strtol(argv[3], NULL, 10) : 0;
    if (batch < 1 || pairs < 1 || pairs > MAX_PAIRS) {
        fprintf(stderr, "usage: recompute MODEL BATCH PAIRS\n");
        return 2;
    }
    if (model_open(argv[1], &model, &err) < 0 || measure(model, batch, pairs, &err) < 0) {
        fprintf(stderr, "recompute: %s\n", err.message);
        return 1;
    }
    printf("{");
    print("kept", seconds[0], pairs, ", ");
    print("recomputed", seconds[1], pairs, "}\n");
    return 0;
}
