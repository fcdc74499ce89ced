/* A gRPC request as HTTP/2 brings it: headers, then messages in pieces, each behind five bytes that
 * tell its length. Knows nothing of connections. */
#ifndef SERVE_GRPC_REQUEST_H
#define SERVE_GRPC_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"
#include "serve/grpc_wire.h"
#include "serve/status.h"

/* How messages may be packed, as a client reads it ("grpc-accept-encoding"). */
#define GRPC_CODINGS "identity,deflate,gzip"

struct grpc_request {
    bool post, grpc;     /* the method, and the content type, are gRPC's */
    bool packed, known;  /* messages may be packed, and in a way that we know */
    double timeout;      /* seconds; < 0: none was given */
    size_t header_bytes; /* names and values, with 32 for each header, as HTTP/2 counts them */
    char path[96];       /* "": one so long is nobody's */
    struct strbuf authorization; /* "": none */

    struct grpc_prefix prefix;
    struct strbuf body;  /* of the message, as far as it came */
    struct strbuf plain; /* the same, unpacked */
    size_t limit;        /* bytes of either */

    /* What no request may be; SERVE_OK: nothing. */
    enum serve_status status;
    char why[160];
};

void grpc_request_init(struct grpc_request *request);
void grpc_request_release(struct grpc_request *request);
/* A new one begins, in the same memory unless that has become large. `limit` 0: none. */
void grpc_request_begin(struct grpc_request *request, size_t limit);

void grpc_request_header(struct grpc_request *request, const char *name, size_t name_bytes,
                         const char *value, size_t value_bytes);

/* Takes bytes up to the end of a message; how many that were. Nothing more is taken before that
 * message was read and forgotten; after something wrong, all is taken and dropped. */
size_t grpc_request_bytes(struct grpc_request *request, const unsigned char *bytes, size_t count);
bool grpc_request_is_whole(const struct grpc_request *request);
bool grpc_request_is_packed(const struct grpc_request *request); /* the message that is whole */
/* The message that is whole, unpacked; valid until it is forgotten. False: status and why tell. */
bool grpc_request_read(struct grpc_request *request, const void **message, size_t *bytes);
void grpc_request_forget(struct grpc_request *request);

#endif
