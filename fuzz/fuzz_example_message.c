/* Classification, regression and multi-inference requests: whatever the bytes, examples that lie
 * inside them, or an error. */
#include <assert.h>

#include "base/arena.h"
#include "base/error.h"
#include "serve/example_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void check(const struct example_request *request, const uint8_t *bytes, size_t count)
{
    for (int i = 0; i < request->example_count; i++) {
        const uint8_t *at = (const uint8_t *)request->examples[i].bytes;
        assert(at >= bytes && at + request->examples[i].count <= bytes + count);
    }
    for (int i = 0; i < request->task_count; i++)
        assert(request->tasks[i].spec.name && request->tasks[i].method);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct arena *arena = arena_create();
    struct example_request request;
    struct error err = {0};
    if (example_request_read(bytes, count, arena, &request, &err) == 0)
        check(&request, bytes, count);
    else
        assert(err.code == ERROR_FORMAT && err.message[0]);
    if (multi_request_read(bytes, count, arena, &request, &err) == 0)
        check(&request, bytes, count);
    arena_destroy(arena);
    return 0;
}
