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

static int digit_of(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *place = c ? strchr(digits, c >= 'A' && c <= 'F' ? c + ('a' - 'A') : c) : NULL;
    return place ? (int)(place - digits) : -1;
}

/* "%C3%A4": what is no letter of ASCII is written so. A bad escape stays as it is. */
static void take_message(struct grpc_reply *reply, const char *text, size_t bytes)
{
    size_t length = 0;
    for (size_t i = 0; i < bytes && length + 1 < sizeof reply->message; i++) {
        int high = text[i] == '%' && i + 2 < bytes ? digit_of(text[i + 1]) : -1;
        int low = high >= 0 ? digit_of(text[i + 2]) : -1;
        reply->message[length++] = low >= 0 ? (char)(16 * high + low) : text[i];
        i += low >= 0 ? 2 : 0;
    }
    reply->message[length] = '\0';
}

static bool is(const char *name, size_t bytes, const char *wanted)
{
    return bytes == strlen(wanted) && memcmp(name, wanted, bytes) == 0;
}

void grpc_answer_header(struct grpc_answer *answer, const char *name, size_t name_bytes,
                        const char *value, size_t value_bytes)
{
    if (is(name, name_bytes, ":status"))
        answer->http = number_of(value, value_bytes);
    else if (is(name, name_bytes, "grpc-message"))
        take_message(answer->reply, value, value_bytes);
    else if (is(name, name_bytes, "grpc-status")) {
        answer->status = number_of(value, value_bytes);
        if (answer->status < 0)
            answer->wrong = "its grpc-status is no number";
    }
}

/* ---- the message ---------------------------------------------------------------------------- */

static size_t expected_bytes(const struct grpc_answer *answer)
{
    const unsigned char *prefix = answer->prefix;
    return (size_t)prefix[1] << 24 | (size_t)prefix[2] << 16 | (size_t)prefix[3] << 8 | prefix[4];
}

void grpc_answer_bytes(struct grpc_answer *answer, const unsigned char *bytes, size_t count)
{
    while (count > 0 && answer->prefix_bytes < GRPC_PREFIX_BYTES) {
        answer->prefix[answer->prefix_bytes++] = *bytes++;
        count--;
    }
    if (answer->prefix_bytes < GRPC_PREFIX_BYTES || answer->wrong)
        return;
    if (answer->prefix[0] != 0)
        answer->wrong = "its message is compressed, which was not asked for";
    else if (count > expected_bytes(answer) - answer->reply->body.length)
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
    bool whole =
        answer->prefix_bytes == GRPC_PREFIX_BYTES && reply->body.length == expected_bytes(answer);
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
