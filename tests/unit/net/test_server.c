/* The HTTP server, spoken to over plain sockets: what it answers, to whom, and how it ends. */
#include "net/server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/token.h"
#include "server_client.h"
#include "support/test.h"

TEST(server, answers_routes_and_nothing_else)
{
    struct server *server = open_server((struct server_settings){0});
    route(server, "GET", "/hello", greet, "good day");
    route(server, "POST", "/echo", echo, NULL);
    start(server);
    const char *reply = ask(server, "GET /hello?x=1", LOCAL);
    ASSERT_CONTAINS(reply, "HTTP/1.1 200");
    ASSERT_CONTAINS(reply, "X-Content-Type-Options: nosniff");
    ASSERT_CONTAINS(reply, "\r\n\r\ngood day");
    reply = ask(server, "HEAD /hello", LOCAL);
    ASSERT_CONTAINS(reply, "HTTP/1.1 200");
    ASSERT_TRUE(!strstr(reply, "good day"));
    ASSERT_CONTAINS(ask(server, "GET /", LOCAL), "HTTP/1.1 404");
    ASSERT_CONTAINS(ask(server, "GET /../../etc/passwd", LOCAL), "HTTP/1.1 404");
    ASSERT_CONTAINS(ask(server, "POST /hello", "Host: localhost\r\nContent-Length: 0\r\n"),
                    "HTTP/1.1 405");
    ASSERT_CONTAINS(ask(server, "DELETE /hello", LOCAL), "HTTP/1.1 405");
    ASSERT_CONTAINS(ask(server, "BREW /hello", LOCAL), "HTTP/1.1 501");
    reply = ask(server, "POST /echo", "Host: localhost\r\nContent-Length: 3\r\n\r\nabc");
    ASSERT_CONTAINS(reply, "\r\n\r\nabc");
    server_destroy(server);
}

TEST(server, listens_on_the_loopback_unless_told_otherwise)
{
    struct address address;
    struct error err = {0};
    ASSERT_OK(address_parse("8080", "--x", &address, &err), err);
    ASSERT_TEXT(address.host, "127.0.0.1");
    ASSERT_INT(address.port, ==, 8080);
    ASSERT_TRUE(address.loopback);
    ASSERT_OK(address_parse(":0", "--x", &address, &err), err);
    ASSERT_TRUE(address.loopback);
    ASSERT_OK(address_parse("localhost:1", "--x", &address, &err), err);
    ASSERT_TRUE(address.loopback);
    ASSERT_OK(address_parse("[::1]:65535", "--x", &address, &err), err);
    ASSERT_TEXT(address.host, "::1");
    ASSERT_TRUE(address.loopback);
    ASSERT_OK(address_parse("0.0.0.0:8080", "--x", &address, &err), err);
    ASSERT_FALSE(address.loopback);
    ASSERT_OK(address_parse("[::]:8080", "--x", &address, &err), err);
    ASSERT_FALSE(address.loopback);
    static const char *const bad[] = {"",
                                      "x",
                                      "65536",
                                      "-1",
                                      "80 ",
                                      "1:",
                                      "::1:80",
                                      "[::1:80",
                                      "example.org:80",
                                      "1.2:3",
                                      "999999999999999999999",
                                      "[]:80",
                                      "+1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ASSERT_FAILS(address_parse(bad[i], "--x", &address, &err), err, ERROR_USAGE,
                     "ADDRESS:PORT");
}

TEST(server, says_when_the_port_is_taken)
{
    struct server *first = open_server((struct server_settings){0}), *second;
    struct server_settings settings = {.address = {.host = "127.0.0.1"}};
    struct error err;
    settings.address.port = server_port(first);
    ASSERT_FAILS(server_create(&settings, &second, &err), err, ERROR_IO, "0 for any");
    server_destroy(first);
}

TEST(server, on_the_loopback_answers_to_its_own_names_only)
{
    struct server *server = open_server((struct server_settings){0});
    route(server, "GET", "/", greet, "good day");
    start(server);
    ASSERT_CONTAINS(ask(server, "GET /", "Host: 127.0.0.1:99\r\n"), "200");
    ASSERT_CONTAINS(ask(server, "GET /", "Host: [::1]:8080\r\n"), "200");
    ASSERT_CONTAINS(ask(server, "GET /", "Host: LOCALHOST\r\n"), "200");
    ASSERT_CONTAINS(ask(server, "GET /", "Host: evil.example\r\n"), "403");
    ASSERT_CONTAINS(ask(server, "GET /", "Host: 127.0.0.1.evil.example\r\n"), "403");
    ASSERT_CONTAINS(ask(server, "GET /", "Host: localhost:80@evil.example\r\n"), "403");
    ASSERT_CONTAINS(ask(server, "GET /", ""), "403");
    server_destroy(server);
}

