#include "base/arena.h"
#include "base/files.h"
#include "base/memory.h"
#include "exec/params.h"
#include "exec/plan.h"
#include "store/weights.h"
#include "support/test.h"

/* A network with every sort of parameter, and a plan that gives them their layouts. */
struct network {
    struct graph *graph;
    struct params *params;
    struct plan *plan;
};

static struct network make_network(int channels, uint64_t seed)
{
    struct network network = {.graph = graph_create()};
    struct graph *graph = network.graph;
    value_id x = image_input(graph, 3, 8);
    x = batch_norm(graph, conv2d(graph, x, channels, .kernel = 3, .no_bias = 1), .name = "norm");
    x = dense(graph, flatten(graph, relu(graph, x)), 5, .name = "last");
    lockstep_classifier(graph, x, 0);
    struct error err = {0};
    ASSERT_OK(graph_finish(graph, &err), err);
    ASSERT_OK(params_create(graph, 0, NULL, &network.params, &err), err);
    struct plan_options options = {.mode = PLAN_TRAIN, .batch = 2, .threads = 1};
    ASSERT_OK(plan_create(graph, network.params, &options, &network.plan, &err), err);
    ASSERT_OK(params_initialize(network.params, seed, &err), err);
    return network;
}

static void destroy_network(struct network *network)
{
    plan_destroy(network->plan);
    params_destroy(network->params);
    graph_destroy(network->graph);
}

static void assert_same_params(const struct params *a, const struct params *b, bool same)
{
    struct arena *arena = arena_create();
    struct error err = {0};
    bool equal = true;
    ASSERT_INT(params_count(a), ==, params_count(b));
    for (int i = 0; i < params_count(a); i++) {
        struct param_range range = params_range(a, i);
        struct tensor x, y;
        ASSERT_OK(tensor_create(arena, DTYPE_F32, range.shape, &x, &err), err);
        ASSERT_OK(tensor_create(arena, DTYPE_F32, range.shape, &y, &err), err);
        ASSERT_OK(params_read(a, i, &x, &err), err);
        ASSERT_OK(params_read(b, i, &y, &err), err);
        equal = equal && memcmp(x.data, y.data, tensor_bytes(&x)) == 0;
    }
    ASSERT_TRUE(equal == same);
    arena_destroy(arena);
}

TEST(weights, are_the_same_after_saving_and_loading)
{
    struct network saved = make_network(11, 1), loaded = make_network(11, 2);
    struct error err = {0};
    assert_same_params(saved.params, loaded.params, false);
    const char *path = test_path("weights.safetensors");
    ASSERT_OK(weights_save(path, "test", saved.params, &err), err);
    ASSERT_OK(weights_load(path, loaded.params, &err), err);
    assert_same_params(saved.params, loaded.params, true);
    ASSERT_OK(params_initialize(loaded.params, 3, &err), err);
    ASSERT_OK(weights_load(test_directory(), loaded.params, &err), err); /* by its directory */
    assert_same_params(saved.params, loaded.params, true);
    destroy_network(&saved);
    destroy_network(&loaded);
}

TEST(weights, of_another_model_change_nothing_and_are_named)
{
    struct network ours = make_network(11, 1), untouched = make_network(11, 1),
                   theirs = make_network(12, 1);
    struct error err = {0};
    const char *path = test_path("theirs.safetensors");
    ASSERT_OK(weights_save(path, "test", theirs.params, &err), err);
    ASSERT_FAILS(weights_load(path, ours.params, &err), err, ERROR_FORMAT, "the model's has [");
    ASSERT_CONTAINS(err.message, "theirs.safetensors");
    static const char foreign[] = "\x40\0\0\0\0\0\0\0{\"x\":{\"dtype\":\"F32\",\"shape\":[0],"
                                  "\"data_offsets\":[0,0]}}                ";
    path = test_file("foreign.safetensors", foreign, 8 + 0x40);
    ASSERT_FAILS(weights_load(path, ours.params, &err), err, ERROR_FORMAT,
                 "lacks the model's parameter 'last/");
    ASSERT_CONTAINS(err.message, "others)");
    ASSERT_FAILS(weights_load(test_path("none.safetensors"), ours.params, &err), err, ERROR_IO,
                 "none.safetensors");
    assert_same_params(ours.params, untouched.params, true);
    destroy_network(&ours);
    destroy_network(&untouched);
    destroy_network(&theirs);
}

/* Replaces the first `from` in the file by `to`, which is as long. */
static void edit(char *bytes, size_t count, const char *from, const char *to)
{
    char *at = memmem(bytes, count, from, strlen(from));
    ASSERT_TRUE(at != NULL);
    memcpy(at, to, strlen(to));
}

TEST(weights, that_are_damaged_change_nothing)
{
    struct network ours = make_network(11, 1), untouched = make_network(11, 1);
    struct error err = {0};
    char *bytes;
    size_t count;
    const char *path = test_path("whole.safetensors");
    ASSERT_OK(weights_save(path, "test", untouched.params, &err), err);
    ASSERT_OK(file_read(path, 1 << 20, &bytes, &count, &err), err);
    ASSERT_OK(params_initialize(untouched.params, 4, &err), err);
    ASSERT_OK(params_initialize(ours.params, 4, &err), err);
    path = test_file("cut.safetensors", bytes, count - 1);
    ASSERT_FAILS(weights_load(path, ours.params, &err), err, ERROR_FORMAT, "cut.safetensors");
    edit(bytes, count, "norm/", "form/");
    path = test_file("renamed.safetensors", bytes, count);
    ASSERT_FAILS(weights_load(path, ours.params, &err), err, ERROR_FORMAT, "lacks");
    ASSERT_CONTAINS(err.message, "'norm/");
    edit(bytes, count, "form/", "norm/");
    edit(bytes, count, "\"F32\"", "\"I32\"");
    path = test_file("integers.safetensors", bytes, count);
    ASSERT_FAILS(weights_load(path, ours.params, &err), err, ERROR_FORMAT, "only F32 is read");
    assert_same_params(ours.params, untouched.params, true);
    memory_free(bytes);
    destroy_network(&ours);
    destroy_network(&untouched);
}

TEST(weights, that_cannot_be_written_leave_the_old_file)
{
    struct network network = make_network(3, 1);
    struct error err;
    ASSERT_FAILS(weights_save(test_path("no/such/place"), "test", network.params, &err), err,
                 ERROR_IO, "saving weights");
    destroy_network(&network);
}
