/* What a service answers, good or bad: texts that fit, and a reason on one line. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "watch/reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const char *const run[] = {"run", "info", "run_id", NULL};
    static const char *const experiment[] = {"experiment_id", NULL};
    struct strbuf body;
    struct error why = {0};
    char text[16];
    strbuf_init(&body);
    strbuf_add_bytes(&body, bytes, count);
    assert(!reply_text(&body, run, text, sizeof text) || (*text && strlen(text) < sizeof text));
    assert(!reply_text(&body, experiment, text, sizeof text) || *text);
    reply_describe(500, &body, &why);
    assert(strncmp(why.message, "status 500", 10) == 0 && !strpbrk(why.message, "\n\r\033\t"));
    strbuf_release(&body);
    return 0;
}