TEST(server, lets_in_who_knows_the_token)
{
    char token[TOKEN_LETTERS + 1], other[TOKEN_LETTERS + 1], line[256], url[256];
    struct error err = {0};
    ASSERT_OK(token_create(token, &err), err);
    ASSERT_OK(token_create(other, &err), err);
    ASSERT_TRUE(strcmp(token, other) != 0);
    struct server_settings settings = {.address = {.host = "0.0.0.0"}, .token = token};
    struct server *server = open_server(settings);
    route(server, "GET", "/", greet, "good day");
    start(server);
    ASSERT_CONTAINS(ask(server, "GET /", ""), "401");
    ASSERT_CONTAINS(ask(server, "GET /?token=", ""), "401");
    snprintf(line, sizeof line, "GET /?token=%s", other);
    ASSERT_CONTAINS(ask(server, line, ""), "401");
    snprintf(line, sizeof line, "GET /?a=b&token=%s", token);
    const char *reply = ask(server, line, "Host: my.machine\r\n");
    ASSERT_CONTAINS(reply, "200");
    snprintf(line, sizeof line, "Set-Cookie: lockstep-%d=%s; Path=/; HttpOnly; SameSite=Strict",
             server_port(server), token);
    ASSERT_CONTAINS(reply, line);
    snprintf(line, sizeof line, "Cookie: a=b; lockstep-%d=%s\r\n", server_port(server), token);
    ASSERT_CONTAINS(ask(server, "GET /", line), "200");
    snprintf(line, sizeof line, "Authorization: Bearer %s\r\n", token);
    ASSERT_CONTAINS(ask(server, "GET /", line), "200");
    ASSERT_CONTAINS(server_url(server, url, sizeof url), token);
    server_destroy(server);
}

TEST(server, refuses_headers_and_bodies_that_are_too_long)
{
    static char text[9000];
    struct server *server =
        open_server((struct server_settings){.header_limit = 4000, .body_limit = 100});
    route(server, "POST", "/echo", echo, NULL);
    start(server);
    snprintf(text, sizeof text, "Host: localhost\r\nX-Long: %08000d\r\n", 1);
    ASSERT_TRUE(!strstr(ask(server, "POST /echo", text), " 200 "));
    ASSERT_CONTAINS(ask(server, "POST /echo", "Host: localhost\r\nContent-Length: 101\r\n"),
                    "HTTP/1.1 413");
    /* and goes on */
    ASSERT_CONTAINS(ask(server, "POST /echo", "Host: localhost\r\nContent-Length: 1\r\n\r\nx"),
                    "200");
    server_destroy(server);
}

TEST(server, closes_a_connection_on_which_nothing_is_said)
{
    struct server *server = open_server((struct server_settings){.idle_seconds = 1});
    start(server);
    int silent = dial(server), slow = dial(server);
    say(slow, "GET / HTTP/1.1\r\nHost: loc");
    ASSERT_TEXT(hear(silent, NULL), "");
    ASSERT_TEXT(hear(slow, NULL), "");
    close(silent);
    close(slow);
    server_destroy(server);
}

/* --- streams --------------------------------------------------------------------------------- */

struct news {
    struct server *server;
    struct server_stream *stream;
    atomic_int listeners;
    const char *text;
};

static void join(void *context, struct server_request *request)
{
    struct news *news = context;
    server_stream_join(news->stream, request);
}

static void publish(void *context)
{
    struct news *news = context;
    server_stream_send(news->stream, "news", news->text);
    atomic_store(&news->listeners, server_stream_listeners(news->stream));
}

static void open_news(struct news *news, struct server_settings settings)
{
    struct error err = {0};
    news->server = open_server(settings);
    ASSERT_OK(server_stream_create(news->server, &news->stream, &err), err);
    route(news->server, "GET", "/news", join, news);
    ASSERT_OK(server_every(news->server, 0.01, publish, news, &err), err);
    start(news->server);
}

static int listen_to(const struct news *news)
{
    int line = dial(news->server);
    say(line, "GET /news HTTP/1.1\r\nHost: localhost\r\n\r\n");
    return line;
}

