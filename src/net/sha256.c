#include "net/sha256.h"

#include <openssl/evp.h>

const char *sha256_text(const void *bytes, size_t count, char out[SHA256_TEXT])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    EVP_Digest(bytes, count, digest, &length, EVP_sha256(), NULL);
    for (int i = 0; i < 32; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
    return out;
}
