/* Bodies and paths of the REST interface, without a server: what TF Serving's documents show, and
 * what must be refused. */
#include "convert/imported.h"

#include <math.h>

#include "base/arena.h"
#include "base/strbuf.h"
#include "serve/base64.h"
#include "serve/examples.h"
#include "serve/json_scan.h"
#include "serve/rest_examples.h"
#include "serve/rest_path.h"
#include "serve/rest_predict.h"
#include "serve/rest_v2.h"
#include "support/test.h"
#include "wire/example.h"

static struct arena *arena;
static struct tensor inputs[8];
static int64_t rows;
static bool by_rows;
static struct error err;

/* --- signatures ------------------------------------------------------------------------------ */

static const struct signature_tensor number_in[] = {{"x", "x:0", DTYPE_F32, {1, {SHAPE_BATCH}}}};
static const struct signature_tensor matrix_in[] = {
    {"x", "x:0", DTYPE_F32, {3, {SHAPE_BATCH, 1, 2}}}};
static const struct signature_tensor text_in[] = {
    {"image_bytes", "b:0", DTYPE_STRING, {1, {SHAPE_BATCH}}}};
static const struct signature_tensor many_in[] = {
    {"tag", "t:0", DTYPE_STRING, {1, {SHAPE_BATCH}}},
    {"signal", "s:0", DTYPE_F32, {2, {SHAPE_BATCH, 3}}},
    {"count", "c:0", DTYPE_I64, {1, {SHAPE_BATCH}}},
};
static const struct signature_tensor one_out[] = {{"y", "y:0", DTYPE_F32, {1, {SHAPE_BATCH}}}};

#define SIGNATURE(in, out)                                                                         \
    {                                                                                              \
        .name = "serving_default", .method = "tensorflow/serving/predict", .inputs = in,           \
        .outputs = out, .input_count = sizeof in / sizeof *in,                                     \
        .output_count = sizeof out / sizeof *out                                                   \
    }
static const struct signature numbers = SIGNATURE(number_in, one_out);
static const struct signature matrices = SIGNATURE(matrix_in, one_out);
static const struct signature texts = SIGNATURE(text_in, one_out);
static const struct signature many = SIGNATURE(many_in, one_out);

static int predict(const struct signature *signature, const char *text)
{
    struct rest_body body;
    arena_destroy(arena);
    arena = arena_create();
    err = (struct error){0};
    if (rest_body_read(text, strlen(text), arena, &body, &err) < 0)
        return -1;
    return rest_predict_read(&body, signature, arena, inputs, &rows, &by_rows, &err);
}

static void refuses(const struct signature *signature, const char *text, const char *why)
{
    ASSERT_FAILS(predict(signature, text), err, ERROR_FORMAT, why);
}

static float number_at(int input, int index)
{
    return ((const float *)inputs[input].data)[index];
}

static struct text_view text_at(int input, int index)
{
    return ((const struct text_view *)inputs[input].data)[index];
}

/* --- reading --------------------------------------------------------------------------------- */

TEST(rest, reads_rows_of_one_input)
{
    ASSERT_OK(predict(&numbers, "{\"instances\": [1.0, 2.5, -5e-1]}"), err);
    ASSERT_INT(rows, ==, 3);
    ASSERT_TRUE(by_rows);
    ASSERT_NUMBER(number_at(0, 1), ==, 2.5);
    ASSERT_NUMBER(number_at(0, 2), ==, -0.5);
    ASSERT_OK(predict(&matrices, "{\"instances\": [ [[1, 2]], [[3, 4]] ]}"), err);
    ASSERT_INT(rows, ==, 2);
    ASSERT_NUMBER(number_at(0, 3), ==, 4);
    ASSERT_OK(predict(&numbers, "{\"signature_name\": \"s\", \"instances\": [{\"x\": 7}]}"), err);
    ASSERT_NUMBER(number_at(0, 0), ==, 7);
}

TEST(rest, reads_rows_of_several_inputs)
{
    ASSERT_OK(predict(&many, "{\"instances\": ["
                             "{\"tag\": \"foo\", \"signal\": [1, 2, 3], \"count\": -4},"
                             "{\"count\": 5, \"tag\": \"b\\u00e4r\\n\", \"signal\": [3, 4, 1]}]}"),
              err);
    ASSERT_INT(rows, ==, 2);
    ASSERT_TRUE(text_is(text_at(0, 0), "foo"));
    ASSERT_TRUE(text_is(text_at(0, 1), "b\xc3\xa4r\n"));
    ASSERT_NUMBER(number_at(1, 5), ==, 1);
    ASSERT_INT(((const int64_t *)inputs[2].data)[0], ==, -4);
}