static void wait_for_listeners(struct news *news, int count)
{
    double limit = clock_seconds() + 60;
    while (atomic_load(&news->listeners) != count && clock_seconds() < limit)
        usleep(2000);
    ASSERT_INT(atomic_load(&news->listeners), ==, count);
}

TEST(server, sends_events_to_all_who_listen_and_ends_the_stream_with_itself)
{
    struct news news = {.text = "{\"a\":1}"};
    open_news(&news, (struct server_settings){.idle_seconds = 1});
    int lines[3];
    for (int i = 0; i < 3; i++) {
        lines[i] = listen_to(&news);
        hear(lines[i], "event: news\ndata: {\"a\":1}\n\n");
        ASSERT_CONTAINS(heard, "text/event-stream");
    }
    wait_for_listeners(&news, 3);
    close(lines[0]); /* one leaves: the others go on */
    wait_for_listeners(&news, 2);
    usleep(1300000); /* longer than an idle connection may last */
    for (int i = 1; i < 3; i++)
        hear(lines[i], "event: news");
    wait_for_listeners(&news, 2);
    server_destroy(news.server);
    for (int i = 1; i < 3; i++) {
        hear(lines[i], NULL);
        ASSERT_TEXT(heard + strlen(heard) - 5, "0\r\n\r\n"); /* whole, not torn */
        close(lines[i]);
    }
}

