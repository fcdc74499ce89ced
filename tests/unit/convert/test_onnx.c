#include <math.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "convert/onnx_build.h"
#include "convert/onnx_read.h"
#include "exec/params.h"
#include "exec/plan.h"
#include "support/test.h"
#include "wire/proto.h"

/* --- Writing files by hand; the numbers of the fields are those of onnx.proto --- */

enum { FLOAT = 1, INT64 = 7, FLOAT16 = 10, DOUBLE = 11 };

static void add_port(struct strbuf *graph, uint32_t number, const char *name, int type,
                     const int64_t *dims, int count)
{
    size_t port = proto_begin(graph, number);
    proto_add_text(graph, 1, name);
    size_t value = proto_begin(graph, 2), tensor = proto_begin(graph, 1);
    proto_add_varint(graph, 1, (uint64_t)type);
    size_t shape = proto_begin(graph, 2);
    for (int i = 0; i < count; i++) {
        size_t dim = proto_begin(graph, 1);
        if (dims[i] > 0)
            proto_add_varint(graph, 1, (uint64_t)dims[i]);
        else
            proto_add_text(graph, 2, "batch");
        proto_end(graph, dim);
    }
    proto_end(graph, shape);
    proto_end(graph, tensor);
    proto_end(graph, value);
    proto_end(graph, port);
}

#define DIMS(...) (const int64_t[]){__VA_ARGS__}, (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8)

static void add_input(struct strbuf *graph, const char *name, const int64_t *dims, int count)
{
    add_port(graph, 11, name, FLOAT, dims, count);
}

static void add_output(struct strbuf *graph, const char *name)
{
    add_port(graph, 12, name, FLOAT, DIMS(0, 0));
}

/* The numbers 0.1, 0.2, ... with every third one negative, in raw_data. */
static float number_at(int64_t i)
{
    return (i % 3 == 1 ? -0.1f : 0.1f) * (float)(1 + i % 7);
}

static void add_tensor(struct strbuf *graph, const char *name, const int64_t *dims, int count)
{
    size_t tensor = proto_begin(graph, 5);
    int64_t elements = 1;
    for (int i = 0; i < count; i++) {
        proto_add_varint(graph, 1, (uint64_t)dims[i]);
        elements *= dims[i];
    }
    proto_add_varint(graph, 2, FLOAT);
    proto_add_text(graph, 8, name);
    size_t raw = proto_begin(graph, 9);
    for (int64_t i = 0; i < elements; i++)
        proto_put_float(graph, number_at(i));
    proto_end(graph, raw);
    proto_end(graph, tensor);
}

static void add_integers(struct strbuf *graph, const char *name, const int64_t *values, int count)
{
    size_t tensor = proto_begin(graph, 5);
    proto_add_varint(graph, 1, (uint64_t)count);
    proto_add_varint(graph, 2, INT64);
    proto_add_text(graph, 8, name);
    size_t list = proto_begin(graph, 7);
    for (int i = 0; i < count; i++)
        proto_put_varint(graph, (uint64_t)values[i]);
    proto_end(graph, list);
    proto_end(graph, tensor);
}

/* `words`: inputs, then "=", then outputs. Attributes may follow until end_node. */
static size_t begin_node(struct strbuf *graph, const char *op, const char *words)
{
    size_t node = proto_begin(graph, 1);
    uint32_t number = 1;
    for (const char *at = words; *at;) {
        size_t length = strcspn(at, " ");
        if (length == 1 && *at == '=')
            number = 2;
        else
            proto_add_bytes(graph, number, at, length);
        at += length + (at[length] == ' ');
    }
    proto_add_text(graph, 4, op);
    return node;
}

static void add_integer(struct strbuf *graph, const char *name, int64_t value)
{
    size_t attribute = proto_begin(graph, 5);
    proto_add_text(graph, 1, name);
    proto_add_varint(graph, 3, (uint64_t)value);
    proto_end(graph, attribute);
}

static void add_node(struct strbuf *graph, const char *op, const char *words)
{
    proto_end(graph, begin_node(graph, op, words));
}

/* The whole around it. */
static struct strbuf finish(struct strbuf *graph)
{
    struct strbuf file;
    strbuf_init(&file);
    proto_add_varint(&file, 1, 8);
    proto_add_bytes(&file, 7, graph->text, graph->length);
    size_t opset = proto_begin(&file, 8);
    proto_add_text(&file, 1, "");
    proto_add_varint(&file, 2, 13);
    proto_end(&file, opset);
    strbuf_release(graph);
    ASSERT_FALSE(file.failed);
    return file;
}

/* --- A file as a graph --- */

