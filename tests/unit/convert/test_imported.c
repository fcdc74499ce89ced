#include "convert/imported.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "base/threads.h"
#include "convert/export.h"
#include "convert/face.h"
#include "data/fingerprint.h"
#include "exec/params.h"
#include "exec/plan.h"
#include "graph/graph.h"
#include "models/registry.h"
#include "support/test.h"
#include "tensor/random.h"
#include "wire/example.h"

/* A network as a training leaves it. */
struct trained {
    struct graph *graph;
    struct params *params;
    struct plan *plan;
    struct face face;
};

static void finish_trained(struct trained *trained)
{
    struct plan_options options = {.mode = PLAN_SERVE, .batch = 3, .threads = 1};
    struct error err = {0};
    ASSERT_OK(params_create(trained->graph, 0, NULL, &trained->params, &err), err);
    ASSERT_OK(plan_create(trained->graph, trained->params, &options, &trained->plan, &err), err);
    ASSERT_OK(params_initialize(trained->params, 7, &err), err);
    plan_destroy(trained->plan); /* it folded what was there before */
    ASSERT_OK(plan_create(trained->graph, trained->params, &options, &trained->plan, &err), err);
}

static struct trained make_trained(const char *name, const struct model_args *args)
{
    const struct model *model = model_find(name);
    struct trained trained = {.graph = graph_create(),
                              .face = {.model = name, .built_in = true, .args = *args}};
    struct error err = {0};
    model->build(trained.graph, args);
    ASSERT_OK(graph_finish(trained.graph, &err), err);
    finish_trained(&trained);
    return trained;
}

static struct trained make_digits(void)
{
    return make_trained("mnist_custom", &(struct model_args){.classes = 10, .image_size = 28});
}

static struct trained make_table(void)
{
    return make_trained("wide_deep", &(struct model_args){.embedding_rows = 50,
                                                          .embedding_dim = 4,
                                                          .numerics = 2,
                                                          .categoricals = 3,
                                                          .hidden = {8}});
}

static void destroy_trained(struct trained *trained)
{
    plan_destroy(trained->plan);
    params_destroy(trained->params);
    graph_destroy(trained->graph);
}

static const char *export_new(const struct trained *trained, const char *name)
{
    static char path[PATH_MAX];
    struct export_result result;
    struct error err = {0};
    ASSERT_OK(export_write(test_path("%s", name), trained->graph, trained->params, &trained->face,
                           &result, &err),
              err);
    snprintf(path, sizeof path, "%s", result.path);
    return path;
}

static struct imported *read_new(const char *path)
{
    struct imported *model;
    struct error err = {0};
    ASSERT_OK(imported_read(path, &model, &err), err);
    return model;
}

static struct plan *serve(const struct imported *model, int batch)
{
    struct plan_options options = {.mode = PLAN_SERVE, .batch = batch, .threads = 1};
    struct plan *plan;
    struct error err = {0};
    ASSERT_OK(plan_create(model->graph, model->params, &options, &plan, &err), err);
    ASSERT_INT(plan_input_count(plan), ==, model->input_count);
    for (int i = 0; i < model->input_count; i++)
        ASSERT_TEXT(plan_input_name(plan, i), model->inputs[i].name);
    return plan;
}

static struct tensor draw(struct arena *arena, const struct imported_port *port, int batch)
{
    struct tensor tensor;
    struct error err = {0};
    struct random random = {.key = 5};
    ASSERT_OK(
        tensor_create(arena, port->dtype, shape_with_batch(port->shape, batch), &tensor, &err),
        err);
    for (int64_t i = 0; i < shape_count(&tensor.shape); i++)
        if (port->dtype == DTYPE_F32)
            ((float *)tensor.data)[i] = random_normal(&random);
        else
            ((int64_t *)tensor.data)[i] = (int64_t)random_next(&random);
    return tensor;
}

/* ---- the same numbers ---- */

