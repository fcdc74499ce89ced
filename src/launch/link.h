/* A connection over which messages go both ways, on a loop. */
#ifndef LAUNCH_LINK_H
#define LAUNCH_LINK_H

#include <stdbool.h>
#include <stddef.h>

#include "launch/message.h"
#include "net/channel.h"

struct error;
struct link;
struct loop;

/* Called from the loop. In each of them the link may be destroyed. */
struct link_owner {
    void (*opened)(void *context, struct link *link); /* both proved the secret; may be NULL */
    void (*heard)(void *context, struct link *link, struct message *message);
    /* No other call follows; the owner destroys the link. */
    void (*ended)(void *context, struct link *link, const struct error *why);
    void *context;
};

/* Takes the connected socket over, also when it fails. `key` is borrowed. */
int link_create(struct loop *loop, int socket, const struct channel_key *key,
                enum channel_side side, const struct link_owner *owner, struct link **out,
                struct error *err);
/* What was sent before is on its way as far as the socket takes it at once. Accepts NULL. */
void link_destroy(struct link *link);

/* A message to fill: message_number and so on, then link_send, which never waits. */
struct strbuf *link_begin(struct link *link, enum message_kind kind);
void link_send(struct link *link);
void link_send_hello(struct link *link, const struct hello *hello);
/* A whole message that stands in `bytes`. */
void link_send_bytes(struct link *link, const void *bytes, size_t count);
size_t link_backlog(const struct link *link);   /* bytes that have not left */
double link_silence(const struct link *link);   /* seconds since something was heard, or it began */
const char *link_peer(const struct link *link); /* "10.0.0.7:5000" */
int link_socket(const struct link *link);

#endif
