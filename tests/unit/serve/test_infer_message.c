#include "serve/infer_message.h"

#include "base/arena.h"
#include "base/strbuf.h"
#include "convert/imported.h"
#include "serve/inference.h"
#include "support/test.h"

static struct strbuf message;
static struct arena *arena;
static struct error err;
static struct infer_request request;

static const struct signature_tensor inputs[] = {
    {"a", "a:0", DTYPE_F32, {1, {SHAPE_BATCH}}},
    {"b", "b:0", DTYPE_STRING, {1, {SHAPE_BATCH}}},
};
static const struct signature signature = {
    .name = "predict", .inputs = inputs, .input_count = 2, .outputs = inputs, .output_count = 2};

static void begin(void)
{
    if (!arena) {
        arena = arena_create();
        strbuf_init(&message);
    }
    strbuf_clear(&message);
    proto_add_text(&message, 1, "net");
}

static void add_input(const char *name, const char *datatype, int rows, uint32_t list,
                      const void *contents, size_t bytes)
{
    size_t input = proto_begin(&message, 5);
    proto_add_text(&message, 1, name);
    proto_add_text(&message, 2, datatype);
    proto_add_varint(&message, 3, (uint64_t)rows);
    if (contents) {
        size_t inner = proto_begin(&message, 5);
        proto_add_bytes(&message, list, contents, bytes);
        proto_end(&message, inner);
    }
    proto_end(&message, input);
}

static int read_request(struct tensor **out)
{
    if (infer_request_read(message.text, message.length, arena, &request, &err) < 0)
        return -1;
    return infer_request_inputs(&request, &signature, 1 << 20, arena, out, &err);
}

TEST(infer_message, takes_contents_in_any_order_of_inputs)
{
    struct tensor *read;
    float values[] = {1.5f};
    begin();
    add_input("b", "BYTES", 1, 8, "text", 4);
    add_input("a", "FP32", 1, 6, values, sizeof values);
    ASSERT_OK(read_request(&read), err);
    ASSERT_BYTES(read[0].data, values, sizeof values);
    ASSERT_BYTES(((struct text_view *)read[1].data)->bytes, "text", 4);
}

TEST(infer_message, takes_raw_contents)
{
    struct tensor *read;
    float values[] = {1.5f, 2};
    begin();
    add_input("a", "FP32", 2, 0, NULL, 0);
    add_input("b", "BYTES", 2, 0, NULL, 0);
    proto_add_bytes(&message, 7, values, sizeof values);
    proto_add_bytes(&message, 7, "\2\0\0\0xy\0\0\0\0", 10);
    ASSERT_OK(read_request(&read), err);
    ASSERT_BYTES(read[0].data, values, sizeof values);
    const struct text_view *texts = read[1].data;
    ASSERT_BYTES(texts[0].bytes, "xy", 2);
    ASSERT_INT(texts[1].count, ==, 0);
}

TEST(infer_message, refuses_contents_that_are_not_what_the_shape_says)
{
    struct tensor *read;
    begin();
    add_input("a", "FP32", 2, 6, "1234", 4);
    add_input("b", "BYTES", 1, 8, "text", 4);
    ASSERT_FAILS(read_request(&read), err, ERROR_FORMAT, "not the 2 values");
    begin();
    add_input("a", "FP32", 1, 0, NULL, 0);
    add_input("b", "BYTES", 1, 0, NULL, 0);
    proto_add_bytes(&message, 7, "1234", 4);
    ASSERT_FAILS(read_request(&read), err, ERROR_FORMAT, "either all have some or none");
    proto_add_bytes(&message, 7, "\377\377\377\377x", 5);
    ASSERT_FAILS(read_request(&read), err, ERROR_FORMAT, "not the 1 values");
}

TEST(infer_message, names_what_it_does_not_take)
{
    struct tensor *read;
    bool *wanted;
    begin();
    add_input("a", "FP64", 1, 7, "12345678", 8);
    add_input("b", "BYTES", 1, 8, "text", 4);
    ASSERT_FAILS(read_request(&read), err, ERROR_FORMAT, "datatype is 'FP64'");
    begin();
    add_input("a", "FP32", 1, 6, "1234", 4);
    ASSERT_FAILS(read_request(&read), err, ERROR_FORMAT, "expected 2 inputs but got 1");
    begin();
    size_t output = proto_begin(&message, 6);
    proto_add_text(&message, 1, "q");
    proto_end(&message, output);
    ASSERT_OK(infer_request_read(message.text, message.length, arena, &request, &err), err);
    ASSERT_FAILS(infer_request_outputs(&request, &signature, arena, &wanted, &err), err,
                 ERROR_FORMAT, "output 'q'");
}

TEST(infer_message, takes_a_number_as_version_and_a_word_as_label)
{
    begin();
    proto_add_text(&message, 2, "12");
    ASSERT_OK(infer_request_read(message.text, message.length, arena, &request, &err), err);
    ASSERT_TRUE(request.spec.has_version && request.spec.version == 12 && !request.spec.label);
    begin();
    proto_add_text(&message, 2, "stable");
    ASSERT_OK(infer_request_read(message.text, message.length, arena, &request, &err), err);
    ASSERT_FALSE(request.spec.has_version);
    ASSERT_TEXT(request.spec.label, "stable");
}

/* The reply's fields of this number; *first gets the first. */
static int count_fields(uint32_t number, struct proto_field *first)
{
    struct proto_reader reader;
    struct proto_field field;
    int count = 0;
    proto_open(&reader, message.text, message.length);
    while (proto_next(&reader, &field, &err) > 0)
        if (field.number == number && count++ == 0)
            *first = field;
    return count;
}

TEST(infer_message, answers_raw_when_it_was_asked_raw)
{
    struct tensor outputs[] = {{DTYPE_F32, SHAPE(1), (float[]){2}},
                               {DTYPE_STRING, SHAPE(1), (struct text_view[]){{"hey", 3}}}};
    struct proto_field field;
    begin();
    strbuf_clear(&message);
    struct infer_request raw = {.spec = {.name = "net"}, .id = "4711", .raw_count = 2};
    infer_reply_write(&raw, &signature, 7, outputs, NULL, &message);
    ASSERT_INT(count_fields(6, &field), ==, 2);
    ASSERT_BYTES(field.bytes, outputs[0].data, 4);
    ASSERT_INT(count_fields(5, &field), ==, 2);
    ASSERT_INT(count_fields(3, &field), ==, 1);
    strbuf_clear(&message);
    raw.raw_count = 0;
    infer_reply_write(&raw, &signature, 7, outputs, (bool[]){false, true}, &message);
    ASSERT_INT(count_fields(6, &field), ==, 0);
    ASSERT_INT(count_fields(5, &field), ==, 1);
}

TEST(infer_message, names_the_same_platform_as_rest)
{
    begin();
    strbuf_clear(&message);
    infer_metadata_write("net", 1, &signature, &message);
    static const char platform[] = "\x1a\x08" INFERENCE_PLATFORM "\x22"; /* the whole field */
    ASSERT_TRUE(memmem(message.text, message.length, platform, sizeof platform - 1));
}