static void assert_same_answers(struct trained *trained, const struct imported *model)
{
    struct arena *arena = arena_create();
    struct tensor inputs[4], before[4], after[4];
    struct plan *plan = serve(model, 3);
    for (int i = 0; i < model->input_count; i++)
        inputs[i] = draw(arena, &model->inputs[i], 3);
    plan_forward(trained->plan, inputs, before);
    plan_forward(plan, inputs, after);
    for (int i = 0; i < model->output_count; i++)
        ASSERT_BYTES(after[i].data, before[i].data, tensor_bytes(&before[i]));
    plan_destroy(plan);
    arena_destroy(arena);
}

TEST(imported, network_computes_the_bits_of_the_one_that_was_exported)
{
    struct trained digits = make_digits(), table = make_table();
    struct imported *model = read_new(export_new(&digits, "digits"));
    assert_same_answers(&digits, model);
    ASSERT_TEXT(model->model, "mnist_custom");
    imported_destroy(model);
    model = read_new(export_new(&table, "table"));
    assert_same_answers(&table, model);
    imported_destroy(model);
    destroy_trained(&table);
    destroy_trained(&digits);
}

/* ---- signatures ---- */

/* Operations that came with ONNX files, on pictures and on rows; ONNX has a word for each. */
static void build_functions(struct graph *graph)
{
    value_id x = lockstep_image_input(graph, 3, 8, 8);
    x = lockstep_conv2d(graph, x, 6, (struct conv2d_options){.kernel = 3, .groups = 3});
    x = lockstep_clip(graph, x, 0, 6);
    for (int kind = UNARY_TANH; kind <= UNARY_ABS; kind++)
        if (kind != UNARY_LOG && kind != UNARY_SQRT && kind != UNARY_SILU && kind != UNARY_GELU)
            x = lockstep_unary(graph, x, (enum unary)kind, 0.3f, 0.4f);
    value_id part =
        lockstep_clip(graph, lockstep_unary(graph, x, UNARY_NEGATE, 0, 0), -0.5f, 0.25f);
    value_id mean = lockstep_global_avg_pool(graph, x);
    x = lockstep_arithmetic(graph, x, mean, ARITHMETIC_MULTIPLY);
    x = lockstep_arithmetic(graph, x, part, ARITHMETIC_SUBTRACT);
    x = lockstep_softmax(graph, x, 1);
    x = lockstep_reshape(graph, x, SHAPE(SHAPE_BATCH, 4, 9, 6));
    x = lockstep_log_softmax(graph, x, 2);
    lockstep_classifier(graph,
                        lockstep_dense(graph, lockstep_flatten(graph, x), 5,
                                       (struct dense_options){.name = "last"}),
                        0);
}

static struct trained make_functions(void)
{
    struct trained trained = {.graph = graph_create(), .face = {.model = "functions"}};
    struct error err = {0};
    build_functions(trained.graph);
    ASSERT_OK(graph_finish(trained.graph, &err), err);
    finish_trained(&trained);
    return trained;
}

TEST(imported, a_network_of_the_users_is_read_by_the_operations_it_was_made_of)
{
    struct trained made = make_functions();
    struct imported *model = read_new(export_new(&made, "functions"));
    assert_same_answers(&made, model);
    ASSERT_INT(model->output_count, ==, 1); /* what the file has besides is for others */
    ASSERT_TEXT(model->model, "functions");
    ASSERT_TRUE(imported_signature(model, "predict") && imported_signature(model, "image_bytes"));
    imported_destroy(model);
    destroy_trained(&made);
}