TEST(rest, reads_columns)
{
    ASSERT_OK(predict(&many, "{\"inputs\": {\"tag\": [\"foo\", \"bar\"],"
                             "\"signal\": [[1, 2, 3], [4, 5, 6]], \"count\": [1, 2]}}"),
              err);
    ASSERT_FALSE(by_rows);
    ASSERT_INT(rows, ==, 2);
    ASSERT_NUMBER(number_at(1, 5), ==, 6);
    ASSERT_OK(predict(&numbers, "{\"inputs\": [1, 2]}"), err);
    ASSERT_INT(rows, ==, 2);
}

TEST(rest, reads_bytes_as_base64)
{
    ASSERT_OK(
        predict(&texts, "{\"instances\": [{\"b64\": \"aW1hZ2UgYnl0ZXM=\"}, {\"b64\": \"AA\"}]}"),
        err);
    ASSERT_TRUE(text_is(text_at(0, 0), "image bytes"));
    ASSERT_INT(text_at(0, 1).count, ==, 1);
    ASSERT_OK(predict(&texts, "{\"instances\": [{\"image_bytes\": {\"b64\": \"YQ==\"}}]}"), err);
    ASSERT_TRUE(text_is(text_at(0, 0), "a"));
    refuses(&texts, "{\"instances\": [{\"b64\": \"a\"}]}", "Unable to base64 decode");
    refuses(&texts, "{\"instances\": [{\"b64\": \"YQ==\", \"c\": 1}]}", "more than that");
    refuses(&texts, "{\"instances\": [{\"image_bytes\": {\"c64\": \"YQ==\"}}]}", "b64");
}

TEST(rest, reads_numbers_that_are_not_finite)
{
    ASSERT_OK(predict(&numbers, "{\"instances\": [NaN, Infinity, -Infinity]}"), err);
    ASSERT_TRUE(isnan(number_at(0, 0)));
    ASSERT_TRUE(isinf(number_at(0, 1)) && number_at(0, 1) > 0);
    ASSERT_TRUE(isinf(number_at(0, 2)) && number_at(0, 2) < 0);
}

TEST(rest, reads_numbers_as_strtof_does)
{
    static const char *const numerals[] = {"0.1",
                                           "123456789",
                                           "1e-30",
                                           "3.4028235e38",
                                           "1.17549435e-38",
                                           "0.30000001192092896",
                                           "9007199254740993",
                                           "1e400",
                                           "-0.0",
                                           "1E+2"};
    for (size_t i = 0; i < sizeof numerals / sizeof *numerals; i++) {
        char text[128];
        snprintf(text, sizeof text, "{\"instances\": [%s]}", numerals[i]);
        ASSERT_OK(predict(&numbers, text), err);
        float wanted = (float)strtod(numerals[i], NULL), got = number_at(0, 0);
        ASSERT_BYTES(&got, &wanted, sizeof got);
    }
}

