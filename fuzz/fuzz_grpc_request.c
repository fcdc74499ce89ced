/* A request by HTTP/2: headers and data in any order, each of a byte that says which, its length and
 * what follows. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "serve/grpc_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

enum { LIMIT = 4096 };

static void read_message(struct grpc_request *request)
{
    const void *message;
    size_t length;
    if (grpc_request_read(request, &message, &length))
        assert(length <= LIMIT && request->status == SERVE_OK);
    else
        assert(request->status != SERVE_OK && request->why[0]);
    grpc_request_forget(request);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const char *const names[] = {":method",      ":path",         "content-type", "other",
                                        "grpc-timeout", "grpc-encoding", "authorization"};
    enum { NAMES = sizeof names / sizeof *names };
    struct grpc_request request;
    grpc_request_init(&request);
    grpc_request_begin(&request, LIMIT);
    while (count >= 2) {
        size_t kind = bytes[0], length = bytes[1] < count - 2 ? bytes[1] : count - 2;
        bytes += 2;
        count -= 2;
        if (kind < NAMES)
            grpc_request_header(&request, names[kind], strlen(names[kind]), (const char *)bytes,
                                length);
        for (size_t at = 0; kind >= NAMES && at < length;) {
            at += grpc_request_bytes(&request, bytes + at, length - at);
            assert(request.body.length <= LIMIT);
            if (grpc_request_is_whole(&request))
                read_message(&request);
        }
        bytes += length;
        count -= length;
    }
    read_message(&request);
    assert(strlen(request.path) < sizeof request.path);
    grpc_request_release(&request);
    return 0;
}
