#include "serve/grpc_request.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "wire/unpack.h"

enum {
    KEEP_BYTES = 64 << 10, /* memory that held more is given back */
    HEADER_OVERHEAD = 32,  /* RFC 9113, 6.5.2 */
    TIMEOUT_DIGITS = 8,    /* at most */
    AUTHORIZATION_MAX = 8192,
};

void grpc_request_init(struct grpc_request *request)
{
    *request = (struct grpc_request){.timeout = -1};
    strbuf_init(&request->authorization);
    strbuf_init(&request->body);
    strbuf_init(&request->plain);
}

void grpc_request_release(struct grpc_request *request)
{
    strbuf_release(&request->authorization);
    strbuf_release(&request->body);
    strbuf_release(&request->plain);
}

static void empty(struct strbuf *buffer)
{
    if (buffer->capacity > KEEP_BYTES)
        strbuf_release(buffer);
    else
        strbuf_clear(buffer);
}

void grpc_request_begin(struct grpc_request *request, size_t limit)
{
    empty(&request->authorization);
    empty(&request->body);
    empty(&request->plain);
    *request = (struct grpc_request){.timeout = -1,
                                     .known = true,
                                     .limit = limit ? limit : SIZE_MAX,
                                     .authorization = request->authorization,
                                     .body = request->body,
                                     .plain = request->plain};
}

/* The first that was wrong is told. */
static void refuse(struct grpc_request *request, enum serve_status status, const char *why)
{
    if (request->status != SERVE_OK)
        return;
    request->status = status;
    snprintf(request->why, sizeof request->why, "%s", why);
}

/* ---- headers -------------------------------------------------------------------------------- */

static bool begins(const char *text, size_t bytes, const char *wanted)
{
    size_t length = strlen(wanted);
    return bytes >= length && memcmp(text, wanted, length) == 0;
}

static double seconds_of(char unit)
{
    switch (unit) {
    case 'H':
        return 3600;
    case 'M':
        return 60;
    case 'S':
        return 1;
    case 'm':
        return 1e-3;
    case 'u':
        return 1e-6;
    case 'n':
        return 1e-9;
    default:
        return -1;
    }
}

/* "grpc-timeout": digits and a unit; < 0: it is none. */
static double read_timeout(const char *text, size_t bytes)
{
    double number = 0;
    if (bytes < 2 || bytes > TIMEOUT_DIGITS + 1)
        return -1;
    for (size_t i = 0; i + 1 < bytes; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        number = 10 * number + (text[i] - '0');
    }
    double unit = seconds_of(text[bytes - 1]);
    return unit < 0 ? -1 : number * unit;
}

/* "application/grpc", also with "+proto" or a parameter; gRPC for browsers is another protocol. */
static bool is_content_of_grpc(const char *text, size_t bytes)
{
    static const char type[] = "application/grpc";
    size_t length = sizeof type - 1;
    return begins(text, bytes, type) &&
           (bytes == length || text[length] == '+' || text[length] == ';');
}

static void take_coding(struct grpc_request *request, const char *text, size_t bytes)
{
    if (grpc_text_is(text, bytes, "identity"))
        return;
    request->packed = true;
    request->known = grpc_text_is(text, bytes, "gzip") || grpc_text_is(text, bytes, "deflate");
}

void grpc_request_header(struct grpc_request *request, const char *name, size_t name_bytes,
                         const char *value, size_t value_bytes)
{
    request->header_bytes += name_bytes + value_bytes + HEADER_OVERHEAD;
    if (grpc_text_is(name, name_bytes, ":method"))
        request->post = grpc_text_is(value, value_bytes, "POST");
    else if (grpc_text_is(name, name_bytes, ":path")) {
        bool fits = value_bytes < sizeof request->path;
        memcpy(request->path, value, fits ? value_bytes : 0);
        request->path[fits ? value_bytes : 0] = '\0';
    } else if (grpc_text_is(name, name_bytes, "content-type"))
        request->grpc = is_content_of_grpc(value, value_bytes);
    else if (grpc_text_is(name, name_bytes, "grpc-encoding"))
        take_coding(request, value, value_bytes);
    else if (grpc_text_is(name, name_bytes, "authorization")) {
        strbuf_clear(&request->authorization);
        if (value_bytes < AUTHORIZATION_MAX)
            strbuf_add_bytes(&request->authorization, value, value_bytes);
    } else if (grpc_text_is(name, name_bytes, "grpc-timeout")) {
        request->timeout = read_timeout(value, value_bytes);
        if (request->timeout < 0)
            refuse(request, SERVE_INVALID,
                   "grpc-timeout is not made of one to eight digits and a unit");
    }
}

