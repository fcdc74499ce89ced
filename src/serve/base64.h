/* Bytes as text: RFC 4648's alphabet, or the one for URLs when reading. */
#ifndef SERVE_BASE64_H
#define SERVE_BASE64_H

#include <stdbool.h>
#include <stddef.h>

struct strbuf;

/* Room that base64_decode needs at most. */
size_t base64_room(size_t letters);
/* False when it is none. Padding may be left out; blanks may not be in it. */
bool base64_decode(const char *text, size_t letters, char *out, size_t *bytes);
void base64_encode(const void *bytes, size_t count, struct strbuf *out);

#endif
