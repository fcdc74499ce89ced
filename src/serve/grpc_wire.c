#include "serve/grpc_wire.h"

#include <stdint.h>
#include <string.h>

size_t grpc_prefix_take(struct grpc_prefix *prefix, const unsigned char *bytes, size_t count)
{
    size_t missing = GRPC_PREFIX_BYTES - prefix->count, taken = count < missing ? count : missing;
    if (taken > 0)
        memcpy(prefix->bytes + prefix->count, bytes, taken);
    prefix->count += taken;
    return taken;
}

bool grpc_prefix_is_whole(const struct grpc_prefix *prefix)
{
    return prefix->count == GRPC_PREFIX_BYTES;
}

size_t grpc_prefix_length(const struct grpc_prefix *prefix)
{
    const unsigned char *bytes = prefix->bytes;
    return (size_t)bytes[1] << 24 | (size_t)bytes[2] << 16 | (size_t)bytes[3] << 8 | bytes[4];
}

bool grpc_message_add(struct strbuf *out, const void *message, size_t bytes)
{
    const unsigned char prefix[GRPC_PREFIX_BYTES] = {
        0, (unsigned char)(bytes >> 24), (unsigned char)(bytes >> 16), (unsigned char)(bytes >> 8),
        (unsigned char)bytes};
    if (bytes > UINT32_MAX)
        return false;
    strbuf_add_bytes(out, prefix, sizeof prefix);
    strbuf_add_bytes(out, message, bytes);
    return !out->failed;
}

size_t grpc_text_escape(const char *text, char *out, size_t bytes)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t length = 0;
    for (; *text && length + 3 < bytes; text++) {
        unsigned char c = (unsigned char)*text;
        if (c >= ' ' && c <= '~' && c != '%') {
            out[length++] = (char)c;
            continue;
        }
        out[length++] = '%';
        out[length++] = digits[c >> 4];
        out[length++] = digits[c & 15];
    }
    out[length] = '\0';
    return length;
}

static int digit_of(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *place = c ? strchr(digits, c >= 'A' && c <= 'F' ? c + ('a' - 'A') : c) : NULL;
    return place ? (int)(place - digits) : -1;
}

void grpc_text_unescape(const char *text, size_t count, char *out, size_t bytes)
{
    size_t length = 0;
    for (size_t i = 0; i < count && length + 1 < bytes; i++) {
        int high = text[i] == '%' && i + 2 < count ? digit_of(text[i + 1]) : -1;
        int low = high >= 0 ? digit_of(text[i + 2]) : -1;
        out[length++] = low >= 0 ? (char)(16 * high + low) : text[i];
        i += low >= 0 ? 2 : 0;
    }
    out[length] = '\0';
}

bool grpc_text_is(const char *text, size_t bytes, const char *wanted)
{
    return bytes == strlen(wanted) && memcmp(text, wanted, bytes) == 0;
}
