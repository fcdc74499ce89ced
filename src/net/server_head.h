/* The head of a request, its first line and its headers, read before evhttp gets it: evhttp tells of
 * a request when its whole body is in memory, which is too late to ask who sends it and how much. It
 * is read strictly, so that nobody in front of the server can take it for something else. */
#ifndef NET_SERVER_HEAD_H
#define NET_SERVER_HEAD_H

#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct server_head {
    char *text;                  /* its lines; the rest is made of them */
    enum evhttp_cmd_type method; /* 0: none that HTTP knows */
    struct evhttp_uri *uri;
    struct evkeyvalq headers;
    bool chunked;
    uint64_t body_bytes; /* as announced; of a chunked one nobody knows */
};

/* Bytes of the head that `text` begins with, the empty line behind it included; 0: there are more to
 * come. The first `seen` bytes were looked at before and had no end in them. */
size_t server_head_length(const char *text, size_t bytes, size_t seen);
/* 0, or the HTTP status of a refusal, with its reason. To be released in both cases. */
int server_head_read(const char *text, size_t bytes, struct server_head *out, const char **reason);
void server_head_release(struct server_head *head);

#endif
