/* Requests that come with a version and are replayed before it is served. */
#include "serve/warmup.h"

#include "base/arena.h"
#include "base/files.h"
#include "base/strbuf.h"
#include "convert/imported.h"
#include "serve/predict_message.h"
#include "serve/repository.h"
#include "serve/servable.h"
#include "support/fake_model.h"
#include "support/test.h"
#include "wire/proto.h"
#include "wire/tfrecord.h"

/* A PredictionLog with a PredictRequest of one input. */
static void make_log(const char *input, float first, struct strbuf *out)
{
    float values[FAKE_INPUTS] = {first, 2, 3, 4};
    struct tensor tensor = {DTYPE_F32, SHAPE(1, FAKE_INPUTS), values};
    strbuf_clear(out);
    size_t log = proto_begin(out, 6);
    size_t request = proto_begin(out, 1);
    struct strbuf message;
    strbuf_init(&message);
    predict_request_begin("m", "serving_default", 0, &message);
    predict_request_add(input, &tensor, &message);
    strbuf_add_bytes(out, message.text, message.length);
    strbuf_release(&message);
    proto_end(out, request);
    proto_end(out, log);
}

static void write_requests(const char *directory, const char *input, float first)
{
    char path[512];
    struct error err = {0};
    struct tfrecord_writer *writer;
    struct strbuf log;
    strbuf_init(&log);
    snprintf(path, sizeof path, "%s/1/assets.extra", directory);
    ASSERT_OK(directory_make(path, &err), err);
    snprintf(path, sizeof path, "%s/1/assets.extra/tf_serving_warmup_requests", directory);
    ASSERT_OK(tfrecord_writer_create(path, TFRECORD_PLAIN, &writer, &err), err);
    make_log(input, first, &log);
    ASSERT_OK(tfrecord_writer_add(writer, log.text, log.length, &err), err);
    ASSERT_OK(tfrecord_writer_finish(writer, &err), err);
    tfrecord_writer_destroy(writer);
    strbuf_release(&log);
}

/* The state of version 1 after a look, and what is said of it. */
static enum version_state load(const char *directory, char *message, size_t bytes)
{
    struct error err = {0};
    struct repository *repository;
    struct repository_settings settings = {
        .warm_up = true, .workers = 1, .threads = 1, .max_batch = 2, .calls = &fake_model_calls};
    struct model_config model = {.name = "m", .base_path = directory, .latest = 1};
    struct serve_target target = {"m", 1, NULL};
    struct model_status status;
    struct arena *arena = arena_create();
    fake_gate_open();
    ASSERT_OK(repository_create(&settings, &repository, &err), err);
    ASSERT_OK(repository_configure(repository, &(struct model_list){&model, 1}, &err), err);
    repository_look(repository);
    ASSERT_INT(repository_model_status(repository, &target, arena, &status, &err), ==, SERVE_OK);
    enum version_state state = status.versions[0].state;
    snprintf(message, bytes, "%s", status.versions[0].message);
    arena_destroy(arena);
    repository_destroy(repository);
    return state;
}

TEST(warmup, replays_what_comes_with_a_version)
{
    char message[512];
    const char *directory = test_path("good");
    fake_model_write(directory, 1, "1");
    write_requests(directory, "x", 1);
    ASSERT_INT(load(directory, message, sizeof message), ==, VERSION_AVAILABLE);
}

TEST(warmup, keeps_a_version_out_that_cannot_answer_its_own_requests)
{
    char message[512];
    const char *directory = test_path("bad");
    fake_model_write(directory, 1, "1");
    write_requests(directory, "x", 666);
    ASSERT_INT(load(directory, message, sizeof message), ==, VERSION_END);
    ASSERT_CONTAINS(message, "record 1");
    ASSERT_CONTAINS(message, "666 is a bad value");
    const char *other = test_path("other");
    fake_model_write(other, 1, "1");
    write_requests(other, "z", 1);
    ASSERT_INT(load(other, message, sizeof message), ==, VERSION_END);
}

TEST(warmup, refuses_a_damaged_file)
{
    char message[512];
    const char *directory = test_path("torn");
    fake_model_write(directory, 1, "1");
    write_requests(directory, "x", 1);
    test_file("torn/1/assets.extra/tf_serving_warmup_requests", "not a record, not at all", 24);
    ASSERT_INT(load(directory, message, sizeof message), ==, VERSION_END);
    ASSERT_CONTAINS(message, "tf_serving_warmup_requests");
}

TEST(warmup, leaves_out_what_is_no_predict)
{
    struct error err = {0};
    struct servable *servable;
    struct servable_settings settings = {
        .name = "m", .max_batch = 2, .workers = 1, .threads = 1, .calls = &fake_model_calls};
    ASSERT_OK(servable_create(&settings, fake_model_make(1), &servable, &err), err);
    struct strbuf log;
    strbuf_init(&log);
    proto_end(&log, proto_begin(&log, 2)); /* classify_log */
    ASSERT_INT(warmup_record(servable, log.text, log.length, &err), ==, 0);
    make_log("x", 1, &log);
    ASSERT_INT(warmup_record(servable, log.text, log.length, &err), ==, 1);
    ASSERT_INT(warmup_record(servable, log.text, log.length - 1, &err), ==, -1);
    strbuf_release(&log);
    servable_release(servable);
}