/* What the file says of weights does not count: the variables have checksums. */
TEST(imported, damaged_variables_are_found_though_another_file_has_the_weights)
{
    struct trained made = make_functions();
    struct imported *model;
    struct error err = {0};
    const char *path = export_new(&made, "damaged");
    char data[PATH_MAX];
    snprintf(data, sizeof data, "%s/variables/variables.data-00000-of-00001", path);
    FILE *file = fopen(data, "r+b");
    ASSERT_TRUE(file && fseek(file, 100, SEEK_SET) == 0 && fputc(0x5a, file) != EOF);
    fclose(file);
    ASSERT_INT(imported_read(path, &model, &err), <, 0);
    destroy_trained(&made);
}

TEST(imported, an_onnx_file_alone_is_a_model)
{
    struct trained made = make_functions();
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/model.onnx", export_new(&made, "alone"));
    ASSERT_TRUE(imported_is_file(path));
    ASSERT_FALSE(imported_is_file(test_path("alone")));
    struct imported *model = read_new(path);
    assert_same_answers(&made, model);
    ASSERT_TEXT(model->model, "model");
    ASSERT_TRUE(imported_signature(model, "serving_default"));
    imported_destroy(model);
    destroy_trained(&made);
}

/* Cuts the file off and writes it again, in place, until it is told to end. */
struct cutter {
    const char *path;
    char *bytes;
    size_t count;
    atomic_bool ending;
};

static void *cut_again_and_again(void *context)
{
    struct cutter *cutter = context;
    int file = open(cutter->path, O_WRONLY | O_CLOEXEC);
    while (!atomic_load(&cutter->ending)) {
        if (ftruncate(file, 0) < 0 || pwrite(file, cutter->bytes, cutter->count, 0) < 0)
            break;
        usleep(2000);
    }
    close(file);
    return NULL;
}

TEST(imported, a_file_that_shrinks_while_it_is_read_kills_nobody)
{
    enum { MOST_SECONDS = 60 };
    struct trained made = make_digits();
    char path[PATH_MAX];
    struct cutter cutter = {.path = path};
    struct error err = {0};
    pthread_t thread;
    snprintf(path, sizeof path, "%s/model.onnx", export_new(&made, "shrinks"));
    ASSERT_OK(file_read(path, 1 << 30, &cutter.bytes, &cutter.count, &err), err);
    ASSERT_INT(thread_start(&thread, cut_again_and_again, &cutter), ==, 0);
    int shrunk = 0;
    for (double end = clock_seconds() + MOST_SECONDS; shrunk < 5 && clock_seconds() < end;) {
        struct imported *model = NULL;
        err = (struct error){0};
        if (imported_read(path, &model, &err) < 0)
            shrunk += strstr(err.message, "shrank while it was read") != NULL;
        else
            imported_destroy(model);
    }
    ASSERT_INT(shrunk, ==, 5);
    atomic_store(&cutter.ending, true);
    pthread_join(thread, NULL);
    memory_free(cutter.bytes);
    destroy_trained(&made);
}

TEST(imported, a_version_that_is_withdrawn_is_none_any_more)
{
    struct trained digits = make_digits();
    char aside[PATH_MAX];
    struct error err = {0};
    const char *path = export_new(&digits, "withdrawn");
    ASSERT_TRUE(export_is(test_path("withdrawn")));
    ASSERT_OK(export_withdraw(path, aside, &err), err);
    ASSERT_FALSE(export_is(test_path("withdrawn")));
    ASSERT_TRUE(export_is(aside));
    ASSERT_CONTAINS(aside, "/withdrawn/withdrawn-1-");
    destroy_trained(&digits);
}

static const struct signature *must_have(const struct imported *model, const char *name)
{
    const struct signature *signature = imported_signature(model, name);
    ASSERT_TRUE(signature != NULL);
    return signature;
}