struct network {
    struct strbuf bytes;
    struct arena *arena;
    struct onnx_file file;
    struct onnx_facts facts;
    struct graph *graph;
};

static int try_network(struct strbuf graph, struct onnx_build_options options, struct network *out,
                       struct error *err)
{
    *out =
        (struct network){.bytes = finish(&graph), .arena = arena_create(), .graph = graph_create()};
    if (onnx_parse(out->bytes.text, out->bytes.length, out->arena, &out->file, err) < 0 ||
        onnx_build(&out->file, &options, out->arena, out->graph, &out->facts, err) < 0)
        return -1;
    return graph_finish(out->graph, err);
}

static void release(struct network *network)
{
    graph_destroy(network->graph);
    arena_destroy(network->arena);
    strbuf_release(&network->bytes);
}

static struct network make_network(struct strbuf graph, struct onnx_build_options options)
{
    struct network network;
    struct error err = {0};
    ASSERT_OK(try_network(graph, options, &network, &err), err);
    return network;
}

static const struct value *parameter(const struct network *network, const char *name)
{
    for (value_id v = 0; v < graph_value_count(network->graph); v++) {
        const struct value *value = graph_value(network->graph, v);
        if (value->kind == VALUE_PARAM && !strcmp(value->name, name))
            return value;
    }
    FAIL("no parameter is named %s", name);
}

static void assert_refused(struct strbuf graph, const char *const *parts)
{
    struct network network;
    struct error err = {0};
    ASSERT_INT(try_network(graph, (struct onnx_build_options){0}, &network, &err), ==, -1);
    for (; *parts; parts++)
        ASSERT_CONTAINS(err.message, *parts);
    release(&network);
}

#define REFUSED(graph, ...) assert_refused(graph, (const char *const[]){__VA_ARGS__, NULL})

/* x [N, 4] to Gemm (weights as PyTorch has them, [3, 4]), ReLU, MatMul and Add. */
static struct strbuf two_layers(void)
{
    struct strbuf graph;
    strbuf_init(&graph);
    add_input(&graph, "x", DIMS(0, 4));
    add_tensor(&graph, "first.weight", DIMS(3, 4));
    add_tensor(&graph, "first.bias", DIMS(3));
    add_tensor(&graph, "second", DIMS(3, 2));
    add_tensor(&graph, "shift", DIMS(2));
    size_t gemm = begin_node(&graph, "Gemm", "x first.weight first.bias = a");
    add_integer(&graph, "transB", 1);
    proto_end(&graph, gemm);
    add_node(&graph, "Relu", "a = b");
    add_node(&graph, "MatMul", "b second = c");
    add_node(&graph, "Add", "c shift = y");
    add_output(&graph, "y");
    return graph;
}

static void expect_two_layers(const float *x, float *y)
{
    for (int o = 0; o < 2; o++)
        y[o] = number_at(o);
    for (int h = 0; h < 3; h++) {
        float sum = number_at(h);
        for (int k = 0; k < 4; k++)
            sum += number_at(h * 4 + k) * x[k];
        for (int o = 0; o < 2; o++)
            y[o] += fmaxf(sum, 0) * number_at(h * 2 + o);
    }
}

TEST(onnx, gives_the_numbers_that_the_file_describes)
{
    struct network network = make_network(two_layers(), (struct onnx_build_options){.plain = true});
    struct plan_options options = {.mode = PLAN_SERVE, .batch = 2, .threads = 1};
    struct params *params;
    struct plan *plan;
    struct error err = {0};
    ASSERT_OK(params_create(network.graph, 0, NULL, &params, &err), err);
    ASSERT_OK(plan_create(network.graph, params, &options, &plan, &err), err);
    ASSERT_OK(params_initialize(params, 1, &err), err);
    ASSERT_OK(plan_refresh_weights(plan, &err), err);
    float x[2][4] = {{1, -2, 3, 0.5f}, {-1, 0.25f, 2, 4}}, y[2];
    struct tensor input = {DTYPE_F32, SHAPE(2, 4), x}, output;
    plan_forward(plan, &input, &output);
    for (int n = 0; n < 2; n++) {
        expect_two_layers(x[n], y);
        for (int o = 0; o < 2; o++)
            ASSERT_NEAR(((float *)output.data)[n * 2 + o], y[o], 1e-6, 1);
    }
    plan_destroy(plan);
    params_destroy(params);
    release(&network);
}

