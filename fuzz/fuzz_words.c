/* Lines for a shell that an agent takes apart without one, and ssh's words, one on each line. */
#include "base/arena.h"
#include "base/error.h"
#include "base/memory.h"
#include "launch/words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    enum { MOST = 64 };
    char *line = memory_allocate(bytes + 1), *words[MOST], **parsed;
    struct arena *arena = arena_create();
    struct error err;
    struct words_ssh ssh;
    int count = 0;
    if (!line || !arena)
        return 0;
    memcpy(line, data, bytes);
    if (words_parse(arena, line, &parsed, &err) == 0 && !parsed[0])
        abort();
    for (char *at = line; count < MOST && at; count++) {
        words[count] = at;
        at = strchr(at, '\n');
        if (at)
            *at++ = '\0';
    }
    if (words_parse_ssh(arena, count, words, &ssh, &err) == 0 && (!ssh.host || !ssh.line))
        abort();
    arena_destroy(arena);
    memory_free(line);
    return 0;
}