TEST(imported, pictures_are_asked_by_the_names_that_clients_know)
{
    struct trained digits = make_digits();
    struct imported *model = read_new(export_new(&digits, "names"));
    const struct signature *signature = must_have(model, NULL);
    char shape[64];
    ASSERT_TEXT(signature->name, "serving_default");
    ASSERT_TEXT(signature->method, "tensorflow/serving/predict");
    ASSERT_INT(signature->input_count, ==, 1);
    ASSERT_TEXT(signature->inputs[0].key, "input_tensor");
    ASSERT_TEXT(shape_text(&signature->inputs[0].shape, shape, sizeof shape), "[N, 28, 28, 1]");
    ASSERT_TEXT(signature->outputs[0].key, "classes");
    ASSERT_TEXT(signature->outputs[1].key, "probabilities");
    ASSERT_TRUE(imported_signature(model, "image_bytes") == NULL); /* they are grey */
    ASSERT_TRUE(imported_signature(model, "nonsense") == NULL);
    imported_destroy(model);
    destroy_trained(&digits);
}

/* A request of two rows for the small table. */
static void fill_request(struct tensor request[5])
{
    static float first[] = {1.5f, -2}, second[] = {0, 7};
    static struct text_view a[] = {{"x", 1}, {"", 0}}, b[] = {{"68fd1e64", 8}, {"y", 1}},
                            c[] = {{" ", 1}, {"a longer category", 17}};
    void *data[] = {first, second, a, b, c};
    for (int i = 0; i < 5; i++)
        request[i] = (struct tensor){i < 2 ? DTYPE_F32 : DTYPE_STRING, SHAPE(2), data[i]};
}

TEST(imported, columns_become_numbers_and_fingerprints_in_their_row)
{
    struct trained table = make_table();
    struct imported *model = read_new(export_new(&table, "columns"));
    const struct signature *predict = must_have(model, "predict");
    float numeric[3][2] = {{0}};
    int64_t category[3][3] = {{0}};
    struct tensor request[5],
        inputs[2] = {{DTYPE_I64, SHAPE(3, 3), category}, {DTYPE_F32, SHAPE(3, 2), numeric}};
    struct error err = {0};
    ASSERT_INT(predict->input_count, ==, 5);
    ASSERT_TEXT(model->inputs[0].name, "category");
    fill_request(request);
    /* In the order of the signature, which has the inputs' own. */
    struct tensor ordered[5];
    for (int i = 0; i < 5; i++) {
        bool number = predict->inputs[i].key[0] == 'I';
        int column = predict->inputs[i].key[1] - '1';
        ordered[i] = request[number ? column : 2 + column];
        ASSERT_INT(predict->inputs[i].dtype, ==, number ? DTYPE_F32 : DTYPE_STRING);
    }
    ASSERT_OK(imported_prepare(model, predict, ordered, 2, inputs, 1, &err), err);
    ASSERT_NUMBER((double)numeric[0][0], ==, 0); /* another request's row */
    ASSERT_NUMBER((double)numeric[1][0], ==, 1.5);
    ASSERT_NUMBER((double)numeric[2][1], ==, 7);
    ASSERT_INT(category[1][1], ==, fingerprint64("68fd1e64", 8));
    ASSERT_INT(category[2][0], ==, FINGERPRINT_MISSING);
    ASSERT_INT(category[2][2], ==, fingerprint64("a longer category", 17));
    imported_destroy(model);
    destroy_trained(&table);
}