TEST(onnx, parameters_have_the_names_of_the_tensors)
{
    struct network network = make_network(two_layers(), (struct onnx_build_options){0});
    const struct value *weights = parameter(&network, "first.weight");
    ASSERT_TRUE(weights->flags & PARAM_TRAINABLE);
    ASSERT_INT(weights->init.kind, ==, INIT_VALUES);
    ASSERT_NUMBER(weights->init.values[5], ==, (double)number_at(5));
    /* [K, O] in the file, [O, K] in a dense layer. */
    ASSERT_INT(parameter(&network, "second")->shape.dim[0], ==, 2);
    ASSERT_NUMBER(parameter(&network, "second")->init.values[1], ==, (double)number_at(2));
    parameter(&network, "shift");
    ASSERT_INT(network.facts.classes, ==, 2);
    ASSERT_TRUE(graph_loss_value(network.graph) >= 0);
    ASSERT_TRUE(graph_find_input(network.graph, "numeric") >= 0);
    release(&network);
}

TEST(onnx, another_number_of_classes_starts_the_last_layer_afresh)
{
    struct network network = make_network(two_layers(), (struct onnx_build_options){.classes = 5});
    ASSERT_INT(network.facts.classes, ==, 5);
    ASSERT_INT(parameter(&network, "second")->shape.dim[0], ==, 5);
    ASSERT_INT(parameter(&network, "second")->init.kind, ==, INIT_GLOROT_UNIFORM);
    ASSERT_INT(parameter(&network, "first.weight")->init.kind, ==, INIT_VALUES);
    release(&network);
}

static struct strbuf picture_network(const char *words)
{
    struct strbuf graph;
    strbuf_init(&graph);
    add_input(&graph, "x", DIMS(0, 3, 8, 8));
    add_tensor(&graph, "w", DIMS(5, 3, 3, 3));
    add_node(&graph, "Conv", words);
    return graph;
}

TEST(onnx, a_picture_is_stored_channels_last_for_data_and_as_in_the_file_for_others)
{
    for (int plain = 0; plain < 2; plain++) {
        struct strbuf graph = picture_network("x w = a");
        add_node(&graph, "GlobalAveragePool", "a = b");
        add_node(&graph, "Flatten", "b = y");
        add_output(&graph, "y");
        struct network network =
            make_network(graph, (struct onnx_build_options){.plain = plain != 0});
        value_id input = graph_find_input(network.graph, plain ? "x" : "image");
        ASSERT_TRUE(input >= 0);
        ASSERT_TRUE(graph_value(network.graph, input)->channels_last == !plain);
        release(&network);
    }
}

TEST(onnx, pictures_of_another_size_go_in_where_the_network_allows_it)
{
    struct strbuf graph = picture_network("x w = a");
    add_node(&graph, "GlobalAveragePool", "a = b");
    add_node(&graph, "Flatten", "b = y");
    add_output(&graph, "y");
    struct network network = make_network(graph, (struct onnx_build_options){.image_size = 20});
    value_id input = graph_find_input(network.graph, "image");
    ASSERT_INT(graph_value(network.graph, input)->shape.dim[3], ==, 20);
    ASSERT_INT(network.facts.image_size, ==, 8);
    ASSERT_INT(network.facts.classes, ==, 5);
    release(&network);
}

/* What PyTorch leaves of x.view(x.size(0), -1). */
TEST(onnx, shapes_that_are_computed_from_shapes_are_known)
{
    struct strbuf graph = picture_network("x w = a");
    add_integers(&graph, "zero", (int64_t[]){0}, 1);
    add_integers(&graph, "rest", (int64_t[]){-1}, 1);
    add_node(&graph, "Shape", "a = shape");
    add_node(&graph, "Gather", "shape zero = batch");
    add_node(&graph, "Concat", "batch rest = wanted");
    size_t reshape = begin_node(&graph, "Reshape", "a wanted = y");
    add_integer(&graph, "allowzero", 1); /* as PyTorch's newer exporter has it everywhere */
    proto_end(&graph, reshape);
    add_output(&graph, "y");
    struct network network = make_network(graph, (struct onnx_build_options){.plain = true});
    const struct shape *shape =
        &graph_value(network.graph, graph_output_value(network.graph, 0))->shape;
    ASSERT_INT(shape->ndim, ==, 2);
    ASSERT_INT(shape->dim[0], ==, SHAPE_BATCH);
    ASSERT_INT(shape->dim[1], ==, 5 * 6 * 6);
    release(&network);
}

