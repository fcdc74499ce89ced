#include "serve/status.h"

#include <stddef.h>

static const struct {
    enum serve_status status;
    const char *name;
    int http;
} table[] = {
    {SERVE_OK, "OK", 200},
    {SERVE_CANCELLED, "CANCELLED", 499},
    {SERVE_UNKNOWN, "UNKNOWN", 500},
    {SERVE_INVALID, "INVALID_ARGUMENT", 400},
    {SERVE_DEADLINE, "DEADLINE_EXCEEDED", 504},
    {SERVE_NOT_FOUND, "NOT_FOUND", 404},
    {SERVE_DENIED, "PERMISSION_DENIED", 403},
    {SERVE_EXHAUSTED, "RESOURCE_EXHAUSTED", 429},
    {SERVE_PRECONDITION, "FAILED_PRECONDITION", 400},
    {SERVE_UNIMPLEMENTED, "UNIMPLEMENTED", 501},
    {SERVE_INTERNAL, "INTERNAL", 500},
    {SERVE_UNAVAILABLE, "UNAVAILABLE", 503},
    {SERVE_UNAUTHENTICATED, "UNAUTHENTICATED", 401},
};

enum { ROWS = sizeof table / sizeof *table };

const char *serve_status_name(enum serve_status status)
{
    for (int i = 0; i < ROWS; i++)
        if (table[i].status == status)
            return table[i].name;
    return "UNKNOWN";
}

int serve_status_http(enum serve_status status)
{
    for (int i = 0; i < ROWS; i++)
        if (table[i].status == status)
            return table[i].http;
    return 500;
}