/* ---- messages ------------------------------------------------------------------------------- */

static void check_prefix(struct grpc_request *request)
{
    size_t length = grpc_prefix_length(&request->prefix);
    if (request->prefix.bytes[0] > 1)
        refuse(request, SERVE_INTERNAL, "a message begins with neither 0 nor 1");
    else if (request->prefix.bytes[0] == 1 && !request->packed)
        refuse(request, SERVE_INTERNAL, "a message is packed, but no header tells how");
    else if (request->prefix.bytes[0] == 1 && !request->known)
        refuse(request, SERVE_UNIMPLEMENTED,
               "messages may be packed by gzip or deflate, not as grpc-encoding says");
    else if (length > request->limit && request->status == SERVE_OK) {
        request->status = SERVE_EXHAUSTED;
        snprintf(request->why, sizeof request->why,
                 "Received message larger than max (%zu vs. %zu)", length, request->limit);
    }
}

bool grpc_request_is_whole(const struct grpc_request *request)
{
    return request->status == SERVE_OK && grpc_prefix_is_whole(&request->prefix) &&
           request->body.length == grpc_prefix_length(&request->prefix);
}

size_t grpc_request_bytes(struct grpc_request *request, const unsigned char *bytes, size_t count)
{
    if (request->status != SERVE_OK)
        return count;
    if (grpc_request_is_whole(request))
        return 0;
    bool begun = grpc_prefix_is_whole(&request->prefix);
    size_t taken = grpc_prefix_take(&request->prefix, bytes, count);
    if (!grpc_prefix_is_whole(&request->prefix))
        return taken;
    if (!begun)
        check_prefix(request);
    if (request->status != SERVE_OK)
        return count;
    size_t missing = grpc_prefix_length(&request->prefix) - request->body.length;
    size_t more = count - taken < missing ? count - taken : missing;
    strbuf_add_bytes(&request->body, bytes + taken, more);
    if (request->body.failed)
        refuse(request, SERVE_EXHAUSTED, "no memory for the message");
    return taken + more;
}

bool grpc_request_is_packed(const struct grpc_request *request)
{
    return grpc_request_is_whole(request) && request->prefix.bytes[0] == 1;
}

/* The whole packed message is one piece. */
static int give_piece(void *context, const uint8_t **bytes, size_t *count, struct error *err)
{
    struct strbuf **body = context;
    (void)err;
    *bytes = (const uint8_t *)(*body ? (*body)->text : "");
    *count = *body ? (*body)->length : 0;
    *body = NULL;
    return 0;
}

static bool unpack(struct grpc_request *request)
{
    struct strbuf *body = &request->body;
    struct unpacker *unpacker = NULL;
    struct error err = {0};
    const uint8_t *bytes = NULL;
    size_t count = 1;
    int status = unpacker_create("the message", give_piece, &body, &unpacker, &err);
    while (status == 0 && count > 0 && request->status == SERVE_OK) {
        status = unpacker_next(unpacker, &bytes, &count, &err);
        if (status == 0 && count > request->limit - request->plain.length)
            refuse(request, SERVE_EXHAUSTED, "the message is unpacked larger than may be");
        else if (status == 0)
            strbuf_add_bytes(&request->plain, bytes, count);
    }
    unpacker_destroy(unpacker);
    if (status < 0)
        refuse(request, err.code == ERROR_MEMORY ? SERVE_EXHAUSTED : SERVE_INTERNAL, err.message);
    else if (request->plain.failed)
        refuse(request, SERVE_EXHAUSTED, "no memory for the message");
    return request->status == SERVE_OK;
}

bool grpc_request_read(struct grpc_request *request, const void **message, size_t *bytes)
{
    if (!grpc_request_is_whole(request)) {
        refuse(request, SERVE_INVALID, "the call brings no message that can be read");
        return false;
    }
    bool packed = grpc_request_is_packed(request);
    if (packed && !unpack(request))
        return false;
    *message = packed ? request->plain.text : request->body.text;
    *bytes = packed ? request->plain.length : request->body.length;
    return true;
}

void grpc_request_forget(struct grpc_request *request)
{
    request->prefix.count = 0;
    empty(&request->body);
    empty(&request->plain);
}
