#include "net/sha256.h"

#include "net/libraries.h"

const char *sha256_text(const void *bytes, size_t count, char out[SHA256_TEXT])
{
    const struct libraries *calls = libraries_load(NULL);
    unsigned char digest[EVP_MAX_MD_SIZE] = {0};
    unsigned length = 0;
    if (calls)
        calls->digest(bytes, count, digest, &length, calls->sha256(), NULL);
    for (int i = 0; i < 32; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
    return out;
}
