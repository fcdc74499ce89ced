/* What an HTTP service answered, judged: is it worth another attempt, and what does it say? */
#ifndef WATCH_REPLY_H
#define WATCH_REPLY_H

#include "watch/outbox.h"

struct strbuf;

/* Timeouts, broken connections, 408, 425, 429 and 5xx are OUTBOX_LATER, all else that is not 2xx
 * OUTBOX_REFUSED; `why` gets the reason. */
enum outbox_result reply_judge(const struct http_reply *reply, struct error *why);

/* "status 403: permission denied": the `message` of a JSON body, or the start of one that is none,
 * on one line. */
void reply_describe(int status, const struct strbuf *body, struct error *why);

/* The text of members[0].members[1]... of a JSON body: false when it is not there, empty or longer
 * than `space`. The list ends with NULL. */
bool reply_text(const struct strbuf *body, const char *const *members, char *out, size_t space);

#endif
