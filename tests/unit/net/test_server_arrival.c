/* What a server decides when the head of a request is there, before its body has come: who may send, how much,
 * and what others could read differently. */
#include <netinet/tcp.h>

#include "server_client.h"

static bool knows(void *context, const char *given)
{
    (void)context;
    return given && strcmp(given, "open sesame") == 0;
}

static bool is_probe(const char *path)
{
    return strcmp(path, "/livez") == 0;
}

static struct server *open_guarded(struct server_settings settings)
{
    settings.admits = knows;
    settings.is_open = is_probe;
    settings.json_errors = true;
    struct server *server = open_server(settings);
    route(server, "POST", "/echo", echo, NULL);
    route(server, "OPTIONS", "/echo", greet, "allowed");
    route(server, "GET", "/livez", greet, "alive");
    start(server);
    return server;
}

TEST(server_arrival, refuses_who_has_no_token_before_the_body_comes)
{
    struct server *server = open_guarded((struct server_settings){.body_limit = 1 << 20});
    int line = dial(server);
    say(line, "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900000\r\n\r\n");
    hear(line, NULL); /* all there is: the connection is closed */
    ASSERT_CONTAINS(heard, "HTTP/1.1 401");
    ASSERT_CONTAINS(heard, "WWW-Authenticate: Bearer");
    ASSERT_CONTAINS(heard, "send \\\"Authorization: Bearer TOKEN\\\"\"}");
    close(line);
    ASSERT_CONTAINS(ask(server, "POST /echo",
                        "Host: localhost\r\nAuthorization: Bearer open sesame\r\n"
                        "Content-Length: 3\r\n\r\nabc"),
                    "\r\n\r\nabc");
    ASSERT_CONTAINS(ask(server, "GET /livez", LOCAL), "alive");
    ASSERT_CONTAINS(ask(server, "GET /livez", "Host: localhost\r\nContent-Length: 900000\r\n"),
                    "HTTP/1.1 413");
    ASSERT_CONTAINS(ask(server, "GET /livez", "Host: localhost\r\nTransfer-Encoding: chunked\r\n"),
                    "HTTP/1.1 413");
    const char *reply = ask(server, "HEAD /echo", LOCAL);
    ASSERT_CONTAINS(reply, "HTTP/1.1 401");
    ASSERT_FALSE(strstr(reply, "error"));
    server_destroy(server);
}

TEST(server_arrival, tells_a_refused_client_why_though_it_goes_on_sending)
{
    static char body[1 << 20];
    struct server *server = open_guarded((struct server_settings){.body_limit = 64 << 20});
    memset(body, 'x', sizeof body);
    int line = dial(server);
    say(line, "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000000\r\n\r\n");
    for (int i = 0; i < 20; i++)
        ASSERT_INT(send(line, body, sizeof body, MSG_NOSIGNAL), ==, sizeof body);
    hear(line, NULL);
    ASSERT_CONTAINS(heard, "HTTP/1.1 401");
    close(line);
    server_destroy(server);
}

TEST(server_arrival, lets_preflights_and_refusals_through_to_pages_from_elsewhere)
{
    struct server *server = open_guarded((struct server_settings){.cors = true});
    ASSERT_CONTAINS(ask(server, "OPTIONS /echo", LOCAL), "allowed");
    const char *reply = ask(server, "POST /echo", "Host: localhost\r\nContent-Length: 0\r\n");
    ASSERT_CONTAINS(reply, "HTTP/1.1 401");
    ASSERT_CONTAINS(reply, "Access-Control-Allow-Origin: *");
    server_destroy(server);
    server = open_guarded((struct server_settings){0});
    ASSERT_CONTAINS(ask(server, "OPTIONS /echo", LOCAL), "HTTP/1.1 401");
    server_destroy(server);
}

TEST(server_arrival, refuses_what_others_could_read_differently)
{
    static const char *const bad[] = {
        "Content-Length: 3\r\nContent-Length: 4\r\n",
        "Content-Length: 3\r\nX: y\r\ncontent-length: 0\r\n",
        "Content-Length: 3, 4\r\n",
        "Content-Length: +3\r\n",
        "Content-Length:\r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Content-Length : 3\r\n",
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "X: y\r\n folded\r\n",
        ": empty\r\n",
    };
    struct server *server = open_server((struct server_settings){.json_errors = true});
    route(server, "POST", "/echo", echo, NULL);
    start(server);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char request[512];
        int line = dial(server);
        snprintf(request, sizeof request,
                 "POST /echo HTTP/1.1\r\nHost: localhost\r\n%s\r\nabcGET / HTTP/1.1\r\n\r\n",
                 bad[i]);
        say(line, request);
        hear(line, NULL);
        ASSERT_CONTAINS(heard, "HTTP/1.1 400");
        ASSERT_CONTAINS(heard, "{\"error\":");
        ASSERT_CONTAINS(heard, "Connection: close");
        ASSERT_FALSE(strstr(heard + 9, "HTTP/1.1 ")); /* and nothing behind it */
        close(line);
    }
    ASSERT_CONTAINS(ask(server, "POST /echo",
                        "Host: localhost\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc"),
                    "\r\n\r\nabc");
    ASSERT_CONTAINS(ask(server, "/echo", LOCAL), "HTTP/1.1 400");
    server_destroy(server);
}

