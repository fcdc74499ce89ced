#include "serve/model_message.h"

#include "base/arena.h"
#include "base/strbuf.h"
#include "convert/imported.h"
#include "serve/example_message.h"
#include "serve/examples.h"
#include "serve/reflection_message.h"
#include "serve/repository.h"
#include "support/test.h"

static struct strbuf message;
static struct arena *arena;
static struct error err;

static void begin(void)
{
    if (!arena) {
        arena = arena_create();
        strbuf_init(&message);
    }
    strbuf_clear(&message);
}

static void add_spec(const char *name)
{
    size_t spec = proto_begin(&message, 1);
    proto_add_text(&message, 1, name);
    proto_end(&message, spec);
}

/* Whether these bytes are somewhere in the message. */
static bool holds(const char *text)
{
    return memmem(message.text, message.length, text, strlen(text)) != NULL;
}

TEST(model_message, reads_what_metadata_are_asked_for)
{
    struct metadata_request request;
    begin();
    add_spec("net");
    proto_add_text(&message, 2, "signature_def");
    ASSERT_OK(metadata_request_read(message.text, message.length, arena, &request, &err), err);
    ASSERT_INT(request.field_count, ==, 1);
    ASSERT_TRUE(!request.unknown && request.spec.present);
    proto_add_text(&message, 2, "graph");
    ASSERT_OK(metadata_request_read(message.text, message.length, arena, &request, &err), err);
    ASSERT_TEXT(request.unknown, "graph");
}

TEST(model_message, writes_signatures_with_an_open_batch)
{
    static const struct signature_tensor tensors[] = {
        {"x", "serving_x:0", DTYPE_F32, {2, {SHAPE_BATCH, 3}}}};
    static const struct signature signatures[] = {{.name = "serving_default",
                                                   .method = "tensorflow/serving/predict",
                                                   .inputs = tensors,
                                                   .input_count = 1,
                                                   .outputs = tensors,
                                                   .output_count = 1}};
    struct imported model = {.signatures = signatures, .signature_count = 1};
    begin();
    metadata_reply_write("net", 7, &model, &message);
    ASSERT_TRUE(holds("type.googleapis.com/tensorflow.serving.SignatureDefMap"));
    ASSERT_TRUE(holds("serving_x:0"));
    ASSERT_TRUE(holds("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")); /* size: -1 */
}

TEST(model_message, writes_the_state_of_versions)
{
    struct version_status versions[] = {
        {.version = 7, .state = VERSION_AVAILABLE, .message = ""},
        {.version = 6, .state = VERSION_END, .code = SERVE_INTERNAL, .message = "torn"}};
    struct model_status status = {.versions = versions, .count = 2};
    begin();
    status_reply_write(&status, &message);
    ASSERT_BYTES(
        message.text,
        "\x0a\x06\x08\x07\x10\x1e\x1a\x00\x0a\x0e\x08\x06\x10\x32\x1a\x08\x08\x0d\x12\x04torn", 24);
}

/* ModelConfig, inside request, config and list. */
static void add_config(const char *name, const void *more, size_t bytes)
{
    size_t config = proto_begin(&message, 1), list = proto_begin(&message, 1);
    size_t model = proto_begin(&message, 1);
    proto_add_text(&message, 1, name);
    proto_add_text(&message, 2, "/models/net");
    strbuf_add_bytes(&message, more, bytes);
    proto_end(&message, model);
    proto_end(&message, list);
    proto_end(&message, config);
}

static int read_reload(struct reload_request *request, struct model_list *models)
{
    return reload_request_read(message.text, message.length, arena, request, models, &err);
}

TEST(model_message, reads_a_new_configuration)
{
    struct reload_request request;
    struct model_list models;
    begin();
    /* specific { versions: 3 4 } version_labels { "stable": 3 } */
    static const char more[] = "\x3a\x07\xb2\x06\x04\x0a\x02\x03\x04\x42\x0a\x0a\x06stable\x10\x03";
    add_config("net", more, sizeof more - 1);
    ASSERT_OK(read_reload(&request, &models), err);
    ASSERT_TRUE(request.has_list);
    ASSERT_INT(models.count, ==, 1);
    ASSERT_TEXT(models.models[0].base_path, "/models/net");
    ASSERT_INT(models.models[0].policy, ==, POLICY_SPECIFIC);
    ASSERT_INT(models.models[0].version_count, ==, 2);
    ASSERT_INT(models.models[0].versions[1], ==, 4);
    ASSERT_TEXT(models.models[0].labels[0].name, "stable");
    ASSERT_INT(models.models[0].labels[0].version, ==, 3);
}

