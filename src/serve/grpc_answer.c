#include "serve/grpc_answer.h"

#include <string.h>

void grpc_answer_begin(struct grpc_answer *answer, struct grpc_reply *reply)
{
    *answer = (struct grpc_answer){.reply = reply, .http = -1, .status = -1};
    reply->status = SERVE_UNKNOWN;
    reply->message[0] = '\0';
    strbuf_clear(&reply->body);
}

/* ---- headers and trailers ------------------------------------------------------------------- */

/* At most three digits; -1: it is no such number. */
static int number_of(const char *text, size_t bytes)
{
    int number = 0;
    if (bytes == 0 || bytes > 3)
        return -1;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        number = 10 * number + (text[i] - '0');
    }
    return number;
}

void grpc_answer_header(struct grpc_answer *answer, const char *name, size_t name_bytes,
                        const char *value, size_t value_bytes)
{
    if (grpc_text_is(name, name_bytes, ":status"))
        answer->http = number_of(value, value_bytes);
    else if (grpc_text_is(name, name_bytes, "grpc-message"))
        grpc_text_unescape(value, value_bytes, answer->reply->message,
                           sizeof answer->reply->message);
    else if (grpc_text_is(name, name_bytes, "grpc-status")) {
        answer->status = number_of(value, value_bytes);
        if (answer->status < 0)
            answer->wrong = "its grpc-status is no number";
    }
}

/* ---- the message ---------------------------------------------------------------------------- */

void grpc_answer_bytes(struct grpc_answer *answer, const unsigned char *bytes, size_t count)
{
    size_t taken = grpc_prefix_take(&answer->prefix, bytes, count);
    bytes += taken;
    count -= taken;
    if (!grpc_prefix_is_whole(&answer->prefix) || answer->wrong)
        return;
    if (answer->prefix.bytes[0] != 0)
        answer->wrong = "its message is compressed, which was not asked for";
    else if (count > grpc_prefix_length(&answer->prefix) - answer->reply->body.length)
        answer->wrong = "more came than one message";
    else
        strbuf_add_bytes(&answer->reply->body, bytes, count);
}

/* ---- the end -------------------------------------------------------------------------------- */

/* As gRPC's rules for answers that are not its own have it. */
static enum serve_status status_of_http(int http)
{
    switch (http) {
    case 400:
        return SERVE_INTERNAL;
    case 401:
        return SERVE_UNAUTHENTICATED;
    case 403:
        return SERVE_DENIED;
    case 404:
        return SERVE_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return SERVE_UNAVAILABLE;
    default:
        return SERVE_UNKNOWN;
    }
}

static void say(struct grpc_reply *reply, enum serve_status status, const char *what)
{
    reply->status = status;
    snprintf(reply->message, sizeof reply->message, "%s", what);
}

void grpc_answer_end(struct grpc_answer *answer, enum serve_status status, const char *why)
{
    struct grpc_reply *reply = answer->reply;
    bool whole = grpc_prefix_is_whole(&answer->prefix) &&
                 reply->body.length == grpc_prefix_length(&answer->prefix);
    if (answer->wrong)
        say(reply, SERVE_INTERNAL, answer->wrong);
    else if (answer->status > 0)
        reply->status = (enum serve_status)answer->status; /* and its grpc-message */
    else if (answer->status == 0 && whole)
        reply->status = SERVE_OK;
    else if (answer->status == 0)
        say(reply, SERVE_INTERNAL, "the answer is good, but its message is not whole");
    else if (answer->http > 0 && answer->http != 200) {
        reply->status = status_of_http(answer->http);
        snprintf(reply->message, sizeof reply->message, "HTTP status %d instead of a gRPC answer",
                 answer->http);
    } else
        say(reply, why ? status : SERVE_INTERNAL,
            why ? why : "the answer ended without a grpc-status");
}
