#include "serve/h2_library.h"

#include <dlfcn.h>
#include <pthread.h>

#include "base/error.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct h2_library library;
static char failure[256]; /* "": it is there */

static const struct symbol symbols[] = {
#define H2_ROW(name) SYMBOL_ROW(struct h2_library, name)
    H2_FUNCTIONS(H2_ROW)
#undef H2_ROW
};

static void load(void)
{
    void *file = dlopen("libnghttp2.so.14", RTLD_NOW | RTLD_LOCAL);
    const char *missing =
        file ? symbols_find(file, symbols, sizeof symbols / sizeof *symbols, &library) : NULL;
    if (!file)
        snprintf(failure, sizeof failure,
                 "libnghttp2.so.14 cannot be loaded; install libnghttp2-14");
    else if (missing)
        snprintf(failure, sizeof failure, "the installed libnghttp2 has no %s", missing);
}

const struct h2_library *h2_library_load(struct error *err)
{
    pthread_once(&once, load);
    if (!failure[0])
        return &library;
    error_set(err, ERROR_IO, "%s", failure);
    return NULL;
}