TEST(onnx, a_copy_of_a_tensor_is_a_parameter_of_its_own)
{
    struct strbuf graph = picture_network("x w = a");
    add_tensor(&graph, "v", DIMS(5));
    add_node(&graph, "Identity", "v = u");
    add_node(&graph, "Reshape", "v ones = v4");
    add_integers(&graph, "ones", (int64_t[]){5, 1, 1}, 3);
    add_node(&graph, "Reshape", "u ones = u4");
    add_node(&graph, "Add", "a v4 = b");
    add_node(&graph, "Mul", "b u4 = y");
    add_output(&graph, "y");
    struct network network = make_network(graph, (struct onnx_build_options){.plain = true});
    ASSERT_TRUE(parameter(&network, "v")->flags & PARAM_TRAINABLE);
    ASSERT_TRUE(parameter(&network, "u")->flags & PARAM_TRAINABLE);
    release(&network);
}

TEST(onnx, weights_that_two_nodes_share_are_refused)
{
    struct strbuf graph = picture_network("x w = a");
    add_node(&graph, "Conv", "x w = b");
    add_node(&graph, "Add", "a b = y");
    add_output(&graph, "y");
    REFUSED(graph, "shares w");
}

TEST(onnx, everything_that_cannot_be_computed_is_named_at_once)
{
    struct strbuf graph = picture_network("x w = a");
    add_node(&graph, "LRN", "a = b");
    add_node(&graph, "Loop", "b = c");
    add_node(&graph, "LRN", "x = d");
    size_t pool = begin_node(&graph, "MaxPool", "a = e");
    add_integer(&graph, "ceil_mode", 1);
    proto_end(&graph, pool);
    add_output(&graph, "c");
    REFUSED(graph, "LRN (2 times)", "Loop", "MaxPool e: ");
}

TEST(onnx, what_does_not_fit_together_is_refused_with_the_node)
{
    struct strbuf graph = picture_network("x w nothing = a");
    add_output(&graph, "a");
    REFUSED(graph, "Conv a: input 2 must be floating-point numbers in the file");

    strbuf_init(&graph);
    add_input(&graph, "x", DIMS(0, 5));
    add_tensor(&graph, "w", DIMS(4, 2));
    add_node(&graph, "MatMul", "x w = y");
    add_output(&graph, "y");
    REFUSED(graph, "MatMul y", "weights for 4 numbers meet 5");

    strbuf_init(&graph);
    add_input(&graph, "x", DIMS(0, 5));
    add_node(&graph, "Relu", "x = y");
    add_output(&graph, "z");
    REFUSED(graph, "output z is not computed by any node");

    strbuf_init(&graph);
    add_port(&graph, 11, "x", INT64, DIMS(0, 5));
    add_node(&graph, "Relu", "x = y");
    add_output(&graph, "y");
    REFUSED(graph, "input x has elements of type 7");
}

/* --- Tensors --- */

static struct onnx_tensor parse_tensor(struct strbuf *bytes, struct arena *arena)
{
    struct onnx_tensor tensor;
    struct error err = {0};
    ASSERT_OK(onnx_parse_tensor(bytes->text, bytes->length, arena, &tensor, &err), err);
    ASSERT_INT(tensor.count, ==, 3);
    return tensor;
}

static struct strbuf begin_tensor(int type)
{
    struct strbuf bytes;
    strbuf_init(&bytes);
    proto_add_varint(&bytes, 1, 3);
    proto_add_varint(&bytes, 2, (uint64_t)type);
    return bytes;
}

TEST(onnx, tensors_are_read_in_every_way_they_are_written)
{
    struct arena *arena = arena_create();
    static const uint16_t halves[] = {0x3e00, 0xc000, 0x0001}; /* 1.5, -2, 2^-24 */
    static const float floats[] = {1.5f, -2, 0x1p-24f};
    static const double doubles[] = {1.5, -2, 0x1p-24};
    for (int way = 0; way < 6; way++) {
        static const int types[] = {FLOAT, FLOAT, FLOAT, FLOAT16, FLOAT16, DOUBLE};
        struct strbuf bytes = begin_tensor(types[way]);
        size_t list = way == 1 ? 0 : proto_begin(&bytes, way == 0 ? 4 : way == 3 ? 5 : 9);
        for (int i = 0; i < 3; i++) {
            if (way == 0)
                proto_put_float(&bytes, floats[i]);
            else if (way == 1)
                proto_add_float(&bytes, 4, floats[i]);
            else if (way == 3)
                proto_put_varint(&bytes, halves[i]);
        }
        if (way == 2)
            strbuf_add_bytes(&bytes, floats, sizeof floats);
        if (way == 4)
            strbuf_add_bytes(&bytes, halves, sizeof halves);
        if (way == 5)
            strbuf_add_bytes(&bytes, doubles, sizeof doubles);
        if (list)
            proto_end(&bytes, list);
        struct onnx_tensor tensor = parse_tensor(&bytes, arena);
        for (int i = 0; i < 3; i++)
            ASSERT_NUMBER(tensor.floats[i], ==, (double)floats[i]);
        strbuf_release(&bytes);
    }
    arena_destroy(arena);
}

