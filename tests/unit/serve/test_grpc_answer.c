#include "serve/grpc_answer.h"

#include "support/test.h"

struct scene {
    struct grpc_reply reply;
    struct grpc_answer answer;
};

static void open_scene(struct scene *scene)
{
    grpc_reply_init(&scene->reply);
    grpc_answer_begin(&scene->answer, &scene->reply);
}

static void add_header(struct scene *scene, const char *name, const char *value)
{
    grpc_answer_header(&scene->answer, name, strlen(name), value, strlen(value));
}

static void add_bytes(struct scene *scene, const char *bytes, size_t count)
{
    grpc_answer_bytes(&scene->answer, (const unsigned char *)bytes, count);
}

static void check(struct scene *scene, const char *why, enum serve_status status,
                  const char *message)
{
    grpc_answer_end(&scene->answer, SERVE_UNAVAILABLE, why);
    ASSERT_TEXT(scene->reply.message, message);
    ASSERT_INT(scene->reply.status, ==, status);
    grpc_reply_release(&scene->reply);
}

TEST(grpc_answer, joins_a_message_that_comes_in_pieces)
{
    static const char whole[] = "\0\0\0\0\6answer";
    for (size_t piece = 1; piece <= sizeof whole - 1; piece++) {
        struct scene scene;
        open_scene(&scene);
        add_header(&scene, ":status", "200");
        for (size_t at = 0; at < sizeof whole - 1; at += piece)
            add_bytes(&scene, whole + at,
                      piece < sizeof whole - 1 - at ? piece : sizeof whole - 1 - at);
        add_header(&scene, "grpc-status", "0");
        ASSERT_TEXT(scene.reply.body.text, "answer");
        check(&scene, NULL, SERVE_OK, "");
    }
}

TEST(grpc_answer, takes_an_empty_message)
{
    struct scene scene;
    open_scene(&scene);
    add_header(&scene, ":status", "200");
    add_bytes(&scene, "\0\0\0\0\0", 5);
    add_header(&scene, "grpc-status", "0");
    ASSERT_INT(scene.reply.body.length, ==, 0);
    check(&scene, NULL, SERVE_OK, "");
}

TEST(grpc_answer, reads_the_reason_of_a_refusal)
{
    struct scene scene;
    open_scene(&scene);
    add_header(&scene, ":status", "200");
    add_header(&scene, "grpc-message", "k%C3%A4se 100%25 %zz %4");
    add_header(&scene, "grpc-status", "16");
    check(&scene, NULL, SERVE_UNAUTHENTICATED, "k\xc3\xa4se 100% %zz %4");
}

TEST(grpc_answer, cuts_a_reason_that_is_too_long)
{
    struct scene scene;
    char text[3000];
    memset(text, 'x', sizeof text);
    open_scene(&scene);
    grpc_answer_header(&scene.answer, "grpc-message", 12, text, sizeof text);
    add_header(&scene, "grpc-status", "2");
    text[sizeof scene.reply.message - 1] = '\0';
    check(&scene, NULL, SERVE_UNKNOWN, text);
}

TEST(grpc_answer, refuses_what_is_no_answer)
{
    static const struct {
        const char *http, *status;
        const char *bytes;
        size_t count;
        const char *why;
        enum serve_status expected;
        const char *message;
    } cases[] = {
        {"200", "0", "", 0, NULL, SERVE_INTERNAL,
         "the answer is good, but its message is not whole"},
        {"200", "0", "\0\0\0\0\3ab", 7, NULL, SERVE_INTERNAL,
         "the answer is good, but its message is not whole"},
        {"200", "0", "\0\0\0\0\1ab", 7, NULL, SERVE_INTERNAL, "more came than one message"},
        {"200", "0", "\0\0\0\0\0\0\0\0\0\0", 10, NULL, SERVE_INTERNAL,
         "more came than one message"},
        {"200", "0", "\1\0\0\0\2ab", 7, NULL, SERVE_INTERNAL,
         "its message is compressed, which was not asked for"},
        {"200", "0", "\1\0\0\0\0", 5, NULL, SERVE_INTERNAL,
         "its message is compressed, which was not asked for"},
        {"200", "nought", "", 0, NULL, SERVE_INTERNAL, "its grpc-status is no number"},
        {"200", "99999", "", 0, NULL, SERVE_INTERNAL, "its grpc-status is no number"},
        {"404", NULL, "", 0, NULL, SERVE_UNIMPLEMENTED, "HTTP status 404 instead of a gRPC answer"},
        {"503", NULL, "", 0, NULL, SERVE_UNAVAILABLE, "HTTP status 503 instead of a gRPC answer"},
        {"200", NULL, "", 0, NULL, SERVE_INTERNAL, "the answer ended without a grpc-status"},
        {NULL, NULL, "", 0, "REFUSED_STREAM", SERVE_UNAVAILABLE, "REFUSED_STREAM"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scene scene;
        open_scene(&scene);
        if (cases[i].http)
            add_header(&scene, ":status", cases[i].http);
        add_bytes(&scene, cases[i].bytes, cases[i].count);
        if (cases[i].status)
            add_header(&scene, "grpc-status", cases[i].status);
        check(&scene, cases[i].why, cases[i].expected, cases[i].message);
    }
}
