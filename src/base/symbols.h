/* Functions of libraries that are loaded when they are first needed. A user lists the functions that
 * it calls once, in a macro, and makes of it a structure of pointers and the table of their places:
 *
 *     #define H2_FUNCTIONS(FUNCTION) FUNCTION(nghttp2_session_del) FUNCTION(nghttp2_strerror)
 *     struct h2_library { H2_FUNCTIONS(SYMBOL_FIELD) };
 *     static const struct symbol symbols[] = {
 *     #define H2_ROW(name) SYMBOL_ROW(struct h2_library, name)
 *         H2_FUNCTIONS(H2_ROW)
 *     };
 */
#ifndef BASE_SYMBOLS_H
#define BASE_SYMBOLS_H

#include <stddef.h>

#define SYMBOL_FIELD(name) __typeof__(&name) name;
#define SYMBOL_ROW(type, name) {#name, offsetof(type, name)},

struct symbol {
    const char *name;
    size_t place; /* in the structure */
};

/* In the library, which dlopen opened, and in those that it brings along. NULL, or the name of one
 * that is missing. */
const char *symbols_find(void *library, const struct symbol *symbols, size_t count,
                         void *structure);

#endif
