/* Text that grows. A failed allocation is remembered, so callers check once, at the end. */
#ifndef BASE_STRBUF_H
#define BASE_STRBUF_H

#include <stdbool.h>
#include <stddef.h>

struct strbuf {
    char *text; /* always terminated; owned */
    size_t length, capacity;
    bool failed;
};

void strbuf_init(struct strbuf *buffer);
void strbuf_release(struct strbuf *buffer);
void strbuf_clear(struct strbuf *buffer);
void strbuf_drop(struct strbuf *buffer, size_t count); /* its first letters */
void strbuf_add(struct strbuf *buffer, const char *text);
void strbuf_add_bytes(struct strbuf *buffer, const void *bytes, size_t count);
void strbuf_add_char(struct strbuf *buffer, char c);
void strbuf_addf(struct strbuf *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
