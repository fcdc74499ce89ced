#include "support/http_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/test.h"

enum { KEPT = 256 };

struct http_server {
    int listener;
    char url[64];
    http_answer_fn *answer;
    void *context;
    pthread_t thread;
    bool threaded;
    atomic_bool stopping;
    pthread_mutex_t lock; /* guards what follows */
    struct http_question *questions[KEPT];
    int count;
};

static int bind_somewhere(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0 || bind(descriptor, (struct sockaddr *)&address, sizeof address) < 0 ||
        getsockname(descriptor, (struct sockaddr *)&address, &bytes) < 0)
        FAIL("cannot bind to loopback: %s", strerror(errno));
    *port = ntohs(address.sin_port);
    return descriptor;
}

/* Waits for bytes, but not beyond the server's end. */
static bool readable(struct http_server *server, int descriptor)
{
    struct pollfd poll_for = {.fd = descriptor, .events = POLLIN};
    while (!atomic_load(&server->stopping))
        if (poll(&poll_for, 1, 20) > 0)
            return true;
    return false;
}

/* One whole request into `text`; false when the client went away. */
static bool read_request(struct http_server *server, int client, char *text, size_t space)
{
    size_t length = 0;
    for (;;) {
        text[length] = '\0';
        char *body = strstr(text, "\r\n\r\n");
        char *field = strcasestr(text, "\r\nContent-Length:");
        size_t expected = field ? (size_t)strtoul(field + 17, NULL, 10) : 0;
        if (body && (size_t)(text + length - (body + 4)) >= expected)
            return true;
        if (length + 1 >= space || !readable(server, client))
            return false;
        ssize_t got = recv(client, text + length, space - 1 - length, 0);
        if (got <= 0)
            return false;
        length += (size_t)got;
    }
}

static void forget(struct http_question *question)
{
    if (question) {
        free(question->head);
        free(question->body);
    }
    free(question);
}

static struct http_question *remember(struct http_server *server, const char *text, int *number)
{
    struct http_question *question = calloc(1, sizeof *question);
    sscanf(text, "%15s %511s", question->method, question->path);
    const char *field = strcasestr(text, "\r\nAuthorization: ");
    if (field)
        snprintf(question->authorization, sizeof question->authorization, "%.*s",
                 (int)strcspn(field + 17, "\r"), field + 17);
    const char *end = strstr(text, "\r\n\r\n");
    question->head = strndup(text, (size_t)(end + 2 - text));
    question->body = strdup(end + 4);
    pthread_mutex_lock(&server->lock);
    *number = server->count;
    if (server->count < KEPT)
        server->questions[server->count] = question;
    pthread_mutex_unlock(&server->lock);
    return question;
}

static void count_question(struct http_server *server)
{
    pthread_mutex_lock(&server->lock);
    server->count++;
    pthread_mutex_unlock(&server->lock);
}

/* False: the connection is over. */
static bool give_answer(struct http_server *server, int client, const struct http_answer *answer)
{
    double until = clock_seconds() + answer->stall;
    while (clock_seconds() < until && !atomic_load(&server->stopping))
        usleep(5000);
    if (answer->hang_up || atomic_load(&server->stopping))
        return false;
    char head[1024];
    const char *body = answer->body ? answer->body : "";
    int length = snprintf(head, sizeof head, "HTTP/1.1 %d Told\r\nContent-Length: %zu\r\n%s\r\n",
                          answer->status, strlen(body), answer->headers ? answer->headers : "");
    return send(client, head, (size_t)length, MSG_NOSIGNAL) == length &&
           send(client, body, strlen(body), MSG_NOSIGNAL) == (ssize_t)strlen(body);
}

static void serve_connection(struct http_server *server, int client)
{
    enum { REQUEST_BYTES = 2 << 20 };
    char *text = malloc(REQUEST_BYTES);
    int number;
    while (text && read_request(server, client, text, REQUEST_BYTES)) {
        struct http_question *question = remember(server, text, &number);
        struct http_answer answer = server->answer(server->context, question, number);
        if (number >= KEPT)
            forget(question);
        count_question(server);
        if (!give_answer(server, client, &answer))
            break;
    }
    free(text);
    close(client);
}

static void *serve(void *context)
{
    struct http_server *server = context;
    while (readable(server, server->listener)) {
        int client = accept(server->listener, NULL, NULL);
        if (client >= 0)
            serve_connection(server, client);
    }
    return NULL;
}

static struct http_server *make(void)
{
    struct http_server *server = calloc(1, sizeof *server);
    int port;
    server->listener = bind_somewhere(&port);
    if (listen(server->listener, 16) < 0)
        FAIL("cannot listen on loopback: %s", strerror(errno));
    pthread_mutex_init(&server->lock, NULL);
    snprintf(server->url, sizeof server->url, "http://127.0.0.1:%d", port);
    return server;
}

struct http_server *http_server_start(http_answer_fn *answer, void *context)
{
    struct http_server *server = make();
    server->answer = answer;
    server->context = context;
    server->threaded = pthread_create(&server->thread, NULL, serve, server) == 0;
    if (!server->threaded)
        FAIL("no thread for the server");
    return server;
}

struct http_server *http_server_start_deaf(void)
{
    return make();
}

void http_server_stop(struct http_server *server)
{
    atomic_store(&server->stopping, true);
    if (server->threaded)
        pthread_join(server->thread, NULL);
    close(server->listener);
    for (int i = 0; i < KEPT; i++)
        forget(server->questions[i]);
    pthread_mutex_destroy(&server->lock);
    free(server);
}

const char *http_server_url(const struct http_server *server)
{
    return server->url;
}

int http_server_count(struct http_server *server)
{
    pthread_mutex_lock(&server->lock);
    int count = server->count;
    pthread_mutex_unlock(&server->lock);
    return count;
}

void http_server_wait(struct http_server *server, int count)
{
    double until = clock_seconds() + 10;
    while (http_server_count(server) < count) {
        if (clock_seconds() > until)
            FAIL("%d requests after ten seconds, not %d", http_server_count(server), count);
        usleep(5000);
    }
}

const struct http_question *http_server_question(struct http_server *server, int index)
{
    if (index >= KEPT || index >= http_server_count(server))
        FAIL("there was no request %d", index);
    return server->questions[index];
}

const char *http_refused_url(void)
{
    static char url[64];
    int port;
    if (!url[0]) {
        bind_somewhere(&port); /* stays bound, so that nobody else gets the port */
        snprintf(url, sizeof url, "http://127.0.0.1:%d", port);
    }
    return url;
}
