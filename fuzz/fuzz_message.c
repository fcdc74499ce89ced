/* What comes over an agent's port, from who has the secret or, with --insecure, from anyone. */
#include "base/error.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "launch/message.h"

/* Every field in the way it asks to be read; what is read must lie inside the message. */
static void read_all(struct message message)
{
    int64_t number;
    char text[64];
    const void *bytes;
    size_t count;
    while (message.at < message.end) {
        const unsigned char *before = message.at;
        if (!message_next_number(&message, &number) &&
            !message_next_text(&message, text, sizeof text) &&
            !message_next_bytes(&message, &bytes, &count))
            abort();
        if (message.at <= before || message.at > message.end)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct message message;
    struct error err;
    size_t used;
    while (message_take(data, bytes, &message, &used, &err) == 1) {
        struct message again = message;
        struct hello hello, same;
        struct strbuf out;
        read_all(message);
        /* A greeting that is understood can be said again. */
        if (message_read_hello(&again, &hello, &err) == 0) {
            strbuf_init(&out);
            message_hello(&out, &hello);
            size_t length;
            if (message_take(out.text, out.length, &again, &length, &err) != 1 ||
                message_read_hello(&again, &same, &err) < 0 || same.role != hello.role ||
                same.generation != hello.generation || strcmp(same.ticket, hello.ticket) != 0)
                abort();
            strbuf_release(&out);
        }
        data += used;
        bytes -= used;
    }
    return 0;
}
