/* Clients that do not behave, at the gRPC door: what they say is put together by hand. */
#include "serve/grpc_connection.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "serve/predict_message.h"
#include "support/fake_core.h"
#include "support/test.h"
#include "wire/gzip.h"

static const char predict_path[] = "/tensorflow.serving.PredictionService/Predict";
static const double patience = 30; /* seconds; nothing here takes one of them */

/* One connection with one request at a time, and what came back. */
struct odd {
    const struct h2_library *h2;
    nghttp2_session_callbacks *callbacks;
    nghttp2_session *session;
    int socket;
    const void *body; /* NULL: none */
    size_t body_bytes, sent;
    bool unfinished; /* the body never ends */
    bool muted;      /* hears, but understands and says nothing */
    int http, grpc;  /* -1: not told */
    char message[200];
    bool stream_over, farewell, gone;
};

struct scene {
    struct fake_core *core;
    struct grpc_door *door;
    struct error err;
};

static void open_scene(struct scene *scene, struct door_options options)
{
    scene->core = fake_core_create();
    options.address = (struct address){.host = "127.0.0.1", .loopback = true};
    options.message_limit = options.message_limit ? options.message_limit : 1 << 20;
    struct grpc_backend backend = fake_core_backend(scene->core);
    ASSERT_OK(grpc_door_open(&backend, &options, &scene->door, &scene->err), scene->err);
}

static void close_scene(struct scene *scene)
{
    grpc_door_stop(scene->door);
    ASSERT_INT(fake_core_held_models(scene->core), ==, 0);
    fake_core_destroy(scene->core);
}

/* ---- what nghttp2 tells --------------------------------------------------------------------- */

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_bytes, const uint8_t *value, size_t value_bytes, uint8_t flags,
                     void *context)
{
    struct odd *odd = context;
    char text[200];
    (void)session, (void)frame, (void)flags;
    snprintf(text, sizeof text, "%.*s", (int)value_bytes, (const char *)value);
    if (grpc_text_is((const char *)name, name_bytes, ":status"))
        odd->http = (int)strtol(text, NULL, 10);
    else if (grpc_text_is((const char *)name, name_bytes, "grpc-status"))
        odd->grpc = (int)strtol(text, NULL, 10);
    else if (grpc_text_is((const char *)name, name_bytes, "grpc-message"))
        snprintf(odd->message, sizeof odd->message, "%s", text);
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    struct odd *odd = context;
    (void)session;
    odd->farewell |= frame->hd.type == NGHTTP2_GOAWAY;
    return 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t code, void *context)
{
    struct odd *odd = context;
    (void)session, (void)stream, (void)code;
    odd->stream_over = true;
    return 0;
}

static ssize_t on_wanted(nghttp2_session *session, int32_t stream, uint8_t *room, size_t bytes,
                         uint32_t *flags, nghttp2_data_source *source, void *context)
{
    struct odd *odd = context;
    size_t left = odd->body_bytes - odd->sent, count = left < bytes ? left : bytes;
    (void)session, (void)stream, (void)source;
    memcpy(room, (const char *)odd->body + odd->sent, count);
    odd->sent += count;
    if (odd->sent == odd->body_bytes && !odd->unfinished)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return count == 0 && odd->unfinished ? NGHTTP2_ERR_DEFERRED : (ssize_t)count;
}

/* ---- talking -------------------------------------------------------------------------------- */

static void reach_door(struct odd *odd, const struct scene *scene)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)grpc_door_port(scene->door)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    *odd = (struct odd){.http = -1, .grpc = -1};
    odd->socket = socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_INT(connect(odd->socket, (struct sockaddr *)&address, sizeof address), ==, 0);
}

static void open_odd(struct odd *odd, const struct scene *scene)
{
    struct error err = {0};
    reach_door(odd, scene);
    odd->h2 = h2_library_load(&err);
    ASSERT_TRUE(odd->h2 != NULL);
    odd->h2->nghttp2_session_callbacks_new(&odd->callbacks);
    odd->h2->nghttp2_session_callbacks_set_on_header_callback(odd->callbacks, on_header);
    odd->h2->nghttp2_session_callbacks_set_on_frame_recv_callback(odd->callbacks, on_frame);
    odd->h2->nghttp2_session_callbacks_set_on_stream_close_callback(odd->callbacks, on_close);
    odd->h2->nghttp2_session_client_new(&odd->session, odd->callbacks, odd);
    odd->h2->nghttp2_submit_settings(odd->session, NGHTTP2_FLAG_NONE, NULL, 0);
}

