/* Heads of requests to a server of ours: found as early when they come in two pieces as in one, and what is
 * read of them has one meaning. */
#include <assert.h>
#include <string.h>

#include "net/server_head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const char *text = (const char *)data, *reason;
    struct server_head head;
    size_t length = server_head_length(text, bytes, 0), half = bytes / 2;
    size_t early = server_head_length(text, half, 0);
    assert(early ? early == length : server_head_length(text, bytes, half) == length);
    assert(length <= bytes);
    int status = server_head_read(text, length ? length : bytes, &head, &reason);
    assert(status ? status >= 400 && reason : !reason && (head.uri || head.method));
    assert(status || !head.chunked || !head.body_bytes);
    server_head_release(&head);
    return 0;
}
