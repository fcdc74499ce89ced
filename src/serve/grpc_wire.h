/* What gRPC puts into HTTP/2 on both sides: five bytes before each message, and escapes in the text
 * of a status. */
#ifndef SERVE_GRPC_WIRE_H
#define SERVE_GRPC_WIRE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

/* Whether it is compressed; its length, the highest byte first. */
enum { GRPC_PREFIX_BYTES = 5 };

struct grpc_prefix {
    unsigned char bytes[GRPC_PREFIX_BYTES];
    size_t count; /* of them that came */
};

/* Takes what is missing of it; how many bytes that were. */
size_t grpc_prefix_take(struct grpc_prefix *prefix, const unsigned char *bytes, size_t count);
bool grpc_prefix_is_whole(const struct grpc_prefix *prefix);
size_t grpc_prefix_length(const struct grpc_prefix *prefix); /* of the message that follows */

/* A message that is not compressed, with its prefix; false when it is too long for one, or memory is
 * short. */
bool grpc_message_add(struct strbuf *out, const void *message, size_t bytes);

/* "grpc-message": what is no printable letter of ASCII, and "%", as %XX. Cut where `out` ends. */
size_t grpc_text_escape(const char *text, char *out, size_t bytes);
/* The other way; a bad escape stays as it is. */
void grpc_text_unescape(const char *text, size_t count, char *out, size_t bytes);

/* Names and values of headers are not terminated. */
bool grpc_text_is(const char *text, size_t bytes, const char *wanted);

#endif