static void close_odd(struct odd *odd)
{
    if (odd->session) {
        odd->h2->nghttp2_session_del(odd->session);
        odd->h2->nghttp2_session_callbacks_del(odd->callbacks);
    }
    close(odd->socket);
}

static void say(struct odd *odd)
{
    const uint8_t *bytes;
    ssize_t count;
    while (odd->session && !odd->muted &&
           (count = odd->h2->nghttp2_session_mem_send(odd->session, &bytes)) > 0)
        if (send(odd->socket, bytes, (size_t)count, MSG_NOSIGNAL) < 0)
            odd->gone = true;
}

/* Says what is to be said, and hears what comes within a tenth of a second. */
static void talk(struct odd *odd)
{
    unsigned char room[4096];
    struct pollfd look = {.fd = odd->socket, .events = POLLIN};
    say(odd);
    if (poll(&look, 1, 100) <= 0)
        return;
    ssize_t count = recv(odd->socket, room, sizeof room, 0);
    odd->gone = count <= 0;
    if (count > 0 && odd->session && !odd->muted)
        odd->h2->nghttp2_session_mem_recv(odd->session, room, (size_t)count);
}

static void talk_until(struct odd *odd, const bool *over)
{
    double until = clock_seconds() + patience;
    while (!*over && !odd->gone) {
        talk(odd);
        ASSERT_NUMBER(clock_seconds(), <, until);
    }
    ASSERT_TRUE(*over);
}

struct pair {
    const char *name, *value;
};
static const struct pair predict_headers[] = {{":method", "POST"},
                                              {":scheme", "http"},
                                              {":path", predict_path},
                                              {":authority", "here"},
                                              {"content-type", "application/grpc"},
                                              {"te", "trailers"},
                                              {NULL, NULL}};

/* `changes` replace headers of the same name, or are added; one without a value takes its header away. */
static int32_t request(struct odd *odd, const struct pair *changes)
{
    nghttp2_nv headers[16];
    size_t count = 0;
    for (const struct pair *all = predict_headers; all; all = all == changes ? NULL : changes)
        for (const struct pair *one = all; one && one->name; one++) {
            size_t at = 0;
            while (at < count && strcmp((char *)headers[at].name, one->name) != 0)
                at++;
            if (!one->value) {
                headers[at] = headers[--count];
                continue;
            }
            count += at == count;
            headers[at] = (nghttp2_nv){.name = (uint8_t *)one->name,
                                       .value = (uint8_t *)one->value,
                                       .namelen = strlen(one->name),
                                       .valuelen = strlen(one->value)};
        }
    nghttp2_data_provider body = {.read_callback = on_wanted};
    odd->stream_over = false;
    odd->http = odd->grpc = -1;
    odd->sent = 0;
    return odd->h2->nghttp2_submit_request(odd->session, NULL, headers, count,
                                           odd->body ? &body : NULL, NULL);
}

static void write_question(struct strbuf *framed)
{
    float x[] = {1, 2, 3};
    struct tensor tensor = {DTYPE_F32, SHAPE(1, 3), x};
    struct strbuf message;
    strbuf_init(&message);
    predict_request_begin("sums", "", 0, &message);
    predict_request_add("x", &tensor, &message);
    strbuf_clear(framed);
    grpc_message_add(framed, message.text, message.length);
    strbuf_release(&message);
}

/* ---- tests ---------------------------------------------------------------------------------- */

