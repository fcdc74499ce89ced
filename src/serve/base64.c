#include "serve/base64.h"

#include <stdint.h>

#include "base/strbuf.h"

static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+' || c == '-')
        return 62;
    return c == '/' || c == '_' ? 63 : -1;
}

size_t base64_room(size_t letters)
{
    return letters / 4 * 3 + 3;
}

bool base64_decode(const char *text, size_t letters, char *out, size_t *bytes)
{
    while (letters > 0 && text[letters - 1] == '=')
        letters--;
    if (letters % 4 == 1)
        return false;
    uint32_t bits = 0;
    size_t used = 0;
    for (size_t i = 0; i < letters; i++) {
        int value = value_of(text[i]);
        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
        if (i % 4 > 0)
            out[used++] = (char)(bits >> (6 - 2 * (i % 4)));
    }
    *bytes = used;
    return true;
}

void base64_encode(const void *bytes, size_t count, struct strbuf *out)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *at = bytes;
    for (size_t i = 0; i < count; i += 3) {
        size_t left = count - i;
        uint32_t bits = (uint32_t)at[i] << 16 | (left > 1 ? (uint32_t)at[i + 1] << 8 : 0) |
                        (left > 2 ? at[i + 2] : 0);
        char four[4] = {letters[bits >> 18], letters[bits >> 12 & 63], letters[bits >> 6 & 63],
                        letters[bits & 63]};
        if (left < 3)
            four[3] = '=';
        if (left < 2)
            four[2] = '=';
        strbuf_add_bytes(out, four, 4);
    }
}
