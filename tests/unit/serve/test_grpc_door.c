#include "serve/grpc_door.h"

#include <pthread.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "convert/imported.h"
#include "serve/grpc_client.h"
#include "serve/predict_message.h"
#include "support/fake_core.h"
#include "support/test.h"

static const char predict_path[] = "/tensorflow.serving.PredictionService/Predict";

/* A door with a fake core behind it and one client. */
struct scene {
    struct fake_core *core;
    struct door_options options;
    struct grpc_door *door;
    struct grpc_client *client;
    struct grpc_reply reply;
    struct strbuf request;
    struct arena *arena;
    struct error err;
};

static void open_scene(struct scene *scene)
{
    char server[32];
    scene->core = scene->core ? scene->core : fake_core_create();
    scene->options.address = (struct address){.host = "127.0.0.1", .loopback = true};
    if (scene->options.message_limit == 0)
        scene->options.message_limit = 1 << 20;
    struct grpc_backend backend = fake_core_backend(scene->core);
    ASSERT_OK(grpc_door_open(&backend, &scene->options, &scene->door, &scene->err), scene->err);
    snprintf(server, sizeof server, "127.0.0.1:%d", grpc_door_port(scene->door));
    struct grpc_client_settings settings = {.server = server};
    ASSERT_OK(grpc_client_create(&settings, &scene->client, &scene->err), scene->err);
    grpc_reply_init(&scene->reply);
    strbuf_init(&scene->request);
    scene->arena = arena_create();
}

static void close_scene(struct scene *scene)
{
    grpc_client_destroy(scene->client);
    grpc_door_stop(scene->door);
    ASSERT_INT(fake_core_held_models(scene->core), ==, 0);
    fake_core_destroy(scene->core);
    grpc_reply_release(&scene->reply);
    strbuf_release(&scene->request);
    arena_destroy(scene->arena);
}

static void write_sums(struct strbuf *out, const char *model, int rows)
{
    float x[30] = {1, 2, 3, 4, 5, 6};
    struct tensor tensor = {DTYPE_F32, SHAPE(rows, 3), x};
    strbuf_clear(out);
    predict_request_begin(model, "", 0, out);
    predict_request_add("x", &tensor, out);
}

static enum serve_status call(struct scene *scene, const char *path, double seconds)
{
    ASSERT_OK(grpc_client_call(scene->client, path, scene->request.text, scene->request.length,
                               seconds, true, &scene->reply, &scene->err),
              scene->err);
    return scene->reply.status;
}

static enum serve_status predict(struct scene *scene, const char *model)
{
    write_sums(&scene->request, model, 2);
    return call(scene, predict_path, 20);
}

static void check_sums(struct scene *scene)
{
    struct tensor sum;
    ASSERT_TEXT(scene->reply.message, "");
    ASSERT_INT(scene->reply.status, ==, SERVE_OK);
    ASSERT_OK(predict_reply_find(scene->reply.body.text, scene->reply.body.length, "sum", 1 << 20,
                                 scene->arena, &sum, &scene->err),
              scene->err);
    ASSERT_BYTES(sum.data, ((float[]){6, 15}), 8);
}

static void wait_until(int (*number)(struct fake_core *core), struct fake_core *core, int value)
{
    for (int i = 0; i < 2000 && number(core) != value; i++)
        usleep(5000);
    ASSERT_INT(number(core), ==, value);
}

TEST(grpc_door, answers_predictions)
{
    struct scene scene = {0};
    open_scene(&scene);
    for (int i = 0; i < 50; i++) {
        predict(&scene, "sums");
        check_sums(&scene);
    }
    ASSERT_INT(fake_core_answered(scene.core), ==, 50);
    close_scene(&scene);
}

TEST(grpc_door, says_what_is_wrong_in_tensorflow_servings_words)
{
    struct scene scene = {0};
    open_scene(&scene);
    ASSERT_INT(predict(&scene, "nobody"), ==, SERVE_NOT_FOUND);
    ASSERT_TEXT(scene.reply.message, "Servable not found for request: Latest(nobody)");
    ASSERT_INT(predict(&scene, ""), ==, SERVE_INVALID);
    ASSERT_TEXT(scene.reply.message, "ModelSpec has no name specified.");
    ASSERT_INT(predict(&scene, "loading"), ==, SERVE_UNAVAILABLE);
    strbuf_clear(&scene.request);
    predict_request_begin("sums", "other", 0, &scene.request);
    ASSERT_INT(call(&scene, predict_path, 20), ==, SERVE_PRECONDITION);
    ASSERT_TEXT(scene.reply.message, "Serving signature key \"other\" not found.");
    strbuf_clear(&scene.request);
    strbuf_add(&scene.request, "\xff\xff\xff\xff");
    ASSERT_INT(call(&scene, predict_path, 20), ==, SERVE_INVALID);
    ASSERT_INT(call(&scene, "/tensorflow.serving.PredictionService/Guess", 20), ==,
               SERVE_UNIMPLEMENTED);
    predict(&scene, "sums");
    check_sums(&scene);
    close_scene(&scene);
}

