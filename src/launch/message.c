#include "launch/message.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/strbuf.h"

enum { LENGTH_BYTES = 4, NUMBER_BYTES = 8 };

/* --- writing ------------------------------------------------------------------------------------- */

static void put(unsigned char *at, uint64_t value, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--, value >>= 8)
        at[i] = (unsigned char)value;
}

static void add(struct strbuf *out, uint64_t value, int bytes)
{
    unsigned char text[NUMBER_BYTES];
    put(text, value, bytes);
    strbuf_add_bytes(out, text, (size_t)bytes);
}

size_t message_begin(struct strbuf *out, enum message_kind kind)
{
    size_t begin = out->length;
    add(out, 0, LENGTH_BYTES);
    strbuf_add_char(out, (char)kind);
    return begin;
}

void message_number(struct strbuf *out, int64_t number)
{
    strbuf_add_char(out, 'n');
    add(out, (uint64_t)number, NUMBER_BYTES);
}

void message_bytes(struct strbuf *out, const void *bytes, size_t count)
{
    strbuf_add_char(out, 't');
    add(out, count, LENGTH_BYTES);
    strbuf_add_bytes(out, bytes, count);
}

void message_text(struct strbuf *out, const char *text)
{
    message_bytes(out, text, strlen(text));
}

void message_end(struct strbuf *out, size_t begin)
{
    if (!out->failed)
        put((unsigned char *)out->text + begin, out->length - begin - LENGTH_BYTES, LENGTH_BYTES);
}

void message_hello(struct strbuf *out, const struct hello *hello)
{
    size_t begin = message_begin(out, MESSAGE_HELLO);
    message_number(out, MESSAGE_VERSION);
    message_number(out, hello->role);
    message_number(out, hello->index);
    message_number(out, hello->generation);
    message_text(out, hello->group);
    message_text(out, hello->incarnation);
    message_text(out, hello->ticket);
    message_end(out, begin);
}

/* --- reading ------------------------------------------------------------------------------------- */

static uint64_t get(const unsigned char *at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

/* The bytes of the field at `at`, its tag included; 0 when it is none. */
static size_t field_bytes(const unsigned char *at, const unsigned char *end)
{
    size_t left = (size_t)(end - at);
    if (left >= 1 + NUMBER_BYTES && *at == 'n')
        return 1 + NUMBER_BYTES;
    if (left < 1 + LENGTH_BYTES || *at != 't')
        return 0;
    uint64_t length = get(at + 1, LENGTH_BYTES);
    return length <= left - 1 - LENGTH_BYTES ? 1 + LENGTH_BYTES + (size_t)length : 0;
}

int message_take(const void *bytes, size_t count, struct message *out, size_t *used,
                 struct error *err)
{
    const unsigned char *at = bytes;
    if (count < LENGTH_BYTES)
        return 0;
    uint64_t length = get(at, LENGTH_BYTES);
    if (length < 1 || length > MESSAGE_MOST_BYTES)
        return error_set(err, ERROR_FORMAT,
                         get(at, 2) == 0x1603
                             ? "it speaks TLS, but there is no secret here (--secret-file)"
                             : "this is no message of an agent");
    if (count - LENGTH_BYTES < length)
        return 0;
    const unsigned char *end = at + LENGTH_BYTES + length;
    at += LENGTH_BYTES;
    if (*at < MESSAGE_HELLO || *at > MESSAGE_LAST)
        return error_set(err, ERROR_FORMAT, "a message of unknown kind %d", *at);
    *out = (struct message){.kind = (enum message_kind) * at, .at = at + 1, .end = end};
    for (at++; at < end;) {
        size_t field = field_bytes(at, end);
        if (!field)
            return error_set(err, ERROR_FORMAT, "a damaged message of kind %d", (int)out->kind);
        at += field;
    }
    *used = LENGTH_BYTES + (size_t)length;
    return 1;
}

bool message_next_number(struct message *message, int64_t *out)
{
    if (message->at == message->end || *message->at != 'n')
        return false;
    *out = (int64_t)get(message->at + 1, NUMBER_BYTES);
    message->at += 1 + NUMBER_BYTES;
    return true;
}

bool message_next_bytes(struct message *message, const void **out, size_t *count)
{
    if (message->at == message->end || *message->at != 't')
        return false;
    *count = (size_t)get(message->at + 1, LENGTH_BYTES);
    *out = message->at + 1 + LENGTH_BYTES;
    message->at += 1 + LENGTH_BYTES + *count;
    return true;
}

bool message_next_text(struct message *message, char *out, size_t capacity)
{
    struct message rest = *message;
    const void *bytes;
    size_t count;
    if (!message_next_bytes(&rest, &bytes, &count) || count >= capacity ||
        memchr(bytes, '\0', count))
        return false;
    memcpy(out, bytes, count);
    out[count] = '\0';
    *message = rest;
    return true;
}

int message_read_hello(struct message *message, struct hello *out, struct error *err)
{
    int64_t version;
    if (message->kind != MESSAGE_HELLO || !message_next_number(message, &version))
        return error_set(err, ERROR_FORMAT, "it did not say who it is");
    if (version != MESSAGE_VERSION)
        return error_set(err, ERROR_FORMAT,
                         "it speaks version %" PRId64 " of the agents' language, this is %d: use "
                         "the same release everywhere",
                         version, MESSAGE_VERSION);
    if (!message_next_number(message, &out->role) || !message_next_number(message, &out->index) ||
        !message_next_number(message, &out->generation) ||
        !message_next_text(message, out->group, sizeof out->group) ||
        !message_next_text(message, out->incarnation, sizeof out->incarnation) ||
        !message_next_text(message, out->ticket, sizeof out->ticket))
        return error_set(err, ERROR_FORMAT, "it said who it is in a way that nobody understands");
    return 0;
}
