#include "base/strbuf.h"

#include <stdarg.h>

#include "base/memory.h"

static char empty[1]; /* so that `text` is terminated before the first allocation */

void strbuf_init(struct strbuf *buffer)
{
    *buffer = (struct strbuf){.text = empty};
}

void strbuf_release(struct strbuf *buffer)
{
    if (buffer->text != empty)
        memory_free(buffer->text);
    strbuf_init(buffer);
}

void strbuf_clear(struct strbuf *buffer)
{
    buffer->length = 0;
    buffer->failed = false;
    if (buffer->text != empty)
        buffer->text[0] = '\0';
}

void strbuf_drop(struct strbuf *buffer, size_t count)
{
    if (count == 0)
        return;
    memmove(buffer->text, buffer->text + count, buffer->length - count + 1);
    buffer->length -= count;
}

/* Room for `more` characters and the terminator. */
static bool reserve(struct strbuf *buffer, size_t more)
{
    if (buffer->failed)
        return false;
    if (more < buffer->capacity - buffer->length)
        return true;
    size_t wanted = buffer->capacity ? 2 * buffer->capacity : 256;
    while (wanted - buffer->length <= more)
        wanted *= 2;
    char *text = memory_resize(buffer->text == empty ? NULL : buffer->text, wanted);
    if (!text) {
        buffer->failed = true;
        return false;
    }
    buffer->text = text;
    buffer->capacity = wanted;
    return true;
}

void strbuf_add_bytes(struct strbuf *buffer, const void *bytes, size_t count)
{
    if (count == 0 || !reserve(buffer, count))
        return;
    memcpy(buffer->text + buffer->length, bytes, count);
    buffer->length += count;
    buffer->text[buffer->length] = '\0';
}

void strbuf_add(struct strbuf *buffer, const char *text)
{
    strbuf_add_bytes(buffer, text, strlen(text));
}

void strbuf_add_char(struct strbuf *buffer, char c)
{
    strbuf_add_bytes(buffer, &c, 1);
}

void strbuf_addf(struct strbuf *buffer, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0)
        buffer->failed = true;
    else if (reserve(buffer, (size_t)length)) {
        vsnprintf(buffer->text + buffer->length, (size_t)length + 1, format, again);
        buffer->length += (size_t)length;
    }
    va_end(again);
}
