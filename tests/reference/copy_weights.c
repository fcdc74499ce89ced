/* Loads weights into a model and saves them again, for a script that looks at both files.
 *
 *   copy_weights MODEL OUT.safetensors [IN.safetensors]     without IN: freshly initialised */
#include <stdio.h>

#include "base/error.h"
#include "exec/params.h"
#include "exec/plan.h"
#include "models/registry.h"
#include "store/weights.h"

static int copy(const char *name, const char *to, const char *from, struct error *err)
{
    const struct model *model;
    struct params *params = NULL;
    struct plan *plan = NULL;
    struct plan_options options = {.mode = PLAN_TRAIN, .batch = 1};
    if (model_open(name, &model, err) < 0)
        return -1;
    int status = -1;
    struct graph *graph = graph_create();
    model->build(graph, &model->defaults);
    if (graph_finish(graph, err) < 0 || params_create(graph, 0, NULL, &params, err) < 0 ||
        plan_create(graph, params, &options, &plan, err) < 0)
        goto out;
    if (params_initialize(params, 1, err) < 0 || (from && weights_load(from, params, err) < 0))
        goto out;
    status = weights_save(to, name, params, err);
out:
    plan_destroy(plan);
    params_destroy(params);
    graph_destroy(graph);
    return status;
}

int main(int argc, char **argv)
{
    struct error err = {0};
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: copy_weights MODEL OUT [IN]\n");
        return 2;
    }
    if (copy(argv[1], argv[2], argc == 4 ? argv[3] : NULL, &err) < 0) {
        fprintf(stderr, "copy_weights: %s\n", err.message);
        return 1;
    }
    return 0;
}