TEST(imported, an_example_means_what_its_columns_mean)
{
    struct trained table = make_table();
    struct imported *model = read_new(export_new(&table, "example"));
    const struct signature *classify = must_have(model, "classification");
    float numeric[1][2] = {{9, 9}}, x = 2.5f;
    int64_t category[1][3] = {{0}}, whole = 3;
    struct tensor inputs[2] = {{DTYPE_I64, SHAPE(1, 3), category},
                               {DTYPE_F32, SHAPE(1, 2), numeric}};
    struct strbuf message;
    struct error err = {0};
    strbuf_init(&message);
    example_begin(&message);
    example_add_float(&message, "I2", &x, 1);
    example_add_bytes(&message, "C1", "abc", 3);
    example_end(&message);
    struct text_view view = {message.text, message.length};
    struct tensor request = {DTYPE_STRING, SHAPE(1), &view};
    ASSERT_TEXT(classify->method, "tensorflow/serving/classify");
    ASSERT_OK(imported_prepare(model, classify, &request, 1, inputs, 0, &err), err);
    ASSERT_NUMBER((double)numeric[0][0], ==, 0);
    ASSERT_NUMBER((double)numeric[0][1], ==, 2.5);
    ASSERT_INT(category[0][0], ==, fingerprint64("abc", 3));
    ASSERT_INT(category[0][1], ==, fingerprint64(" ", 1)); /* absent, as Criteo's rows are read */
    example_begin(&message);
    example_add_int64(&message, "I2", &whole, 1);
    example_end(&message);
    view = (struct text_view){message.text, message.length};
    ASSERT_FAILS(imported_prepare(model, classify, &request, 1, inputs, 0, &err), err, ERROR_FORMAT,
                 "input inputs: row 0: its feature I2 is not one float");
    strbuf_release(&message);
    imported_destroy(model);
    destroy_trained(&table);
}

TEST(imported, two_classes_are_answered_with_all_keys_of_the_estimator)
{
    static const char *const keys[] = {"logits",  "logistic",      "probabilities", "class_ids",
                                       "classes", "all_class_ids", "all_classes"};
    struct trained table = make_table();
    struct imported *model = read_new(export_new(&table, "answers"));
    const struct signature *predict = must_have(model, "predict");
    struct arena *arena = arena_create();
    float logits[] = {9, 2, -1}; /* the first row is another request's */
    struct tensor output = {DTYPE_F32, SHAPE(3, 1), logits}, reply[7];
    struct error err = {0};
    ASSERT_INT(predict->output_count, ==, 7);
    ASSERT_OK(imported_finish(model, predict, &output, 1, 2, arena, reply, &err), err);
    for (int i = 0; i < 7; i++)
        ASSERT_TEXT(predict->outputs[i].key, keys[i]);
    const float *pairs = reply[2].data;
    ASSERT_NEAR((double)((float *)reply[1].data)[0], 1 / (1 + exp(-2)), 1e-6, 1);
    ASSERT_NEAR((double)pairs[1], 1 / (1 + exp(-2)), 1e-6, 1);
    ASSERT_NEAR((double)(pairs[2] + pairs[3]), 1, 1e-6, 1);
    ASSERT_INT(((int64_t *)reply[3].data)[0], ==, 1);
    ASSERT_INT(((int64_t *)reply[3].data)[1], ==, 0);
    ASSERT_TEXT(((struct text_view *)reply[4].data)[0].bytes, "1");
    ASSERT_INT(((int32_t *)reply[5].data)[3], ==, 1);
    ASSERT_TEXT(((struct text_view *)reply[6].data)[2].bytes, "0");
    arena_destroy(arena);
    imported_destroy(model);
    destroy_trained(&table);
}