TEST(server, lets_a_listener_go_that_does_not_read)
{
    static char text[200000];
    memset(text, 'x', sizeof text - 1);
    struct news news = {.text = text};
    open_news(&news, (struct server_settings){0});
    int deaf = dial(news.server), small = 4096;
    setsockopt(deaf, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    say(deaf, "GET /news HTTP/1.1\r\nHost: localhost\r\n\r\n");
    wait_for_listeners(&news, 1);
    wait_for_listeners(&news, 0);
    close(deaf);
    int line = listen_to(&news);
    hear(line, "event: news");
    close(line);
    server_destroy(news.server);
}

TEST(server, has_room_for_so_many_listeners_and_no_more)
{
    struct news news = {.text = "x"};
    open_news(&news, (struct server_settings){0});
    int lines[SERVER_STREAM_CLIENTS];
    for (int i = 0; i < SERVER_STREAM_CLIENTS; i++)
        lines[i] = listen_to(&news);
    wait_for_listeners(&news, SERVER_STREAM_CLIENTS);
    ASSERT_CONTAINS(ask(news.server, "GET /news", LOCAL), "HTTP/1.1 503");
    for (int i = 0; i < SERVER_STREAM_CLIENTS; i++)
        close(lines[i]);
    wait_for_listeners(&news, 0);
    server_destroy(news.server);
}

TEST(server, ends_soon_though_a_listener_does_not_read)
{
    static char text[900000];
    memset(text, 'x', sizeof text - 1);
    struct news news = {.text = text};
    open_news(&news, (struct server_settings){0});
    int deaf = listen_to(&news);
    wait_for_listeners(&news, 1);
    double before = clock_seconds();
    server_destroy(news.server);
    ASSERT_NUMBER(clock_seconds() - before, <, 20.0);
    close(deaf);
}

/* --- replies that come later ----------------------------------------------------------------- */

struct kept {
    struct server *server;
    struct server_request *_Atomic request;
};

static void keep(void *context, struct server_request *request)
{
    struct kept *kept = context;
    kept->request = request;
}

static void answer_kept(void *context)
{
    struct kept *kept = context;
    server_reply(kept->request, 200, "text/plain", "at last", 7);
    kept->request = NULL;
}

static void wait_until_kept(struct kept *kept)
{
    for (int i = 0; i < 30000 && !kept->request; i++)
        usleep(2000);
    ASSERT_TRUE(kept->request);
}

TEST(server, sends_a_reply_that_another_thread_makes_later)
{
    struct kept kept = {0};
    struct error err = {0};
    kept.server = open_server((struct server_settings){0});
    route(kept.server, "GET", "/later", keep, &kept);
    start(kept.server);
    int line = dial(kept.server);
    say(line, "GET /later HTTP/1.1\r\nHost: localhost\r\n\r\n");
    wait_until_kept(&kept);
    ASSERT_OK(server_post(kept.server, answer_kept, &kept, &err), err);
    hear(line, "at last");
    /* the next one hangs up before its answer comes */
    say(line, "GET /later HTTP/1.1\r\nHost: localhost\r\n\r\n");
    wait_until_kept(&kept);
    close(line);
    usleep(50000);
    ASSERT_OK(server_post(kept.server, answer_kept, &kept, &err), err);
    server_destroy(kept.server);
    ASSERT_TRUE(!kept.request);
}

TEST(server, can_be_destroyed_without_having_been_started)
{
    server_destroy(open_server((struct server_settings){0}));
    server_destroy(NULL);
}

TEST(token, is_found_among_cookies)
{
    char value[8];
    ASSERT_TRUE(token_from_cookies("a=b; t=12 ; c", "t", value, sizeof value));
    ASSERT_TEXT(value, "12 ");
    ASSERT_TRUE(token_from_cookies("t=1", "t", value, sizeof value));
    ASSERT_TEXT(value, "1");
    ASSERT_FALSE(token_from_cookies("tt=1; at=2; t", "t", value, sizeof value));
    ASSERT_FALSE(token_from_cookies("t=123456789", "t", value, sizeof value));
    ASSERT_FALSE(token_from_cookies(NULL, "t", value, sizeof value));
    ASSERT_FALSE(token_equal("abc", "ab"));
    ASSERT_FALSE(token_equal("abc", "abd"));
    ASSERT_FALSE(token_equal("abc", NULL));
    ASSERT_TRUE(token_equal("abc", "abc"));
}

/* One connection after the other; false when one is not answered. */
static bool ask_again_and_again(int port)
{
    static const char head[] = "POST /echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                               "Content-Length: 8\r\n\r\n";
    for (int i = 0; i < 20; i++) {
        char reply[4096] = "";
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        int line = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct timeval limit = {.tv_sec = 20};
        setsockopt(line, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        bool heard_it = connect(line, (struct sockaddr *)&to, sizeof to) == 0 &&
                        send(line, head, sizeof head - 1, MSG_NOSIGNAL) > 0 &&
                        send(line, "good day", 8, MSG_NOSIGNAL) > 0 &&
                        recv(line, reply, sizeof reply - 1, 0) > 0;
        close(line);
        if (!heard_it || !strstr(reply, "HTTP/1.1 200"))
            return false;
    }
    return true;
}

/* From other processes: there the server's descriptors are its own, and given out again at once. */
TEST(server, answers_many_short_connections_beside_each_other)
{
    enum { CLIENTS = 4 };
    pid_t clients[CLIENTS];
    struct server *server = open_server((struct server_settings){.connections = 100});
    route(server, "POST", "/echo", echo, NULL);
    start(server);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = fork();
        if (clients[i] == 0)
            _exit(ask_again_and_again(server_port(server)) ? 0 : 1);
        ASSERT_INT(clients[i], >, 0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        int status = 0;
        ASSERT_INT(waitpid(clients[i], &status, 0), ==, clients[i]);
        ASSERT_INT(status, ==, 0);
    }
    server_destroy(server);
}

TEST(server, takes_the_longest_route_that_fits)
{
    struct server *server = open_server((struct server_settings){0});
    route(server, "GET", "/a/*", greet, "short");
    route(server, "GET", "/a/b/*", greet, "long");
    route(server, "GET", "/a/b/c", greet, "whole");
    start(server);
    ASSERT_CONTAINS(ask(server, "GET /a/x", LOCAL), "\r\n\r\nshort");
    ASSERT_CONTAINS(ask(server, "GET /a/b/x/y", LOCAL), "\r\n\r\nlong");
    ASSERT_CONTAINS(ask(server, "GET /a/b/c", LOCAL), "\r\n\r\nwhole");
    ASSERT_CONTAINS(ask(server, "GET /a", LOCAL), "HTTP/1.1 404");
    ASSERT_CONTAINS(ask(server, "POST /a/x", "Host: localhost\r\nContent-Length: 0\r\n"),
                    "HTTP/1.1 405");
    server_destroy(server);
}

TEST(server, takes_no_more_connections_than_told)
{
    struct server *server = open_server((struct server_settings){.connections = 2});
    route(server, "GET", "/hello", greet, "good day");
    start(server);
    int first = dial(server), second = dial(server);
    say(first, "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n");
    hear(first, "good day");
    say(second, "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n");
    hear(second, "good day");
    int third = dial(server); /* the kernel takes it; nobody answers */
    say(third, "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n");
    struct pollfd look = {.fd = third, .events = POLLIN};
    ASSERT_INT(poll(&look, 1, 600), ==, 0);
    close(first);
    hear(third, "good day");
    close(second);
    close(third);
    server_destroy(server);
}
