#include "serve/h2_client.h"

#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "serve/predict_message.h"
#include "support/fake_core.h"
#include "support/test.h"

static const char predict_path[] = "/tensorflow.serving.PredictionService/Predict";

enum { STREAMS = 8 };

/* gRPC's own server with a fake core behind it, and our client. */
struct scene {
    struct fake_core *core;
    struct grpc_door *door;
    struct h2_client *client;
    struct grpc_reply replies[STREAMS];
    struct strbuf request;
    struct error err;
};

static void connect_to(struct scene *scene, int port, const char *token)
{
    char server[32];
    snprintf(server, sizeof server, "127.0.0.1:%d", port);
    ASSERT_OK(h2_client_create(server, token, STREAMS, &scene->client, &scene->err), scene->err);
    for (int i = 0; i < STREAMS; i++)
        grpc_reply_init(&scene->replies[i]);
    strbuf_init(&scene->request);
}

static void open_scene(struct scene *scene, const char *token)
{
    struct door_options options = {.address = {.host = "127.0.0.1", .loopback = true},
                                   .message_limit = 64 << 20};
    scene->core = fake_core_create();
    struct grpc_backend backend = fake_core_backend(scene->core);
    ASSERT_OK(grpc_door_open(&backend, &options, &scene->door, &scene->err), scene->err);
    connect_to(scene, grpc_door_port(scene->door), token);
}

static void disconnect(struct scene *scene)
{
    h2_client_destroy(scene->client);
    for (int i = 0; i < STREAMS; i++)
        grpc_reply_release(&scene->replies[i]);
    strbuf_release(&scene->request);
}

static void close_scene(struct scene *scene)
{
    disconnect(scene);
    grpc_door_stop(scene->door);
    fake_core_destroy(scene->core);
}

/* Rows of three numbers, the first of which is `first`. */
static void write_sums(struct scene *scene, const char *model, int rows, float first)
{
    float *x = calloc((size_t)rows * 3, sizeof *x);
    struct tensor tensor = {DTYPE_F32, SHAPE(rows, 3), x};
    x[0] = first;
    strbuf_clear(&scene->request);
    predict_request_begin(model, "", 0, &scene->request);
    predict_request_add("x", &tensor, &scene->request);
    free(x);
}

static void begin(struct scene *scene, int place, double seconds, bool patient)
{
    ASSERT_OK(h2_client_begin(scene->client, predict_path, scene->request.text,
                              scene->request.length, seconds, patient, &scene->replies[place],
                              &scene->err),
              scene->err);
}

static enum serve_status call(struct scene *scene, const char *model, double seconds)
{
    write_sums(scene, model, 1, 0);
    begin(scene, 0, seconds, false);
    ASSERT_TRUE(h2_client_next(scene->client, -1) == &scene->replies[0]);
    return scene->replies[0].status;
}

static float sum_of(struct scene *scene, const struct grpc_reply *reply)
{
    struct arena *arena = arena_create();
    struct tensor sum;
    ASSERT_TEXT(reply->message, "");
    ASSERT_INT(reply->status, ==, SERVE_OK);
    ASSERT_OK(predict_reply_find(reply->body.text, reply->body.length, "sum", 64 << 20, arena, &sum,
                                 &scene->err),
              scene->err);
    float value = *(const float *)sum.data;
    arena_destroy(arena);
    return value;
}

TEST(h2_client, gets_the_answer_to_each_of_several_calls)
{
    struct scene scene = {0};
    bool came[STREAMS];
    open_scene(&scene, NULL);
    for (int round = 0; round < 20; round++) {
        memset(came, 0, sizeof came);
        for (int i = 0; i < STREAMS; i++) {
            write_sums(&scene, "sums", 1, (float)(100 * round + i));
            begin(&scene, i, 20, round == 0);
        }
        for (int i = 0; i < STREAMS; i++) {
            struct grpc_reply *reply = h2_client_next(scene.client, -1);
            int place = (int)(reply - scene.replies);
            ASSERT_FALSE(came[place]);
            came[place] = true;
            ASSERT_NUMBER(sum_of(&scene, reply), ==, 100 * round + place);
        }
    }
    ASSERT_TRUE(h2_client_next(scene.client, 0) == NULL);
    close_scene(&scene);
}

