/* libcurl and libcrypto, loaded when they are first needed: with all that they depend on they make
 * ten times as much work for the dynamic linker as the rest of the program, and only those who use
 * the network should wait for it. */
#ifndef NET_LIBRARIES_H
#define NET_LIBRARIES_H

#include <curl/curl.h>
#include <openssl/evp.h>

struct error;

struct libraries {
    __typeof__(&curl_global_init) global_init;
    __typeof__(&curl_easy_init) easy_init;
    __typeof__(&curl_easy_reset) easy_reset;
    __typeof__(&curl_easy_cleanup) easy_cleanup;
    CURLcode (*easy_setopt)(CURL *curl, CURLoption option, ...);
    CURLcode (*easy_getinfo)(CURL *curl, CURLINFO info, ...);
    __typeof__(&curl_easy_perform) easy_perform;
    __typeof__(&curl_easy_strerror) easy_strerror;
    __typeof__(&curl_slist_append) slist_append;
    __typeof__(&curl_slist_free_all) slist_free_all;
    __typeof__(&EVP_Digest) digest;
    __typeof__(&EVP_sha256) sha256;
};

/* The same each time, for ever; NULL when one is not installed. From any thread. */
const struct libraries *libraries_load(struct error *err);

#endif
