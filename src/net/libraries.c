#include "net/libraries.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct libraries libraries;
static char failure[256]; /* "": they are there */

static const struct {
    const char *name;
    size_t place; /* in struct libraries */
    bool crypto;
} names[] = {
    {"curl_global_init", offsetof(struct libraries, global_init), false},
    {"curl_easy_init", offsetof(struct libraries, easy_init), false},
    {"curl_easy_reset", offsetof(struct libraries, easy_reset), false},
    {"curl_easy_cleanup", offsetof(struct libraries, easy_cleanup), false},
    {"curl_easy_setopt", offsetof(struct libraries, easy_setopt), false},
    {"curl_easy_getinfo", offsetof(struct libraries, easy_getinfo), false},
    {"curl_easy_perform", offsetof(struct libraries, easy_perform), false},
    {"curl_easy_strerror", offsetof(struct libraries, easy_strerror), false},
    {"curl_slist_append", offsetof(struct libraries, slist_append), false},
    {"curl_slist_free_all", offsetof(struct libraries, slist_free_all), false},
    {"EVP_Digest", offsetof(struct libraries, digest), true},
    {"EVP_sha256", offsetof(struct libraries, sha256), true},
};

static void *open_library(const char *file, const char *package)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        snprintf(failure, sizeof failure, "%s cannot be loaded; install %s", file, package);
    return library;
}

static void load(void)
{
    void *curl = open_library("libcurl.so.4", "libcurl4");
    void *crypto = curl ? open_library("libcrypto.so.3", "libssl3") : NULL;
    for (size_t i = 0; crypto && i < sizeof names / sizeof *names; i++) {
        void *symbol = dlsym(names[i].crypto ? crypto : curl, names[i].name);
        if (!symbol)
            snprintf(failure, sizeof failure, "the installed library has no %s", names[i].name);
        memcpy((char *)&libraries + names[i].place, &symbol, sizeof symbol);
    }
    if (!failure[0] && libraries.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        snprintf(failure, sizeof failure, "libcurl does not start");
}

const struct libraries *libraries_load(struct error *err)
{
    pthread_once(&once, load);
    if (!failure[0])
        return &libraries;
    error_set(err, ERROR_IO, "%s", failure);
    return NULL;
}