/* More than the windows and the socket take at once, both ways. */
TEST(h2_client, sends_and_gets_large_messages)
{
    struct scene scene = {0};
    open_scene(&scene, NULL);
    for (int i = 0; i < 3; i++) {
        write_sums(&scene, "sums", 300000, (float)i);
        begin(&scene, i, 60, false);
    }
    for (int i = 0; i < 3; i++) {
        struct grpc_reply *reply = h2_client_next(scene.client, -1);
        ASSERT_INT(reply->body.length, >, 3000000);
        ASSERT_NUMBER(sum_of(&scene, reply), ==, reply - scene.replies);
    }
    close_scene(&scene);
}

TEST(h2_client, tells_what_the_server_refuses)
{
    struct scene scene = {0};
    open_scene(&scene, NULL);
    ASSERT_INT(call(&scene, "nobody", 20), ==, SERVE_NOT_FOUND);
    ASSERT_TEXT(scene.replies[0].message, "Servable not found for request: Latest(nobody)");
    ASSERT_INT(call(&scene, "sums", 20), ==, SERVE_OK);
    fake_core_set_token(scene.core, "secret");
    ASSERT_INT(call(&scene, "sums", 20), ==, SERVE_UNAUTHENTICATED);
    close_scene(&scene);
}

TEST(h2_client, shows_its_token_and_its_deadline)
{
    struct scene scene = {0};
    open_scene(&scene, "secret");
    fake_core_set_token(scene.core, "secret");
    ASSERT_INT(call(&scene, "sums", 20), ==, SERVE_OK);
    double left = fake_core_last_deadline(scene.core);
    ASSERT_TRUE(left > 10 && left < 20.1);
    ASSERT_INT(call(&scene, "sums", 500), ==, SERVE_OK);
    left = fake_core_last_deadline(scene.core);
    ASSERT_TRUE(left > 400 && left < 501);
    ASSERT_INT(call(&scene, "sums", 0), ==, SERVE_OK);
    ASSERT_NUMBER(fake_core_last_deadline(scene.core), ==, 0);
    close_scene(&scene);
}

/* The others go on, and so does the place of the one that was given up. */
TEST(h2_client, gives_up_at_the_deadline)
{
    struct scene scene = {0};
    open_scene(&scene, NULL);
    ASSERT_INT(call(&scene, "sums", 20), ==, SERVE_OK);
    fake_core_hold(scene.core, true);
    write_sums(&scene, "sums", 1, 7);
    begin(&scene, 0, 0.1, false);
    begin(&scene, 1, 60, false);
    ASSERT_TRUE(h2_client_next(scene.client, -1) == &scene.replies[0]);
    ASSERT_INT(scene.replies[0].status, ==, SERVE_DEADLINE);
    begin(&scene, 0, 60, false);
    fake_core_hold(scene.core, false);
    for (int i = 0; i < 2; i++)
        ASSERT_NUMBER(sum_of(&scene, h2_client_next(scene.client, -1)), ==, 7);
    close_scene(&scene);
}

TEST(h2_client, waits_no_longer_than_it_is_told)
{
    struct scene scene = {0};
    open_scene(&scene, NULL);
    ASSERT_INT(call(&scene, "sums", 20), ==, SERVE_OK);
    fake_core_hold(scene.core, true);
    write_sums(&scene, "sums", 1, 7);
    begin(&scene, 0, 60, false);
    double start = clock_seconds();
    ASSERT_TRUE(h2_client_next(scene.client, 0.02) == NULL);
    ASSERT_NUMBER(clock_seconds() - start, >=, 0.0199);
    fake_core_hold(scene.core, false);
    ASSERT_TRUE(h2_client_next(scene.client, -1) != NULL);
    close_scene(&scene);
}

TEST(h2_client, ends_its_calls_when_the_server_goes)
{
    struct scene scene = {0};
    open_scene(&scene, NULL);
    ASSERT_INT(call(&scene, "sums", 20), ==, SERVE_OK);
    grpc_door_stop(scene.door);
    ASSERT_INT(call(&scene, "sums", 20), ==, SERVE_UNAVAILABLE);
    ASSERT_INT(call(&scene, "sums", 20), ==, SERVE_UNAVAILABLE);
    disconnect(&scene);
    fake_core_destroy(scene.core);
}