TEST(grpc_connection, answers_what_is_no_grpc_as_http_has_it)
{
    struct scene scene = {0};
    struct odd odd;
    open_scene(&scene, (struct door_options){0});
    open_odd(&odd, &scene);
    request(&odd, (const struct pair[]){{":method", "GET"}, {NULL, NULL}});
    talk_until(&odd, &odd.stream_over);
    ASSERT_INT(odd.http, ==, 405);
    request(&odd, (const struct pair[]){{"content-type", "application/json"}, {NULL, NULL}});
    talk_until(&odd, &odd.stream_over);
    ASSERT_INT(odd.http, ==, 415);
    request(&odd, (const struct pair[]){{"content-type", NULL}, {NULL, NULL}});
    talk_until(&odd, &odd.stream_over);
    ASSERT_INT(odd.http, ==, 415);
    close_odd(&odd);
    close_scene(&scene);
}

TEST(grpc_connection, answers_a_message_that_is_packed)
{
    struct scene scene = {0};
    struct odd odd;
    struct strbuf plain, packed;
    char *bytes;
    size_t count;
    open_scene(&scene, (struct door_options){0});
    open_odd(&odd, &scene);
    strbuf_init(&plain);
    strbuf_init(&packed);
    write_question(&plain);
    ASSERT_OK(gzip_pack(plain.text + GRPC_PREFIX_BYTES, plain.length - GRPC_PREFIX_BYTES, &bytes,
                        &count, &scene.err),
              scene.err);
    grpc_message_add(&packed, bytes, count);
    packed.text[0] = 1;
    odd.body = packed.text;
    odd.body_bytes = packed.length;
    request(&odd, (const struct pair[]){{"grpc-encoding", "gzip"}, {NULL, NULL}});
    talk_until(&odd, &odd.stream_over);
    ASSERT_INT(odd.http, ==, 200);
    ASSERT_INT(odd.grpc, ==, SERVE_OK);
    request(&odd, (const struct pair[]){{"grpc-encoding", "snappy"}, {NULL, NULL}});
    talk_until(&odd, &odd.stream_over);
    ASSERT_INT(odd.grpc, ==, SERVE_UNIMPLEMENTED);
    memory_free(bytes);
    strbuf_release(&plain);
    strbuf_release(&packed);
    close_odd(&odd);
    close_scene(&scene);
}

TEST(grpc_connection, takes_no_second_message_and_no_bad_timeout)
{
    struct scene scene = {0};
    struct odd odd;
    struct strbuf twice;
    open_scene(&scene, (struct door_options){0});
    open_odd(&odd, &scene);
    strbuf_init(&twice);
    write_question(&twice);
    strbuf_add_bytes(&twice, "\0\0\0\0\1x", 6);
    odd.body = twice.text;
    odd.body_bytes = twice.length;
    request(&odd, NULL);
    talk_until(&odd, &odd.stream_over);
    ASSERT_INT(odd.grpc, ==, SERVE_INVALID);
    ASSERT_CONTAINS(odd.message, "more than one message");
    request(&odd, (const struct pair[]){{"grpc-timeout", "soon"}, {NULL, NULL}});
    talk_until(&odd, &odd.stream_over);
    ASSERT_INT(odd.grpc, ==, SERVE_INVALID);
    ASSERT_CONTAINS(odd.message, "grpc-timeout");
    request(&odd, (const struct pair[]){{"grpc-timeout", "0n"}, {NULL, NULL}});
    odd.body_bytes -= 6;
    talk_until(&odd, &odd.stream_over);
    ASSERT_INT(odd.grpc, ==, SERVE_DEADLINE);
    strbuf_release(&twice);
    close_odd(&odd);
    close_scene(&scene);
}

