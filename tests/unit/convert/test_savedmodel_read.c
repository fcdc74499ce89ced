#include "convert/savedmodel_read.h"

#include "base/arena.h"
#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "convert/imported.h"
#include "convert/tf_messages.h"
#include "convert/tf_write.h"
#include "exec/plan.h"
#include "support/test.h"
#include "wire/proto.h"

enum { ROWS = 4, FEATURES = 8, CLASSES = 10 };

static struct json *read_example(void)
{
    char *text;
    size_t bytes;
    struct json *json;
    struct error err = {0};
    const char *path = test_data("tf-made/savedmodel-dense/example.json");
    ASSERT_OK(file_read(path, 1 << 20, &text, &bytes, &err), err);
    ASSERT_OK(json_parse(text, bytes, &json, &err), err);
    memory_free(text);
    return json;
}

static float number_at(const struct json *rows, int row, int column)
{
    return (float)json_as_number(json_at(json_at(rows, row), column), 0);
}

TEST(savedmodel_read, gives_the_answers_of_the_tensorflow_that_made_it)
{
    struct json *example = read_example();
    struct imported *model;
    struct plan *plan;
    struct error err = {0};
    struct plan_options options = {.mode = PLAN_SERVE, .batch = ROWS, .threads = 1};
    float x[ROWS][FEATURES];
    ASSERT_OK(imported_read(test_data("tf-made/savedmodel-dense/1"), &model, &err), err);
    const struct signature *signature = imported_signature(model, "");
    ASSERT_INT(signature->output_count, ==, 2);
    ASSERT_TEXT(signature->inputs[0].key, "x");
    for (int n = 0; n < ROWS; n++)
        for (int k = 0; k < FEATURES; k++)
            x[n][k] = number_at(json_get(example, "x"), n, k);
    struct tensor input = {DTYPE_F32, SHAPE(ROWS, FEATURES), x}, output, reply[2];
    struct arena *arena = arena_create();
    ASSERT_OK(plan_create(model->graph, model->params, &options, &plan, &err), err);
    plan_forward(plan, &input, &output);
    ASSERT_OK(imported_finish(model, signature, &output, 0, ROWS, arena, reply, &err), err);
    bool first = !strcmp(signature->outputs[0].key, "classes");
    const int64_t *classes = reply[first ? 0 : 1].data;
    const float *probabilities = reply[first ? 1 : 0].data;
    for (int n = 0; n < ROWS; n++) {
        ASSERT_INT(classes[n], ==, json_as_integer(json_at(json_get(example, "classes"), n), -1));
        for (int k = 0; k < CLASSES; k++)
            ASSERT_NEAR((double)probabilities[n * CLASSES + k],
                        (double)number_at(json_get(example, "probabilities"), n, k), 1e-5, 1);
    }
    arena_destroy(arena);
    plan_destroy(plan);
    imported_destroy(model);
    json_release(example);
}

/* ---- graphs that nobody would make ---- */

static void put_port(struct strbuf *out, uint32_t field, const char *key, const char *tensor)
{
    size_t entry = proto_begin(out, field);
    proto_add_text(out, MAP_KEY, key);
    size_t info = proto_begin(out, MAP_VALUE);
    proto_add_text(out, TENSOR_INFO_NAME, tensor);
    proto_add_varint(out, TENSOR_INFO_TYPE, TF_FLOAT);
    tf_put_shape(out, TENSOR_INFO_SHAPE, &SHAPE(-1, 4));
    proto_end(out, info);
    proto_end(out, entry);
}

/* A SavedModel with these nodes, from x to y; its directory. */
static const char *make_model(const char *name, const struct tf_nodes *nodes)
{
    struct strbuf out;
    struct error err = {0};
    const char *directory = test_path("%s", name);
    strbuf_init(&out);
    size_t meta = proto_begin(&out, SAVED_MODEL_META), info = proto_begin(&out, META_INFO);
    proto_add_text(&out, INFO_TAG, "serve");
    proto_end(&out, info);
    size_t graph = proto_begin(&out, META_GRAPH);
    strbuf_add_bytes(&out, nodes->bytes.text, nodes->bytes.length);
    proto_end(&out, graph);
    size_t entry = proto_begin(&out, META_SIGNATURE);
    proto_add_text(&out, MAP_KEY, "serving_default");
    size_t value = proto_begin(&out, MAP_VALUE);
    put_port(&out, SIGNATURE_INPUTS, "x", "x:0");
    put_port(&out, SIGNATURE_OUTPUTS, "y", "y:0");
    proto_end(&out, value);
    proto_end(&out, entry);
    proto_end(&out, meta);
    ASSERT_OK(directory_make(directory, &err), err);
    ASSERT_OK(file_write_atomic(test_path("%s/saved_model.pb", name), out.text, out.length, &err),
              err);
    strbuf_release(&out);
    return directory;
}

static void refuse(const char *name, struct tf_nodes *nodes, const char *part)
{
    struct imported *model;
    struct error err = {0};
    ASSERT_FAILS(imported_read(make_model(name, nodes), &model, &err), err, ERROR_FORMAT, part);
    tf_nodes_release(nodes);
}

