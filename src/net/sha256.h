/* The hash that AWS's signatures and our cache's names are made of. */
#ifndef NET_SHA256_H
#define NET_SHA256_H

#include <stddef.h>

enum { SHA256_TEXT = 65 };

/* 64 lower-case hexadecimal digits into `out`, which it returns. Only where
 * an HTTP client was made before: libcrypto comes with it. */
const char *sha256_text(const void *bytes, size_t count, char out[SHA256_TEXT]);

#endif