TEST(grpc_connection, refuses_headers_beyond_its_limit)
{
    struct scene scene = {0};
    struct odd odd;
    char text[3000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    open_scene(&scene, (struct door_options){.channel_arguments = "grpc.max_metadata_size=2000"});
    open_odd(&odd, &scene);
    request(&odd, (const struct pair[]){{"other", text}, {NULL, NULL}});
    talk_until(&odd, &odd.stream_over);
    ASSERT_INT(odd.grpc, ==, SERVE_EXHAUSTED);
    ASSERT_CONTAINS(odd.message, "headers");
    close_odd(&odd);
    close_scene(&scene);
}

TEST(grpc_connection, lets_go_who_says_nothing_or_something_else)
{
    struct scene scene = {0};
    struct odd silent, other;
    open_scene(&scene, (struct door_options){.request_seconds = 0.3});
    reach_door(&silent, &scene);
    reach_door(&other, &scene);
    ASSERT_INT(send(other.socket, "GET / HTTP/1.1\r\n\r\n", 18, 0), ==, 18);
    for (struct odd *odd = &silent; odd; odd = odd == &silent ? &other : NULL)
        talk_until(odd, &odd->gone);
    close_odd(&silent);
    close_odd(&other);
    close_scene(&scene);
}

TEST(grpc_connection, does_not_wait_for_ever_for_the_rest_of_a_request)
{
    struct scene scene = {0};
    struct odd odd;
    open_scene(&scene, (struct door_options){.request_seconds = 0.3});
    open_odd(&odd, &scene);
    odd.body = "\0\0\0\1\0only a part";
    odd.body_bytes = 16;
    odd.unfinished = true;
    request(&odd, NULL);
    talk_until(&odd, &odd.stream_over);
    ASSERT_INT(odd.grpc, ==, SERVE_DEADLINE);
    close_odd(&odd);
    close_scene(&scene);
}

TEST(grpc_connection, says_farewell_to_who_is_idle_or_old)
{
    static const char *const arguments[] = {"grpc.max_connection_idle_ms=300",
                                            "grpc.max_connection_age_ms=300"};
    for (int i = 0; i < 2; i++) {
        struct scene scene = {0};
        struct odd odd;
        open_scene(&scene, (struct door_options){.channel_arguments = arguments[i]});
        open_odd(&odd, &scene);
        request(&odd, (const struct pair[]){{":path", "/nobody/Knows"}, {NULL, NULL}});
        talk_until(&odd, &odd.stream_over);
        ASSERT_INT(odd.grpc, ==, SERVE_UNIMPLEMENTED);
        talk_until(&odd, &odd.farewell);
        talk_until(&odd, &odd.gone);
        close_odd(&odd);
        close_scene(&scene);
    }
}

TEST(grpc_connection, asks_who_is_silent_whether_it_is_there)
{
    struct scene scene = {0};
    struct odd there, dead;
    open_scene(&scene, (struct door_options){.channel_arguments = "grpc.keepalive_time_ms=300,"
                                                                  "grpc.keepalive_timeout_ms=300"});
    open_odd(&there, &scene);
    open_odd(&dead, &scene);
    say(&dead); /* and reads no more */
    double until = clock_seconds() + 2;
    while (clock_seconds() < until && !there.gone)
        talk(&there);
    ASSERT_FALSE(there.gone);
    close_odd(&there);
    dead.muted = true;
    talk_until(&dead, &dead.gone);
    close_odd(&dead);
    close_scene(&scene);
}

TEST(grpc_connection, gives_a_question_up_when_its_stream_is_reset)
{
    struct scene scene = {0};
    struct odd odd;
    struct strbuf question;
    open_scene(&scene, (struct door_options){0});
    open_odd(&odd, &scene);
    strbuf_init(&question);
    write_question(&question);
    odd.body = question.text;
    odd.body_bytes = question.length;
    fake_core_hold(scene.core, true);
    int32_t stream = request(&odd, NULL);
    say(&odd);
    for (int i = 0; i < 2000 && fake_core_waiting(scene.core) != 1; i++)
        usleep(5000);
    odd.h2->nghttp2_submit_rst_stream(odd.session, NGHTTP2_FLAG_NONE, stream, NGHTTP2_CANCEL);
    say(&odd);
    for (int i = 0; i < 2000 && fake_core_hopeless(scene.core) != 1; i++)
        usleep(5000);
    ASSERT_INT(fake_core_hopeless(scene.core), ==, 1);
    fake_core_hold(scene.core, false);
    strbuf_release(&question);
    close_odd(&odd);
    close_scene(&scene);
}

TEST(grpc_connection, takes_no_more_connections_than_it_may)
{
    struct scene scene = {0};
    struct odd first, second;
    open_scene(&scene, (struct door_options){.connections = 1, .threads = 3});
    open_odd(&first, &scene);
    request(&first, (const struct pair[]){{":path", "/nobody/Knows"}, {NULL, NULL}});
    talk_until(&first, &first.stream_over);
    reach_door(&second, &scene);
    talk_until(&second, &second.gone);
    close_odd(&second);
    close_odd(&first);
    close_scene(&scene);
}

TEST(grpc_connection, says_which_channel_arguments_it_knows)
{
    static const struct {
        const char *text, *why;
    } bad[] = {{"grpc.lb_policy_name=x", "known are grpc.max_concurrent_streams, "},
               {"grpc.max_concurrent_streams=none", "is no number from 1 to"},
               {"grpc.max_concurrent_streams=0", "is no number from 1 to"},
               {"grpc.max_connection_age_ms", "name=value"}};
    struct door_limits limits = {0};
    struct error err = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ASSERT_FAILS(door_limits_read(bad[i].text, &limits, &err), err, ERROR_USAGE, bad[i].why);
    ASSERT_OK(door_limits_read("grpc.max_concurrent_streams=5,grpc.max_receive_message_length=-1,"
                               "grpc.max_connection_age_ms=1500",
                               &limits, &err),
              err);
    ASSERT_INT(limits.streams, ==, 5);
    ASSERT_INT(limits.message_bytes, ==, 0);
    ASSERT_NUMBER(limits.age_seconds, ==, 1.5);
}

TEST(grpc_connection, has_no_limits_where_it_is_told_to_have_none)
{
    struct scene scene = {0};
    struct odd odd;
    struct strbuf question;
    open_scene(&scene,
               (struct door_options){.message_limit = 10,
                                     .channel_arguments = "grpc.max_metadata_size=2147483647,"
                                                          "grpc.max_receive_message_length=-1,"
                                                          "grpc.max_connection_age_grace_ms=5000"});
    open_odd(&odd, &scene);
    strbuf_init(&question);
    write_question(&question);
    odd.body = question.text;
    odd.body_bytes = question.length;
    request(&odd, NULL);
    talk_until(&odd, &odd.stream_over);
    ASSERT_TEXT(odd.message, "");
    ASSERT_INT(odd.grpc, ==, SERVE_OK);
    strbuf_release(&question);
    close_odd(&odd);
    close_scene(&scene);
}

/* They are short when they come, and long when they are unpacked. */
TEST(grpc_connection, holds_no_more_for_a_client_than_it_may)
{
    enum { LIMIT = 16 << 20, MESSAGES = 6 };
    struct scene scene = {0};
    struct odd odd;
    struct strbuf large, packed;
    char *bytes;
    size_t count;
    open_scene(&scene, (struct door_options){.message_limit = LIMIT});
    open_odd(&odd, &scene);
    strbuf_init(&large);
    strbuf_init(&packed);
    write_question(&large);
    strbuf_drop(&large, GRPC_PREFIX_BYTES);
    strbuf_add_bytes(&large, "\x7a\x80\x80\x80\x07", 5); /* field 15, 14 MiB */
    for (int i = 0; i < 14 << 20; i++)
        strbuf_add_char(&large, 'x');
    ASSERT_OK(gzip_pack(large.text, large.length, &bytes, &count, &scene.err), scene.err);
    grpc_message_add(&packed, bytes, count);
    packed.text[0] = 1;
    odd.body = packed.text;
    odd.body_bytes = packed.length;
    fake_core_hold(scene.core, true);
    for (int i = 0; i < MESSAGES && !odd.stream_over; i++) {
        request(&odd, (const struct pair[]){{"grpc-encoding", "gzip"}, {NULL, NULL}});
        while (odd.sent < odd.body_bytes && !odd.stream_over)
            talk(&odd);
    }
    talk_until(&odd, &odd.stream_over); /* the first that ends is one that was refused */
    ASSERT_CONTAINS(odd.message, "too many bytes");
    ASSERT_INT(odd.grpc, ==, SERVE_EXHAUSTED);
    fake_core_hold(scene.core, false);
    memory_free(bytes);
    strbuf_release(&large);
    strbuf_release(&packed);
    close_odd(&odd);
    close_scene(&scene);
}

TEST(grpc_connection, ends_calls_at_their_deadline_whatever_they_wait_for)
{
    struct scene scene = {0};
    struct odd odd;
    open_scene(&scene, (struct door_options){0});
    open_odd(&odd, &scene);
    odd.body = "\0\0\0\0\0";
    odd.body_bytes = 5;
    request(&odd, (const struct pair[]){{":path", "/grpc.health.v1.Health/Watch"},
                                        {"grpc-timeout", "300m"},
                                        {NULL, NULL}});
    talk_until(&odd, &odd.stream_over);
    ASSERT_INT(odd.grpc, ==, SERVE_DEADLINE);
    odd.unfinished = true;
    request(&odd, (const struct pair[]){{"grpc-timeout", "300m"}, {NULL, NULL}});
    talk_until(&odd, &odd.stream_over);
    ASSERT_INT(odd.grpc, ==, SERVE_DEADLINE);
    close_odd(&odd);
    close_scene(&scene);
}

TEST(grpc_connection, refuses_a_large_message_of_a_stream_and_lives)
{
    struct scene scene = {0};
    struct odd odd;
    struct strbuf message, framed;
    open_scene(&scene, (struct door_options){0});
    open_odd(&odd, &scene);
    strbuf_init(&message);
    strbuf_init(&framed);
    for (int i = 0; i < 600000; i++)
        strbuf_add_char(&message, '\xff');
    grpc_message_add(&framed, message.text, message.length);
    odd.body = framed.text;
    odd.body_bytes = framed.length;
    for (int i = 0; i < 3; i++) {
        request(&odd, (const struct pair[]){
                          {":path", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"},
                          {NULL, NULL}});
        talk_until(&odd, &odd.stream_over);
        ASSERT_INT(odd.grpc, ==, SERVE_INVALID);
    }
    strbuf_release(&message);
    strbuf_release(&framed);
    close_odd(&odd);
    close_scene(&scene);
}

TEST(grpc_connection, takes_all_who_come_at_once)
{
    enum { VISITORS = 300 };
    static struct odd visitors[VISITORS];
    struct scene scene = {0};
    open_scene(&scene, (struct door_options){.threads = 3});
    for (int i = 0; i < VISITORS; i++)
        open_odd(&visitors[i], &scene);
    for (int i = 0; i < VISITORS; i++) {
        request(&visitors[i], (const struct pair[]){{":path", "/nobody/Knows"}, {NULL, NULL}});
        talk_until(&visitors[i], &visitors[i].stream_over);
        ASSERT_INT(visitors[i].grpc, ==, SERVE_UNIMPLEMENTED);
    }
    for (int i = 0; i < VISITORS; i++)
        close_odd(&visitors[i]);
    close_scene(&scene);
}

TEST(grpc_connection, sends_no_reply_beyond_its_limit)
{
    struct scene scene = {0};
    struct odd odd;
    struct strbuf question;
    open_scene(&scene,
               (struct door_options){.channel_arguments = "grpc.max_send_message_length=9"});
    open_odd(&odd, &scene);
    strbuf_init(&question);
    write_question(&question);
    odd.body = question.text;
    odd.body_bytes = question.length;
    request(&odd, NULL);
    talk_until(&odd, &odd.stream_over);
    ASSERT_INT(odd.grpc, ==, SERVE_EXHAUSTED);
    ASSERT_CONTAINS(odd.message, "grpc.max_send_message_length");
    strbuf_release(&question);
    close_odd(&odd);
    close_scene(&scene);
}

TEST(grpc_connection, closes_who_does_not_leave_within_the_grace)
{
    struct scene scene = {0};
    struct odd odd;
    open_scene(&scene,
               (struct door_options){.channel_arguments = "grpc.max_connection_age_ms=200,"
                                                          "grpc.max_connection_age_grace_ms=200"});
    open_odd(&odd, &scene);
    odd.body = "\0\0\0\0\0";
    odd.body_bytes = 5;
    request(&odd, (const struct pair[]){{":path", "/grpc.health.v1.Health/Watch"}, {NULL, NULL}});
    talk_until(&odd, &odd.farewell);
    ASSERT_FALSE(odd.stream_over); /* which would last for ever */
    talk_until(&odd, &odd.gone);
    close_odd(&odd);
    close_scene(&scene);
}