/* {name: "sums", version: {value: -1}} in front of what the message asks for. */
static void write_negative_version(struct strbuf *out)
{
    strbuf_clear(out);
    size_t spec = proto_begin(out, 1);
    proto_add_text(out, 1, "sums");
    size_t version = proto_begin(out, 2);
    proto_add_varint(out, 1, (uint64_t)-1);
    proto_end(out, version);
    proto_end(out, spec);
}

TEST(grpc_door, knows_no_version_below_zero)
{
    struct scene scene = {0};
    open_scene(&scene);
    write_negative_version(&scene.request);
    ASSERT_INT(call(&scene, predict_path, 20), ==, SERVE_NOT_FOUND);
    ASSERT_TEXT(scene.reply.message, "Servable not found for request: Specific(sums, -1)");
    ASSERT_INT(call(&scene, "/tensorflow.serving.ModelService/GetModelStatus", 20), ==,
               SERVE_NOT_FOUND);
    proto_add_text(&scene.request, 2, "signature_def");
    ASSERT_INT(call(&scene, "/tensorflow.serving.PredictionService/GetModelMetadata", 20), ==,
               SERVE_NOT_FOUND);
    close_scene(&scene);
}

TEST(grpc_door, passes_the_deadline_on)
{
    struct scene scene = {0};
    open_scene(&scene);
    predict(&scene, "sums");
    double left = fake_core_last_deadline(scene.core);
    ASSERT_TRUE(left > 10 && left < 20.1); /* gRPC rounds up, to milliseconds and more */
    call(&scene, predict_path, 0);
    ASSERT_NUMBER(fake_core_last_deadline(scene.core), ==, 0);
    close_scene(&scene);
}

TEST(grpc_door, gives_a_deadline_to_those_who_bring_none)
{
    struct scene scene = {.options = {.answer_seconds = 3}};
    open_scene(&scene);
    write_sums(&scene.request, "sums", 2);
    call(&scene, predict_path, 0);
    check_sums(&scene);
    double left = fake_core_last_deadline(scene.core);
    ASSERT_TRUE(left > 0 && left <= 3);
    close_scene(&scene);
}

/* A client of its own that calls once. */
struct caller {
    struct scene *scene;
    pthread_t thread;
    struct grpc_reply reply;
    double seconds;
};

static void *call_once(void *context)
{
    struct caller *caller = context;
    struct grpc_client *client;
    struct strbuf request;
    char server[32];
    snprintf(server, sizeof server, "127.0.0.1:%d", grpc_door_port(caller->scene->door));
    struct grpc_client_settings settings = {.server = server};
    if (grpc_client_create(&settings, &client, NULL) < 0)
        return NULL;
    strbuf_init(&request);
    write_sums(&request, "sums", 2);
    grpc_client_call(client, predict_path, request.text, request.length, caller->seconds, true,
                     &caller->reply, NULL);
    strbuf_release(&request);
    grpc_client_destroy(client);
    return NULL;
}

static void start_caller(struct scene *scene, struct caller *caller, double seconds)
{
    caller->scene = scene;
    caller->seconds = seconds;
    grpc_reply_init(&caller->reply);
    caller->reply.status = SERVE_UNKNOWN;
    pthread_create(&caller->thread, NULL, call_once, caller);
}

static enum serve_status end_caller(struct caller *caller)
{
    pthread_join(caller->thread, NULL);
    enum serve_status status = caller->reply.status;
    grpc_reply_release(&caller->reply);
    return status;
}

TEST(grpc_door, drops_what_its_client_gave_up)
{
    struct scene scene = {0};
    struct caller caller;
    open_scene(&scene);
    fake_core_hold(scene.core, true);
    start_caller(&scene, &caller, 2); /* its deadline and its client's end are one */
    wait_until(fake_core_waiting, scene.core, 1);
    ASSERT_INT(end_caller(&caller), ==, SERVE_DEADLINE);
    wait_until(fake_core_hopeless, scene.core, 1);
    fake_core_hold(scene.core, false);
    wait_until(fake_core_given_up, scene.core, 1);
    ASSERT_INT(fake_core_answered(scene.core), ==, 0);
    close_scene(&scene);
}

