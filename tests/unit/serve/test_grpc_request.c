#include "serve/grpc_request.h"

#include "base/memory.h"
#include "support/test.h"
#include "wire/gzip.h"

static void open_request(struct grpc_request *request, size_t limit)
{
    grpc_request_init(request);
    grpc_request_begin(request, limit);
}

static void header(struct grpc_request *request, const char *name, const char *value)
{
    grpc_request_header(request, name, strlen(name), value, strlen(value));
}

static size_t take(struct grpc_request *request, const void *bytes, size_t count)
{
    return grpc_request_bytes(request, bytes, count);
}

static void check_message(struct grpc_request *request, const char *expected, size_t count)
{
    const void *message;
    size_t bytes;
    ASSERT_TRUE(grpc_request_read(request, &message, &bytes));
    ASSERT_INT(bytes, ==, count);
    ASSERT_BYTES(message, expected, count);
}

static void check_refused(struct grpc_request *request, enum serve_status status, const char *why)
{
    const void *message;
    size_t bytes;
    ASSERT_FALSE(grpc_request_read(request, &message, &bytes));
    ASSERT_INT(request->status, ==, status);
    ASSERT_CONTAINS(request->why, why);
    grpc_request_release(request);
}

TEST(grpc_request, reads_what_headers_say)
{
    struct grpc_request request;
    open_request(&request, 0);
    header(&request, ":method", "POST");
    header(&request, ":path", "/package.Service/Method");
    header(&request, "content-type", "application/grpc+proto");
    header(&request, "authorization", "Bearer me");
    header(&request, "other", "thing");
    ASSERT_TRUE(request.post && request.grpc);
    ASSERT_TEXT(request.path, "/package.Service/Method");
    ASSERT_TEXT(request.authorization.text, "Bearer me");
    ASSERT_NUMBER(request.timeout, <, 0);
    ASSERT_INT(request.header_bytes, >, 5 * 32);
    grpc_request_begin(&request, 0);
    header(&request, ":method", "GET");
    header(&request, "content-type", "application/grpc-web");
    ASSERT_FALSE(request.post || request.grpc);
    ASSERT_TEXT(request.path, "");
    ASSERT_TEXT(request.authorization.text, "");
    char path[200];
    memset(path, 'x', sizeof path);
    grpc_request_header(&request, ":path", 5, path, sizeof path);
    ASSERT_TEXT(request.path, "");
    grpc_request_release(&request);
}

TEST(grpc_request, reads_timeouts_of_every_unit)
{
    static const struct {
        const char *text;
        double seconds;
    } good[] = {{"2H", 7200},
                {"3M", 180},
                {"10S", 10},
                {"250m", 0.25},
                {"5u", 5e-6},
                {"7n", 7e-9},
                {"99999999S", 99999999},
                {"0m", 0}};
    static const char *const bad[] = {"", "S", "10", "10s", "-1S", "123456789S", "1.5S", " 1S"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct grpc_request request;
        open_request(&request, 0);
        header(&request, "grpc-timeout", good[i].text);
        ASSERT_NEAR(request.timeout, good[i].seconds, 1e-12, 1e-12);
        grpc_request_release(&request);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct grpc_request request;
        open_request(&request, 0);
        header(&request, "grpc-timeout", bad[i]);
        check_refused(&request, SERVE_INVALID, "grpc-timeout");
    }
}

TEST(grpc_request, joins_messages_that_come_in_pieces_one_after_the_other)
{
    static const unsigned char both[] = "\0\0\0\0\5first\0\0\0\0\0\0\0\0\0\5third";
    size_t count = sizeof both - 1;
    for (size_t piece = 1; piece <= count; piece++) {
        static const char *const expected[] = {"first", "", "third"};
        struct grpc_request request;
        int messages = 0;
        open_request(&request, 100);
        for (size_t at = 0; at < count;) {
            size_t some = count - at < piece ? count - at : piece;
            at += take(&request, both + at, some);
            if (grpc_request_is_whole(&request)) {
                ASSERT_INT(take(&request, both, 1), ==, 0);
                check_message(&request, expected[messages], strlen(expected[messages]));
                grpc_request_forget(&request);
                messages++;
            }
        }
        ASSERT_INT(messages, ==, 3);
        grpc_request_release(&request);
    }
}