TEST(server_arrival, tells_what_it_refuses_as_json)
{
    struct server *server =
        open_server((struct server_settings){.body_limit = 100, .json_errors = true});
    route(server, "POST", "/echo", echo, NULL);
    start(server);
    static const char *const asked[][3] = {
        {"PUT /echo", "Content-Length: 900\r\n", "HTTP/1.1 405"},
        {"DELETE /echo", "", "HTTP/1.1 405"},
        {"CONNECT localhost:80", "", "HTTP/1.1 405"},
        {"POST /echo", "Content-Length: 101\r\n", "HTTP/1.1 413"},
        {"GET /nothing", "", "HTTP/1.1 404"},
    };
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        char more[128];
        snprintf(more, sizeof more, "Host: localhost\r\n%s", asked[i][1]);
        const char *reply = ask(server, asked[i][0], more);
        ASSERT_CONTAINS(reply, asked[i][2]);
        ASSERT_CONTAINS(reply, "Content-Type: application/json");
        ASSERT_CONTAINS(reply, "\r\n\r\n{\"error\":");
    }
    server_destroy(server);
}

TEST(server_arrival, reads_requests_in_pieces_and_several_at_once)
{
    static const char two[] = "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n"
                              "first"
                              "POST /echo HTTP/1.1\nHost: localhost\nTransfer-Encoding: chunked\n\n"
                              "6\r\nsecond\r\n0\r\n\r\n";
    struct server *server = open_server((struct server_settings){0});
    route(server, "POST", "/echo", echo, NULL);
    start(server);
    for (size_t piece = 1; piece < sizeof two; piece += piece < 8 ? 1 : 23) {
        int line = dial(server);
        int at_once = 1;
        setsockopt(line, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
        for (size_t at = 0; at < sizeof two - 1; at += piece) {
            char part[sizeof two];
            snprintf(part, sizeof part, "%.*s", (int)piece, two + at);
            say(line, part);
            usleep(piece < 8 ? 200 : 2000);
        }
        hear(line, "second");
        close(line);
    }
    int line = dial(server); /* a right one, and a refused one behind it in the same piece */
    say(line, "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nfirst"
              "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5x\r\n\r\n");
    hear(line, NULL);
    ASSERT_CONTAINS(heard, "\r\n\r\nfirst");
    ASSERT_CONTAINS(heard, "HTTP/1.1 400");
    close(line);
    server_destroy(server);
}

TEST(server_arrival, holds_no_more_of_all_requests_than_told)
{
    static char body[100000];
    struct server *server = open_server(
        (struct server_settings){.body_limit = 90000, .held_limit = 100000, .json_errors = true});
    route(server, "POST", "/echo", echo, NULL);
    start(server);
    memset(body, 'x', sizeof body - 1);
    static const char head[] =
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 90000\r\n\r\n";
    int first = dial(server), second = dial(server);
    say(second, head); /* nothing is held yet */
    say(first, head);
    ASSERT_INT(send(first, body, 80000, MSG_NOSIGNAL), ==, 80000);
    usleep(300000);
    const char *reply = ask(server, "POST /echo", "Host: localhost\r\nContent-Length: 50000\r\n");
    ASSERT_CONTAINS(reply, "HTTP/1.1 429");
    ASSERT_CONTAINS(reply, "Retry-After: 1");
    ASSERT_CONTAINS(ask(server, "POST /echo", "Host: localhost\r\nContent-Length: 1\r\n\r\nx"),
                    "HTTP/1.1 200");
    for (size_t sent = 0; sent < 60000; sent += 1000) /* more than there is room for */
        if (send(second, body, 1000, MSG_NOSIGNAL) < 0)
            break;
    ASSERT_TEXT(hear(second, NULL), "");
    ASSERT_INT(send(first, body, 10000, MSG_NOSIGNAL), ==, 10000);
    hear(first, "HTTP/1.1 200");
    close(first);
    close(second);
    usleep(600000);
    reply = ask(server, "POST /echo", "Host: localhost\r\nContent-Length: 50000\r\n");
    ASSERT_FALSE(strstr(reply, "429"));
    server_destroy(server);
}