TEST(onnx, integers_keep_their_sign)
{
    struct arena *arena = arena_create();
    static const int32_t raw[] = {7, -1, INT32_MIN};
    struct strbuf bytes = begin_tensor(6);
    proto_add_bytes(&bytes, 9, raw, sizeof raw);
    struct onnx_tensor tensor = parse_tensor(&bytes, arena);
    for (int i = 0; i < 3; i++)
        ASSERT_INT(tensor.integers[i], ==, raw[i]);
    strbuf_release(&bytes);
    bytes = begin_tensor(INT64);
    for (int i = 0; i < 3; i++)
        proto_add_varint(&bytes, 7, (uint64_t)(int64_t)raw[i]);
    tensor = parse_tensor(&bytes, arena);
    for (int i = 0; i < 3; i++)
        ASSERT_INT(tensor.integers[i], ==, raw[i]);
    strbuf_release(&bytes);
    arena_destroy(arena);
}

static void assert_bad_tensor(struct strbuf bytes, const char *part)
{
    struct arena *arena = arena_create();
    struct onnx_tensor tensor;
    struct error err = {0};
    ASSERT_INT(onnx_parse_tensor(bytes.text, bytes.length, arena, &tensor, &err), ==, -1);
    ASSERT_CONTAINS(err.message, part);
    strbuf_release(&bytes);
    arena_destroy(arena);
}

TEST(onnx, tensors_that_promise_more_than_they_hold_are_refused)
{
    struct strbuf bytes = begin_tensor(FLOAT);
    proto_add_bytes(&bytes, 9, "12345678", 8);
    assert_bad_tensor(bytes, "3 elements in 8 bytes");
    bytes = begin_tensor(FLOAT);
    proto_add_varint(&bytes, 1, UINT64_C(1) << 40);
    assert_bad_tensor(bytes, "dimension 1 is 1099511627776");
    bytes = begin_tensor(FLOAT);
    proto_add_varint(&bytes, 1, 1 << 20);
    assert_bad_tensor(bytes, "no room for them");
    bytes = begin_tensor(FLOAT);
    proto_add_float(&bytes, 4, 1);
    assert_bad_tensor(bytes, "1 numbers for 3 elements");
    bytes = begin_tensor(8);
    assert_bad_tensor(bytes, "of type 8");
    bytes = begin_tensor(FLOAT);
    proto_add_varint(&bytes, 14, 1);
    assert_bad_tensor(bytes, "in another file");
}

/* --- Files --- */

TEST(onnx, a_file_that_is_cut_off_anywhere_is_refused_or_complete)
{
    struct strbuf graph = two_layers(), file = finish(&graph);
    for (size_t count = 0; count < file.length; count++) {
        struct arena *arena = arena_create();
        struct onnx_file parsed;
        struct error err = {0};
        /* On its own, so that the sanitizers see a step beyond the end. */
        char *piece = memory_allocate(count + 1);
        memcpy(piece, file.text, count);
        /* What is behind the network, at the end, may be missing. */
        if (onnx_parse(piece, count, arena, &parsed, &err) < 0)
            ASSERT_TRUE(*err.message);
        else
            ASSERT_INT(parsed.node_count, ==, 4);
        memory_free(piece);
        arena_destroy(arena);
    }
    strbuf_release(&file);
}

TEST(onnx, a_file_is_a_model_like_any_other)
{
    char path[64];
    const struct model *model = NULL;
    struct error err = {0};
    struct strbuf graph = two_layers(), file = finish(&graph);
    snprintf(path, sizeof path, "/tmp/test_onnx_%d.onnx", (int)getpid());
    ASSERT_OK(file_write_atomic(path, file.text, file.length, &err), err);
    ASSERT_TRUE(onnx_is_file(path));
    ASSERT_OK(onnx_model_open(path, &model, &err), err);
    ASSERT_INT(model->defaults.classes, ==, 2);
    struct graph *built = graph_create();
    model->build(built, &model->defaults);
    ASSERT_OK(graph_finish(built, &err), err);
    ASSERT_INT(graph_parameter_elements(built), ==, 12 + 3 + 6 + 2);
    graph_destroy(built);
    onnx_model_close(model);
    remove(path);
    ASSERT_INT(onnx_model_open(path, &model, &err), ==, -1);
    ASSERT_CONTAINS(err.message, path);
    strbuf_release(&file);
}