TEST(rest, refuses_bodies_that_are_not_what_they_should_be)
{
    refuses(&numbers, "", "The document is empty");
    refuses(&numbers, "[1]", "not a JSON object");
    refuses(&numbers, "{}", "Missing 'inputs' or 'instances' key");
    refuses(&numbers, "{\"instances\": [1], \"inputs\": [1]}", "only one of");
    refuses(&numbers, "{\"instances\": []}", "No values in 'instances'");
    refuses(&numbers, "{\"instances\": 1}", "to be an list/array");
    refuses(&numbers, "{\"instances\": [1, \"a\"]}", "element: 1 of 'instances'");
    refuses(&numbers, "{\"instances\": [1]", "Missing a comma or }");
    refuses(&numbers, "{\"instances\": [1 2]}", "Missing a comma or ]");
    refuses(&numbers, "{\"instances\": [01]}", "a number is wanted");
    refuses(&numbers, "{\"instances\": [1]} x", "more behind");
    refuses(&numbers, "{\"instances\": [1,]}", "Invalid value.");
    refuses(&numbers, "{\"signature_name\": 1, \"instances\": [1]}", "must be a string");
    refuses(&matrices, "{\"instances\": [[[1]]]}", "a list of 1 at level 1; the shape is");
    refuses(&matrices, "{\"instances\": [[[1,2,3]]]}", "more than 2");
    refuses(&matrices, "{\"instances\": [[[1,2]], [1,2]]}", "a list is wanted");
    refuses(&matrices, "{\"instances\": [[[[1],2]]]}", "not of expected type");
    refuses(&many, "{\"instances\": [1]}", "expecting list of objects");
    refuses(&many, "{\"instances\": [{\"tag\": \"a\", \"count\": 1}]}",
            "Missing named input: signal");
    refuses(&many, "{\"instances\": [{\"tug\": \"a\"}]}", "does not have named input: tug");
    refuses(&many, "{\"inputs\": {\"tag\": [\"a\"], \"count\": [1]}}",
            "Missing named input: signal in 'inputs' object");
    refuses(&many, "{\"instances\": [{\"tag\": \"a\", \"count\": 1.5, \"signal\": [1,2,3]}]}",
            "not of expected type: int64");
}

TEST(rest, refuses_what_is_nested_without_end)
{
    enum { DEPTH = 100000 };
    static char text[2 * DEPTH + 64];
    int used = snprintf(text, sizeof text, "{\"instances\": ");
    memset(text + used, '[', DEPTH);
    memset(text + used + DEPTH, ']', DEPTH);
    text[used + 2 * DEPTH] = '}';
    refuses(&numbers, text, "nested too deep");
    memset(text + used, '{', DEPTH);
    refuses(&numbers, text, "");
}

/* --- writing --------------------------------------------------------------------------------- */

static const char *written(void (*write)(struct strbuf *out))
{
    static struct strbuf out;
    strbuf_release(&out);
    strbuf_init(&out);
    write(&out);
    return out.text;
}

static void write_floats(struct strbuf *out)
{
    const float values[] = {3, 0.5F, 0.1F, 1e10F, 1e-7F, 1.0F / 3, NAN, -INFINITY};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        rest_write_float(out, values[i]);
        strbuf_add_char(out, ' ');
    }
}

TEST(rest, writes_numbers_that_are_read_back_the_same)
{
    ASSERT_TEXT(written(write_floats), "3.0 0.5 0.1 1e+10 1e-07 0.333333343 NaN -Infinity ");
}

static void write_texts(struct strbuf *out)
{
    rest_write_text(out, "a\"\\\n\x01\xc3\xa4\xff\xed\xa0\x80", 11);
}

