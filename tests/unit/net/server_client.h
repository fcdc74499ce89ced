/* A server of ours under test, and a client that speaks to it over a plain socket, byte by byte. */
#ifndef UNIT_NET_SERVER_CLIENT_H
#define UNIT_NET_SERVER_CLIENT_H

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/server.h"
#include "support/test.h"

static inline struct server *open_server(struct server_settings settings)
{
    struct server *server = NULL;
    struct error err = {0};
    if (!settings.address.host[0])
        ASSERT_OK(address_parse("0", "--port", &settings.address, &err), err);
    ASSERT_OK(server_create(&settings, &server, &err), err);
    return server;
}

static inline void start(struct server *server)
{
    struct error err = {0};
    ASSERT_OK(server_start(server, &err), err);
}

static inline void route(struct server *server, const char *method, const char *path,
                         server_handler *handler, void *context)
{
    struct error err = {0};
    ASSERT_OK(server_route(server, method, path, handler, context, &err), err);
}

static inline int dial(const struct server *server)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(server_port(server))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int line = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_INT(connect(line, (struct sockaddr *)&to, sizeof to), ==, 0);
    struct timeval limit = {.tv_sec = 60};
    setsockopt(line, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(line, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    return line;
}

static inline void say(int line, const char *text)
{
    ASSERT_INT(send(line, text, strlen(text), MSG_NOSIGNAL), ==, strlen(text));
}

static char heard[1 << 16];

/* Reads until `part` was said, or (NULL) the other end closes. */
static inline const char *hear(int line, const char *part)
{
    size_t used = 0;
    heard[0] = '\0';
    while (used + 1 < sizeof heard && !(part && strstr(heard, part))) {
        ssize_t got = recv(line, heard + used, sizeof heard - 1 - used, 0);
        if (got <= 0)
            break;
        used += (size_t)got;
        heard[used] = '\0';
    }
    if (part)
        ASSERT_CONTAINS(heard, part);
    return heard;
}

/* One request on a connection of its own; `more` are further header lines, each with \r\n. */
static inline const char *ask(const struct server *server, const char *first_line, const char *more)
{
    static char request[1 << 16];
    int line = dial(server);
    /* In one piece: who refuses the first part may have hung up before a second is sent. */
    snprintf(request, sizeof request, "%s HTTP/1.1\r\nConnection: close\r\n%s\r\n", first_line,
             more);
    say(line, request);
    const char *reply = hear(line, NULL);
    close(line);
    return reply;
}

static inline void greet(void *context, struct server_request *request)
{
    const char *text = context;
    server_reply(request, 200, "text/plain", text, strlen(text));
}

static inline void echo(void *context, struct server_request *request)
{
    size_t bytes;
    const void *body = server_request_body(request, &bytes);
    (void)context;
    server_reply(request, 200, "text/plain", body ? body : "", bytes);
}

static const char LOCAL[] = "Host: localhost\r\n";

#endif
