/* The public library: calls out of order fail and say so; a mistaken model is refused. */
#include <lockstep/lockstep.h>
#include <math.h>

#include "base/error.h"
#include "graph/graph.h"
#include "support/test.h"

static void build(struct graph *graph, const struct model_args *args)
{
    value_id x = image_input(graph, 1, args->image_size);
    x = max_pool(graph, relu(graph, conv2d(graph, x, 8, .kernel = 3)), .kernel = 2);
    classifier_output(graph, dense(graph, flatten(graph, x), args->classes));
}

static const struct model small = {
    .name = "small", .defaults = {.classes = 10, .image_size = 28}, .build = build};

struct pair {
    struct lockstep_network *network;
    struct lockstep_data *data;
};

static struct pair open_pair(void)
{
    struct lockstep_error error = {""};
    struct lockstep_options options = {
        .batch = 8, .threads = 1, .seed = 3, .optimizer = "momentum"};
    struct pair pair = {.network = lockstep_network_create(&small, &options, &error)};
    if (!pair.network)
        FAIL("%s", error.message);
    pair.data = lockstep_data_open(pair.network, "digits", LOCKSTEP_TRAIN, &error);
    if (!pair.data)
        FAIL("%s", error.message);
    return pair;
}

static void close_pair(struct pair *pair)
{
    lockstep_data_close(pair->data);
    lockstep_network_destroy(pair->network);
}

TEST(network, learns_by_a_loop_of_the_callers)
{
    struct pair pair = open_pair();
    struct lockstep_result result = {0};
    double first = 0;
    for (int step = 0; step < 60; step++) {
        ASSERT_INT(lockstep_data_next(pair.data, NULL), ==, 8);
        ASSERT_INT(lockstep_forward(pair.network, pair.data, &result, NULL), ==, 0);
        ASSERT_INT(lockstep_backward(pair.network, NULL), ==, 0);
        ASSERT_INT(lockstep_update(pair.network, 0.05f, NULL), ==, 0);
        first = step ? first : result.loss;
    }
    ASSERT_NUMBER(result.loss, <, first);
    close_pair(&pair);
}

TEST(network, refuses_calls_out_of_order)
{
    struct pair pair = open_pair();
    struct lockstep_error error = {""};
    ASSERT_INT(lockstep_forward(pair.network, pair.data, NULL, &error), ==, -1);
    ASSERT_CONTAINS(error.message, "lockstep_data_next first");
    ASSERT_INT(lockstep_backward(pair.network, &error), ==, -1);
    ASSERT_CONTAINS(error.message, "lockstep_forward first");
    ASSERT_INT(lockstep_data_next(pair.data, &error), ==, 8);
    ASSERT_INT(lockstep_forward(pair.network, pair.data, NULL, &error), ==, 0);
    ASSERT_INT(lockstep_update(pair.network, 0.1f, &error), ==, -1);
    ASSERT_CONTAINS(error.message, "lockstep_backward first");
    ASSERT_INT(lockstep_data_next(pair.data, &error), ==, 8);
    ASSERT_INT(lockstep_backward(pair.network, &error), ==, -1); /* its batch is gone */
    ASSERT_INT(lockstep_forward(pair.network, pair.data, NULL, &error), ==, 0);
    ASSERT_INT(lockstep_backward(pair.network, &error), ==, 0);
    ASSERT_INT(lockstep_backward(pair.network, &error), ==, -1); /* its activations are gone */
    ASSERT_INT(lockstep_update(pair.network, 0.1f, &error), ==, 0);
    ASSERT_INT(lockstep_update(pair.network, 0.1f, &error), ==, -1);
    close_pair(&pair);
}

TEST(network, refuses_parameters_that_are_not_there)
{
    struct pair pair = open_pair();
    struct lockstep_error error = {""};
    float number;
    ASSERT_TRUE(lockstep_parameter_name(pair.network, -1) == NULL);
    ASSERT_INT(lockstep_parameter_read(pair.network, 4711, &number, &error), ==, -1);
    ASSERT_CONTAINS(error.message, "there is no parameter 4711");
    close_pair(&pair);
}

/* --- models with mistakes --- */

static void refuses(void (*mistake)(struct graph *graph), const char *part)
{
    struct error err = {0};
    struct graph *graph = graph_create();
    mistake(graph);
    ASSERT_FAILS(graph_finish(graph, &err), err, ERROR_FORMAT, part);
    graph_destroy(graph);
}

static void computes_with_integers(struct graph *graph)
{
    value_id x = lockstep_input(graph, "x", DTYPE_I64, (struct shape){2, {SHAPE_BATCH, 4}});
    lockstep_output(graph, "y", dense(graph, x, 3));
}

static void uses_no_value(struct graph *graph)
{
    lockstep_output(graph, "y", conv2d(graph, 77, 3, .kernel = 3));
}

static void has_no_batch(struct graph *graph)
{
    lockstep_input(graph, "x", DTYPE_F32, (struct shape){2, {8, 16}});
}

static void loses_in_two_dimensions(struct graph *graph)
{
    value_id x = lockstep_input(graph, "x", DTYPE_F32, (struct shape){2, {SHAPE_BATCH, 4}});
    lockstep_loss(graph, dense(graph, x, 3));
}

static void loses_nothing(struct graph *graph)
{
    lockstep_loss(graph, 99999);
}

static void takes_the_name_of_the_loss(struct graph *graph)
{
    value_id x = lockstep_input(graph, "x", DTYPE_F32, (struct shape){2, {SHAPE_BATCH, 4}});
    lockstep_output(graph, "loss", x);
}

TEST(model, is_refused_with_the_reason_when_it_cannot_be_computed)
{
    refuses(computes_with_integers, "only float32 can be computed with");
    refuses(uses_no_value, "77 is no value of this graph");
    refuses(has_no_batch, "must be SHAPE_BATCH");
    refuses(loses_in_two_dimensions, "one number per example");
    refuses(loses_nothing, "99999 is no value");
    refuses(takes_the_name_of_the_loss, "no output may be named \"loss\"");
}

TEST(model, gets_free_names_for_nodes_without_one)
{
    struct error err = {0};
    struct graph *graph = graph_create();
    value_id x = lockstep_image_input(graph, 1, 8, 8);
    x = conv2d(graph, x, 4, .kernel = 3, .name = "conv2d_1");
    x = conv2d(graph, conv2d(graph, x, 4, .kernel = 1), 4, .kernel = 1);
    lockstep_output(graph, "y", x);
    ASSERT_OK(graph_finish(graph, &err), err);
    graph_destroy(graph);
}
