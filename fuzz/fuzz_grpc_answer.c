/* An answer by HTTP/2: headers and data in any order, each of a byte that says which, its length and
 * what follows. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "serve/grpc_answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const char *const names[] = {":status", "grpc-status", "grpc-message", "other"};
    struct grpc_reply reply = {0};
    struct grpc_answer answer;
    size_t given = 0;
    strbuf_init(&reply.body);
    grpc_answer_begin(&answer, &reply);
    while (count >= 2) {
        size_t kind = bytes[0], length = bytes[1] < count - 2 ? bytes[1] : count - 2;
        bytes += 2;
        count -= 2;
        if (kind < 4)
            grpc_answer_header(&answer, names[kind], strlen(names[kind]), (const char *)bytes,
                               length);
        else {
            grpc_answer_bytes(&answer, bytes, length);
            given += length;
        }
        bytes += length;
        count -= length;
    }
    grpc_answer_end(&answer, SERVE_UNAVAILABLE, count ? "cut short" : NULL);
    assert(reply.body.length <= given && strlen(reply.message) < sizeof reply.message);
    assert(reply.status != SERVE_OK || (answer.status == 0 && !answer.wrong));
    strbuf_release(&reply.body);
    return 0;
}