TEST(grpc_door, refuses_at_once_what_the_core_has_no_room_for)
{
    struct scene scene = {0};
    struct caller callers[2];
    open_scene(&scene);
    fake_core_hold(scene.core, true);
    fake_core_set_limit(scene.core, 2);
    for (int i = 0; i < 2; i++)
        start_caller(&scene, &callers[i], 20);
    wait_until(fake_core_waiting, scene.core, 2);
    ASSERT_INT(predict(&scene, "sums"), ==, SERVE_EXHAUSTED);
    ASSERT_TEXT(scene.reply.message, "the queue is full");
    fake_core_hold(scene.core, false);
    for (int i = 0; i < 2; i++)
        ASSERT_INT(end_caller(&callers[i]), ==, SERVE_OK);
    close_scene(&scene);
}

TEST(grpc_door, lets_calls_in_flight_end_when_it_drains)
{
    struct scene scene = {0};
    struct caller callers[3];
    open_scene(&scene);
    fake_core_hold(scene.core, true);
    for (int i = 0; i < 3; i++)
        start_caller(&scene, &callers[i], 20);
    wait_until(fake_core_waiting, scene.core, 3);
    fake_core_set_delay(scene.core, 0.05);
    fake_core_hold(scene.core, false);
    ASSERT_INT(grpc_door_drain(scene.door, 20), ==, 0);
    for (int i = 0; i < 3; i++)
        ASSERT_INT(end_caller(&callers[i]), ==, SERVE_OK);
    write_sums(&scene.request, "sums", 2);
    ASSERT_OK(grpc_client_call(scene.client, predict_path, scene.request.text, scene.request.length,
                               5, false, &scene.reply, &scene.err),
              scene.err);
    ASSERT_INT(scene.reply.status, ==, SERVE_UNAVAILABLE);
    close_scene(&scene);
}

TEST(grpc_door, cancels_what_does_not_end_in_time_when_it_drains)
{
    struct scene scene = {0};
    struct caller caller;
    open_scene(&scene);
    fake_core_hold(scene.core, true);
    start_caller(&scene, &caller, 20);
    wait_until(fake_core_waiting, scene.core, 1);
    fake_core_set_delay(scene.core, 0.5); /* the core is let go but takes longer than the drain */
    fake_core_hold(scene.core, false);
    ASSERT_INT(grpc_door_drain(scene.door, 0.05), ==, 1);
    ASSERT_TRUE(end_caller(&caller) != SERVE_OK);
    close_scene(&scene);
}

TEST(grpc_door, refuses_messages_beyond_its_limit)
{
    struct scene scene = {.options = {.message_limit = 1000}};
    open_scene(&scene);
    write_sums(&scene.request, "sums", 2);
    strbuf_add_bytes(&scene.request, "\x7a\xd0\x0f", 3); /* field 15, 2000 bytes */
    for (int i = 0; i < 2000; i++)
        strbuf_add_char(&scene.request, 'x');
    ASSERT_INT(call(&scene, predict_path, 20), ==, SERVE_EXHAUSTED);
    predict(&scene, "sums");
    check_sums(&scene);
    close_scene(&scene);
}

TEST(grpc_door, lets_in_who_has_the_token_and_answers_health_to_all)
{
    struct scene scene = {0};
    struct grpc_client *knows;
    char server[32];
    open_scene(&scene);
    fake_core_set_token(scene.core, "secret");
    ASSERT_INT(predict(&scene, "sums"), ==, SERVE_UNAUTHENTICATED);
    strbuf_clear(&scene.request);
    ASSERT_INT(call(&scene, "/grpc.health.v1.Health/Check", 20), ==, SERVE_OK);
    snprintf(server, sizeof server, "127.0.0.1:%d", grpc_door_port(scene.door));
    struct grpc_client_settings settings = {.server = server, .token = "secret"};
    ASSERT_OK(grpc_client_create(&settings, &knows, &scene.err), scene.err);
    write_sums(&scene.request, "sums", 2);
    ASSERT_OK(grpc_client_call(knows, predict_path, scene.request.text, scene.request.length, 20,
                               true, &scene.reply, &scene.err),
              scene.err);
    check_sums(&scene);
    grpc_client_destroy(knows);
    close_scene(&scene);
}

