#include "serve/predict_message.h"

#include "base/arena.h"
#include "base/strbuf.h"
#include "convert/imported.h"
#include "serve/tensor_message.h"
#include "support/test.h"

static struct strbuf message;
static struct arena *arena;
static struct error err;
static struct predict_request request;

static const struct signature_tensor inputs[] = {
    {"a", "a:0", DTYPE_F32, {1, {SHAPE_BATCH}}},
    {"b", "b:0", DTYPE_STRING, {1, {SHAPE_BATCH}}},
};
static const struct signature_tensor outputs[] = {
    {"p", "p:0", DTYPE_F32, {2, {SHAPE_BATCH, 2}}},
    {"c", "c:0", DTYPE_I64, {1, {SHAPE_BATCH}}},
};
static const struct signature signature = {
    .name = "predict", .inputs = inputs, .input_count = 2, .outputs = outputs, .output_count = 2};

static const struct tensor numbers = {DTYPE_F32, {1, {2}}, (float[]){1, 2}};
static const struct tensor texts = {
    DTYPE_STRING, {1, {2}}, (struct text_view[]){{"x", 1}, {"", 0}}};

static void begin(void)
{
    if (!arena) {
        arena = arena_create();
        strbuf_init(&message);
    }
    strbuf_clear(&message);
}

static int read_request(void)
{
    return predict_request_read(message.text, message.length, arena, &request, &err);
}

TEST(predict_message, reads_spec_inputs_and_filter_in_any_order)
{
    struct tensor *read;
    begin();
    predict_request_add("b", &texts, &message);
    proto_add_text(&message, 3, "p");
    predict_request_begin("net", "predict", 12, &message);
    predict_request_add("a", &numbers, &message);
    ASSERT_OK(read_request(), err);
    ASSERT_TEXT(request.spec.name, "net");
    ASSERT_TEXT(request.spec.signature, "predict");
    ASSERT_TRUE(request.spec.has_version);
    ASSERT_INT(request.spec.version, ==, 12);
    ASSERT_OK(predict_request_inputs(&request, &signature, 1 << 20, arena, &read, &err), err);
    ASSERT_BYTES(read[0].data, numbers.data, 8);
    ASSERT_INT(((struct text_view *)read[1].data)[0].bytes[0], ==, 'x');
    bool *wanted;
    ASSERT_OK(predict_request_outputs(&request, &signature, arena, &wanted, &err), err);
    ASSERT_TRUE(wanted[0]);
    ASSERT_FALSE(wanted[1]);
}

TEST(predict_message, takes_the_last_of_two_inputs_of_one_name)
{
    struct tensor *read;
    struct tensor other = {DTYPE_F32, SHAPE(2), (float[]){8, 9}};
    begin();
    predict_request_add("a", &numbers, &message);
    predict_request_add("b", &texts, &message);
    predict_request_add("a", &other, &message);
    ASSERT_OK(read_request(), err);
    ASSERT_FALSE(request.spec.present);
    ASSERT_OK(predict_request_inputs(&request, &signature, 1 << 20, arena, &read, &err), err);
    ASSERT_BYTES(read[0].data, other.data, 8);
}

TEST(predict_message, names_inputs_that_are_missing_or_too_many)
{
    struct tensor *read;
    begin();
    predict_request_add("a", &numbers, &message);
    predict_request_add("z", &numbers, &message);
    ASSERT_OK(read_request(), err);
    ASSERT_FAILS(predict_request_inputs(&request, &signature, 1 << 20, arena, &read, &err), err,
                 ERROR_FORMAT, "Sent extra: {z}. Missing but required: {b}.");
}

TEST(predict_message, takes_no_more_bytes_than_the_limit_for_all_inputs_together)
{
    struct tensor *read;
    begin();
    predict_request_add("a", &numbers, &message);
    predict_request_add("b", &texts, &message);
    ASSERT_OK(read_request(), err);
    ASSERT_FAILS(predict_request_inputs(&request, &signature, 8 + 16, arena, &read, &err), err,
                 ERROR_FORMAT, "input \"b\"");
    ASSERT_OK(predict_request_inputs(&request, &signature, 8 + 32, arena, &read, &err), err);
}

TEST(predict_message, refuses_an_unknown_or_repeated_output)
{
    bool *wanted;
    begin();
    proto_add_text(&message, 3, "q");
    ASSERT_OK(read_request(), err);
    ASSERT_FAILS(predict_request_outputs(&request, &signature, arena, &wanted, &err), err,
                 ERROR_FORMAT, "output tensor alias not found in signature: q");
    begin();
    proto_add_text(&message, 3, "c");
    proto_add_text(&message, 3, "c");
    ASSERT_OK(read_request(), err);
    ASSERT_FAILS(predict_request_outputs(&request, &signature, arena, &wanted, &err), err,
                 ERROR_FORMAT, "duplicate output tensor alias: c");
}

TEST(predict_message, writes_replies_that_clients_find_their_outputs_in)
{
    struct tensor written[] = {{DTYPE_F32, SHAPE(1, 2), (float[]){0.25f, 0.75f}},
                               {DTYPE_I64, SHAPE(1), (int64_t[]){1}}};
    struct tensor read;
    begin();
    predict_reply_write("net", &signature, 7, written, (bool[]){true, false}, false, &message);
    ASSERT_OK(predict_reply_find(message.text, message.length, "p", 1 << 20, arena, &read, &err),
              err);
    ASSERT_BYTES(read.data, written[0].data, 8);
    ASSERT_FAILS(predict_reply_find(message.text, message.length, "c", 1 << 20, arena, &read, &err),
                 err, ERROR_FORMAT, "no output 'c'");
}

TEST(predict_message, refuses_names_with_a_nul_and_messages_nested_too_deep)
{
    begin();
    size_t spec = proto_begin(&message, 1);
    proto_add_bytes(&message, 1, "a\0b", 3);
    proto_end(&message, spec);
    ASSERT_FAILS(read_request(), err, ERROR_FORMAT, "NUL");
    begin();
    for (int i = 0; i < 100000; i++)
        strbuf_add_bytes(&message, "\x12\xff\xff\xff\x01", 5); /* field 2, long, again and again */
    ASSERT_INT(read_request(), ==, -1);
}

TEST(predict_message, takes_a_label_or_a_version_whichever_comes_last)
{
    begin();
    size_t spec = proto_begin(&message, 1);
    proto_add_text(&message, 4, "canary");
    proto_add_bytes(&message, 2, "\x08\x05", 2);
    proto_end(&message, spec);
    ASSERT_OK(read_request(), err);
    ASSERT_TRUE(request.spec.has_version && !request.spec.label);
    spec = proto_begin(&message, 1);
    proto_add_text(&message, 4, "stable");
    proto_end(&message, spec);
    ASSERT_OK(read_request(), err);
    ASSERT_TRUE(!request.spec.has_version);
    ASSERT_TEXT(request.spec.label, "stable");
}
