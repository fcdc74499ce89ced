#include "watch/reply.h"

#include <ctype.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "net/http.h"

enum { SHOWN_BYTES = 240 };

/* On one line, and nothing that a terminal would obey. */
static void make_plain(char *text)
{
    for (; *text; text++)
        if (iscntrl((unsigned char)*text))
            *text = ' ';
}

void reply_describe(int status, const struct strbuf *body, struct error *why)
{
    char text[4096];
    static const char *const message[] = {"message", NULL};
    if (!reply_text(body, message, text, sizeof text))
        snprintf(text, sizeof text, "%s", body->text);
    make_plain(text);
    error_set(why, ERROR_PEER, "status %d%s%.*s", status, *text ? ": " : "", SHOWN_BYTES, text);
}

bool reply_text(const struct strbuf *body, const char *const *members, char *out, size_t space)
{
    struct json *json;
    if (json_parse(body->text, body->length, &json, NULL) < 0)
        return false;
    const struct json *at = json;
    for (; members[1] && at; members++)
        at = json_get(at, *members);
    const char *text = at ? json_get_text(at, *members, "") : "";
    int length = snprintf(out, space, "%s", text);
    json_release(json);
    return length > 0 && (size_t)length < space;
}

enum outbox_result reply_judge(const struct http_reply *reply, struct error *why)
{
    if (reply->outcome == HTTP_REPLIED && reply->status / 100 == 2)
        return OUTBOX_SENT;
    if (reply->outcome == HTTP_REPLIED) {
        reply_describe(reply->status, &reply->body, why);
        int status = reply->status;
        bool passing = status / 100 == 5 || status == 408 || status == 425 || status == 429;
        return passing ? OUTBOX_LATER : OUTBOX_REFUSED;
    }
    error_set(why, ERROR_PEER, "%s",
              reply->outcome == HTTP_STOPPED    ? "it gives no answer"
              : reply->outcome == HTTP_TOO_LONG ? "its answer is too long"
                                                : reply->failure);
    return reply->outcome == HTTP_IMPOSSIBLE || reply->outcome == HTTP_TOO_LONG ? OUTBOX_REFUSED
                                                                                : OUTBOX_LATER;
}
