/* An HTTP client for object stores, token and tracking services: connections are kept, waits are bounded,
 * bodies go where the caller says and never beyond. One request, one attempt: what is worth a
 * second one is the caller's to decide. */
#ifndef NET_HTTP_H
#define NET_HTTP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

struct error;
struct http_client;

struct http_settings {
    double connect_seconds;         /* until there is a connection */
    double stall_seconds;           /* without a single byte; looked at about once a second */
    double total_seconds;           /* of a whole request; 0: as long as bytes come */
    const char *ca_bundle;          /* NULL: the system's */
    const char *client_certificate; /* PEM file, with its key; NULL: none */
    bool trust_anyone;              /* certificates are not checked: the user said so */
    const atomic_int *stop;         /* NULL, or nonzero when requests are to end: HTTP_STOPPED */
};

/* Signs as AWS's Signature Version 4; libcurl does it. The caller brings x-amz-content-sha256 and
 * a query that is sorted and encoded as the specification wants it: libcurl 7.88 does neither. */
struct http_signature {
    const char *region, *service;
    const char *key_id, *secret;
};

struct http_request {
    const char *method; /* "GET", "HEAD", "PUT", "POST" or "DELETE" */
    const char *url;
    const char *const *headers; /* "Name: value", ends with NULL; NULL: none */
    const void *body;           /* of PUT and POST */
    size_t body_bytes;
    const struct http_signature *signature; /* NULL: none */
    const char *user, *password; /* HTTP basic authentication; NULL: none. Without a signature */
    /* Where the body of a 2xx reply goes; NULL: into reply->body, as that of any other does. */
    void *into;
    size_t into_bytes; /* a longer body ends the transfer: HTTP_TOO_LONG */
    bool despite_stop; /* cleaning up is done all the same */
};

enum http_outcome {
    HTTP_REPLIED,     /* whole; see the status */
    HTTP_INTERRUPTED, /* no connection, a reset, a stall, a body that ended early: try again */
    HTTP_TOO_LONG,    /* more than the reader allowed */
    HTTP_IMPOSSIBLE,  /* a certificate nobody vouches for, a URL that is none */
    HTTP_STOPPED,     /* as the client was told; noticed about once a second */
};

enum { HTTP_BODY_LIMIT = 16 << 20 };

struct http_reply {
    enum http_outcome outcome;
    int status;                       /* 0: none came */
    size_t received;                  /* bytes in `into`, also after an interruption */
    int64_t length;                   /* Content-Length, or -1 */
    double retry_after;               /* seconds the server asked for, or 0 */
    char etag[160];                   /* with its quotes, or "" */
    char region[32];                  /* x-amz-bucket-region, or "" */
    char date[48];                    /* the server's clock, or "" */
    int64_t range_start, range_total; /* of Content-Range, or -1 */
    struct strbuf body;               /* at most HTTP_BODY_LIMIT bytes */
    char failure[200];                /* why there is no whole reply, in libcurl's words */
};

int http_client_create(const struct http_settings *settings, struct http_client **out,
                       struct error *err);
void http_client_destroy(struct http_client *client); /* accepts NULL; no request may be running */

/* Fills `reply`, which the caller made with http_reply_init and may use again. Any number of
 * threads; each borrows a connection. Fails only when memory is short. */
int http_perform(struct http_client *client, const struct http_request *request,
                 struct http_reply *reply, struct error *err);
void http_reply_init(struct http_reply *reply);
void http_reply_release(struct http_reply *reply);

/* Appends `text` percent-encoded as AWS's signature wants it: all but letters, digits and -._~,
 * with upper-case digits; `keep_slash` for paths. */
void http_encode(struct strbuf *out, const char *text, bool keep_slash);

#endif
