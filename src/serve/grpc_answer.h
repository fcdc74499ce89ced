/* The answer to a unary gRPC call as HTTP/2 brings it: headers, the message in pieces behind five
 * bytes that tell its length, trailers. Knows nothing of connections. */
#ifndef SERVE_GRPC_ANSWER_H
#define SERVE_GRPC_ANSWER_H

#include <stddef.h>
#include <stdint.h>

#include "serve/grpc_client.h"
#include "serve/grpc_wire.h"

struct grpc_answer {
    struct grpc_reply *reply;
    int http, status; /* of HTTP and of gRPC; -1: it has not come */
    struct grpc_prefix prefix;
    const char *wrong; /* what no answer may be; NULL: nothing */
};

/* Borrows the reply until the end. */
void grpc_answer_begin(struct grpc_answer *answer, struct grpc_reply *reply);
void grpc_answer_header(struct grpc_answer *answer, const char *name, size_t name_bytes,
                        const char *value, size_t value_bytes);
void grpc_answer_bytes(struct grpc_answer *answer, const unsigned char *bytes, size_t count);
/* Nothing more comes: the reply's status and message are set; those given when the stream was cut
 * short before it had any (`why` NULL: it was not). */
void grpc_answer_end(struct grpc_answer *answer, enum serve_status status, const char *why);

#endif