/* A server that goes lets calls end, and takes no new ones: those fail, none is lost or waits. */
TEST(h2_client, gets_what_is_under_way_from_a_server_that_drains)
{
    struct scene scene = {0};
    int good = 0;
    open_scene(&scene, NULL);
    ASSERT_INT(call(&scene, "sums", 20), ==, SERVE_OK);
    fake_core_set_delay(scene.core, 0.05);
    for (int i = 0; i < 4; i++) {
        write_sums(&scene, "sums", 1, (float)i);
        begin(&scene, i, 20, false);
    }
    ASSERT_TRUE(h2_client_next(scene.client, -1) != NULL); /* all have arrived there */
    grpc_door_drain(scene.door, 5);
    for (int i = 0; i < 3; i++)
        good += h2_client_next(scene.client, -1)->status == SERVE_OK;
    ASSERT_INT(good, ==, 3);
    ASSERT_INT(call(&scene, "sums", 20), ==, SERVE_UNAVAILABLE);
    close_scene(&scene);
}

static int listen_anywhere(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int line = socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_INT(bind(line, (struct sockaddr *)&address, bytes), ==, 0);
    getsockname(line, (struct sockaddr *)&address, &bytes);
    *port = ntohs(address.sin_port);
    return line;
}

TEST(h2_client, is_patient_with_a_server_that_does_not_listen_until_the_deadline)
{
    struct scene scene = {0};
    int port, line = listen_anywhere(&port); /* and never listens */
    connect_to(&scene, port, NULL);
    ASSERT_INT(call(&scene, "sums", 20), ==, SERVE_UNAVAILABLE);
    ASSERT_TEXT(scene.replies[0].message, "Connection refused");
    begin(&scene, 0, 0.2, true);
    ASSERT_TRUE(h2_client_next(scene.client, -1) == &scene.replies[0]);
    ASSERT_INT(scene.replies[0].status, ==, SERVE_DEADLINE);
    disconnect(&scene);
    close(line);
}

struct stranger {
    int line;
    const char *bytes;
    size_t count;
};

/* Says what it has to say and hangs up. */
static void *answer_strangely(void *context)
{
    struct stranger *stranger = context;
    char request[1 << 16];
    int guest = accept(stranger->line, NULL, NULL);
    if (recv(guest, request, sizeof request, 0) > 0)
        (void)!write(guest, stranger->bytes, stranger->count);
    shutdown(guest, SHUT_WR);
    while (recv(guest, request, sizeof request, 0) > 0)
        ;
    close(guest);
    return NULL;
}

TEST(h2_client, survives_servers_that_speak_something_else)
{
    static const char settings[] = "\0\0\0\4\0\0\0\0\0";
    const struct stranger strangers[] = {
        {0, "HTTP/1.1 400 Bad Request\r\n\r\n", 28},
        {0, "", 0},
        {0, settings, 9},
        /* then headers on a stream that nobody opened; a frame longer than allowed; one cut off */
        {0, "\0\0\0\4\0\0\0\0\0\0\0\1\1\4\0\0\0\11\210", 19},
        {0, "\0\0\0\4\0\0\0\0\0\377\377\377\0\0\0\0\0\1", 18},
        {0, "\0\0\0\4\0\0\0\0\0\0\0\144\1\4\0\0\0\1\210", 19},
    };
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
        struct scene scene = {0};
        struct stranger stranger = strangers[i];
        pthread_t thread;
        int port;
        stranger.line = listen_anywhere(&port);
        listen(stranger.line, 1);
        pthread_create(&thread, NULL, answer_strangely, &stranger);
        connect_to(&scene, port, NULL);
        ASSERT_INT(call(&scene, "sums", 20), ==, SERVE_UNAVAILABLE);
        ASSERT_TRUE(scene.replies[0].message[0] != '\0');
        disconnect(&scene);
        pthread_join(thread, NULL);
        close(stranger.line);
    }
}

TEST(h2_client, wants_a_host_and_a_port)
{
    static const char *const wrong[] = {"", "host", "host:", ":8500"};
    struct h2_client *client;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct error err = {0};
        ASSERT_INT(h2_client_create(wrong[i], NULL, 1, &client, &err), <, 0);
        ASSERT_INT(err.code, ==, ERROR_USAGE);
    }
}