TEST(grpc_request, refuses_a_message_by_its_length_before_it_comes)
{
    struct grpc_request request;
    open_request(&request, 1000);
    ASSERT_INT(take(&request, "\0\0\0\x03\xe9xy", 7), ==, 7);
    ASSERT_INT(request.body.length, ==, 0);
    ASSERT_INT(take(&request, "more", 4), ==, 4);
    check_refused(&request, SERVE_EXHAUSTED, "Received message larger than max (1001 vs. 1000)");
}

TEST(grpc_request, refuses_what_is_cut_short)
{
    struct grpc_request request;
    open_request(&request, 0);
    take(&request, "\0\0\0\0\5firs", 9);
    check_refused(&request, SERVE_INVALID, "no message");
    open_request(&request, 0);
    check_refused(&request, SERVE_INVALID, "no message");
}

static void add_packed(struct grpc_request *request, const char *packed, size_t bytes)
{
    const unsigned char prefix[] = {1, 0, (unsigned char)(bytes >> 16), (unsigned char)(bytes >> 8),
                                    (unsigned char)bytes};
    take(request, prefix, 5);
    take(request, packed, bytes);
}

TEST(grpc_request, unpacks_by_gzip_and_deflate)
{
    static const char zlib[] = "\x78\x9c\xcb\x48\xcd\xc9\xc9\x07\x00\x06\x2c\x02\x15"; /* hello */
    struct grpc_request request;
    struct error err = {0};
    char *packed;
    size_t bytes;
    ASSERT_OK(gzip_pack("hello", 5, &packed, &bytes, &err), err);
    open_request(&request, 100);
    header(&request, "grpc-encoding", "gzip");
    add_packed(&request, packed, bytes);
    check_message(&request, "hello", 5);
    grpc_request_forget(&request);
    take(&request, "\0\0\0\0\2me", 7); /* a message of its own need not be packed */
    check_message(&request, "me", 2);
    grpc_request_begin(&request, 100);
    header(&request, "grpc-encoding", "deflate");
    add_packed(&request, zlib, sizeof zlib - 1);
    check_message(&request, "hello", 5);
    grpc_request_begin(&request, 100);
    header(&request, "grpc-encoding", "gzip");
    add_packed(&request, packed, bytes - 6);
    check_refused(&request, SERVE_INTERNAL, "the message");
    memory_free(packed);
}

TEST(grpc_request, does_not_unpack_more_than_a_message_may_have)
{
    struct grpc_request request;
    struct error err = {0};
    static char zeros[1 << 20];
    char *packed;
    size_t bytes;
    ASSERT_OK(gzip_pack(zeros, sizeof zeros, &packed, &bytes, &err), err);
    open_request(&request, 100000);
    header(&request, "grpc-encoding", "gzip");
    ASSERT_INT(bytes, <, 100000);
    add_packed(&request, packed, bytes);
    check_refused(&request, SERVE_EXHAUSTED, "larger than may be");
    memory_free(packed);
}

TEST(grpc_request, refuses_what_it_cannot_unpack)
{
    struct grpc_request request;
    open_request(&request, 100);
    add_packed(&request, "xyz", 3);
    check_refused(&request, SERVE_INTERNAL, "no header tells how");
    open_request(&request, 100);
    header(&request, "grpc-encoding", "snappy");
    add_packed(&request, "xyz", 3);
    check_refused(&request, SERVE_UNIMPLEMENTED, "gzip or deflate");
    open_request(&request, 100);
    take(&request, "\7\0\0\0\0", 5);
    check_refused(&request, SERVE_INTERNAL, "neither 0 nor 1");
}
