/* The journal of a pipeline: attempts in order that end where or behind they began, or an error. */
#include <assert.h>
#include <stdint.h>

#include "base/error.h"
#include "store/attempts.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static struct attempts attempts;
    struct error err = {0};
    if (attempts_parse("journal", (const char *)bytes, count, &attempts, &err) < 0) {
        assert(err.code == ERROR_FORMAT && err.message[0]);
        return 0;
    }
    assert(attempts.count >= 0 && attempts.count <= ATTEMPTS_MOST);
    for (int i = 0; i < attempts.count; i++) {
        const struct attempt *attempt = &attempts.list[i];
        assert(attempt->first_step >= 0 && attempt->last_step >= attempt->first_step);
        assert(attempt->goal >= attempt->last_step && attempt->seconds >= 0);
        assert(i == 0 || attempt->first_step >= attempts.list[i - 1].last_step);
        assert(attempt->verdict != ATTEMPT_RUNNING || i == attempts.count - 1);
        assert(attempt_verdict_word(attempt->verdict));
    }
    return 0;
}
