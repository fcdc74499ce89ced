/* Tells a service over HTTP what happens here, from a thread of its own. Who has something to tell
 * leaves an item in a bounded queue and never waits. While the service is slow or away, items are
 * kept and tried again with growing waits; when they become too many, every second one goes. At
 * the end there are a few seconds for the rest. What goes wrong is said once, in the log. */
#ifndef WATCH_OUTBOX_H
#define WATCH_OUTBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct error;
struct http_reply;
struct http_request;
struct outbox;

enum outbox_result {
    OUTBOX_SENT,
    OUTBOX_LATER,   /* may pass by itself: the same items are tried again */
    OUTBOX_REFUSED, /* will not: these items are given up, the next ones are tried */
};

/* Sends `count` items, on the outbox's thread; on failure `why` says the reason. */
typedef enum outbox_result outbox_send(void *context, struct outbox *outbox, const void *items,
                                       int count, struct error *why);

/* Seconds; 0: the usual. */
struct outbox_times {
    double interval;              /* between two sendings, so that items gather; usually 1 */
    double first_wait, last_wait; /* after a failure: 1, doubling, at most 30 */
    double connect, stall, total; /* of one request: 5, 10, 20 */
    double end;                   /* for all that is left at the end: 5; 2 when it is away */
};

struct outbox_options {
    const char *name;  /* "MLflow", for messages; copied */
    const char *where; /* URL, for messages: no secrets in it; copied */
    size_t item_bytes; /* items are plain bytes */
    int capacity; /* of the queue; with 1, only the newest item counts, also when trying again */
    int batch;    /* items given to `send` at once, at most */
    outbox_send *send;
    void *context;
    struct outbox_times times;
    const char *ca_bundle, *client_certificate; /* files; NULL: the system's, none */
    bool trust_anyone;
    const atomic_int *stop_signal; /* a signal that arrives while the end is waited for ends the
                                    * waiting; may be NULL */
};

int outbox_create(const struct outbox_options *options, struct outbox **out, struct error *err);
/* Never waits for the service, allocates nothing. An item to `keep` is thinned out last. */
void outbox_put(struct outbox *outbox, const void *item, bool keep);
/* Nothing more will be put; the time for the rest begins. Does not wait. */
void outbox_end(struct outbox *outbox);
/* Waits for the rest, but no longer than outbox_times.end and about a second. Accepts NULL. */
void outbox_destroy(struct outbox *outbox);

/* The rest is for a service's `send`. */

/* One request, one attempt, judged: 2xx is OUTBOX_SENT; `why` gets the method, the status and what
 * the reply says about it. `reply` is the caller's. */
enum outbox_result outbox_request(struct outbox *outbox, const struct http_request *request,
                                  struct http_reply *reply, struct error *why);
/* Says once that the service refuses something, for what is no reason to give items up. */
void outbox_complain(struct outbox *outbox, const struct error *why);

/* Items that were given up or left out, and of which nothing was said yet; for tests. */
long outbox_lost(struct outbox *outbox);

#endif