TEST(rest, writes_texts_that_are_always_json)
{
    ASSERT_TEXT(written(write_texts), "\"a\\\"\\\\\\n\\u0001\xc3\xa4"
                                      "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
}

static const struct signature_tensor two_out[] = {
    {"scores", "s:0", DTYPE_F32, {2, {SHAPE_BATCH, 2}}},
    {"raw_bytes", "r:0", DTYPE_STRING, {1, {SHAPE_BATCH}}},
};
static const struct signature two = SIGNATURE(number_in, two_out);

static void write_rows(struct strbuf *out)
{
    float scores[] = {0.25F, 0.75F, 1, 0};
    struct text_view raw[] = {{"\x00\x01", 2}, {"abc", 3}};
    struct tensor outputs[] = {{DTYPE_F32, SHAPE(2, 2), scores}, {DTYPE_STRING, SHAPE(2), raw}};
    rest_predict_write(&two, outputs, 2, true, out);
    rest_predict_write(&two, outputs, 2, false, out);
}

TEST(rest, writes_rows_and_columns)
{
    ASSERT_TEXT(written(write_rows),
                "{\n    \"predictions\": [{\"scores\": [0.25, 0.75], \"raw_bytes\": "
                "{\"b64\": \"AAE=\"}},\n        {\"scores\": [1.0, 0.0], \"raw_bytes\": "
                "{\"b64\": \"YWJj\"}}]\n}\n"
                "{\n    \"outputs\": {\"scores\": [[0.25, 0.75], [1.0, 0.0]], \"raw_bytes\": "
                "[{\"b64\": \"AAE=\"}, {\"b64\": \"YWJj\"}]}\n}\n");
}

/* --- examples -------------------------------------------------------------------------------- */

TEST(rest, makes_tf_examples_of_json_objects)
{
    static const char text[] =
        "{\"context\": {\"tag\": \"both\"}, \"examples\": [{\"signal\": [1.5, 2.5, 3.5], "
        "\"count\": 7},"
        " {\"signal\": [4.5, 5.5, 6.5], \"count\": [8], \"tag\": {\"b64\": \"b3du\"}}]}";
    struct rest_body body;
    struct text_view *examples, context;
    int64_t count;
    arena_destroy(arena);
    arena = arena_create();
    ASSERT_OK(rest_body_read(text, strlen(text), arena, &body, &err), err);
    ASSERT_OK(rest_examples_read(&body, arena, &examples, &count, &context, &err), err);
    ASSERT_INT(count, ==, 2);
    ASSERT_OK(examples_to_inputs(&many, examples, count, context, arena, inputs, &err), err);
    ASSERT_TRUE(text_is(text_at(0, 0), "both"));
    ASSERT_TRUE(text_is(text_at(0, 1), "own"));
    ASSERT_NUMBER(number_at(1, 4), ==, 5.5);
    ASSERT_INT(((const int64_t *)inputs[2].data)[1], ==, 8);
}

TEST(rest, refuses_examples_that_lack_a_feature)
{
    static const char text[] = "{\"examples\": [{\"tag\": \"a\", \"count\": 1}]}";
    struct rest_body body;
    struct text_view *examples, context;
    int64_t count;
    arena_destroy(arena);
    arena = arena_create();
    ASSERT_OK(rest_body_read(text, strlen(text), arena, &body, &err), err);
    ASSERT_OK(rest_examples_read(&body, arena, &examples, &count, &context, &err), err);
    ASSERT_FAILS(examples_to_inputs(&many, examples, count, context, arena, inputs, &err), err,
                 ERROR_FORMAT, "example 0 has no feature 'signal'");
}

/* --- the Open Inference Protocol ------------------------------------------------------------- */

static struct rest_v2_request request;

static int infer(const struct signature *signature, const char *body, size_t bytes, size_t json)
{
    arena_destroy(arena);
    arena = arena_create();
    err = (struct error){0};
    return rest_v2_read(body, bytes, json, signature, arena, &request, &err);
}

static int infer_text(const struct signature *signature, const char *body)
{
    return infer(signature, body, strlen(body), strlen(body));
}

TEST(rest, reads_the_open_inference_protocol)
{
    ASSERT_OK(infer_text(&matrices,
                         "{\"id\": \"q1\", \"inputs\": [{\"name\": \"x\", \"shape\": [2, 1, 2], "
                         "\"datatype\": \"FP32\", \"data\": [1, 2, 3, 4]}]}"),
              err);
    ASSERT_INT(request.rows, ==, 2);
    ASSERT_NUMBER(((const float *)request.inputs[0].data)[3], ==, 4);
    ASSERT_TRUE(text_is(request.id, "q1"));
    ASSERT_INT(request.output_count, ==, 1);
    ASSERT_OK(infer_text(&matrices, "{\"inputs\": [{\"name\": \"x\", \"shape\": [1, 1, 2], "
                                    "\"datatype\": \"FP32\", \"data\": [[[1, 2]]]}]}"),
              err);
}

TEST(rest, reads_tensors_as_bytes_behind_the_json)
{
    static const char head[] =
        "{\"inputs\": [{\"name\": \"image_bytes\", \"shape\": [2], "
        "\"datatype\": \"BYTES\", \"parameters\": {\"binary_data_size\": 12}}],"
        " \"parameters\": {\"binary_data_output\": true}}";
    char body[512];
    memcpy(body, head, sizeof head - 1);
    memcpy(body + sizeof head - 1, "\x03\0\0\0abc\x01\0\0\0z", 12);
    ASSERT_OK(infer(&texts, body, sizeof head - 1 + 12, sizeof head - 1), err);
    const struct text_view *read = request.inputs[0].data;
    ASSERT_TRUE(text_is(read[0], "abc") && text_is(read[1], "z"));
    ASSERT_TRUE(request.binary[0]);
    ASSERT_FAILS(infer(&texts, body, sizeof head - 1 + 11, sizeof head - 1), err, ERROR_FORMAT,
                 "more than the body has");
    ASSERT_FAILS(infer(&texts, body, sizeof head - 1, sizeof head), err, ERROR_FORMAT,
                 "Inference-Header-Content-Length");
}

TEST(rest, refuses_wrong_questions_of_the_open_inference_protocol)
{
    static const char *const bodies[][2] = {
        {"{\"inputs\": []}", "input 'x' is missing"},
        {"{\"inputs\": [{\"name\": \"z\"}]}", "there is no input 'z'"},
        {"{\"inputs\": [{\"name\": \"x\", \"datatype\": \"INT8\"}]}", "FP32 is wanted"},
        {"{\"inputs\": [{\"name\": \"x\", \"datatype\": \"FP32\", \"shape\": [1, 2]}]}",
         "has the shape"},
        {"{\"inputs\": [{\"name\": \"x\", \"datatype\": \"FP32\", \"shape\": [1, 1, 2]}]}",
         "has no data"},
        {"{\"inputs\": [{\"name\": \"x\", \"datatype\": \"FP32\", \"shape\": [1, 1, 2], "
         "\"data\": [1]}]}",
         "a list of 1"},
        {"{\"outputs\": [{\"name\": \"q\"}]}", "there is no output 'q'"},
        {"{\"inputs\": [{\"name\": \"x\", \"datatype\": \"FP32\", \"shape\": [1, 1, 2], "
         "\"parameters\": {\"binary_data_size\": 9}}]}",
         "more than the body has"},
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        ASSERT_FAILS(infer_text(&matrices, bodies[i][0]), err, ERROR_FORMAT, bodies[i][1]);
}

/* --- paths ----------------------------------------------------------------------------------- */

TEST(rest, understands_paths)
{
    struct rest_path path;
    ASSERT_OK(rest_path_read("/v1/models/m", &path, &err), err);
    ASSERT_TRUE(path.verb == REST_STATUS && path.version < 0);
    ASSERT_OK(rest_path_read("/v1/models/a%20b/versions/12:predict", &path, &err), err);
    ASSERT_TRUE(path.verb == REST_PREDICT);
    ASSERT_INT(path.version, ==, 12);
    ASSERT_TEXT(path.model, "a b");
    ASSERT_OK(rest_path_read("/v1/models/m/labels/stable:classify", &path, &err), err);
    ASSERT_TEXT(path.label, "stable");
    ASSERT_TRUE(path.verb == REST_CLASSIFY);
    ASSERT_OK(rest_path_read("/v1/models/m/versions/3/metadata", &path, &err), err);
    ASSERT_TRUE(path.verb == REST_METADATA);
    ASSERT_OK(rest_path_read("/v2/models/m/versions/3/infer", &path, &err), err);
    ASSERT_TRUE(path.v2 && path.verb == REST_INFER);
    ASSERT_OK(rest_path_read("/v2/models/m/ready", &path, &err), err);
    static const char *const wrong[] = {"/v1/models/",
                                        "/v1/models/m:",
                                        "/v1/models/m:guess",
                                        "/v1/models/m/versions/x:predict",
                                        "/v1/models/%00",
                                        "/v1/models/m/versions/99999999999999999999",
                                        "/v3/models/m",
                                        "/v1/models/%2",
                                        "/v2/models/m/labels/x/infer"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ASSERT_FAILS(rest_path_read(wrong[i], &path, &err), err, ERROR_FORMAT, "");
    ASSERT_FAILS(rest_path_read("/v1/models/m/versions/99999999999999999999:predict", &path, &err),
                 err, ERROR_FORMAT, "Failed to convert version: 99999999999999999999 to numeric.");
    ASSERT_FAILS(rest_path_read("/v1/models/m/versions/x1", &path, &err), err, ERROR_FORMAT,
                 "Failed to convert version: x1 to numeric.");
}

TEST(rest, writes_and_reads_base64_of_every_length)
{
    char bytes[64], back[128];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 37 + 200);
    for (size_t count = 0; count <= sizeof bytes; count++) {
        struct strbuf text;
        size_t got;
        strbuf_init(&text);
        base64_encode(bytes, count, &text);
        ASSERT_TRUE(base64_decode(text.text, text.length, back, &got));
        ASSERT_INT(got, ==, count);
        ASSERT_BYTES(back, bytes, count);
        strbuf_release(&text);
    }
}