TEST(savedmodel_read, scales_and_shifts_by_what_is_computed_from_weights)
{
    float scale[] = {1, 2, 3, 4}, shift[] = {0.5f, 0, -1, 8}, x[] = {1, -1, 2, 0.5f};
    struct tf_nodes nodes;
    struct imported *model;
    struct plan *plan;
    struct error err = {0};
    struct plan_options options = {.mode = PLAN_SERVE, .batch = 1, .threads = 1};
    tf_nodes_init(&nodes, TF_GRAPH_NODE);
    tf_node(&nodes, "Placeholder", "x", TF_FLOAT, (const char *const[]){NULL});
    tf_const(&nodes, "scale", &(struct tensor){DTYPE_F32, SHAPE(4), scale});
    tf_const(&nodes, "shift", &(struct tensor){DTYPE_F32, SHAPE(1, 1, 4), shift});
    tf_const_float(&nodes, "quarter", 0.25f);
    tf_node(&nodes, "Rsqrt", "two", TF_FLOAT, TF_INPUTS("quarter"));
    tf_node(&nodes, "Mul", "doubled", TF_FLOAT, TF_INPUTS("two", "scale"));
    tf_node(&nodes, "Squeeze", "row", TF_FLOAT, TF_INPUTS("shift"));
    tf_node(&nodes, "Sub", "less", TF_FLOAT, TF_INPUTS("row", "quarter"));
    tf_node(&nodes, "Mul", "scaled", TF_FLOAT, TF_INPUTS("doubled", "x"));
    tf_node(&nodes, "AddV2", "y", TF_FLOAT, TF_INPUTS("scaled", "less"));
    ASSERT_OK(imported_read(make_model("affine", &nodes), &model, &err), err);
    ASSERT_OK(plan_create(model->graph, model->params, &options, &plan, &err), err);
    struct tensor input = {DTYPE_F32, SHAPE(1, 4), x}, output;
    plan_forward(plan, &input, &output);
    for (int i = 0; i < 4; i++)
        ASSERT_NEAR((double)((float *)output.data)[i],
                    (double)(x[i] * scale[i] * 2 + shift[i] - 0.25f), 1e-6, 1);
    plan_destroy(plan);
    imported_destroy(model);
    tf_nodes_release(&nodes);
}

TEST(savedmodel_read, names_all_operations_it_lacks_at_once)
{
    struct tf_nodes nodes;
    struct imported *model;
    struct error err = {0};
    tf_nodes_init(&nodes, TF_GRAPH_NODE);
    tf_node(&nodes, "Placeholder", "x", TF_FLOAT, (const char *const[]){NULL});
    tf_node(&nodes, "Cosh", "a", TF_FLOAT, TF_INPUTS("x"));
    tf_node(&nodes, "Relu", "b", TF_FLOAT, TF_INPUTS("a"));
    tf_node(&nodes, "Digamma", "y", TF_FLOAT, TF_INPUTS("b"));
    ASSERT_FAILS(imported_read(make_model("lacks", &nodes), &model, &err), err, ERROR_FORMAT,
                 "Cosh (first in a)");
    ASSERT_CONTAINS(err.message, "Digamma (first in y)");
    tf_nodes_release(&nodes);
}

TEST(savedmodel_read, refuses_cycles_and_nodes_that_are_not_there)
{
    struct tf_nodes nodes;
    tf_nodes_init(&nodes, TF_GRAPH_NODE);
    tf_node(&nodes, "Placeholder", "x", TF_FLOAT, (const char *const[]){NULL});
    tf_node(&nodes, "AddV2", "y", TF_FLOAT, TF_INPUTS("x", "z"));
    tf_node(&nodes, "Relu", "z", TF_FLOAT, TF_INPUTS("y"));
    refuse("cycle", &nodes, "cycle");
    tf_nodes_init(&nodes, TF_GRAPH_NODE);
    tf_node(&nodes, "Placeholder", "x", TF_FLOAT, (const char *const[]){NULL});
    tf_node(&nodes, "Relu", "y", TF_FLOAT, TF_INPUTS("nobody"));
    refuse("absent", &nodes, "nobody");
    tf_nodes_init(&nodes, TF_GRAPH_NODE);
    tf_node(&nodes, "Placeholder", "x", TF_FLOAT, (const char *const[]){NULL});
    tf_node(&nodes, "Relu", "y", TF_FLOAT, TF_INPUTS("x"));
    tf_node(&nodes, "Relu", "y", TF_FLOAT, TF_INPUTS("x"));
    refuse("twice", &nodes, "two nodes are called y");
}

TEST(savedmodel_read, refuses_a_chain_too_deep_to_follow)
{
    struct tf_nodes nodes;
    tf_nodes_init(&nodes, TF_GRAPH_NODE);
    tf_node(&nodes, "Placeholder", "x", TF_FLOAT, (const char *const[]){NULL});
    for (int i = 0; i < 100000; i++) {
        char name[32] = "y", input[32] = "x";
        if (i < 99999)
            snprintf(name, sizeof name, "n%d", i);
        if (i > 0)
            snprintf(input, sizeof input, "n%d", i - 1);
        tf_node(&nodes, "Identity", name, TF_FLOAT, TF_INPUTS(input));
    }
    refuse("deep", &nodes, "deeper or larger");
}
