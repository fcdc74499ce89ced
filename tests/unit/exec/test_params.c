#include "exec/params.h"

#include <lockstep/model.h>
#include <unistd.h>

#include "base/file_map.h"
#include "exec/plan.h"
#include "graph/graph.h"
#include "support/test.h"

enum { INPUTS = 64, UNITS = 64 };

static struct graph *make_layer(const float *weights)
{
    struct graph *graph = graph_create();
    struct error err = {0};
    value_id x = graph_input(graph, "x", DTYPE_F32, SHAPE(SHAPE_BATCH, INPUTS));
    value_id y = lockstep_dense(
        graph, x, UNITS,
        (struct dense_options){.name = "layer",
                               .weights_init = {.kind = INIT_VALUES, .values = weights}});
    lockstep_output(graph, "y", y);
    ASSERT_OK(graph_finish(graph, &err), err);
    return graph;
}

TEST(params, numbers_of_a_file_that_shrank_are_not_believed)
{
    static const float numbers[INPUTS * UNITS] = {1, 2, 3};
    struct error err = {0};
    char *bytes;
    size_t count;
    struct params *params;
    struct plan *plan;
    const char *path = test_file("numbers", numbers, sizeof numbers);
    ASSERT_OK(file_map(path, &bytes, &count, &err), err);
    struct graph *graph = make_layer((const float *)bytes);
    struct plan_options options = {.mode = PLAN_SERVE, .batch = 1, .threads = 1};
    ASSERT_OK(params_create(graph, 0, NULL, &params, &err), err);
    ASSERT_OK(plan_create(graph, params, &options, &plan, &err), err);
    ASSERT_OK(params_initialize(params, 1, &err), err);
    ASSERT_INT(truncate(path, 0), ==, 0);
    ASSERT_FAILS(params_initialize(params, 1, &err), err, ERROR_IO,
                 "the file of its numbers shrank while it was read");
    plan_destroy(plan);
    params_destroy(params);
    graph_destroy(graph);
    file_unmap(bytes, count);
}