TEST(imported, classes_are_answered_by_number_probability_and_label)
{
    static const char *const labels[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
    struct trained digits = make_digits();
    digits.face.labels = labels;
    digits.face.label_count = 10;
    struct imported *model = read_new(export_new(&digits, "labelled"));
    const struct signature *signature = must_have(model, "serving_default");
    struct arena *arena = arena_create();
    float logits[10] = {0, 0, 3};
    struct tensor output = {DTYPE_F32, SHAPE(1, 10), logits}, reply[3];
    struct error err = {0};
    ASSERT_INT(model->label_count, ==, 10);
    ASSERT_INT(signature->output_count, ==, 3);
    ASSERT_OK(imported_finish(model, signature, &output, 0, 1, arena, reply, &err), err);
    ASSERT_INT(*(int64_t *)reply[0].data, ==, 2);
    ASSERT_NEAR((double)((float *)reply[1].data)[2], exp(3) / (exp(3) + 9), 1e-6, 1);
    ASSERT_TEXT(((struct text_view *)reply[2].data)->bytes, "c");
    arena_destroy(arena);
    imported_destroy(model);
    destroy_trained(&digits);
}

/* ---- damage ---- */

static void assert_refused(const char *path, const char *why)
{
    struct imported *model;
    struct error err;
    ASSERT_FAILS(imported_read(path, &model, &err), err, ERROR_FORMAT, why);
}

static void write_text(const char *path, const char *text)
{
    struct error err = {0};
    ASSERT_OK(file_write_atomic(path, text, strlen(text), &err), err);
}

TEST(imported, an_export_of_which_a_part_is_missing_or_cut_is_refused)
{
    static const char *const labels[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
    struct trained digits = make_digits();
    char graph[PATH_MAX + 64], names[PATH_MAX + 64];
    digits.face.labels = labels;
    digits.face.label_count = 10;
    const char *path = export_new(&digits, "parts");
    snprintf(names, sizeof names, "%s/assets/labels.txt", path);
    snprintf(graph, sizeof graph, "%s/saved_model.pb", path);
    ASSERT_INT(remove(names), ==, 0);
    assert_refused(path, "assets/labels.txt of the export is missing");
    write_text(names, "0\n1\n2\n3\n");
    assert_refused(path, "assets/labels.txt has 8 bytes, 20 were exported");
    write_text(names, "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    imported_destroy(read_new(path));
    ASSERT_INT(truncate(graph, 1000), ==, 0);
    assert_refused(path, "saved_model.pb has 1000 bytes");
    ASSERT_INT(remove(graph), ==, 0);
    assert_refused(path, "saved_model.pb of the export is missing");
    destroy_trained(&digits);
}

TEST(imported, an_export_that_does_not_list_its_files_is_read_as_it_is)
{
    struct trained digits = make_digits();
    const char *path = export_new(&digits, "unlisted");
    char face[PATH_MAX + 64];
    snprintf(face, sizeof face, "%s/assets.extra/lockstep.json", path);
    write_text(face, "{\"lockstep_export\": 1, \"model\": \"mnist_custom\", \"built_in\": true, "
                     "\"args\": {\"classes\": 10, \"image_size\": 28}}");
    imported_destroy(read_new(path));
    write_text(face, "{\"lockstep_export\": 1, \"model\": \"mnist_custom\", \"built_in\": true, "
                     "\"args\": {\"classes\": 10, \"image_size\": 28}, "
                     "\"files\": [{\"path\": \"../x\", \"bytes\": 1}]}");
    assert_refused(path, "its list of files is not right");
    destroy_trained(&digits);
}

TEST(imported, what_is_missing_or_of_another_network_is_named)
{
    struct trained digits = make_digits();
    const char *path = export_new(&digits, "wrong");
    struct imported *model;
    struct error err = {0};
    char face[PATH_MAX + 64];
    snprintf(face, sizeof face, "%s/assets.extra/lockstep.json", path);
    const char *other =
        "{\"lockstep_export\": 1, \"model\": \"mnist_keras\", \"built_in\": true, \"args\": "
        "{\"classes\": 10, \"image_size\": 28}}";
    ASSERT_OK(file_write_atomic(face, other, strlen(other), &err), err);
    ASSERT_INT(imported_read(path, &model, &err), ==, -1);
    ASSERT_INT(err.code, ==, ERROR_FORMAT);
    other = "{\"lockstep_export\": 2}";
    ASSERT_OK(file_write_atomic(face, other, strlen(other), &err), err);
    ASSERT_INT(imported_read(path, &model, &err), ==, -1);
    ASSERT_CONTAINS(err.message, "an export of form 2; this version reads form 1");
    ASSERT_INT(imported_read(test_path("nowhere"), &model, &err), ==, -1);
    ASSERT_CONTAINS(err.message, "saved_model.pb");
    destroy_trained(&digits);
}