TEST(model_message, refuses_a_configuration_that_it_cannot_honour)
{
    struct reload_request request;
    struct model_list models;
    begin();
    add_config("net", "\x22\x05other", 7);
    ASSERT_FAILS(read_reload(&request, &models), err, ERROR_FORMAT, "model_platform 'other'");
    begin();
    add_config("net", "\x32\x00", 2);
    ASSERT_FAILS(read_reload(&request, &models), err, ERROR_FORMAT, "logging_config");
    begin();
    proto_add_bytes(&message, 1, "\x12\x00", 2);
    ASSERT_OK(read_reload(&request, &models), err);
    ASSERT_FALSE(request.has_list);
}

/* ---- examples ------------------------------------------------------------------------------- */

TEST(example_message, reads_examples_and_their_context)
{
    struct example_request request;
    begin();
    add_spec("net");
    size_t input = proto_begin(&message, 2), list = proto_begin(&message, 2);
    proto_add_text(&message, 1, "one");
    proto_add_text(&message, 2, "context");
    proto_add_text(&message, 1, "two");
    proto_end(&message, list);
    proto_end(&message, input);
    ASSERT_OK(example_request_read(message.text, message.length, arena, &request, &err), err);
    ASSERT_TEXT(request.tasks[0].spec.name, "net");
    ASSERT_INT(request.example_count, ==, 2);
    ASSERT_BYTES(request.examples[1].bytes, "two", 3);
    ASSERT_INT(request.context.count, ==, 7);
}

TEST(example_message, reads_several_tasks)
{
    struct example_request request;
    begin();
    for (int i = 0; i < 2; i++) {
        size_t task = proto_begin(&message, 1);
        add_spec("net");
        proto_add_text(&message, 2, i ? REGRESS_METHOD : CLASSIFY_METHOD);
        proto_end(&message, task);
    }
    ASSERT_OK(multi_request_read(message.text, message.length, arena, &request, &err), err);
    ASSERT_INT(request.task_count, ==, 2);
    ASSERT_TEXT(request.tasks[1].method, REGRESS_METHOD);
    ASSERT_TEXT(request.tasks[1].spec.name, "net");
}

TEST(example_message, writes_labels_and_scores_row_by_row)
{
    struct text_view labels[] = {{"no", 2}, {"yes", 3}};
    float scores[] = {0.25f, 0.75f};
    struct classification result = {.rows = 1, .classes = 2, .labels = labels, .scores = scores};
    begin();
    classify_result_write(1, &result, &message);
    ASSERT_BYTES(message.text,
                 "\x0a\x19\x0a\x17\x0a\x09\x0a\x02no\x15\x00\x00\x80\x3e"
                 "\x0a\x0a\x0a\x03yes\x15\x00\x00\x40\x3f",
                 message.length);
    begin();
    regress_result_write(1, scores, 2, &message);
    ASSERT_INT(message.length, ==, 16);
}

/* ---- reflection ----------------------------------------------------------------------------- */

static void ask(uint32_t number, const char *text)
{
    struct strbuf request;
    size_t bytes;
    const void *set = services_descriptors(&bytes);
    begin();
    strbuf_init(&request);
    proto_add_text(&request, number, text);
    ASSERT_OK(reflection_answer(set, bytes, request.text, request.length, &message, &err), err);
    strbuf_release(&request);
}

TEST(reflection_message, lists_services_and_the_files_that_declare_them)
{
    ask(7, "*");
    ASSERT_TRUE(holds("tensorflow.serving.PredictionService"));
    ASSERT_TRUE(holds("inference.GRPCInferenceService"));
    ASSERT_TRUE(holds("grpc.health.v1.Health"));
    ask(4, "tensorflow.serving.PredictionService.Predict");
    ASSERT_TRUE(holds("tensorflow_serving/apis/predict.proto"));
    ASSERT_TRUE(holds("TensorShapeProto")); /* what it imports comes along */
    ask(4, "tensorflow.TensorShapeProto.Dim");
    ASSERT_TRUE(holds("unknown_rank"));
    ask(3, "grpc/health/v1/health.proto");
    ASSERT_TRUE(holds("HealthCheckRequest"));
}

TEST(reflection_message, says_what_is_not_there)
{
    ask(4, "tensorflow.serving.PredictionService.Guess");
    ASSERT_TRUE(holds("symbol not found"));
    ask(4, "tensorflow.serving.Prediction");
    ASSERT_TRUE(holds("symbol not found"));
    ask(3, "nothing.proto");
    ASSERT_TRUE(holds("file not found"));
    ask(6, "tensorflow.TensorProto");
    ASSERT_FALSE(holds("not found"));
}
