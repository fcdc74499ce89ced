/* An HTTP/1.1 server in the test's own process, on loopback: remembers what it was asked, and
 * answers, fails, stalls or hangs up as the test says. */
#ifndef TESTS_SUPPORT_HTTP_SERVER_H
#define TESTS_SUPPORT_HTTP_SERVER_H

#include <stdbool.h>

struct http_server;

struct http_question {
    char method[16], path[512]; /* with the query */
    char authorization[256];
    char *head, *body; /* all headers; what follows them */
};

struct http_answer {
    int status;
    const char *body;
    const char *headers; /* whole lines that end in \r\n, or NULL */
    bool hang_up;        /* close without an answer */
    double stall;        /* seconds before anything else; ended by http_server_stop */
};

/* `number` counts from 0. On the server's thread. */
typedef struct http_answer http_answer_fn(void *context, const struct http_question *question,
                                          int number);

struct http_server *http_server_start(http_answer_fn *answer, void *context);
/* One that listens and never accepts: connections succeed, nothing ever comes. */
struct http_server *http_server_start_deaf(void);
void http_server_stop(struct http_server *server);

/* "http://127.0.0.1:PORT", in a buffer of the server's. */
const char *http_server_url(const struct http_server *server);
int http_server_count(struct http_server *server); /* questions so far */
/* Waits up to ten seconds until there were so many; fails the test otherwise. */
void http_server_wait(struct http_server *server, int count);
/* The first 256 are kept; valid until the server is stopped. */
const struct http_question *http_server_question(struct http_server *server, int index);

/* A URL on loopback where nothing listens. */
const char *http_refused_url(void);

#endif
