/* Tar archives, and archives in them: members lie inside the bytes, and walking ends. */
#include <assert.h>
#include <stdint.h>

#include "base/error.h"
#include "data/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void walk(const uint8_t *bytes, size_t count, int depth)
{
    struct tar_member member;
    struct error err = {0};
    uint64_t offset = 0, before;
    int found;
    while (before = offset, (found = tar_next("input", bytes, count, &offset, &member, &err)) > 0) {
        assert(offset > before && offset <= count);
        assert(member.offset <= count && member.bytes <= count - member.offset);
        assert(memchr(member.name, '\0', sizeof member.name));
        if (depth > 0)
            walk(bytes + member.offset, member.bytes, depth - 1);
    }
    assert(found == 0 || (err.code == ERROR_FORMAT && err.message[0]));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    walk(bytes, count, 1);
    return 0;
}