TEST(grpc_door, tells_whether_the_server_is_ready)
{
    struct scene scene = {0};
    open_scene(&scene);
    ASSERT_INT(call(&scene, "/grpc.health.v1.Health/Check", 20), ==, SERVE_OK);
    ASSERT_BYTES(scene.reply.body.text, "\x08\x01", 2);
    fake_core_set_ready(scene.core, false);
    ASSERT_INT(call(&scene, "/grpc.health.v1.Health/Check", 20), ==, SERVE_OK);
    ASSERT_BYTES(scene.reply.body.text, "\x08\x02", 2);
    ASSERT_INT(call(&scene, "/inference.GRPCInferenceService/ServerReady", 20), ==, SERVE_OK);
    ASSERT_INT(scene.reply.body.length, ==, 0);
    ASSERT_INT(call(&scene, "/inference.GRPCInferenceService/ServerLive", 20), ==, SERVE_OK);
    ASSERT_BYTES(scene.reply.body.text, "\x08\x01", 2);
    proto_add_text(&scene.request, 1, "no.such.Service");
    ASSERT_INT(call(&scene, "/grpc.health.v1.Health/Check", 20), ==, SERVE_NOT_FOUND);
    close_scene(&scene);
}

TEST(grpc_door, tells_of_models_and_takes_new_configurations)
{
    struct scene scene = {0};
    open_scene(&scene);
    size_t spec = proto_begin(&scene.request, 1);
    proto_add_text(&scene.request, 1, "sums");
    proto_end(&scene.request, spec);
    ASSERT_INT(call(&scene, "/tensorflow.serving.ModelService/GetModelStatus", 20), ==, SERVE_OK);
    ASSERT_INT(scene.reply.body.length, >, 10);
    proto_add_text(&scene.request, 2, "signature_def");
    ASSERT_INT(call(&scene, "/tensorflow.serving.PredictionService/GetModelMetadata", 20), ==,
               SERVE_OK);
    ASSERT_TRUE(memmem(scene.reply.body.text, scene.reply.body.length, "doubled:0", 9) != NULL);
    strbuf_clear(&scene.request);
    size_t config = proto_begin(&scene.request, 1), list = proto_begin(&scene.request, 1);
    size_t model = proto_begin(&scene.request, 1);
    proto_add_text(&scene.request, 1, "net");
    proto_add_text(&scene.request, 2, "/models/net");
    proto_end(&scene.request, model);
    proto_end(&scene.request, list);
    proto_end(&scene.request, config);
    ASSERT_INT(call(&scene, "/tensorflow.serving.ModelService/HandleReloadConfigRequest", 20), ==,
               SERVE_OK);
    ASSERT_TEXT(fake_core_configured(scene.core), "net=/models/net");
    close_scene(&scene);
}

TEST(grpc_door, answers_at_a_socket_alone)
{
    struct scene scene = {0};
    struct grpc_door *door;
    struct grpc_client *client;
    char server[160];
    open_scene(&scene);
    struct grpc_backend backend = fake_core_backend(scene.core);
    struct door_options options = {.socket_path = test_path("door.sock"), .message_limit = 1000};
    ASSERT_OK(grpc_door_open(&backend, &options, &door, &scene.err), scene.err);
    snprintf(server, sizeof server, "unix:%s", options.socket_path);
    struct grpc_client_settings settings = {.server = server};
    ASSERT_OK(grpc_client_create(&settings, &client, &scene.err), scene.err);
    write_sums(&scene.request, "sums", 2);
    ASSERT_OK(grpc_client_call(client, predict_path, scene.request.text, scene.request.length, 20,
                               true, &scene.reply, &scene.err),
              scene.err);
    check_sums(&scene);
    ASSERT_INT(grpc_door_port(door), ==, 0);
    struct grpc_door *second; /* does not take the socket from who answers there */
    ASSERT_FAILS(grpc_door_open(&backend, &options, &second, &scene.err), scene.err, ERROR_IO,
                 "in use");
    ASSERT_OK(grpc_client_call(client, predict_path, scene.request.text, scene.request.length, 20,
                               true, &scene.reply, &scene.err),
              scene.err);
    check_sums(&scene);
    grpc_client_destroy(client);
    grpc_door_stop(door);
    ASSERT_INT(access(options.socket_path, F_OK), ==, -1);
    close_scene(&scene);
}

TEST(grpc_door, says_when_its_port_is_taken)
{
    struct scene scene = {0};
    struct grpc_door *second;
    open_scene(&scene);
    struct grpc_backend backend = fake_core_backend(scene.core);
    struct door_options options = scene.options;
    options.address.port = grpc_door_port(scene.door);
    ASSERT_FAILS(grpc_door_open(&backend, &options, &second, &scene.err), scene.err, ERROR_IO,
                 "is it in use");
    options.address.port = 0;
    options.channel_arguments = "grpc.max_concurrent_streams";
    ASSERT_FAILS(grpc_door_open(&backend, &options, &second, &scene.err), scene.err, ERROR_USAGE,
                 "name=value");
    close_scene(&scene);
}
