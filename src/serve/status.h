/* How a question to the server ended: gRPC's numbers, so that the gRPC door needs no table. */
#ifndef SERVE_STATUS_H
#define SERVE_STATUS_H

enum serve_status {
    SERVE_OK = 0,
    SERVE_CANCELLED = 1,
    SERVE_UNKNOWN = 2,
    SERVE_INVALID = 3,
    SERVE_DEADLINE = 4,
    SERVE_NOT_FOUND = 5,
    SERVE_DENIED = 7,
    SERVE_EXHAUSTED = 8,
    SERVE_PRECONDITION = 9,
    SERVE_UNIMPLEMENTED = 12,
    SERVE_INTERNAL = 13,
    SERVE_UNAVAILABLE = 14,
    SERVE_UNAUTHENTICATED = 16,
};

/* As TF Serving names them in metrics and model status: "OK", "INVALID_ARGUMENT", ... */
const char *serve_status_name(enum serve_status status);
/* The HTTP status that goes with it, as TF Serving's REST interface has it. */
int serve_status_http(enum serve_status status);

#endif
