#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int error_set(struct error *err, enum error_code code, const char *format, ...)
{
    if (!err)
        return -1;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(err->message, sizeof err->message, format, arguments);
    va_end(arguments);
    err->code = code;
    return -1;
}

int error_wrap(struct error *err, const char *format, ...)
{
    if (!err)
        return -1;
    char inner[sizeof err->message];
    memcpy(inner, err->message, sizeof inner);
    va_list arguments;
    va_start(arguments, format);
    int used = vsnprintf(err->message, sizeof err->message, format, arguments);
    va_end(arguments);
    if (used >= 0 && (size_t)used < sizeof err->message)
        snprintf(err->message + used, sizeof err->message - (size_t)used, ": %s", inner);
    return -1;
}
