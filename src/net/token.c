#include "net/token.h"

#include <errno.h>
#include <sys/random.h>

#include "base/error.h"

int token_create(char out[TOKEN_LETTERS + 1], struct error *err)
{
    unsigned char bytes[TOKEN_LETTERS / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return error_set(err, ERROR_IO, "no random numbers for a token: %s", strerror(errno));
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

bool token_equal(const char *token, const char *given)
{
    if (!given || strlen(given) != strlen(token))
        return false;
    unsigned char different = 0;
    for (size_t i = 0; token[i]; i++)
        different |= (unsigned char)(token[i] ^ given[i]);
    return different == 0;
}

bool token_from_cookies(const char *header, const char *name, char *out, size_t space)
{
    size_t letters = strlen(name);
    for (const char *at = header; at && *at;) {
        at += strspn(at, " ;\t");
        size_t length = strcspn(at, ";");
        if (length > letters && strncmp(at, name, letters) == 0 && at[letters] == '=') {
            size_t value = length - letters - 1;
            if (value >= space)
                return false;
            memcpy(out, at + letters + 1, value);
            out[value] = '\0';
            return true;
        }
        at += length;
    }
    return false;
}

const char *token_from_authorization(const char *header)
{
    static const char scheme[] = "Bearer ";
    if (!header || strncasecmp(header, scheme, sizeof scheme - 1) != 0)
        return NULL;
    return header + sizeof scheme - 1;
}
